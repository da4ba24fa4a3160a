#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "sst/range_reader.h"

namespace breccia::residency {

/// Bytes of a file of which none changes any more, mapped for reading at random places.
/// Owner   they stay where they are, also when the file is closed, or its name goes.
/// Threads any. A medium that fails when a page is read, or somebody who cuts the file off, ends
///         the process (SIGBUS), as with RocksDB's allow_mmap_reads.
class MappedFile {
 public:
  /// Shape   whole: all of an open file, at least a byte; its `to` is not looked at.
  /// Errors  MemoryLimit: the system maps no more.
  static Result<std::unique_ptr<const MappedFile>> map(const sst::FileRange& whole);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// As base::fetch_pages().
  void fetch_pages() const;

 private:
  MappedFile(const char* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}

  const char* const data_;
  const std::uint64_t bytes_;
};

}  // namespace breccia::residency
