#include "bench/stream.h"

namespace breccia::bench {

namespace {

// db_bench's defaults: pieces of 100 bytes whose second half repeats the first, a megabyte of them.
constexpr std::size_t kPieceBytes = 100;
constexpr std::size_t kBufferBytes = 1 << 20;

std::uint64_t below(std::uint64_t word, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

}  // namespace

ValueSource::ValueSource(std::size_t value_size) : size_(value_size) {
  constexpr std::uint64_t kSeed = 301;
  base::Random random(kSeed);
  const std::size_t bytes = kBufferBytes + value_size;
  buffer_.reserve(bytes + kPieceBytes);
  while (buffer_.size() < bytes) {
    for (std::size_t i = 0; i < kPieceBytes / 2; ++i) {
      buffer_ += static_cast<char>(' ' + random.below(95));
    }
    buffer_.append(buffer_, buffer_.size() - kPieceBytes / 2, kPieceBytes / 2);
  }
  offsets_ = buffer_.size() - value_size + 1;
}

std::uint64_t UniformStream::key_number(std::uint64_t request) const {
  if (config_.sequential) return request * config_.step % config_.key_count;
  const std::uint64_t own = (config_.key_count - config_.part - 1) / config_.parts + 1;
  return below(base::mix64(config_.seed + request), own) * config_.parts + config_.part;
}

void UniformStream::fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const {
  BRECCIA_ASSERT(count <= kChunkRequests && chunk->stride >= config_.key_size);
  chunk->count = count;
  chunk->scan_entries = config_.scan_entries;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t number = key_number(first + i);
    char* const key = chunk->key_bytes.data() + i * chunk->stride;
    write_key(number, config_.key_size, key);
    const Kind kind =
        config_.every_second_reads && (first + i) % 2 == 0 ? Kind::kGet : config_.kind;
    chunk->kind[i] = kind;
    chunk->key[i] = Slice(key, config_.key_size);
    if (kind == Kind::kInsert || kind == Kind::kUpdate || kind == Kind::kMerge)
      chunk->value[i] = config_.values->at(number, config_.generation);
  }
}

}  // namespace breccia::bench
