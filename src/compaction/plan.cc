#include "compaction/plan.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/memory.h"

namespace breccia::compaction {

namespace {

/// Bytes of a slice: on the host what caches hold, on a device enough for all of its lanes.
constexpr std::uint64_t kHostSliceBytes = 4ULL << 20;
constexpr std::uint64_t kDeviceSliceBytes = 32ULL << 20;
/// Slices under way at once on a device: some are read, come, are worked on, go, and are written.
constexpr std::size_t kDeviceSlices = 12;

/// Places at which a slice may end are looked at that often in each.
constexpr std::uint64_t kSamplesPerSlice = 64;

/// The least key that is greater.
std::string next_key(const rocksdb::Slice& key) {
  std::string next = key.ToString();
  next.push_back('\0');
  return next;
}

Status check_table(const sst::Table& table) {
  if (table.range_deletions().has_value()) {
    return Status::NotSupported("a table with range deletions");
  }
  if (table.meta_blocks().count(sst::names::kDictionary) > 0) {
    return Status::NotSupported("a table with a dictionary");
  }
  return Status::OK();
}

/// What compression and shared prefixes save comes back when a table is decoded.
double growth_of(const sst::Table& table) {
  constexpr double kMost = 4096;  // properties may say anything
  const double raw = static_cast<double>(table.number("rocksdb.raw.key.size").value_or(0)) +
                     static_cast<double>(table.number("rocksdb.raw.value.size").value_or(0));
  const double stored = static_cast<double>(table.number("rocksdb.data.size").value_or(0));
  return stored > 0 ? std::clamp(raw / stored, 1.0, kMost) : 1;
}

void note_counts(const sst::Table& table, Inputs* inputs) {
  const auto add = [&](const char* name, std::uint64_t* to) {
    const auto number = table.number(name);
    *to += number.value_or(0);
    return number.has_value();
  };
  MergeCounts& counts = inputs->counts;
  inputs->has_counts = add("rocksdb.num.entries", &counts.entries_read) && inputs->has_counts;
  add("rocksdb.deleted.keys", &counts.deletions_read);
  add("rocksdb.raw.key.size", &counts.key_bytes_read);
  add("rocksdb.raw.value.size", &counts.value_bytes_read);
  const std::uint64_t created = table.number("rocksdb.creation.time").value_or(0);
  if (created == 0) return;
  std::uint64_t& oldest = inputs->creation_time;
  oldest = oldest == 0 ? created : std::min(oldest, created);
}

Status open_file(const InputFile& input, Inputs* inputs, Inputs::File* file) {
  BRECCIA_TAKE(file->table, sst::Table::open(input.path));
  const sst::Table& table = *file->table;
  BRECCIA_TRY(check_table(table));
  const auto compression = table.properties().find("rocksdb.compression");
  const bool is_plain = compression != table.properties().end() &&
                        compression->second == "NoCompression" &&
                        table.checksum_type() == sst::ChecksumType::kXxh3;
  file->place.is_checked = is_plain ? 0 : 1;
  file->place.sequence = input.sequence.value_or(sst::algo::kNoSequence);
  file->growth = growth_of(table);
  inputs->bytes += table.bytes();
  note_counts(table, inputs);
  return Status::OK();
}

}  // namespace

rocksdb::Slice end_of(const sst::Table& table, const sst::DataBlock& block) {
  rocksdb::Slice key(block.separator);
  if (table.has_tagged_separators() && key.size() >= sst::kTagBytes) {
    key.remove_suffix(sst::kTagBytes);
  }
  return key;
}

Status Inputs::open(const MergeJob& job, Inputs* inputs) {
  return base::or_memory_limit([&] {
    for (const InputRun& run : job.runs) {
      auto& files = inputs->runs.emplace_back();
      for (const InputFile& input : run) {
        BRECCIA_TRY(open_file(input, inputs, &files.emplace_back()));
      }
    }
    return Status::OK();
  });
}

std::uint64_t slice_bytes_of(const MergeJob& job, const exec::Device& device) {
  constexpr std::uint64_t kLeast = 1 << 12;
  std::uint64_t bytes = device.is_host() ? kHostSliceBytes : kDeviceSliceBytes;
  if (job.slice_bytes > 0) bytes = job.slice_bytes;
  return std::max(std::min(bytes, job.file_bytes), kLeast);
}

std::size_t slices_at_once_of(const MergeJob& job, const exec::Device& device) {
  if (job.slices_at_once > 0) return job.slices_at_once;
  if (!device.is_host()) return kDeviceSlices;
  return std::max<std::size_t>(2, std::thread::hardware_concurrency() + 1);
}

std::vector<std::string> slice_ends(const Inputs& inputs, std::uint64_t slice_bytes) {
  BRECCIA_ASSERT(slice_bytes > 0);
  std::vector<std::pair<rocksdb::Slice, std::uint64_t>> samples;  // keys, bytes up to them
  const std::uint64_t sample_bytes = slice_bytes / kSamplesPerSlice;
  for (const auto& run : inputs.runs) {
    for (const Inputs::File& file : run) {
      std::uint64_t since = 0;
      for (const sst::DataBlock& block : file.table->data_blocks()) {
        since += static_cast<std::uint64_t>(
            file.growth * static_cast<double>(block.handle.bytes + sst::kTrailerBytes));
        if (since < sample_bytes || block.separator.size() > sst::algo::kKeyBytesMax) continue;
        samples.emplace_back(end_of(*file.table, block), std::exchange(since, 0));
      }
    }
  }
  std::sort(samples.begin(), samples.end(),
            [](const auto& a, const auto& b) { return a.first.compare(b.first) < 0; });
  std::vector<std::string> ends;
  std::uint64_t since = 0;
  for (const auto& [key, bytes] : samples) {
    since += bytes;
    if (since < slice_bytes) continue;
    std::string end = next_key(key);
    if (!ends.empty() && ends.back() >= end) continue;
    ends.push_back(std::move(end));
    since = 0;
  }
  return ends;
}

}  // namespace breccia::compaction
