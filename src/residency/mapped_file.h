#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "residency/unmapper.h"
#include "sst/range_reader.h"

namespace breccia::residency {

/// Bytes of a file of which none changes any more, mapped for reading at random places.
/// Owner   they stay where they are, also when the file is closed, or its name goes. An unmapper
///         has the mapping when this ends, and is held until then.
/// Threads any. A medium that fails when a page is read, or somebody who cuts the file off, ends
///         the process (SIGBUS), as with RocksDB's allow_mmap_reads.
class MappedFile {
 public:
  /// Shape   whole: all of an open file, at least a byte; its `to` is not looked at.
  /// Errors  MemoryLimit: the system maps no more.
  static Result<std::unique_ptr<const MappedFile>> map(const sst::FileRange& whole,
                                                       std::shared_ptr<Unmapper> unmapper);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const char* data() const { return static_cast<const char*>(mapping_->data); }
  [[nodiscard]] std::uint64_t bytes() const { return mapping_->bytes; }

  /// As base::fetch_pages().
  void fetch_pages() const;

 private:
  MappedFile(std::unique_ptr<Unmapper::Mapping> mapping, std::shared_ptr<Unmapper> unmapper)
      : unmapper_(std::move(unmapper)), mapping_(std::move(mapping)) {}

  const std::shared_ptr<Unmapper> unmapper_;
  std::unique_ptr<Unmapper::Mapping> mapping_;
};

}  // namespace breccia::residency
