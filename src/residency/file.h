#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/host_vector.h"
#include "residency/backend.h"
#include "residency/mapped_file.h"
#include "sst/range_reader.h"
#include "sst/table.h"

namespace breccia::residency {

/// Keys from the first to the last one.
struct KeySpan {
  std::string first;
  std::string last;
};

/// A table whose keys a backend has: pieces with ascending keys, and the file's bytes, where their
/// values lie, in blocks that may be compressed. Immutable.
/// Shape   blocks[pieces]: where the blocks of each piece are, ascending.
/// Threads any.
struct ResidentFile {
  std::unique_ptr<const MappedFile> bytes;
  std::vector<PiecePtr> pieces;
  std::vector<std::vector<sst::Handle>> blocks;
  bool is_packed = false;  // blocks may be compressed
  /// Where range deletions hide keys, of this file and of older ones: ascending, one behind the
  /// other, and somewhat more.
  std::vector<KeySpan> deleted;

  [[nodiscard]] std::uint64_t keys() const;
  /// In the backend's memory.
  [[nodiscard]] std::uint64_t memory_bytes() const;
};
using ResidentFilePtr = std::shared_ptr<const ResidentFile>;

/// Spans of a file, and of all files of a set, at most: they are copied with each set.
inline constexpr std::size_t kDeletedSpansMax = 64 << 10;

/// Orders spans, and makes one of those that have a key in common, and of neighbours, until there
/// are no more than `most`.
void join_spans(std::vector<KeySpan>* spans, std::size_t most);

/// Gives tables to a backend: reads them whole, checks every data block, and keeps what
/// ResidentFile has.
/// Threads one owner.
class FileReader {
 public:
  static constexpr std::uint64_t kPieceBytes = 32 << 20;

  /// `piece_bytes`: of a file that become one piece, or a block that is larger; `unmapper`: what is
  /// read has it.
  /// Owner   the backend lives longer.
  FileReader(Backend* backend, std::uint64_t piece_bytes, std::shared_ptr<Unmapper> unmapper)
      : backend_(*backend),
        piece_bytes_(piece_bytes),
        unmapper_(std::move(unmapper)),
        room_(backend->device().host_memory()) {}

  /// Whether a file is read on, which takes so many bytes of the backend's memory, by its
  /// properties. Asked before each piece.
  using GoesOn = std::function<Status(std::uint64_t bytes_needed)>;
  /// Errors  what `goes_on` says; IOError: no such file, or it cannot be read; Corruption: what it
  ///         holds; NotSupported: a table that is not read here; MemoryLimit; those of the device.
  /// Bound   memory beside that of the pieces: the bytes of one, and what decoding them takes.
  Result<ResidentFilePtr> read(const std::string& path, const GoesOn& goes_on);

 private:
  [[nodiscard]] Result<FileBlocks> read_blocks(const sst::Table& table, std::size_t* next,
                                               std::vector<sst::Handle>* handles);
  [[nodiscard]] Result<FileBlocks> unpack_blocks(const sst::Table& table, std::size_t* next,
                                                 std::vector<sst::Handle>* handles);

  Backend& backend_;
  const std::uint64_t piece_bytes_;
  const std::shared_ptr<Unmapper> unmapper_;
  sst::RangeReader reader_;
  std::string stored_;  // of blocks that are compressed
  exec::HostVector<char> room_;
};

}  // namespace breccia::residency
