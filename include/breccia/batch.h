#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace breccia {

namespace batch {
class Requests;
}

/// Requests in arrival order, and after Store::Submit the results of its reads.
///
/// The writes of a batch are atomic, over all column families: one commit record covers them. Each
/// read sees every earlier write of its batch and none of the later ones.
///
/// Shape   keys to 64 KiB, values to 1 GiB, any bytes, empty allowed; up to 2^28 requests.
/// Errors  of all that add a request: InvalidArgument: key, value or batch over its limit;
///         MemoryLimit. The batch is as before.
/// Owner   the batch copies keys and values; results live until Clear, the next Submit or the end.
/// Threads one at a time; not while the batch is submitted.
class Batch {
 public:
  Batch();
  /// A batch whose memory comes from the store's backend (pinned with a GPU); see Store::NewBatch.
  explicit Batch(std::unique_ptr<batch::Requests> requests);
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;

  Status Put(const Slice& key, const Slice& value) { return Put(kDefaultFamily, key, value); }
  Status Delete(const Slice& key) { return Delete(kDefaultFamily, key); }
  /// An update: the family's merge operator combines `operand` with what the key has then.
  Status Merge(const Slice& key, const Slice& operand) {
    return Merge(kDefaultFamily, key, operand);
  }
  /// Adds a lookup. Its results are found under its place among the batch's lookups: the first
  /// Get is read 0, the next read 1, and so on.
  Status Get(const Slice& key) { return Get(kDefaultFamily, key); }
  /// Adds a range request: the first `limit` entries with keys from `begin` to below `end`. The
  /// first is range 0, the next range 1, and so on.
  Status Range(const Slice& begin, const Slice& end, std::uint32_t limit) {
    return Range(kDefaultFamily, begin, end, limit);
  }

  Status Put(FamilyId family, const Slice& key, const Slice& value);
  Status Delete(FamilyId family, const Slice& key);
  Status SingleDelete(FamilyId family, const Slice& key);
  Status Merge(FamilyId family, const Slice& key, const Slice& operand);
  /// Deletes the keys from `begin` to below `end`.
  /// Errors  InvalidArgument also where `end` comes before `begin`.
  Status DeleteRange(FamilyId family, const Slice& begin, const Slice& end);
  Status Get(FamilyId family, const Slice& key);
  Status Range(FamilyId family, const Slice& begin, const Slice& end, std::uint32_t limit);

  [[nodiscard]] std::size_t writes() const;
  [[nodiscard]] std::size_t reads() const;
  [[nodiscard]] std::size_t ranges() const;
  /// Bytes that the batch's writes will take in the log.
  [[nodiscard]] std::uint64_t bytes() const;

  /// Outcome of read `i` after Submit returned ok: Code::kOk, kNotFound, or an error of its own.
  /// kAborted: memory ran out for it (it stands for Status::MemoryLimit) when the batch's writes
  /// were committed already; they stay, and the read may come again in another batch.
  /// kInvalidArgument: its column family was dropped meanwhile. Others are the tree's.
  [[nodiscard]] Status::Code code(std::size_t i) const;
  /// The value of read `i`; empty unless its code is kOk.
  [[nodiscard]] Slice value(std::size_t i) const;

  /// Outcome of range `i`: Code::kOk, or an error of its own, as of a read.
  [[nodiscard]] Status::Code range_code(std::size_t i) const;
  /// Entries that range `i` found.
  [[nodiscard]] std::size_t range_size(std::size_t i) const;
  /// Key and value of entry `j` of range `i`. They lie in the store's memory, which the batch
  /// holds.
  [[nodiscard]] std::pair<Slice, Slice> range_entry(std::size_t i, std::size_t j) const;

  /// Forgets requests and results and keeps the memory for the next use.
  void Clear();

  /// For the engine.
  [[nodiscard]] batch::Requests& requests() { return *requests_; }

 private:
  std::unique_ptr<batch::Requests> requests_;
};

}  // namespace breccia
