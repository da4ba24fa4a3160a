#include "disagg/pool.h"

#include "base/assert.h"

namespace breccia::disagg {

/// The first line is nobody's, so blocks begin behind it in each chunk.
constexpr std::uint64_t kLinesBefore = 1;

Pool::Pool(std::uint64_t lines) : chunks_(lines / kChunkLines), open_(kSizeClasses) {
  static_assert(lines_of(kSizeClasses - 1) + kLinesBefore <= kChunkLines);
  for (auto i = static_cast<std::uint32_t>(chunks_.size()); i-- > 0;) free_chunks_.push_back(i);
}

std::vector<std::uint64_t> Pool::take(std::uint32_t size_class, std::uint64_t count) {
  BRECCIA_ASSERT(size_class < kSizeClasses);
  std::vector<std::uint64_t> lines;
  std::vector<std::uint32_t>& open = open_[size_class];
  while (lines.size() < count) {
    if (open.empty()) open_chunk(size_class);
    if (open.empty()) break;
    Chunk& chunk = chunks_[open.back()];
    BRECCIA_ASSERT(chunk.size_class == size_class);
    if (chunk.free.empty()) {
      chunk.is_listed = false;
      open.pop_back();
      continue;
    }
    const std::uint16_t block = chunk.free.back();
    chunk.free.pop_back();
    BRECCIA_ASSERT(!chunk.is_used[block]);
    chunk.is_used[block] = true;
    lines.push_back(open.back() * kChunkLines + kLinesBefore + block * lines_of(size_class));
  }
  used_blocks_ += lines.size();
  return lines;
}

void Pool::open_chunk(std::uint32_t size_class) {
  if (free_chunks_.empty()) return;
  const std::uint32_t number = free_chunks_.back();
  free_chunks_.pop_back();
  Chunk& chunk = chunks_[number];
  const std::uint64_t blocks = (kChunkLines - kLinesBefore) / lines_of(size_class);
  chunk.size_class = size_class;
  chunk.is_used.assign(blocks, false);
  chunk.free.clear();
  for (std::uint64_t i = blocks; i-- > 0;) chunk.free.push_back(static_cast<std::uint16_t>(i));
  chunk.is_listed = true;
  open_[size_class].push_back(number);
}

bool Pool::give_back(std::uint32_t size_class, std::uint64_t line) {
  const std::uint64_t number = line / kChunkLines, within = line % kChunkLines;
  if (size_class >= kSizeClasses || number >= chunks_.size() || within < kLinesBefore) return false;
  Chunk& chunk = chunks_[number];
  const std::uint64_t block = (within - kLinesBefore) / lines_of(size_class);
  const bool is_one = chunk.size_class == size_class && block < chunk.is_used.size() &&
                      (within - kLinesBefore) % lines_of(size_class) == 0 && chunk.is_used[block];
  if (!is_one) return false;
  chunk.is_used[block] = false;
  chunk.free.push_back(static_cast<std::uint16_t>(block));
  --used_blocks_;
  const auto index = static_cast<std::uint32_t>(number);
  if (chunk.free.size() == chunk.is_used.size()) {
    // It is none of its class any more.
    std::erase(open_[size_class], index);
    chunk.is_listed = false;
    chunk.is_used.clear();
    chunk.free.clear();
    free_chunks_.push_back(index);
  } else if (!chunk.is_listed) {
    chunk.is_listed = true;
    open_[size_class].push_back(index);
  }
  return true;
}

}  // namespace breccia::disagg
