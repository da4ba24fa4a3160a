#pragma once

#include <breccia/status.h>

#include <cstdint>

#include "base/checksum.h"
#include "base/random.h"

namespace breccia::bench {

/// A fingerprint of a scan's entries in their order; of one that is not `sampled`, only that each
/// entry's key and value are read.
class ScanDigest {
 public:
  explicit ScanDigest(bool sampled) : sampled_(sampled) {}

  void add(const Slice& key, const Slice& value) {
    ++entries_;
    if (!sampled_) {
      word_ += static_cast<unsigned char>(key[key.size() - 1]);
      if (!value.empty()) word_ += static_cast<unsigned char>(value[0]);
      return;
    }
    word_ = base::mix64(word_ ^ base::Checksum64::of(key.data(), key.size()));
    word_ = base::mix64(word_ ^ base::Checksum64::of(value.data(), value.size()));
  }
  [[nodiscard]] Slice bytes() const {
    return {reinterpret_cast<const char*>(&word_), sizeof word_};
  }
  [[nodiscard]] std::uint64_t entries() const { return entries_; }

 private:
  const bool sampled_;
  std::uint64_t entries_ = 0;
  std::uint64_t word_ = 0;
};

/// A fingerprint of read results that does not depend on their order, so that engines and threads
/// may finish in any.
/// Threads one owner; merge what others made.
class ResultHash {
 public:
  /// Adds the outcome of request `id`; `value` counts only if the code is kOk.
  void add(std::uint64_t id, Status::Code code, const Slice& value) {
    const bool found = code == Status::kOk;
    const std::uint64_t content = found ? base::Checksum64::of(value.data(), value.size()) : 0;
    sum_ += base::mix64(id ^ base::mix64(content + code));
    ++count_;
    if (found) ++found_;
    if (!found && code != Status::kNotFound) ++failed_;
  }

  void merge(const ResultHash& other) {
    sum_ += other.sum_;
    count_ += other.count_;
    found_ += other.found_;
    failed_ += other.failed_;
  }

  [[nodiscard]] std::uint64_t digest() const { return base::mix64(sum_ ^ count_); }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t found() const { return found_; }
  /// Results that are neither found nor not found.
  [[nodiscard]] std::uint64_t failed() const { return failed_; }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t found_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace breccia::bench
