#pragma once

#include <string>
#include <vector>

#include "base/assert.h"
#include "bench/result_hash.h"
#include "bench/stream.h"

namespace breccia::bench {

/// Which results are looked at: of each `every` requests one, by a hash of where they stand, so
/// that these lie at every place of a batch and in every lane of a warp.
struct Sampling {
  std::uint64_t every = 61;  // 1: all

  [[nodiscard]] bool takes(std::uint64_t number) const {
    return number == taken_of(number / every);
  }
  /// Calls use(number) for those of [first, end) that are looked at.
  template <class Use>
  void for_each(std::uint64_t first, std::uint64_t end, const Use& use) const {
    for (std::uint64_t block = first / every; block * every < end; ++block) {
      const std::uint64_t number = taken_of(block);
      if (first <= number && number < end) use(number);
    }
  }

 private:
  [[nodiscard]] std::uint64_t taken_of(std::uint64_t block) const {
    return block * every + base::mix64(block) % every;
  }
};

/// What was found in sampled results.
struct Findings {
  ResultHash hash;
  std::uint64_t wrong = 0;  // of them, those that no write can have left

  void merge(const Findings& other) {
    hash.merge(other.hash);
    wrong += other.wrong;
  }
};

/// Looks at the sampled results of one stream: their fingerprint, and those that no write can have
/// left. Lookups are copied when they come, and judged when somebody asks, or when they are many:
/// to say what a key should have costs more than to read what it has, and is no client's work.
/// Owner   the stream must live as long.
/// Threads one owner; merge what others made.
class Audit {
 public:
  /// `id_offset` is added to request numbers in the fingerprint, to tell threads apart.
  Audit(const Stream* stream, std::uint64_t id_offset) : stream_(stream), id_offset_(id_offset) {}

  /// The outcome of request `number`, a lookup.
  void lookup(std::uint64_t number, Status::Code code, const Slice& value) {
    seen_.push_back({number, static_cast<std::uint32_t>(value.size()), code});
    values_.append(value.data(), value.size());
    judge_many();
  }
  /// Judges what was copied.
  void judge() {
    std::size_t at = 0;
    for (const Seen& one : seen_) {
      const Slice value(values_.data() + at, one.bytes);
      at += one.bytes;
      findings_.hash.add(id_offset_ + one.number, one.code, value);
      if (!stream_->allows(one.number, one.code, value)) ++findings_.wrong;
    }
    BRECCIA_ASSERT(at == values_.size());
    seen_.clear();
    values_.clear();
  }
  /// The outcome of request `number`, a scan.
  void scan(std::uint64_t number, Status::Code code, const ScanDigest& digest) {
    findings_.hash.add(id_offset_ + number, code, digest.bytes());
    if (!stream_->allows_scan(number, code, digest.entries())) ++findings_.wrong;
  }

  void merge(const Audit& other) {
    findings_.merge(other.findings_);
    seen_.insert(seen_.end(), other.seen_.begin(), other.seen_.end());
    values_ += other.values_;
    judge_many();
  }
  /// One of the same stream that has seen nothing.
  [[nodiscard]] Audit fresh() const { return {stream_, id_offset_}; }

  [[nodiscard]] const Findings& findings() {
    judge();
    return findings_;
  }

 private:
  static constexpr std::size_t kKeptBytesMax = 64 << 20;
  static constexpr std::size_t kKeptMax = 4 << 20;

  struct Seen {
    std::uint64_t number;
    std::uint32_t bytes;
    Status::Code code;
  };

  void judge_many() {
    if (values_.size() > kKeptBytesMax || seen_.size() > kKeptMax) judge();
  }

  const Stream* stream_;
  std::uint64_t id_offset_;
  Findings findings_;
  std::vector<Seen> seen_;  // not judged yet
  std::string values_;      // theirs, one behind the other
};

}  // namespace breccia::bench
