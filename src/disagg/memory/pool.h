#pragma once

#include <cstdint>
#include <vector>

#include "disagg/location.h"
#include "disagg/memory/pool_image.h"

namespace breccia::disagg {

/// Which blocks of a server's memory are in use. Memory is divided into chunks, each with blocks of
/// one class; a chunk whose blocks are all free is anybody's.
/// Threads one owner.
class Pool {
 public:
  static constexpr std::uint64_t kChunkLines = PoolImage::kChunkLines;

  /// Shape   whole chunks are used.
  explicit Pool(std::uint64_t lines) : Pool(PoolImage(lines / kChunkLines)) {}
  /// One in which what the image has in use is.
  explicit Pool(PoolImage image);

  /// Lines where blocks begin: as many as there are, up to `count`.
  [[nodiscard]] std::vector<std::uint64_t> take(std::uint32_t size_class, std::uint64_t count);
  /// False: it is no block of the class that is in use; nothing has changed.
  [[nodiscard]] bool give_back(std::uint32_t size_class, std::uint64_t line);

  /// Whether a block of the class that is in use begins there.
  [[nodiscard]] bool has(std::uint32_t size_class, std::uint64_t line) const;

  /// From here on it notes which of the blocks in use now stay so.
  void watch();
  /// Those that have, but for what was forgotten since.
  [[nodiscard]] const PoolImage& watched() const { return watched_; }
  void forget_watched(std::uint32_t size_class, std::uint64_t line) {
    (void)watched_.give_back(size_class, line);
  }

  [[nodiscard]] std::uint64_t chunks() const { return chunks_.size(); }
  /// One of them, as an image has it.
  [[nodiscard]] const PoolImage::Chunk& chunk(std::uint64_t number) const {
    return chunks_[number].use;
  }
  [[nodiscard]] std::uint64_t used_blocks() const { return used_blocks_; }
  [[nodiscard]] std::uint64_t free_chunks() const { return free_chunks_.size(); }

 private:
  struct Chunk {
    PoolImage::Chunk use;             // no block: the chunk is anybody's
    std::vector<std::uint16_t> free;  // blocks, if they were looked for
    bool has_free = false;            // they were
    bool is_listed = false;           // in open_ of its class
  };
  void open_chunk(std::uint32_t size_class);
  static void find_free(Chunk* chunk);

  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> free_chunks_;
  std::vector<std::vector<std::uint32_t>> open_;  // by class: all chunks with free blocks, and more
  std::uint64_t used_blocks_ = 0;
  PoolImage watched_;
};

}  // namespace breccia::disagg
