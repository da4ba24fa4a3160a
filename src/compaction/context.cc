#include "compaction/context.h"

#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_manager.h>
#include <rocksdb/table_properties.h>
#include <rocksdb/utilities/options_util.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "sst/session.h"
#include "sst/table.h"
#include "tree/whole_page_env.h"

namespace breccia::compaction {

namespace {

using rocksdb::LiveFileMetaData;

constexpr std::uint32_t kDefaultFamily = 0;
constexpr const char* kBytewise = "leveldb.BytewiseComparator";
constexpr const char* kNull = "nullptr";
constexpr const char* kDefaultLevel = "32767";

// ---- words of option strings -------------------------------------------------------------------

std::string_view word_of(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

bool is(const Fields& fields, std::string_view name, std::string_view word) {
  return fields.find(name) != fields.end() && word_of(fields, name) == word;
}

/// The name of an object, which may stand in braces with its options.
std::string object_name(const Fields& fields, std::string_view name) {
  const std::string_view word = word_of(fields, name);
  if (!word.starts_with('{')) return std::string(word);
  const auto nested = read_nested(word);
  return nested.ok() ? std::string(word_of(nested.value(), "id")) : std::string();
}

// ---- paths -------------------------------------------------------------------------------------

std::string_view trimmed(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool is_only(const std::vector<rocksdb::DbPath>& paths, const std::string& database) {
  return paths.empty() || (paths.size() == 1 && trimmed(paths[0].path) == trimmed(database));
}

// ---- facts -------------------------------------------------------------------------------------

bool is_known_release() {
  const std::string release = rocksdb::GetRocksVersionAsString(false);
  return release == "7.8" || release == "7.9";
}

/// What the family's options say; a word that is missing says no.
void add_family_facts(const Fields& options, Facts* facts) {
  facts->has_plain_style = is(options, "compaction_style", "kCompactionStyleLevel") ||
                           is(options, "compaction_style", "kCompactionStyleUniversal");
  facts->has_plain_comparator = is(options, "comparator", kBytewise);
  facts->has_filter =
      !is(options, "compaction_filter", kNull) || !is(options, "compaction_filter_factory", kNull);
  facts->has_partitioner = !is(options, "sst_partitioner_factory", kNull);
  facts->has_prefix_extractor = !is(options, "prefix_extractor", kNull);
  facts->has_blobs = !is(options, "enable_blob_files", "false");
  facts->has_paranoid_checks = !is(options, "paranoid_file_checks", "false");
  facts->has_tiers = !is(options, "preserve_internal_time_seconds", "0") ||
                     !is(options, "preclude_last_level_data_seconds", "0") ||
                     !is(options, "last_level_temperature", "kUnknown");
}

void add_database_facts(const Begun& begun, const ServiceJob& job, const Declared& declared,
                        Facts* facts) {
  rocksdb::DB& database = *begun.database;
  rocksdb::DBOptions options = database.GetDBOptions();
  facts->has_file_checksums = !is(job.database_options, "file_checksum_gen_factory", kNull) ||
                              options.file_checksum_gen_factory != nullptr;
  facts->has_several_paths = !is_only(options.db_paths, database.GetName());
  facts->has_plain_env = tree::is_system_env(database.GetEnv());
  facts->has_rate_limiter = options.rate_limiter != nullptr;
  // RocksDB makes a manager without limits where a user has none, and none says what its limit is.
  rocksdb::SstFileManager* const manager = options.sst_file_manager.get();
  facts->has_file_limits =
      declared.has_file_manager ||
      (manager != nullptr && (manager->GetDeleteRateBytesPerSecond() > 0 ||
                              manager->IsMaxAllowedSpaceReachedIncludingCompactions()));
  facts->has_handoff = options.checksum_handoff_file_types.Contains(rocksdb::FileType::kTableFile);
  facts->has_two_phase_commit =
      !is(job.database_options, "allow_2pc", "false") && !declared.has_only_committed;
  facts->has_ingest_behind = !is(job.database_options, "allow_ingest_behind", "false");
}

bool is_plain_compression(const std::string& name) {
  return name == "NoCompression" || name == "Snappy" || name == "LZ4" || name == "ZSTD";
}

/// How blocks are compressed: as the family's options say, or those for the bottom.
Fields compression_options(const Fields& family, bool is_bottommost) {
  if (is_bottommost) {
    auto bottom = read_nested(word_of(family, "bottommost_compression_opts"));
    if (bottom.ok() && is(bottom.value(), "enabled", "true")) return bottom.take();
  }
  auto options = read_nested(word_of(family, "compression_opts"));
  return options.ok() ? options.take() : Fields();
}

void add_compression_facts(const Fields& family, rocksdb::CompressionType type, bool is_bottommost,
                           Facts* facts) {
  facts->has_plain_compression = sst::compression_of(type).has_value();
  // Which of both count is RocksDB's to say, if it thinks otherwise of what is the bottom.
  for (const bool bottom : {false, is_bottommost}) {
    if (type == rocksdb::kNoCompression) return;
    const Fields options = compression_options(family, bottom);
    facts->has_dictionary |= !is(options, "max_dict_bytes", "0");
    facts->has_compression_level |=
        type != rocksdb::kSnappyCompression && !is(options, "level", kDefaultLevel);
  }
}

/// The property in which RocksDB keeps them.
std::string compression_text(const Fields& options) {
  std::string text;
  for (const char* const name :
       {"window_bits", "level", "strategy", "max_dict_bytes", "zstd_max_train_bytes", "enabled",
        "max_dict_buffer_bytes", "use_zstd_dict_trainer"}) {
    std::string_view word = word_of(options, name);
    if (word == "true") word = "1";
    if (word == "false") word = "0";
    text += fmt::format("{}={}; ", name, word);
  }
  return text;
}

bool has_property(const rocksdb::TableProperties& properties, const char* name) {
  return properties.user_collected_properties.contains(name);
}

bool has_plain_index(const rocksdb::TableProperties& properties) {
  const auto found = properties.user_collected_properties.find(sst::names::kIndexType);
  return found == properties.user_collected_properties.end() ||
         found->second == std::string_view("\0\0\0\0", 4);
}

InputFacts facts_of(const LiveFileMetaData& file, const rocksdb::TableProperties* properties) {
  InputFacts facts;
  facts.has_blobs = file.oldest_blob_file_number != 0;
  facts.has_temperature = file.temperature != rocksdb::Temperature::kUnknown;
  facts.has_properties = properties != nullptr;
  if (properties == nullptr) return facts;
  facts.merge_operands = properties->num_merge_operands;
  facts.range_deletions = properties->num_range_deletions;
  facts.has_plain_compression = is_plain_compression(properties->compression_name);
  facts.has_plain_index = has_plain_index(*properties);
  const bool is_ingested = has_property(*properties, sst::names::kExternalVersion);
  // The writer of files that are ingested is a collector, too.
  const std::string& collectors = properties->property_collectors_names;
  facts.has_collectors = !collectors.empty() && collectors != "[]" &&
                         !(is_ingested && collectors == "[SstFileWriterCollector]");
  facts.has_one_sequence = !is_ingested || file.smallest_seqno == file.largest_seqno;
  return facts;
}

// ---- what goes where ---------------------------------------------------------------------------

bool overlaps(const LiveFileMetaData& file, const KeyRange& range) {
  return file.smallestkey <= range.largest && file.largestkey >= range.smallest;
}

/// What all inputs hold, from the smallest key to the largest.
std::optional<KeyRange> range_of(const LiveFiles& files, const FileNumbers& inputs) {
  std::optional<KeyRange> range;
  for (const LiveFileMetaData& file : files) {
    if (!inputs.contains(file.file_number)) continue;
    if (!range) range = KeyRange{file.smallestkey, file.largestkey};
    range->smallest = std::min(range->smallest, file.smallestkey);
    range->largest = std::max(range->largest, file.largestkey);
  }
  return range;
}

/// Sorted; those that meet are one.
std::vector<KeyRange> joined(std::vector<KeyRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const KeyRange& a, const KeyRange& b) { return a.smallest < b.smallest; });
  std::vector<KeyRange> joined;
  for (KeyRange& range : ranges) {
    if (joined.empty() || range.smallest > joined.back().largest) {
      joined.push_back(std::move(range));
    } else if (range.largest > joined.back().largest) {
      joined.back().largest = std::move(range.largest);
    }
  }
  return joined;
}

/// Whether RocksDB wants writers to wait until compactions are further.
bool slows_writers(rocksdb::DB& database) {
  std::uint64_t is_stopped = 0;
  std::uint64_t delayed_to = 0;
  (void)database.GetIntProperty(rocksdb::DB::Properties::kIsWriteStopped, &is_stopped);
  (void)database.GetIntProperty(rocksdb::DB::Properties::kActualDelayedWriteRate, &delayed_to);
  return is_stopped != 0 || delayed_to != 0;
}

LiveFiles files_of(rocksdb::DB& database, const std::string& family) {
  LiveFiles all;
  database.GetLiveFilesMetaData(&all);
  LiveFiles files;
  for (LiveFileMetaData& file : all) {
    if (file.column_family_name == family) files.push_back(std::move(file));
  }
  return files;
}

/// Whether the job's files are those of the event.
bool is_of_event(const ServiceJob& job, const rocksdb::CompactionJobInfo& info) {
  std::vector<std::string_view> named(job.inputs.begin(), job.inputs.end());
  std::vector<std::string_view> told;
  for (const std::string& path : info.input_files) {
    told.push_back(std::string_view(path).substr(path.rfind('/') + 1));
  }
  std::sort(named.begin(), named.end());
  std::sort(told.begin(), told.end());
  return named == told && job.family == info.cf_name && job.output_level == info.output_level;
}

}  // namespace

// ---- tables ------------------------------------------------------------------------------------

sst::TableChoice TableChoices::find(const std::string& database, const std::string& family) {
  sst::TableChoice unknown;
  unknown.facts.is_known = false;
  rocksdb::Env* const env = rocksdb::Env::Default();
  std::string file;
  if (!rocksdb::GetLatestOptionsFileName(database, env, &file).ok()) return unknown;
  const std::lock_guard lock(mutex_);
  Known& known = databases_[database];
  if (known.file != file) {
    rocksdb::DBOptions options;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    known.families.clear();
    known.file.clear();
    const rocksdb::ConfigOptions how;
    if (!rocksdb::LoadOptionsFromFile(how, database + "/" + file, &options, &families).ok()) {
      return unknown;
    }
    for (const auto& [name, of_family] : families) {
      known.families[name] = sst::choice_of(of_family.table_factory.get());
    }
    known.file = file;
  }
  const auto found = known.families.find(family);
  return found == known.families.end() ? unknown : found->second;
}

void TableChoices::forget(const std::string& database) {
  const std::lock_guard lock(mutex_);
  databases_.erase(database);
}

// ---- the inputs and what lies below them -------------------------------------------------------

std::vector<InputRun> runs_of(const LiveFiles& files, const FileNumbers& inputs,
                              const FileNumbers& ingested) {
  std::vector<InputRun> runs;
  int last_level = 0;
  for (const LiveFileMetaData& file : files) {
    if (!inputs.contains(file.file_number)) continue;
    if (runs.empty() || file.level == 0 || file.level != last_level) runs.emplace_back();
    last_level = file.level;
    InputFile input;
    input.path = file.directory + "/" + file.relative_filename;
    if (ingested.contains(file.file_number)) input.sequence = file.largest_seqno;
    runs.back().push_back(std::move(input));
  }
  return runs;
}

MergeRules rules_of(const LiveFiles& files, const FileNumbers& inputs, int output_level,
                    bool is_level_style) {
  MergeRules rules;
  const std::optional<KeyRange> range = range_of(files, inputs);
  if (!range) return rules;
  std::vector<KeyRange> deeper;
  std::optional<int> start_level;
  for (const LiveFileMetaData& file : files) {
    if (inputs.contains(file.file_number)) {
      if (!start_level) start_level = file.level;
      continue;
    }
    // What stands before the newest input is newer. Others of its level hold none of its keys, and
    // newer versions of what comes from below; but in level 0 they may be older, if that is where
    // the outputs go.
    if (!start_level) continue;
    if (file.level == *start_level && (file.level > 0 || output_level > 0)) continue;
    // Within level 0 files are ordered by their sequence numbers: zeros of a file that is not the
    // oldest would be out of order, whatever keys the older ones have.
    if (output_level == 0 || overlaps(file, *range)) {
      deeper.push_back({file.smallestkey, file.largestkey});
    }
  }
  rules.is_bottommost = deeper.empty();
  rules.drops_deletions = is_level_style && output_level > 0;
  rules.deeper = joined(std::move(deeper));
  return rules;
}

std::uint64_t file_bytes_of(const LiveFiles& files, int output_level,
                            const Fields& family_options) {
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kDefaultBytes = 64ULL << 20;
  if (output_level == 0) return kUnlimited;
  std::uint64_t bytes = kDefaultBytes;
  std::uint64_t factor = 1;
  (void)read_word(word_of(family_options, "target_file_size_base"), &bytes);
  (void)read_word(word_of(family_options, "target_file_size_multiplier"), &factor);
  bytes = std::max<std::uint64_t>(bytes, 1);
  int base_level = 1;
  if (is(family_options, "level_compaction_dynamic_level_bytes", "true") &&
      is(family_options, "compaction_style", "kCompactionStyleLevel")) {
    base_level = output_level;
    for (const LiveFileMetaData& file : files) {
      if (file.level > 0) base_level = std::min(base_level, file.level);
    }
  }
  for (int level = base_level; level < output_level && factor > 1; ++level) {
    if (bytes > kUnlimited / factor) return kUnlimited;
    bytes *= factor;
  }
  return bytes;
}

// ---- all of it ---------------------------------------------------------------------------------

namespace {

/// Which files are inputs, and which of those were ingested.
struct InputNumbers {
  FileNumbers all;
  FileNumbers ingested;
};

InputNumbers add_inputs(const Begun& begun, const LiveFiles& files, int output_level,
                        Context* context) {
  InputNumbers inputs;
  for (const auto& info : begun.info.input_file_infos) inputs.all.insert(info.file_number);
  for (const LiveFileMetaData& file : files) {
    if (!inputs.all.contains(file.file_number)) continue;
    const std::string path = file.directory + "/" + file.relative_filename;
    const auto found = begun.info.table_properties.find(path);
    const rocksdb::TableProperties* const properties =
        found == begun.info.table_properties.end() ? nullptr : found->second.get();
    context->facts.inputs.push_back(facts_of(file, properties));
    context->size.bytes += file.size;
    context->size.files += 1;
    context->inputs_at_output_level += file.level == output_level ? 1 : 0;
    if (properties == nullptr) continue;
    context->size.entries += properties->num_entries;
    if (has_property(*properties, sst::names::kExternalVersion)) {
      inputs.ingested.insert(file.file_number);
    }
  }
  if (context->facts.inputs.size() != inputs.all.size()) {
    context->facts.inputs.push_back({.is_live = false});
  }
  return inputs;
}

sst::TableOrigin origin_of(const Begun& begun, const ServiceJob& job) {
  sst::TableOrigin origin;
  const std::string merge_operator = object_name(job.family_options, "merge_operator");
  if (!merge_operator.empty()) origin.merge_operator = merge_operator;
  origin.family = job.family;
  origin.family_id = begun.info.cf_id;
  origin.database_id = job.database_id;
  origin.host_id = sst::host_id(begun.database->GetDBOptions());
  return origin;
}

}  // namespace

Context gather(const Begun& begun, const ServiceJob& job, const Declared& declared,
               TableChoices* choices) {
  Context context;
  Facts& facts = context.facts;
  rocksdb::DB& database = *begun.database;
  facts.is_known_release = is_known_release();
  facts.is_what_event_said = is_of_event(job, begun.info);
  add_family_facts(job.family_options, &facts);
  add_database_facts(begun, job, declared, &facts);
  const LiveFiles files = files_of(database, job.family);
  for (const LiveFileMetaData& file : files) {
    facts.has_several_paths |= trimmed(file.directory) != trimmed(database.GetName());
  }
  sst::TableChoice choice;
  if (begun.info.cf_id == kDefaultFamily) {
    const rocksdb::Options options = database.GetOptions();
    facts.has_several_paths |= !is_only(options.cf_paths, database.GetName());
    facts.has_collectors = !options.table_properties_collector_factories.empty();
    facts.has_plain_comparator &= options.comparator->timestamp_size() == 0;
    choice = sst::choice_of(options.table_factory.get());
  } else {
    choice = choices->find(database.GetName(), job.family);
  }
  const bool keeps_bottom_filters = is(job.family_options, "optimize_filters_for_hits", "false");
  facts.table = choice.facts;
  if (!is(job.family_options, "table_factory", rocksdb::TableFactory::kBlockBasedTableName())) {
    facts.table.is_block_based = false;
  }
  const InputNumbers inputs = add_inputs(begun, files, job.output_level, &context);
  MergeJob& merge = context.job;
  merge.runs = runs_of(files, inputs.all, inputs.ingested);
  merge.begin = job.begin;
  merge.end = job.end;
  merge.rules = rules_of(files, inputs.all, job.output_level,
                         is(job.family_options, "compaction_style", "kCompactionStyleLevel"));
  merge.rules.snapshots = job.snapshots;
  const rocksdb::CompressionType type = begun.info.compression;
  add_compression_facts(job.family_options, type, merge.rules.is_bottommost, &facts);
  merge.shape = choice.shape;
  merge.shape.compression = sst::compression_of(type).value_or(sst::Compression::kNone);
  merge.origin = origin_of(begun, job);
  merge.origin.filter_policy = choice.filter_policy;
  if (!keeps_bottom_filters && merge.rules.is_bottommost) {
    merge.shape.filter_millibits = 0;
    merge.origin.filter_policy.clear();
  }
  merge.origin.compression_options =
      compression_text(compression_options(job.family_options, merge.rules.is_bottommost));
  merge.by_whole_pages = tree::is_whole_page_env(database.GetEnv());
  merge.is_urgent = [&database] { return slows_writers(database); };
  merge.file_bytes = file_bytes_of(files, job.output_level, job.family_options);
  return context;
}

}  // namespace breccia::compaction
