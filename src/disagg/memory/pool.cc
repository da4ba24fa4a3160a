#include "disagg/memory/pool.h"

#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

/// Free blocks are looked for when they are wanted: what takes a server's place has no time.
Pool::Pool(PoolImage image)
    : chunks_(image.chunks().size()), open_(kSizeClasses), watched_(image.chunks().size()) {
  for (auto i = static_cast<std::uint32_t>(chunks_.size()); i-- > 0;) {
    PoolImage::Chunk& use = chunks_[i].use;
    use = std::move(image.chunks()[i]);
    used_blocks_ += use.used;
    if (use.is_used.empty()) {
      free_chunks_.push_back(i);
    } else if (use.used < use.is_used.size()) {
      chunks_[i].is_listed = true;
      open_[use.size_class].push_back(i);
    }
  }
}

void Pool::find_free(Chunk* chunk) {
  if (chunk->has_free) return;
  BRECCIA_ASSERT(chunk->free.empty());
  for (std::uint64_t i = chunk->use.is_used.size(); i-- > 0;) {
    if (!chunk->use.is_used[i]) chunk->free.push_back(static_cast<std::uint16_t>(i));
  }
  chunk->has_free = true;
}

void Pool::watch() {
  for (std::uint64_t i = 0; i < chunks_.size(); ++i) watched_.chunks()[i] = chunks_[i].use;
}

std::vector<std::uint64_t> Pool::take(std::uint32_t size_class, std::uint64_t count) {
  BRECCIA_ASSERT(size_class < kSizeClasses);
  std::vector<std::uint64_t> lines;
  std::vector<std::uint32_t>& open = open_[size_class];
  while (lines.size() < count) {
    if (open.empty()) open_chunk(size_class);
    if (open.empty()) break;
    Chunk& chunk = chunks_[open.back()];
    BRECCIA_ASSERT(chunk.use.size_class == size_class);
    find_free(&chunk);
    if (chunk.free.empty()) {
      chunk.is_listed = false;
      open.pop_back();
      continue;
    }
    const std::uint16_t block = chunk.free.back();
    chunk.free.pop_back();
    BRECCIA_ASSERT(!chunk.use.is_used[block]);
    chunk.use.is_used[block] = true;
    ++chunk.use.used;
    lines.push_back(PoolImage::line_of(size_class, {.chunk = open.back(), .block = block}));
  }
  used_blocks_ += lines.size();
  return lines;
}

void Pool::open_chunk(std::uint32_t size_class) {
  if (free_chunks_.empty()) return;
  const std::uint32_t number = free_chunks_.back();
  free_chunks_.pop_back();
  chunks_[number].use.size_class = size_class;
  chunks_[number].use.is_used.assign(PoolImage::blocks_of(size_class), false);
  BRECCIA_ASSERT(!chunks_[number].is_listed && chunks_[number].use.used == 0);
  find_free(&chunks_[number]);
  chunks_[number].is_listed = true;
  open_[size_class].push_back(number);
}

bool Pool::has(std::uint32_t size_class, std::uint64_t line) const {
  PoolImage::Place place;
  return PoolImage::find_place(size_class, line, &place) && place.chunk < chunks_.size() &&
         chunks_[place.chunk].use.has(size_class, place.block);
}

bool Pool::give_back(std::uint32_t size_class, std::uint64_t line) {
  PoolImage::Place place;
  const bool is_place = PoolImage::find_place(size_class, line, &place);
  if (!is_place || place.chunk >= chunks_.size()) return false;
  Chunk& chunk = chunks_[place.chunk];
  PoolImage::Chunk& use = chunk.use;
  if (!use.has(size_class, place.block)) return false;
  use.is_used[place.block] = false;
  forget_watched(size_class, line);
  if (chunk.has_free) chunk.free.push_back(static_cast<std::uint16_t>(place.block));
  --used_blocks_;
  const auto number = static_cast<std::uint32_t>(place.chunk);
  if (--use.used == 0) {
    // It is none of its class any more.
    std::erase(open_[size_class], number);
    chunk.is_listed = false;
    use.is_used.clear();
    chunk.free.clear();
    chunk.has_free = false;
    free_chunks_.push_back(number);
  } else if (!chunk.is_listed) {
    chunk.is_listed = true;
    open_[size_class].push_back(number);
  }
  return true;
}

}  // namespace breccia::disagg
