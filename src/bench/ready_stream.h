#pragma once

#include <memory>
#include <vector>

#include "bench/stream.h"
#include "pmem/page_memory.h"

namespace breccia::bench {

/// The requests of another stream, made beforehand: a client that has its data. Keys and values lie
/// in arrays, in the order of the requests; all keys have room for the longest.
/// Threads any number may call const members.
class ReadyStream final : public Stream {
 public:
  /// Makes the first `count` requests of `made`.
  /// Shape   values of one size; requests [0, count) alone may be asked for.
  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<Stream>> make(std::unique_ptr<Stream> made, std::uint64_t count);

  void fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const override;
  [[nodiscard]] const RequestArrays* arrays() const override { return &arrays_; }
  [[nodiscard]] std::size_t key_size_max() const override { return made_->key_size_max(); }
  [[nodiscard]] bool allows(std::uint64_t number, Status::Code code,
                            const Slice& value) const override {
    return made_->allows(number, code, value);
  }
  [[nodiscard]] bool allows_scan(std::uint64_t number, Status::Code code,
                                 std::uint64_t entries) const override {
    return made_->allows_scan(number, code, entries);
  }

 private:
  ReadyStream(std::unique_ptr<Stream> made, std::uint64_t count, pmem::PageMemory keys);
  Status take(std::uint64_t first, const Chunk& chunk);
  Status take_value(std::uint64_t number, const Slice& value);

  const std::unique_ptr<Stream> made_;
  const std::uint64_t count_;
  const std::size_t stride_;  // of the keys
  std::size_t value_size_ = 0;
  pmem::PageMemory keys_;
  std::unique_ptr<pmem::PageMemory> values_;  // null: no request has one
  std::vector<std::uint16_t> key_sizes_;
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> scan_entries_;  // empty: no request is a scan
  RequestArrays arrays_;
};

}  // namespace breccia::bench
