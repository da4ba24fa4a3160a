#include "sst/compress.h"

#include <lz4.h>
#include <snappy-c.h>
#include <zstd.h>

#include <memory>
#include <new>

#include "sst/algo/bytes.cuh"

namespace breccia::sst {

namespace {

constexpr int kZstdLevel = 3;  // RocksDB's default

std::size_t most_of(Compression type, std::size_t bytes) {
  switch (type) {
    case Compression::kSnappy:
      return snappy_max_compressed_length(bytes);
    case Compression::kLz4:
      return static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(bytes)));
    default:
      return ZSTD_compressBound(bytes);
  }
}

/// What ZSTD works with, a thread's own; making one costs more than a block.
ZSTD_CCtx* context() {
  static thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> kept(
      ZSTD_createCCtx(), &ZSTD_freeCCtx);
  if (kept == nullptr) throw std::bad_alloc();
  return kept.get();
}

/// How many bytes were written; 0: it could not be done.
std::size_t compress_into(Compression type, const Slice& from, char* to, std::size_t room) {
  switch (type) {
    case Compression::kSnappy:
      return snappy_compress(from.data(), from.size(), to, &room) == SNAPPY_OK ? room : 0;
    case Compression::kLz4: {
      // As a stream of one block: the bytes are those of RocksDB's writer.
      LZ4_stream_t stream;
      LZ4_initStream(&stream, sizeof stream);
      const int bytes =
          LZ4_compress_fast_continue(&stream, from.data(), to, static_cast<int>(from.size()),
                                     static_cast<int>(room), /*acceleration=*/1);
      return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
    }
    default: {
      const std::size_t bytes =
          ZSTD_compressCCtx(context(), to, room, from.data(), from.size(), kZstdLevel);
      return ZSTD_isError(bytes) != 0 ? 0 : bytes;
    }
  }
}

}  // namespace

bool is_written(Compression type) {
  return type == Compression::kNone || type == Compression::kSnappy || type == Compression::kLz4 ||
         type == Compression::kZstd;
}

Compression compress(Compression type, const Slice& contents, std::string* room) {
  BRECCIA_ASSERT(is_written(type));
  room->clear();
  if (type == Compression::kNone || contents.size() > LZ4_MAX_INPUT_SIZE) return Compression::kNone;
  char length[5];
  const char* const end =
      type == Compression::kSnappy
          ? length
          : algo::store_varint(length, static_cast<std::uint32_t>(contents.size()));
  const auto front = static_cast<std::size_t>(end - length);
  room->assign(length, front);
  room->resize(front + most_of(type, contents.size()));
  const std::size_t bytes =
      compress_into(type, contents, room->data() + front, room->size() - front);
  if (bytes == 0 || front + bytes >= contents.size() - contents.size() / 8) {
    room->clear();
    return Compression::kNone;
  }
  room->resize(front + bytes);
  return type;
}

}  // namespace breccia::sst
