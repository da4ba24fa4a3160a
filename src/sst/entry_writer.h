#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/pool.h"
#include "record/key_columns.h"
#include "sst/filter.h"
#include "sst/table_writer.h"

namespace breccia::sst {

/// Writes a table of entries that come one by one, all of sequence number 0: a file to ingest. They
/// are encoded as those of compactions are, a batch at a time, of what a core's cache holds or, if
/// blocks are large, of sixteen of them.
/// Threads one owner.
class EntryWriter {
 public:
  /// `work`: the host's memory, for work space; it outlives the writer.
  EntryWriter(std::unique_ptr<TableFile> file, const TableShape& shape, exec::Pool& work);

  /// Adds an entry. Both slices are copied.
  /// Shape   type is kValue, kDeletion or kMerge; keys strictly ascend and have kKeyBytesMax bytes
  ///         at most (base/limits.h).
  /// Errors  IOError, NoSpace; MemoryLimit; Corruption: keys do not ascend; InvalidArgument: a
  ///         value of 4 GiB or more.
  Status add(EntryType type, const Slice& key, const Slice& value);
  /// Adds a deletion of the keys from `begin` on, below `end`, which no entry of the file is older
  /// than. Begins ascend.
  void delete_range(const Slice& begin, const Slice& end) {
    table_.add_range_deletion(begin, end, /*sequence=*/0);
  }
  /// Writes the rest, and syncs the file. Returns its bytes.
  /// Shape   something was added.
  /// Errors  as add().
  Result<std::uint64_t> finish(const TableOrigin& origin);

 private:
  Status write_batch();
  Status encode_batch(std::uint64_t count);
  Result<std::string> filter();

  TableWriter table_;
  const TableShape shape_;
  exec::Pool& work_;
  const std::uint64_t batch_bytes_;
  // A batch, and the last key of all.
  record::KeyColumns keys_;
  bool has_key_ = false;
  std::string last_key_;
  std::vector<std::uint64_t> tag_;
  std::vector<std::uint32_t> value_bytes_;
  std::string values_;  // one behind the other
  std::vector<const char*> value_;
  std::vector<std::uint32_t> id_;  // 0, 1, ...
  // The file.
  std::vector<std::uint64_t> hash_;  // of keys, if there is to be a filter
};

}  // namespace breccia::sst
