#include "sst/seal.h"

#include "base/memory.h"
#include "sst/algo/decode.cuh"
#include "sst/checksum.h"
#include "sst/compress.h"

namespace breccia::sst {

namespace {

Status broken() { return Status::Corruption("a block that was just encoded is none"); }

/// The keys at a block's ends. False: it is no block.
bool take_ends(const Slice& block, std::string* first, std::string* last) {
  const auto restarts = algo::Restarts::of(block.data(), static_cast<std::uint32_t>(block.size()));
  if (restarts.count == 0 || restarts.begin(0) != 0) return false;
  const char* const end = block.data() + restarts.entries_bytes;
  algo::RawEntry entry;
  algo::Reader front{block.data(), end};
  if (!entry.take(&front) || entry.shared != 0) return false;
  first->assign(entry.own_key, entry.unshared);
  const std::uint32_t from = restarts.begin(restarts.count - 1);
  if (from >= restarts.entries_bytes) return false;
  for (algo::Reader back{block.data() + from, end}; back.at < end;) {
    if (!entry.take(&back) || entry.shared > last->size()) return false;
    last->resize(entry.shared);
    last->append(entry.own_key, entry.unshared);
  }
  return first->size() >= kTagBytes && last->size() >= kTagBytes;
}

/// Whether internal key `a` stands before `b`.
bool is_before(const Slice& a, const Slice& b) {
  const InternalKey left = InternalKey::of(a);
  const InternalKey right = InternalKey::of(b);
  const int order = left.user_key.compare(right.user_key);
  return order != 0 ? order < 0 : left.sequence > right.sequence;
}

/// Writes type and checksum behind `contents`, which have room for them.
Status write_trailer(ChecksumType checksum, Compression type, char* contents, std::size_t bytes) {
  contents[bytes] = static_cast<char>(type);
  std::uint32_t sum = 0;
  if (!block_checksum(checksum, Slice(contents, bytes), &sum)) {
    return Status::NotSupported("a table with checksums of an unknown type");
  }
  std::memcpy(contents + bytes + 1, &sum, sizeof sum);
  return Status::OK();
}

/// Checksums that the encoder wrote are looked at in one block of so many.
constexpr std::uint64_t kBlocksPerLook = 16;

Status seal_in_place(const TableShape& shape, char* bytes, std::uint64_t number,
                     SealedBlock* block) {
  if (shape.checksum == ChecksumType::kXxh3) {
    if (number % kBlocksPerLook != 0) return Status::OK();
    const char* const contents = bytes + block->info.offset;
    std::uint32_t sum = 0;
    const bool is_known = block_checksum(shape.checksum, Slice(contents, block->info.bytes), &sum);
    BRECCIA_ASSERT(is_known);
    const auto stored = load_little_endian<std::uint32_t>(contents + block->info.bytes + 1);
    return sum == stored ? Status::OK() : broken();
  }
  return write_trailer(shape.checksum, Compression::kNone, bytes + block->info.offset,
                       block->info.bytes);
}

Status append_compressed(const TableShape& shape, const Slice& raw, std::string* room,
                         SealedBlock* block, std::string* to) {
  const Compression type = compress(shape.compression, raw, room);
  const Slice stored = type == Compression::kNone ? raw : Slice(*room);
  block->info.offset = to->size();
  block->info.bytes = static_cast<std::uint32_t>(stored.size());
  to->append(stored.data(), stored.size());
  to->resize(to->size() + kTrailerBytes);
  return write_trailer(shape.checksum, type, to->data() + block->info.offset, stored.size());
}

}  // namespace

Status seal(const TableShape& shape, char* bytes, std::uint64_t count, std::uint64_t entries,
            std::span<const algo::BlockInfo> infos, SealedBlocks* sealed) {
  return base::or_memory_limit([&] {
    const bool is_compressed = shape.compression != Compression::kNone;
    std::string room;
    sealed->blocks.reserve(infos.size());
    std::uint64_t behind = 0;
    std::uint64_t entries_behind = 0;
    for (const algo::BlockInfo& info : infos) {
      if (info.offset != behind || info.first_entry != entries_behind) return broken();
      behind += info.bytes + kTrailerBytes;
      entries_behind += info.entries;
      if (behind > count || entries_behind > entries) return broken();
      SealedBlock& block = sealed->blocks.emplace_back();
      block.info = info;
      block.raw_bytes = info.bytes;
      const Slice raw(bytes + info.offset, info.bytes);
      if (!take_ends(raw, &block.first_key, &block.last_key)) return broken();
      if (sealed->blocks.size() > 1 &&
          !is_before(sealed->blocks[sealed->blocks.size() - 2].last_key, block.first_key)) {
        return broken();
      }
      BRECCIA_TRY(is_compressed ? append_compressed(shape, raw, &room, &block, &sealed->room)
                                : seal_in_place(shape, bytes, sealed->blocks.size() - 1, &block));
    }
    if (behind != count || entries_behind != entries) return broken();
    sealed->bytes = is_compressed ? sealed->room.data() : bytes;
    sealed->count = is_compressed ? sealed->room.size() : behind;
    return Status::OK();
  });
}

}  // namespace breccia::sst
