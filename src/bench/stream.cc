#include "bench/stream.h"

namespace breccia::bench {

namespace {

// db_bench's defaults: pieces of 100 bytes whose second half repeats the first, a megabyte of them.
constexpr std::size_t kPieceBytes = 100;
constexpr std::size_t kBufferBytes = 1 << 20;

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

}  // namespace breccia::bench
