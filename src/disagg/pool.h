#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// Which blocks of a server's memory are in use. Memory is divided into chunks, each with blocks of
/// one class; a chunk whose blocks are all free is anybody's.
/// Threads one owner.
class Pool {
 public:
  static constexpr std::uint64_t kChunkLines = 32'768;  // 2 MiB: some blocks of the largest class

  /// Shape   whole chunks are used.
  explicit Pool(std::uint64_t lines);

  /// Lines where blocks begin: as many as there are, up to `count`.
  [[nodiscard]] std::vector<std::uint64_t> take(std::uint32_t size_class, std::uint64_t count);
  /// False: it is no block of the class that is in use; nothing has changed.
  [[nodiscard]] bool give_back(std::uint32_t size_class, std::uint64_t line);

  [[nodiscard]] std::uint64_t used_blocks() const { return used_blocks_; }
  [[nodiscard]] std::uint64_t free_chunks() const { return free_chunks_.size(); }

 private:
  struct Chunk {
    std::uint32_t size_class = 0;
    std::vector<bool> is_used;        // by block; empty: the chunk is anybody's
    std::vector<std::uint16_t> free;  // blocks
    bool is_listed = false;           // in open_ of its class
  };
  void open_chunk(std::uint32_t size_class);

  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> free_chunks_;
  std::vector<std::vector<std::uint32_t>> open_;  // by class: all chunks with free blocks, and more
  std::uint64_t used_blocks_ = 0;
};

}  // namespace breccia::disagg
