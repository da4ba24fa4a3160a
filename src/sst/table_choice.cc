#include "sst/table_choice.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/flush_block_policy.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

namespace breccia::sst {

using rocksdb::BlockBasedTableOptions;

namespace {

IndexShortening shortening_of(BlockBasedTableOptions::IndexShorteningMode mode) {
  using Mode = BlockBasedTableOptions::IndexShorteningMode;
  switch (mode) {
    case Mode::kNoShortening:
      return IndexShortening::kNone;
    case Mode::kShortenSeparators:
      return IndexShortening::kSeparators;
    case Mode::kShortenSeparatorsAndSuccessor:
      return IndexShortening::kSeparatorsAndSuccessor;
  }
  return IndexShortening::kSeparators;
}

}  // namespace

bool bloom_millibits(const std::string& id, std::uint32_t* millibits) {
  constexpr std::string_view kBefore = "bloomfilter:";
  constexpr std::string_view kBehind = ":false";
  constexpr double kBitsMax = 100;
  if (!id.starts_with(kBefore) || !id.ends_with(kBehind)) return false;
  if (id.size() <= kBefore.size() + kBehind.size()) return false;
  const std::string_view text =
      std::string_view(id).substr(kBefore.size(), id.size() - kBefore.size() - kBehind.size());
  double bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(bits)) {
    return false;
  }
  // RocksDB's rounding: less than half a bit is no filter, less than one is one.
  *millibits = bits < 0.5
                   ? 0
                   : static_cast<std::uint32_t>(std::clamp(bits, 1.0, kBitsMax) * 1000 + 0.500001);
  return true;
}

TableChoice choice_of(const rocksdb::TableFactory* factory) {
  TableChoice choice;
  choice.facts.is_known = factory != nullptr;
  if (factory == nullptr) return choice;
  const auto* const options = factory->GetOptions<BlockBasedTableOptions>();
  choice.facts.is_block_based =
      options != nullptr &&
      std::string_view(factory->Name()) == rocksdb::TableFactory::kBlockBasedTableName();
  if (!choice.facts.is_block_based) return choice;
  TableFacts& facts = choice.facts;
  TableShape& shape = choice.shape;
  facts.has_plain_index = options->index_type == BlockBasedTableOptions::kBinarySearch;
  facts.is_written_blindly =
      !options->verify_compression && !options->detect_filter_construct_corruption;
  facts.has_plain_version =
      options->format_version >= kVersionMin && options->format_version <= kVersionMax;
  facts.has_plain_checksum =
      options->checksum == rocksdb::kXXH3 || options->checksum == rocksdb::kCRC32c;
  const auto* const cut = options->flush_block_policy_factory.get();
  facts.has_plain_blocks =
      !options->block_align &&
      options->data_block_index_type == BlockBasedTableOptions::kDataBlockBinarySearch &&
      options->block_size > 0 && options->block_restart_interval > 0 &&
      options->index_block_restart_interval > 0 &&
      (cut == nullptr || std::string_view(cut->Name()) == "FlushBlockBySizePolicyFactory");
  facts.has_short_keys = options->use_delta_encoding;
  shape.version = options->format_version;
  shape.checksum =
      options->checksum == rocksdb::kCRC32c ? ChecksumType::kCrc32c : ChecksumType::kXxh3;
  shape.block_bytes = options->block_size;
  shape.block_deviation =
      static_cast<std::uint32_t>(std::clamp(options->block_size_deviation, 0, 100));
  // RocksDB takes a deviation of more than that for none.
  if (options->block_size_deviation < 0 || options->block_size_deviation > 100) {
    shape.block_deviation = 0;
  }
  shape.restarts = static_cast<std::uint32_t>(options->block_restart_interval);
  shape.index_restarts = static_cast<std::uint32_t>(options->index_block_restart_interval);
  shape.index_shortening = shortening_of(options->index_shortening);
  shape.has_compressed_index = options->enable_index_compression;
  shape.has_whole_keys = options->whole_key_filtering;
  shape.filter_millibits = 0;
  if (options->filter_policy == nullptr) return choice;
  facts.has_plain_filter =
      !options->partition_filters && !options->optimize_filters_for_memory &&
      bloom_millibits(options->filter_policy->GetId(), &shape.filter_millibits);
  // There are no prefixes that it could hold.
  if (!shape.has_whole_keys) shape.filter_millibits = 0;
  // Before version 5 RocksDB writes another.
  if (shape.version < kVersionMax && shape.filter_millibits > 0) {
    facts.has_plain_filter = false;
  }
  if (shape.filter_millibits > 0) choice.filter_policy = options->filter_policy->Name();
  return choice;
}

std::optional<Compression> compression_of(rocksdb::CompressionType type) {
  switch (type) {
    case rocksdb::kNoCompression:
      return Compression::kNone;
    case rocksdb::kSnappyCompression:
      return Compression::kSnappy;
    case rocksdb::kLZ4Compression:
      return Compression::kLz4;
    case rocksdb::kZSTD:
      return Compression::kZstd;
    default:
      return std::nullopt;
  }
}

}  // namespace breccia::sst
