#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "batch/key_columns.h"
#include "wal/format.h"

namespace breccia::batch {

/// Memory for the values of one thread's share of a batch's results. Blocks stay where they are.
/// Threads one owner.
class ResultArena {
 public:
  /// Never null, not even for no bytes.
  char* allocate(std::uint64_t bytes) {
    if (bytes > room_ || next_ == nullptr) take_block(bytes);
    char* const memory = next_;
    next_ += bytes;
    room_ -= bytes;
    return memory;
  }
  /// Forgets the values; the blocks are used again.
  void clear();

 private:
  struct Block {
    std::unique_ptr<char[]> memory;
    std::uint64_t bytes;
  };
  void take_block(std::uint64_t bytes);

  std::vector<Block> blocks_;
  std::size_t used_ = 0;  // blocks_[0..used_) hold values
  char* next_ = nullptr;
  std::uint64_t room_ = 0;
};

struct ReadResult {
  const char* data;
  std::uint32_t bytes;
  Status::Code code;
};

/// A Status of that code, as RocksDB would return it for a lookup.
[[nodiscard]] Status status_of(Status::Code code);

/// A batch as the engine sees it: log records and columns for its writes, columns for its reads.
/// Threads one owner; during a submit, the engine.
class Requests {
 public:
  /// `memory` lives at least as long as the requests.
  explicit Requests(std::shared_ptr<exec::HostMemory> memory);

  /// Errors  InvalidArgument: over a limit; MemoryLimit. Nothing was added.
  Status add_write(wal::Op op, const Slice& key, const Slice& value);
  Status add_read(const Slice& key);
  void clear();

  [[nodiscard]] std::uint64_t write_count() const { return write_keys_.count(); }
  [[nodiscard]] std::uint64_t read_count() const { return read_keys_.count(); }
  /// The writes as log records, one behind the other.
  [[nodiscard]] const std::byte* records() const { return records_.data(); }
  [[nodiscard]] std::uint64_t record_bytes() const { return records_.size(); }
  [[nodiscard]] exec::KeyColumnsRef write_keys() const { return write_keys_.ref(); }
  /// Of each write, its record's offset in records() | its operation.
  [[nodiscard]] const std::uint64_t* write_offsets() const { return write_offsets_.data(); }
  [[nodiscard]] exec::KeyColumnsRef read_keys() const { return read_keys_.ref(); }
  /// Of each read, the record bytes that came before it in the batch.
  [[nodiscard]] const std::uint64_t* read_after() const { return read_after_.data(); }

  /// Room for every read's payload, as a search wants it.
  [[nodiscard]] std::uint64_t* found() { return found_.data(); }
  /// Bounds of the reads, filled by the engine: read_after()[i] + base.
  [[nodiscard]] std::uint64_t* bounds() { return bounds_.data(); }
  /// Makes room for the results of read_count() reads gathered by `parts` threads; every one of
  /// them must then be written. False: out of memory.
  [[nodiscard]] bool prepare_results(std::size_t parts, bool with_bounds);
  /// Results that prepare_results made room for; 0 before the batch was submitted.
  [[nodiscard]] std::uint64_t result_count() const { return results_.size(); }
  [[nodiscard]] ReadResult* results() { return results_.data(); }
  [[nodiscard]] const ReadResult* results() const { return results_.data(); }
  [[nodiscard]] ResultArena& arena(std::size_t part) { return *arenas_[part]; }

 private:
  std::shared_ptr<exec::HostMemory> memory_;  // first: the arrays give their memory back to it
  exec::HostVector<std::byte> records_;
  KeyColumns write_keys_;
  exec::HostVector<std::uint64_t> write_offsets_;
  KeyColumns read_keys_;
  exec::HostVector<std::uint64_t> read_after_;
  exec::HostVector<std::uint64_t> found_;
  exec::HostVector<std::uint64_t> bounds_;
  exec::HostVector<ReadResult> results_;
  std::vector<std::unique_ptr<ResultArena>> arenas_;
};

}  // namespace breccia::batch
