#include "disagg/memory/pool_image.h"

#include <string>
#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

/// The first line is nobody's, so blocks begin behind it in each chunk.
constexpr std::uint64_t kLinesBefore = 1;
static_assert(lines_of(kSizeClasses - 1) + kLinesBefore <= PoolImage::kChunkLines);

constexpr std::uint64_t kBitsOfByte = 8;

}  // namespace

std::uint64_t PoolImage::blocks_of(std::uint32_t size_class) {
  return (kChunkLines - kLinesBefore) / lines_of(size_class);
}

std::uint64_t PoolImage::line_of(std::uint32_t size_class, const Place& place) {
  BRECCIA_ASSERT(place.block < blocks_of(size_class));
  return place.chunk * kChunkLines + kLinesBefore + place.block * lines_of(size_class);
}

bool PoolImage::find_place(std::uint32_t size_class, std::uint64_t line, Place* place) {
  const std::uint64_t within = line % kChunkLines;
  if (size_class >= kSizeClasses || within < kLinesBefore) return false;
  *place = {.chunk = line / kChunkLines, .block = (within - kLinesBefore) / lines_of(size_class)};
  return place->block < blocks_of(size_class) && line_of(size_class, *place) == line;
}

void PoolImage::Chunk::keep_common(const Chunk& other) {
  if (is_used.empty()) return;
  if (other.is_used.empty() || other.size_class != size_class) {
    is_used.clear();
    used = 0;
    return;
  }
  BRECCIA_ASSERT(is_used.size() == other.is_used.size());
  used = 0;
  for (std::size_t i = 0; i < is_used.size(); ++i) {
    is_used[i] = is_used[i] && other.is_used[i];
    used += is_used[i] ? 1 : 0;
  }
  if (used == 0) is_used.clear();
}

bool PoolImage::has(std::uint32_t size_class, std::uint64_t line) const {
  Place place;
  return find_place(size_class, line, &place) && place.chunk < chunks_.size() &&
         chunks_[place.chunk].has(size_class, place.block);
}

bool PoolImage::take(std::uint32_t size_class, std::uint64_t line) {
  Place place;
  if (!find_place(size_class, line, &place) || place.chunk >= chunks_.size()) return false;
  Chunk& chunk = chunks_[place.chunk];
  if (chunk.is_used.empty()) {
    chunk.size_class = size_class;
    chunk.is_used.assign(blocks_of(size_class), false);
  }
  if (chunk.size_class != size_class || chunk.is_used[place.block]) return false;
  chunk.is_used[place.block] = true;
  ++chunk.used;
  return true;
}

bool PoolImage::give_back(std::uint32_t size_class, std::uint64_t line) {
  Place place;
  if (!find_place(size_class, line, &place) || place.chunk >= chunks_.size()) return false;
  Chunk& chunk = chunks_[place.chunk];
  if (!chunk.has(size_class, place.block)) return false;
  chunk.is_used[place.block] = false;
  // Who has none in use may have another class next time.
  if (--chunk.used == 0) chunk.is_used.clear();
  return true;
}

void add_chunk(std::uint64_t number, const PoolImage::Chunk& chunk, WireWriter* writer) {
  std::string bits((chunk.is_used.size() + kBitsOfByte - 1) / kBitsOfByte, '\0');
  for (std::size_t i = 0; i < chunk.is_used.size(); ++i) {
    if (chunk.is_used[i]) bits[i / kBitsOfByte] |= static_cast<char>(1U << (i % kBitsOfByte));
  }
  writer->add(number).add(chunk.size_class).add_bytes(bits);
}

bool take_chunk(WireReader* reader, PoolImage* image) {
  const auto number = reader->take<std::uint64_t>();
  PoolImage::Chunk chunk{.size_class = reader->take<std::uint32_t>(), .is_used = {}, .used = 0};
  const Slice bits = reader->take_bytes();
  if (number >= image->chunks().size() || chunk.size_class >= kSizeClasses) return false;
  chunk.is_used.resize(PoolImage::blocks_of(chunk.size_class));
  if (bits.size() != (chunk.is_used.size() + kBitsOfByte - 1) / kBitsOfByte) return false;
  for (std::size_t i = 0; i < chunk.is_used.size(); ++i) {
    const bool is_used =
        (static_cast<unsigned char>(bits[i / kBitsOfByte]) >> (i % kBitsOfByte)) & 1;
    chunk.is_used[i] = is_used;
    chunk.used += is_used ? 1 : 0;
  }
  if (chunk.used == 0) chunk.is_used.clear();
  image->chunks()[number] = std::move(chunk);
  return true;
}

}  // namespace breccia::disagg
