#include "compaction/eligible.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace breccia::compaction {

namespace {

struct Row {
  bool (*is)(const Facts& facts);
  const char* why;
};

template <class Is>
bool any(const Facts& facts, const Is& is) {
  return std::any_of(facts.inputs.begin(), facts.inputs.end(), is);
}

// The first row that is true speaks, so what is needed to know of others comes first.
constexpr Row kRows[] = {
    {[](const Facts& f) { return !f.is_known_release; }, "another release of RocksDB"},
    {[](const Facts& f) { return !f.has_context; }, "no event told of the job"},
    {[](const Facts& f) { return !f.is_well_formed; }, "the job's text is not understood"},
    {[](const Facts& f) { return !f.is_what_event_said; }, "the event told of another job"},
    {[](const Facts& f) { return !f.has_plain_style; }, "FIFO style"},
    {[](const Facts& f) { return !f.has_plain_comparator; }, "another comparator"},
    {[](const Facts& f) { return f.has_filter; }, "a compaction filter"},
    {[](const Facts& f) { return f.has_partitioner; }, "an SST partitioner"},
    {[](const Facts& f) { return f.has_prefix_extractor; }, "a prefix extractor"},
    {[](const Facts& f) { return f.has_blobs; }, "blob files"},
    {[](const Facts& f) { return f.has_paranoid_checks; }, "paranoid file checks"},
    {[](const Facts& f) { return f.has_tiers; }, "tiered storage"},
    {[](const Facts& f) { return f.has_file_checksums; }, "file checksums"},
    {[](const Facts& f) { return f.has_several_paths; }, "other or several paths"},
    {[](const Facts& f) { return !f.has_plain_env; }, "an Env of its own"},
    {[](const Facts& f) { return f.has_rate_limiter; }, "a rate limiter"},
    {[](const Facts& f) { return f.has_file_limits; }, "an SstFileManager"},
    {[](const Facts& f) { return f.has_handoff; }, "checksum handoff"},
    {[](const Facts& f) { return f.has_collectors; }, "collectors of properties"},
    {[](const Facts& f) { return f.has_two_phase_commit; }, "transactions"},
    {[](const Facts& f) { return f.has_ingest_behind; }, "files may be ingested behind"},
    {[](const Facts& f) { return !f.table.is_known; }, "the family's table options are not known"},
    {[](const Facts& f) { return !f.table.is_block_based; }, "another table format"},
    {[](const Facts& f) { return !f.table.has_plain_index; }, "another index type"},
    {[](const Facts& f) { return !f.table.has_plain_filter; }, "another filter"},
    {[](const Facts& f) { return !f.table.has_plain_version; }, "another format version"},
    {[](const Facts& f) { return !f.table.has_plain_checksum; }, "another checksum"},
    {[](const Facts& f) { return !f.table.has_plain_blocks; }, "blocks cut otherwise"},
    {[](const Facts& f) { return !f.table.has_short_keys; }, "keys that are stored whole"},
    {[](const Facts& f) { return !f.table.is_written_blindly; },
     "blocks or filters that are checked as they are made"},
    {[](const Facts& f) { return !f.has_plain_compression; }, "another compression"},
    {[](const Facts& f) { return f.has_dictionary; }, "a compression dictionary"},
    {[](const Facts& f) { return f.has_compression_level; }, "a compression level"},
    {[](const Facts& f) { return f.inputs.empty() || any(f, [](auto& i) { return !i.is_live; }); },
     "an input is not known"},
    {[](const Facts& f) { return any(f, [](auto& i) { return !i.has_properties; }); },
     "an input without properties"},
    {[](const Facts& f) { return any(f, [](auto& i) { return i.merge_operands > 0; }); },
     "merge operands"},
    {[](const Facts& f) { return any(f, [](auto& i) { return i.range_deletions > 0; }); },
     "range deletions"},
    {[](const Facts& f) { return any(f, [](auto& i) { return i.has_blobs; }); },
     "an input with blobs"},
    {[](const Facts& f) { return any(f, [](auto& i) { return !i.has_plain_compression; }); },
     "another compression of an input"},
    {[](const Facts& f) { return any(f, [](auto& i) { return !i.has_plain_index; }); },
     "another index type of an input"},
    {[](const Facts& f) { return any(f, [](auto& i) { return i.has_collectors; }); },
     "an input with collected properties"},
    {[](const Facts& f) { return any(f, [](auto& i) { return i.has_temperature; }); },
     "an input with a temperature"},
    {[](const Facts& f) { return any(f, [](auto& i) { return !i.has_one_sequence; }); },
     "an ingested input with several sequence numbers"},
};

constexpr auto kReasons = [] {
  std::array<const char*, std::size(kRows)> reasons{};
  for (std::size_t i = 0; i < reasons.size(); ++i) reasons[i] = kRows[i].why;
  return reasons;
}();

}  // namespace

const char* why_not(const Facts& facts) {
  for (const Row& row : kRows) {
    if (row.is(facts)) return row.why;
  }
  return nullptr;
}

std::span<const char* const> reasons() { return kReasons; }

}  // namespace breccia::compaction
