#include "sst/decompress.h"

#include <lz4.h>
#include <snappy-c.h>
#include <zstd.h>

#include <algorithm>

#include "base/memory.h"

namespace breccia::sst {

namespace {

Status bad(Compression type) {
  return Status::Corruption("a block that is compressed with " + std::string(name_of(type)),
                            "is not what that writes");
}

/// What stands before the bytes of every compressor but Snappy, whose own format begins with it.
bool take_raw_bytes(Compression type, Input* input, std::uint64_t* raw_bytes) {
  if (type == Compression::kSnappy) {
    std::size_t bytes = 0;
    const Slice& rest = input->rest();
    if (snappy_uncompressed_length(rest.data(), rest.size(), &bytes) != SNAPPY_OK) return false;
    *raw_bytes = bytes;
    return true;
  }
  std::uint32_t bytes = 0;
  if (!input->varint(&bytes)) return false;
  *raw_bytes = bytes;
  return true;
}

/// What can come of `from`, at most.
std::uint64_t most_of(Compression type, const Slice& from) {
  constexpr std::uint64_t kRatioMax = 256;  // LZ4's; Snappy's is a tenth of it
  if (type != Compression::kZstd) return kRatioMax * from.size();
  const unsigned long long bytes = ZSTD_getFrameContentSize(from.data(), from.size());
  if (bytes == ZSTD_CONTENTSIZE_ERROR) return 0;
  return bytes == ZSTD_CONTENTSIZE_UNKNOWN ? kBlockBytesMax : bytes;
}

/// Fills the first `wanted` bytes of `room`, or all of it; false unless it was exactly as long.
bool decompress_into(Compression type, const Slice& from, std::uint64_t wanted, std::string* room) {
  switch (type) {
    case Compression::kSnappy: {
      std::size_t bytes = room->size();
      return snappy_uncompress(from.data(), from.size(), room->data(), &bytes) == SNAPPY_OK &&
             bytes == room->size();
    }
    case Compression::kLz4:
    case Compression::kLz4Hc: {
      if (wanted < room->size()) {
        return LZ4_decompress_safe_partial(from.data(), room->data(), static_cast<int>(from.size()),
                                           static_cast<int>(wanted),
                                           static_cast<int>(room->size())) >=
               static_cast<int>(wanted);
      }
      const int bytes = LZ4_decompress_safe(
          from.data(), room->data(), static_cast<int>(from.size()), static_cast<int>(room->size()));
      return bytes >= 0 && static_cast<std::size_t>(bytes) == room->size();
    }
    case Compression::kZstd:
      return ZSTD_decompress(room->data(), room->size(), from.data(), from.size()) == room->size();
    default:
      return false;
  }
}

bool is_read(Compression type) {
  return type == Compression::kSnappy || type == Compression::kLz4 || type == Compression::kLz4Hc ||
         type == Compression::kZstd;
}

}  // namespace

Status decompress(Compression type, const Slice& stored, std::string* room, Slice* contents,
                  std::uint64_t wanted) {
  BRECCIA_ASSERT(stored.size() <= kBlockBytesMax);
  if (type == Compression::kNone) {
    *contents = stored;
    return Status::OK();
  }
  if (name_of(type) == nullptr) {
    return Status::Corruption("a block has the unknown compression type " +
                              std::to_string(static_cast<int>(type)));
  }
  if (!is_read(type)) {
    return Status::NotSupported("blocks that are compressed with " + std::string(name_of(type)));
  }
  Input input(stored);
  std::uint64_t raw_bytes = 0;
  if (!take_raw_bytes(type, &input, &raw_bytes)) return bad(type);
  if (raw_bytes > kBlockBytesMax) {
    return Status::NotSupported("a block of " + std::to_string(raw_bytes) + " bytes");
  }
  if (raw_bytes > most_of(type, input.rest())) return bad(type);  // before memory is asked for it
  return base::or_memory_limit([&] {
    room->resize(raw_bytes);
    if (!decompress_into(type, input.rest(), wanted, room)) return bad(type);
    *contents = Slice(room->data(), std::min<std::uint64_t>(room->size(), wanted));
    return Status::OK();
  });
}

}  // namespace breccia::sst
