#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "sst/block_builder.h"
#include "sst/seal.h"
#include "sst/table_file.h"
#include "sst/table_shape.h"

namespace breccia::sst {

/// What a table holds, as its properties say it.
struct TableSums {
  std::uint64_t data_bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t entries = 0;
  std::uint64_t deletions = 0;  // of ranges, too
  std::uint64_t merge_operands = 0;
  std::uint64_t range_deletions = 0;
  std::uint64_t filter_entries = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t smallest_sequence = ~std::uint64_t{0};
  std::uint64_t largest_sequence = 0;
  std::string smallest;  // internal keys
  std::string largest;
};

/// Where bytes of data blocks go in a table's file.
struct DataPlace {
  const char* bytes = nullptr;
  std::uint64_t count = 0;
  std::uint64_t offset = 0;
};

/// Writes a table's file: data blocks get their places as they come, are written by any thread, and
/// behind them comes all the rest.
/// Threads one owner, but for write_data.
class TableWriter {
 public:
  TableWriter(std::unique_ptr<TableFile> file, const TableShape& shape);

  /// Adds blocks that lie one behind the other in `bytes`; their keys are behind all before.
  /// Returns what has to be written, and where, before finish().
  /// Errors  Corruption: their keys are not.
  Result<DataPlace> add(const char* bytes, std::span<const SealedBlock> blocks);
  /// Errors  IOError, NoSpace.
  /// Threads those that the file allows.
  [[nodiscard]] Status write_data(const DataPlace& place) const {
    return file_->write(place.bytes, place.count, place.offset);
  }

  /// Adds a deletion of the keys from `begin` on, below `end`. Begins ascend.
  void add_range_deletion(const Slice& begin, const Slice& end, std::uint64_t sequence);

  /// Bytes of the data blocks so far.
  [[nodiscard]] std::uint64_t data_bytes() const { return sums_.data_bytes; }
  [[nodiscard]] const TableSums& sums() const { return sums_; }

  /// Writes the rest, and syncs the file. `filter`: lines and tail of a filter; empty: none.
  /// Shape   it has a block or a deletion of a range; what sums() says of sequence numbers and keys
  ///         leaves the latter out.
  /// Returns the file's bytes.
  /// Errors  IOError, NoSpace.
  Result<std::uint64_t> finish(const TableOrigin& origin, const std::string& filter);

 private:
  Status append(const char* bytes, std::uint64_t count);
  /// Writes a block that is not compressed.
  Status write_block(std::string contents, Handle* handle);
  /// Writes what a compressor of that type has made.
  Status write_block(std::string contents, Compression type, Handle* handle);
  Status write_index(Handle* handle, std::uint64_t* bytes);
  Status begin_blocks(const SealedBlock& block);
  /// Makes the entry of the last block that has a place; `next`: the first key of the one behind
  /// it.
  void index_last(const Slice& separator, const Slice* next);
  [[nodiscard]] std::string properties(const TableOrigin& origin, bool has_filter,
                                       std::uint64_t filter_bytes, std::uint64_t index_bytes) const;
  [[nodiscard]] std::string footer(const Handle& metaindex, const Handle& index) const;

  const std::unique_ptr<TableFile> file_;
  const TableShape shape_;
  std::uint64_t end_ = 0;  // of what has a place
  TableSums sums_;
  // Which of two indexes it will be is known behind the last block: one without tags will do unless
  // two blocks share a user key.
  BlockBuilder index_;
  BlockBuilder index_without_tags_;
  BlockBuilder range_deletions_{/*restarts=*/1};
  bool has_tags_;
  Handle last_block_;
};

}  // namespace breccia::sst
