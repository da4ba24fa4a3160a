#include "compaction/job.h"

#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace breccia::compaction {

namespace {

constexpr std::size_t kSessionDigits = 20;
constexpr std::size_t kSessionHighDigits = 8;

Status wrong(const char* name) { return Status::Corruption("a compaction's job: no", name); }

/// The field of that name; null if there is none.
const std::string* find(const Fields& fields, const char* name) {
  const auto found = fields.find(name);
  return found == fields.end() ? nullptr : &found->second;
}

template <class Word>
Status take_word(const Fields& fields, const char* name, Word* value) {
  const std::string* const text = find(fields, name);
  return text != nullptr && read_word(*text, value) ? Status::OK() : wrong(name);
}

Status take_hex(const Fields& fields, const char* name, std::string* bytes) {
  const std::string* const text = find(fields, name);
  return text != nullptr && read_hex(*text, bytes) ? Status::OK() : wrong(name);
}

Status take_nested(const Fields& fields, const char* name, Fields* nested) {
  const std::string* const text = find(fields, name);
  if (text == nullptr) return wrong(name);
  BRECCIA_TAKE(*nested, read_nested(*text));
  return Status::OK();
}

Status take_list(const Fields& fields, const char* name, std::vector<std::string>* items) {
  const std::string* const text = find(fields, name);
  if (text == nullptr) return wrong(name);
  BRECCIA_TAKE(*items, read_list(*text));
  return Status::OK();
}

Status take_bound(const Fields& fields, const char* name, const char* has_name,
                  std::optional<std::string>* bound) {
  bool has = false;
  BRECCIA_TRY(take_word(fields, has_name, &has));
  if (has) BRECCIA_TRY(take_hex(fields, name, &bound->emplace()));
  return Status::OK();
}

Status take_snapshots(const Fields& fields, std::vector<std::uint64_t>* snapshots) {
  std::vector<std::string> items;
  BRECCIA_TRY(take_list(fields, "snapshots", &items));
  for (const std::string& item : items) {
    if (!read_word(item, &snapshots->emplace_back())) return wrong("snapshots");
  }
  return std::is_sorted(snapshots->begin(), snapshots->end()) ? Status::OK() : wrong("snapshots");
}

Status take_inputs(const Fields& fields, std::vector<std::string>* inputs) {
  std::vector<std::string> items;
  BRECCIA_TRY(take_list(fields, "input_files", &items));
  for (const std::string& item : items) {
    if (!read_hex(item, &inputs->emplace_back())) return wrong("input_files");
  }
  return inputs->empty() ? wrong("input_files") : Status::OK();
}

std::uint64_t base36(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    value = 36 * value + static_cast<std::uint64_t>(c >= 'A' ? c - 'A' + 10 : c - '0');
  }
  return value;
}

bool is_session(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
  return text.size() == kSessionDigits && std::all_of(text.begin(), text.end(), is_digit);
}

/// RocksDB wants each of these fields.
FieldWriter file_fields(const MergedFile& file, const OutcomeFacts& facts) {
  FieldWriter fields;
  fields.add_hex("file_name", file.name);
  fields.add("smallest_seqno", file.smallest_sequence);
  fields.add("largest_seqno", file.largest_sequence);
  fields.add_hex("smallest_internal_key", file.smallest);
  fields.add_hex("largest_internal_key", file.largest);
  fields.add("oldest_ancester_time", file.creation_time);
  fields.add("file_creation_time", file.file_creation_time);
  fields.add("paranoid_hash", 0);
  fields.add("marked_for_compaction", false);
  const auto id = unique_id(facts.database_id, facts.session_id, file.number);
  fields.add_plain("unique_id", std::to_string(id[0]) + ":" + std::to_string(id[1]));
  return fields;
}

std::uint64_t less_or_none(std::uint64_t all, std::uint64_t part) {
  return all > part ? all - part : 0;
}

FieldWriter stats_fields(const Merged& merged, const OutcomeFacts& facts) {
  const MergeCounts& counts = merged.counts;
  const std::uint64_t expired = less_or_none(counts.deletions_read, counts.deletions_written);
  const std::uint64_t dropped = less_or_none(counts.entries_read, counts.entries_written);
  FieldWriter fields;
  fields.add("elapsed_micros", facts.elapsed_micros);
  fields.add("cpu_micros", facts.cpu_micros);
  fields.add("num_input_records", counts.entries_read);
  fields.add("num_input_files", facts.input_files);
  fields.add("num_input_files_at_output_level", facts.input_files_at_output_level);
  fields.add("num_output_records", counts.entries_written);
  fields.add("num_output_files", merged.files.size());
  fields.add("is_manual_compaction", facts.is_manual);
  fields.add("total_input_bytes", counts.bytes_read);
  fields.add("total_output_bytes", counts.bytes_written);
  fields.add("num_records_replaced", less_or_none(dropped, expired));
  fields.add("total_input_raw_key_bytes", counts.key_bytes_read);
  fields.add("total_input_raw_value_bytes", counts.value_bytes_read);
  fields.add("num_input_deletion_records", counts.deletions_read);
  fields.add("num_expired_deletion_records", expired);
  return fields;
}

}  // namespace

Result<ServiceJob> read_job(std::string_view text) {
  BRECCIA_TAKE(const std::string_view body, unframed(text));
  BRECCIA_TAKE(const Fields fields, read_fields(body));
  ServiceJob job;
  Fields family;
  BRECCIA_TRY(take_nested(fields, "column_family", &family));
  BRECCIA_TRY(take_hex(family, "name", &job.family));
  BRECCIA_TRY(take_nested(family, "options", &job.family_options));
  BRECCIA_TRY(take_nested(fields, "db_options", &job.database_options));
  BRECCIA_TRY(take_snapshots(fields, &job.snapshots));
  BRECCIA_TRY(take_inputs(fields, &job.inputs));
  std::int64_t level = 0;
  BRECCIA_TRY(take_word(fields, "output_level", &level));
  if (level < 0 || level > std::numeric_limits<int>::max()) return wrong("output_level");
  job.output_level = static_cast<int>(level);
  BRECCIA_TRY(take_hex(fields, "db_id", &job.database_id));
  BRECCIA_TRY(take_bound(fields, "begin", "has_begin", &job.begin));
  BRECCIA_TRY(take_bound(fields, "end", "has_end", &job.end));
  return job;
}

std::array<std::uint64_t, 2> unique_id(const std::string& database_id, std::string_view session_id,
                                       std::uint64_t file_number) {
  if (database_id.empty() || !is_session(session_id) || file_number == 0) return {0, 0};
  const std::uint64_t high = base36(session_id.substr(0, kSessionHighDigits));
  const std::uint64_t low = base36(session_id.substr(kSessionHighDigits));
  const std::uint64_t session_low = (low & (~std::uint64_t{0} >> 2)) | high << 62;
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(database_id.data(), database_id.size(), high >> 2);
  return {session_low, hash.high64 ^ file_number};
}

std::string write_outcome(const Merged& merged, const OutcomeFacts& facts) {
  FieldWriter status;
  status.add("code", 0);
  status.add("subcode", 0);
  status.add("severity", 0);
  status.add_plain("message", "");
  std::vector<FieldWriter> files;
  files.reserve(merged.files.size());
  for (const MergedFile& file : merged.files) files.push_back(file_fields(file, facts));
  FieldWriter fields;
  fields.add_nested("status", status);
  fields.add_nested_list("output_files", files);
  fields.add("output_level", facts.output_level);
  fields.add_hex("output_path", facts.folder);
  fields.add("num_output_records", merged.counts.entries_written);
  fields.add("total_bytes", merged.counts.bytes_written);
  fields.add("bytes_read", merged.counts.bytes_read);
  fields.add("bytes_written", merged.counts.bytes_written);
  fields.add_nested("stats", stats_fields(merged, facts));
  return fields.framed();
}

}  // namespace breccia::compaction
