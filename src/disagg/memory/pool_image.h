#pragma once

#include <cstdint>
#include <vector>

#include "disagg/location.h"
#include "disagg/wire.h"

namespace breccia::disagg {

/// Which blocks of a memory are in use, without what it takes to find free ones (pool.h): what a
/// mirror keeps of its server's. Memory is divided into chunks, each with blocks of one class.
/// Threads one owner.
class PoolImage {
 public:
  static constexpr std::uint64_t kChunkLines = 32'768;  // 2 MiB: some blocks of the largest class

  struct Chunk {
    std::uint32_t size_class = 0;
    std::vector<bool> is_used;  // by block; empty: no block is in use
    std::uint64_t used = 0;     // blocks

    /// Whether that block is in use, as one of that class.
    [[nodiscard]] bool has(std::uint32_t of_class, std::uint64_t block) const {
      return of_class == size_class && !is_used.empty() && is_used[block];
    }
    /// What is in use in both, of one class.
    void keep_common(const Chunk& other);
  };
  /// Which block of which chunk begins at a line.
  struct Place {
    std::uint64_t chunk = 0;
    std::uint64_t block = 0;
  };

  explicit PoolImage(std::uint64_t chunks) : chunks_(chunks) {}

  /// How many blocks of a class a chunk has.
  static std::uint64_t blocks_of(std::uint32_t size_class);
  static std::uint64_t line_of(std::uint32_t size_class, const Place& place);
  /// False: no block of that class begins there. Whether there is such a chunk it does not know.
  static bool find_place(std::uint32_t size_class, std::uint64_t line, Place* place);

  /// Whether a block of the class that is in use begins there.
  [[nodiscard]] bool has(std::uint32_t size_class, std::uint64_t line) const;
  /// False: it is no block that is free, or in use, as the other one has it; nothing has changed.
  [[nodiscard]] bool take(std::uint32_t size_class, std::uint64_t line);
  [[nodiscard]] bool give_back(std::uint32_t size_class, std::uint64_t line);

  [[nodiscard]] std::vector<Chunk>& chunks() { return chunks_; }
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  std::vector<Chunk> chunks_;
};

/// A chunk as servers tell it: its number, its class, and a bit for each block. One without a block
/// in use is not told.
void add_chunk(std::uint64_t number, const PoolImage::Chunk& chunk, WireWriter* writer);
/// False: it is no chunk of `image`, which has not changed.
[[nodiscard]] bool take_chunk(WireReader* reader, PoolImage* image);

}  // namespace breccia::disagg
