#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "exec/pool.h"
#include "record/record.h"

namespace breccia::tree {

/// An entry of a file: a kPut, kDelete or kMerge of `key`; of a kSingleDelete only what it hides.
struct FileEntry {
  record::Op op;
  Slice key;
  Slice value;
  /// A range deletion of the key alone goes with it, below it: single deletions that RocksDB may
  /// write later must meet neither an older put nor a deletion (docs/impl/tree.md).
  bool hides_older = false;
};

/// A file that is written to be ingested.
/// Threads one owner.
class StagedFile {
 public:
  virtual ~StagedFile() = default;

  /// Shape   keys strictly ascend.
  /// Errors  IOError, NoSpace, MemoryLimit.
  Status add(const FileEntry& entry);
  /// Shape   begins ascend.
  virtual Status delete_range(const Slice& begin, const Slice& end) = 0;
  /// Shape   the file is not empty.
  virtual Status finish() = 0;

 protected:
  virtual Status put(const Slice& key, const Slice& value) = 0;
  virtual Status merge(const Slice& key, const Slice& operand) = 0;
  virtual Status remove(const Slice& key) = 0;

 private:
  std::string behind_;
};

/// Whether files of a family with these options are written by the encoder of sst/: where that
/// writes what RocksDB's SstFileWriter would, in less time.
[[nodiscard]] bool is_encoded(const rocksdb::Options& options);

/// A new file of a family's table format and `options`, by the encoder or by SstFileWriter.
/// `work`: the host's memory, for work space; it outlives the file.
/// Errors  IOError.
Result<std::unique_ptr<StagedFile>> stage_file(const std::string& path,
                                               const rocksdb::Options& options,
                                               rocksdb::ColumnFamilyHandle* family,
                                               exec::Pool& work);

}  // namespace breccia::tree
