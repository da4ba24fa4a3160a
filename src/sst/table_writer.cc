#include "sst/table_writer.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "sst/checksum.h"
#include "sst/compress.h"
#include "sst/separator.h"
#include "sst/table.h"

namespace breccia::sst {

namespace {

/// Of files to ingest, from which on all entries may have one sequence number, given later.
constexpr std::uint32_t kExternalVersion = 2;

const char* name_in_properties(Compression type) {
  switch (type) {
    case Compression::kSnappy:
      return "Snappy";
    case Compression::kLz4:
      return "LZ4";
    case Compression::kZstd:
      return "ZSTD";
    default:
      return "NoCompression";
  }
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  append_varint(&bytes, value);
  return bytes;
}

}  // namespace

TableWriter::TableWriter(std::unique_ptr<TableFile> file, const TableShape& shape)
    : file_(std::move(file)),
      shape_(shape),
      index_(shape.index_restarts),
      index_without_tags_(shape.index_restarts),
      has_tags_(shape.version < 3) {}

Status TableWriter::append(const char* bytes, std::uint64_t count) {
  BRECCIA_TRY(write_data({bytes, count, end_}));
  end_ += count;
  return Status::OK();
}

Status TableWriter::write_block(std::string contents, Handle* handle) {
  return write_block(std::move(contents), Compression::kNone, handle);
}

Status TableWriter::write_block(std::string contents, Compression type, Handle* handle) {
  *handle = {end_, contents.size()};
  contents.push_back(static_cast<char>(type));
  std::uint32_t sum = 0;
  if (!block_checksum(shape_.checksum, Slice(contents.data(), contents.size() - 1), &sum)) {
    return Status::NotSupported("a table with checksums of an unknown type");
  }
  append_fixed(&contents, sum);
  return append(contents.data(), contents.size());
}

void TableWriter::index_last(const Slice& separator, const Slice* next) {
  const Slice user_key = InternalKey::of(separator).user_key;
  if (next != nullptr && user_key == InternalKey::of(*next).user_key) has_tags_ = true;
  if (shape_.version >= 4) {
    index_.add_handle(separator, last_block_);
    if (!has_tags_) index_without_tags_.add_handle(user_key, last_block_);
    return;
  }
  std::string handle;
  append_handle(&handle, last_block_);
  index_.add(separator, handle);
  if (!has_tags_) index_without_tags_.add(user_key, handle);
}

/// Makes an end of what came before, for which its last key stands in the sums.
Status TableWriter::begin_blocks(const SealedBlock& block) {
  if (sums_.blocks == 0) {
    sums_.smallest.assign(block.first_key.data(), block.first_key.size());
    return Status::OK();
  }
  const Slice before = InternalKey::of(sums_.largest).user_key;
  if (before.compare(InternalKey::of(block.first_key).user_key) > 0) {
    return Status::Corruption("blocks that were encoded overlap");
  }
  std::string separator;
  separate(shape_.index_shortening, sums_.largest, block.first_key, &separator);
  index_last(separator, &block.first_key);
  return Status::OK();
}

Result<DataPlace> TableWriter::add(const char* bytes, std::span<const SealedBlock> blocks) {
  if (blocks.empty()) return DataPlace();
  BRECCIA_TRY(begin_blocks(blocks.front()));
  const std::uint64_t begin = blocks.front().info.offset;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SealedBlock& block = blocks[i];
    if (i > 0) index_last(blocks[i - 1].separator, &block.first_key);
    last_block_ = {end_ + block.info.offset - begin, block.info.bytes};
    ++sums_.blocks;
    sums_.entries += block.info.entries;
    sums_.deletions += block.info.deletions;
    sums_.merge_operands += block.info.merge_operands;
    sums_.filter_entries += block.info.filter_entries;
    sums_.key_bytes += block.info.key_bytes;
    sums_.value_bytes += block.info.value_bytes;
    sums_.smallest_sequence = std::min(sums_.smallest_sequence, block.info.smallest_sequence);
    sums_.largest_sequence = std::max(sums_.largest_sequence, block.info.largest_sequence);
  }
  const SealedBlock& last = blocks.back();
  sums_.largest.assign(last.last_key.data(), last.last_key.size());
  const DataPlace place{bytes + begin, last.info.offset + last.info.bytes + kTrailerBytes - begin,
                        end_};
  end_ += place.count;
  sums_.data_bytes = end_;
  return place;
}

void TableWriter::add_range_deletion(const Slice& begin, const Slice& end, std::uint64_t sequence) {
  std::string key(begin.data(), begin.size());
  append_fixed(&key, sequence << 8 | static_cast<std::uint64_t>(EntryType::kRangeDeletion));
  range_deletions_.add(key, end);
  ++sums_.range_deletions;
  ++sums_.deletions;
  ++sums_.entries;
  sums_.key_bytes += key.size();
  sums_.value_bytes += end.size();
}

std::string TableWriter::properties(const TableOrigin& origin, bool has_filter,
                                    std::uint64_t filter_bytes, std::uint64_t index_bytes) const {
  std::map<std::string, std::string> all{
      {"rocksdb.block.based.table.index.type", std::string(4, '\0')},
      {"rocksdb.block.based.table.prefix.filtering", "0"},
      {"rocksdb.block.based.table.whole.key.filtering", shape_.has_whole_keys ? "1" : "0"},
      {"rocksdb.column.family.id", varint(origin.family_id)},
      {"rocksdb.column.family.name", origin.family},
      {"rocksdb.comparator", origin.comparator},
      {"rocksdb.compression", name_in_properties(shape_.compression)},
      {"rocksdb.compression_options", origin.compression_options},
      {"rocksdb.creating.db.identity", origin.database_id},
      {"rocksdb.creating.host.identity", origin.host_id},
      {"rocksdb.creating.session.identity", origin.session_id},
      {"rocksdb.creation.time", varint(origin.creation_time)},
      {"rocksdb.data.size", varint(sums_.data_bytes)},
      {"rocksdb.deleted.keys", varint(sums_.deletions)},
      {"rocksdb.filter.size", varint(filter_bytes)},
      {"rocksdb.fixed.key.length", varint(0)},
      {"rocksdb.format.version", varint(0)},
      {"rocksdb.index.key.is.user.key", varint(has_tags_ ? 0 : 1)},
      {"rocksdb.index.size", varint(index_bytes)},
      {"rocksdb.index.value.is.delta.encoded", varint(shape_.version >= 4 ? 1 : 0)},
      {"rocksdb.merge.operands", varint(sums_.merge_operands)},
      {"rocksdb.merge.operator", origin.merge_operator},
      {"rocksdb.num.data.blocks", varint(sums_.blocks)},
      {"rocksdb.num.entries", varint(sums_.entries)},
      {"rocksdb.num.filter_entries", varint(has_filter ? sums_.filter_entries : 0)},
      {"rocksdb.num.range-deletions", varint(sums_.range_deletions)},
      {"rocksdb.oldest.key.time", varint(origin.oldest_key_time)},
      {"rocksdb.original.file.number", varint(origin.file_number)},
      {"rocksdb.prefix.extractor.name", origin.prefix_extractor},
      {"rocksdb.property.collectors", origin.collectors},
      {"rocksdb.raw.key.size", varint(sums_.key_bytes)},
      {"rocksdb.raw.value.size", varint(sums_.value_bytes)}};
  if (origin.file_creation_time > 0) {
    all["rocksdb.file.creation.time"] = varint(origin.file_creation_time);
  }
  if (has_filter) all["rocksdb.filter.policy"] = origin.filter_policy;
  if (origin.is_external) {
    append_fixed(&all[names::kExternalVersion], kExternalVersion);
    append_fixed(&all[names::kGlobalSequence], std::uint64_t{0});
  }
  BlockBuilder block(/*restarts=*/0);
  for (const auto& [name, value] : all) {
    // RocksDB leaves texts out that say nothing.
    if (!value.empty()) block.add(name, value);
  }
  return block.finish();
}

std::string TableWriter::footer(const Handle& metaindex, const Handle& index) const {
  std::string bytes(1, static_cast<char>(shape_.checksum));
  append_handle(&bytes, metaindex);
  append_handle(&bytes, index);
  bytes.resize(kFooterBytes - sizeof(std::uint32_t) - sizeof kTableMagic);
  append_fixed(&bytes, shape_.version);
  append_fixed(&bytes, kTableMagic);
  return bytes;
}

/// It is compressed as data blocks are; `*bytes` are those before that.
Status TableWriter::write_index(Handle* handle, std::uint64_t* bytes) {
  std::string contents = (has_tags_ ? index_ : index_without_tags_).finish();
  *bytes = contents.size() + kTrailerBytes;
  std::string room;
  const Compression wanted = shape_.has_compressed_index ? shape_.compression : Compression::kNone;
  const Compression type = compress(wanted, contents, &room);
  return write_block(std::move(type == Compression::kNone ? contents : room), type, handle);
}

Result<std::uint64_t> TableWriter::finish(const TableOrigin& origin, const std::string& filter) {
  BRECCIA_ASSERT(sums_.blocks > 0 || sums_.range_deletions > 0);
  if (sums_.blocks > 0) {
    std::string separator;
    succeed(shape_.index_shortening, sums_.largest, &separator);
    index_last(separator, nullptr);
  }
  std::map<std::string, Handle> meta;
  std::uint64_t filter_bytes = 0;
  if (!filter.empty()) {
    BRECCIA_TRY(write_block(filter, &meta["fullfilter.rocksdb.BuiltinBloomFilter"]));
    filter_bytes = filter.size();
  }
  Handle index;
  std::uint64_t index_bytes = 0;
  BRECCIA_TRY(write_index(&index, &index_bytes));
  if (sums_.range_deletions > 0) {
    BRECCIA_TRY(write_block(range_deletions_.finish(), &meta[names::kRangeDeletions]));
  }
  BRECCIA_TRY(write_block(properties(origin, !filter.empty(), filter_bytes, index_bytes),
                          &meta[names::kProperties]));
  BlockBuilder metaindex(/*restarts=*/1);
  for (const auto& [name, handle] : meta) {
    std::string value;
    append_handle(&value, handle);
    metaindex.add(name, value);
  }
  Handle metaindex_at;
  BRECCIA_TRY(write_block(metaindex.finish(), &metaindex_at));
  const std::string end = footer(metaindex_at, index);
  BRECCIA_TRY(append(end.data(), end.size()));
  BRECCIA_TRY(file_->sync());
  return end_;
}

}  // namespace breccia::sst
