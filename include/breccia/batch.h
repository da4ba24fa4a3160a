#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace breccia {

namespace batch {
class Requests;
}

/// Requests in arrival order, and after Store::Submit the results of its reads.
///
/// The writes of a batch are atomic: one commit record covers them. Each Get sees every earlier
/// write of its batch and none of the later ones.
///
/// Shape   keys to 64 KiB, values to 1 GiB, any bytes, empty allowed; up to 2^28 requests.
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

  /// Errors  InvalidArgument: key, value or batch over its limit; the batch is as before.
  Status Put(const Slice& key, const Slice& value);
  Status Delete(const Slice& key);
  /// Adds a lookup. Its results are found under its place among the batch's lookups: the first
  /// Get is read 0, the next read 1, and so on.
  Status Get(const Slice& key);

  [[nodiscard]] std::size_t writes() const;
  [[nodiscard]] std::size_t reads() const;
  /// Bytes that the batch's writes will take in the log.
  [[nodiscard]] std::uint64_t bytes() const;

  /// Outcome of read `i` after Submit returned ok: Code::kOk, kNotFound, or an error of its own.
  [[nodiscard]] Status::Code code(std::size_t i) const;
  /// The value of read `i`; empty unless its code is kOk.
  [[nodiscard]] Slice value(std::size_t i) const;

  /// Forgets requests and results and keeps the memory for the next use.
  void Clear();

  /// For the engine.
  [[nodiscard]] batch::Requests& requests() { return *requests_; }

 private:
  std::unique_ptr<batch::Requests> requests_;
};

}  // namespace breccia
