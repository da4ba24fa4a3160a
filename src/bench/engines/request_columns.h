#pragma once

#include <breccia/batch.h>
#include <breccia/columns.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/stream.h"
#include "pmem/page_memory.h"

namespace breccia::bench {

/// Strings one behind the other.
/// Threads one owner.
class ByteArray {
 public:
  ByteArray();

  void add(const Slice& string);
  /// Forgets everything but the memory.
  void clear();
  [[nodiscard]] std::size_t count() const { return offsets_.size() - 1; }
  /// Fixed, if all are of one size.
  /// Owner   until the next add() or clear().
  [[nodiscard]] BytesColumn column() const;

 private:
  std::vector<char> bytes_;
  std::vector<std::int64_t> offsets_;
  bool one_size_ = true;
};

/// A group's requests in arrays, as a client has them whose data are columns: batches take them
/// whole, and lookups leave their values in an array.
/// Threads one owner.
class RequestColumns {
 public:
  /// `value_size` is that of all values.
  explicit RequestColumns(std::size_t value_size) : value_size_(value_size) {}

  void add(const Request& request);
  /// Whether take() takes them; null: no.
  [[nodiscard]] static bool takes(const RequestArrays* arrays);
  /// Takes requests [first, first + count) of `arrays` where they lie, in place of what was added.
  /// Shape   takes(&arrays).
  /// Owner   until the batches have run, the arrays must be left alone.
  void take(const RequestArrays& arrays, std::uint64_t first, std::uint32_t count);
  /// Adds what was added: writes, lookups and scans to *first, the writes of read-modify-writes to
  /// *second.
  /// Owner   until the batches have run, this must be left alone.
  Status add_to(Batch* first, Batch* second);
  /// Forgets everything but the memory.
  void clear();

 private:
  struct Writes {
    ByteArray keys;
    ByteArray values;

    void add(const Request& request);
    Status put_into(Batch* batch) const;
  };

  Status look_up(const BytesColumn& keys, Batch* batch);
  Status add_taken(Batch* batch);

  struct Taken {
    Kind kind;
    BytesColumn keys;
    BytesColumn values;
  };

  std::size_t value_size_;
  std::optional<Taken> taken_;
  Writes puts_;
  Writes later_puts_;
  Writes merges_;
  ByteArray deletes_;
  ByteArray lookups_;
  ByteArray scans_;
  std::vector<std::uint32_t> scan_entries_;
  std::optional<pmem::PageMemory> found_;  // flags, then values; in huge pages, as large arrays are
  std::uint64_t found_room_ = 0;           // lookups
};

}  // namespace breccia::bench
