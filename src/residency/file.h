#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/host_vector.h"
#include "residency/backend.h"
#include "residency/mapped_file.h"
#include "sst/range_reader.h"
#include "sst/table.h"

namespace breccia::residency {

/// A table whose keys a backend has: pieces with ascending keys, and the file's bytes, where their
/// values lie. Immutable.
/// Threads any.
struct ResidentFile {
  std::unique_ptr<const MappedFile> bytes;
  std::vector<PiecePtr> pieces;

  [[nodiscard]] std::uint64_t keys() const;
  /// In the backend's memory.
  [[nodiscard]] std::uint64_t memory_bytes() const;
};
using ResidentFilePtr = std::shared_ptr<const ResidentFile>;

/// Gives tables to a backend: reads them whole, checks every data block, and keeps what
/// ResidentFile has.
/// Threads one owner.
class FileReader {
 public:
  /// Owner   the backend lives longer.
  explicit FileReader(Backend* backend)
      : backend_(*backend), room_(backend->device().host_memory()) {}

  /// Errors  IOError: no such file, or it cannot be read; Corruption: what it holds; NotSupported:
  ///         range deletions, entries that are neither values nor deletions, compressed blocks, a
  ///         table that is not read here; MemoryLimit; those of the device.
  /// Bound   memory beside that of the pieces: 32 MiB of the file, or a block that is larger, and
  ///         what decoding it takes.
  Result<ResidentFilePtr> read(const std::string& path);

 private:
  Status check(const sst::Table& table) const;
  [[nodiscard]] Result<FileBlocks> read_blocks(const sst::Table& table, std::size_t* next);

  Backend& backend_;
  sst::RangeReader reader_;
  exec::HostVector<char> room_;
};

}  // namespace breccia::residency
