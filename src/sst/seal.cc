#include "sst/seal.h"

#include "base/memory.h"
#include "sst/algo/decode.cuh"
#include "sst/checksum.h"
#include "sst/compress.h"
#include "sst/separator.h"

namespace breccia::sst {

namespace {

Status broken() { return Status::Corruption("a block that was just encoded is none"); }

/// Reads the keys at a block's ends in it. False: it is no block.
bool read_ends(const Slice& block, std::string* first, std::string* last) {
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

/// What is said of a key; empty: nothing.
Slice said(const algo::EndKey& key) {
  return {reinterpret_cast<const char*>(key.word), static_cast<std::size_t>(key.bytes)};
}

bool is_key(const algo::EndKey& key) {
  return key.bytes == 0 || (key.bytes >= kTagBytes && key.bytes <= sizeof key.word);
}

/// The keys at a block's ends.
class Ends {
 public:
  /// As they are said, or as they stand in the block where nothing is said, or if it `looks`.
  /// False: what is said is wrong.
  bool take(const algo::EncodedBlock& block, const Slice& contents, bool looks) {
    if (!is_key(block.first) || !is_key(block.last)) return false;
    first_ = said(block.first);
    last_ = said(block.last);
    if ((looks || first_.empty() || last_.empty()) && !read(contents)) return false;
    return block.info.entries == 1 ? first_ == last_ : is_before(first_, last_);
  }
  [[nodiscard]] const Slice& first() const { return first_; }
  [[nodiscard]] const Slice& last() const { return last_; }

 private:
  /// False: they are not what was said.
  bool read(const Slice& contents) {
    if (!read_ends(contents, &first_room_, &last_room_)) return false;
    if (!first_.empty() && first_ != first_room_) return false;
    if (!last_.empty() && last_ != last_room_) return false;
    first_ = first_room_;
    last_ = last_room_;
    return true;
  }

  Slice first_;
  Slice last_;
  std::string first_room_;
  std::string last_room_;
};

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

/// One block of so many is looked at, and those whose keys stand for a file or for all.
constexpr std::size_t kBlocksPerLook = 16;

bool is_looked_at(std::span<const algo::EncodedBlock> blocks, std::size_t i) {
  if (i % kBlocksPerLook == 0 || i + 1 == blocks.size()) return true;
  return blocks[i].info.begins_file != 0 || blocks[i + 1].info.begins_file != 0;
}

Status seal_in_place(const TableShape& shape, char* bytes, bool looks, const SealedBlock& block) {
  char* const contents = bytes + block.info.offset;
  if (shape.checksum != ChecksumType::kXxh3) {
    return write_trailer(shape.checksum, Compression::kNone, contents, block.info.bytes);
  }
  if (!looks) return Status::OK();
  std::uint32_t sum = 0;
  const bool is_known = block_checksum(shape.checksum, Slice(contents, block.info.bytes), &sum);
  BRECCIA_ASSERT(is_known);
  const auto stored = load_little_endian<std::uint32_t>(contents + block.info.bytes + 1);
  return sum == stored ? Status::OK() : broken();
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

/// A block behind those of `*sealed`.
Status add_block(const TableShape& shape, const algo::BlockInfo& info, const Ends& ends,
                 std::string* room, SealedBlocks* sealed) {
  SealedBlock& block = sealed->blocks.emplace_back();
  block.info = info;
  block.raw_bytes = info.bytes;
  block.first_key = sealed->keys.keep(ends.first());
  block.last_key = sealed->keys.keep(ends.last());
  if (sealed->blocks.size() == 1) return Status::OK();
  SealedBlock& before = *(sealed->blocks.end() - 2);
  if (!is_before(before.last_key, block.first_key)) return broken();
  separate(shape.index_shortening, before.last_key, block.first_key, room);
  before.separator = sealed->keys.keep(*room);
  return Status::OK();
}

}  // namespace

Status seal(const TableShape& shape, char* bytes, std::uint64_t count, std::uint64_t entries,
            std::span<const algo::EncodedBlock> blocks, SealedBlocks* sealed) {
  return base::or_memory_limit([&] {
    const bool is_compressed = shape.compression != Compression::kNone;
    std::string room;
    Ends ends;
    sealed->blocks.reserve(blocks.size());
    std::uint64_t behind = 0;
    std::uint64_t entries_behind = 0;
    for (const algo::EncodedBlock& encoded : blocks) {
      const algo::BlockInfo& info = encoded.info;
      if (info.offset != behind || info.first_entry != entries_behind) return broken();
      behind += info.bytes + kTrailerBytes;
      entries_behind += info.entries;
      if (behind > count || entries_behind > entries) return broken();
      const bool looks = is_looked_at(blocks, sealed->blocks.size());
      const Slice raw(bytes + info.offset, info.bytes);
      if (!ends.take(encoded, raw, looks)) return broken();
      BRECCIA_TRY(add_block(shape, info, ends, &room, sealed));
      SealedBlock& block = sealed->blocks.back();
      BRECCIA_TRY(is_compressed ? append_compressed(shape, raw, &room, &block, &sealed->room)
                                : seal_in_place(shape, bytes, looks, block));
    }
    if (behind != count || entries_behind != entries) return broken();
    sealed->bytes = is_compressed ? sealed->room.data() : bytes;
    sealed->count = is_compressed ? sealed->room.size() : behind;
    return Status::OK();
  });
}

}  // namespace breccia::sst
