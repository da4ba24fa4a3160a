#include "compaction/plan.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/memory.h"
#include "base/parallel.h"

namespace breccia::compaction {

namespace {

/// Bytes of a slice: on the host what caches hold, on a device enough for all of its lanes.
constexpr std::uint64_t kHostSliceBytes = 4ULL << 20;
constexpr std::uint64_t kDeviceSliceBytes = 16ULL << 20;
/// Slices under way at once, one for each of so many cores, and beside those some that wait for a
/// device, or for what is stored.
constexpr std::size_t kCores = 24;
constexpr std::size_t kDeviceWaits = 8;
constexpr std::size_t kHostWaits = 1;
/// As many jobs share a device.
constexpr std::uint64_t kJobs = 2;
/// A device's memory that a byte of a slice takes: blocks twice, columns, ids, and hashes that wait
/// for their filter.
constexpr std::uint64_t kDeviceBytesPerByte = 6;

/// A lane's last file may be a small one.
constexpr double kFilesPerLane = 2;
constexpr std::size_t kLanesMax = 8;

/// Places at which a slice may end are looked at that often in each.
constexpr std::uint64_t kSamplesPerSlice = 64;

/// The least key that is greater.
std::string next_key(const rocksdb::Slice& key) {
  std::string next = key.ToString();
  next.push_back('\0');
  return next;
}

/// Whether a slice may end behind a key.
bool is_within(const MergeJob& job, const rocksdb::Slice& key) {
  return (!job.begin.has_value() || key.compare(*job.begin) >= 0) &&
         (!job.end.has_value() || key.compare(*job.end) < 0);
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

Status open_file(const InputFile& input, Inputs::File* file) {
  BRECCIA_TAKE(file->table, sst::Table::open(input.path));
  const sst::Table& table = *file->table;
  BRECCIA_TRY(check_table(table));
  const bool checks_itself = table.is_plain() && table.checksum_type() == sst::ChecksumType::kXxh3;
  file->place.is_checked = checks_itself ? 0 : 1;
  file->place.sequence = input.sequence.value_or(sst::algo::kNoSequence);
  file->growth = growth_of(table);
  return Status::OK();
}

}  // namespace

rocksdb::Slice end_of(const sst::Table& table, const sst::DataBlock& block) {
  rocksdb::Slice key = block.separator;
  if (table.has_tagged_separators() && key.size() >= sst::kTagBytes) {
    key.remove_suffix(sst::kTagBytes);
  }
  return key;
}

Status Inputs::open(const MergeJob& job, Inputs* inputs) {
  return base::or_memory_limit([&] {
    struct Opening {
      const InputFile* input;
      Inputs::File* file;
      Status status;
    };
    std::vector<Opening> all;
    inputs->runs.reserve(job.runs.size());
    for (const InputRun& run : job.runs) {
      auto& files = inputs->runs.emplace_back(run.size());
      for (std::size_t i = 0; i < run.size(); ++i) all.push_back({&run[i], &files[i], {}});
    }
    // An index has tens of thousands of entries.
    base::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
      all[i].status = open_file(*all[i].input, all[i].file);
    });
    for (Opening& one : all) {
      BRECCIA_TRY(std::move(one.status));
      inputs->bytes += one.file->table->bytes();
      note_counts(*one.file->table, inputs);
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

std::size_t slices_at_once_of(const MergeJob& job, exec::Tenant& tenant) {
  if (job.slices_at_once > 0) return job.slices_at_once;
  const std::size_t cores = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kCores);
  if (tenant.device().is_host()) return cores + kHostWaits;
  const std::uint64_t of_a_slice = kDeviceBytesPerByte * slice_bytes_of(job, tenant.device());
  const std::size_t fit = std::max<std::size_t>(tenant.bytes_max() / kJobs / of_a_slice, 1);
  return std::min(cores + kDeviceWaits, fit);
}

std::vector<std::string> slice_ends(const Inputs& inputs, const MergeJob& job,
                                    std::uint64_t slice_bytes) {
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
        const std::uint64_t bytes = std::exchange(since, 0);
        const rocksdb::Slice key = end_of(*file.table, block);
        if (is_within(job, key)) samples.emplace_back(key, bytes);
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

std::size_t lanes_of(const Inputs& inputs, const MergeJob& job, std::size_t slices,
                     std::uint64_t slice_bytes) {
  if (job.has_stock_cuts) return 1;
  std::uint64_t all = 0;
  std::uint64_t largest = 0;
  double decoded = 0;
  for (const auto& run : inputs.runs) {
    std::uint64_t bytes = 0;
    for (const Inputs::File& file : run) {
      bytes += file.table->bytes();
      decoded += file.growth * static_cast<double>(file.table->bytes());
    }
    all += bytes;
    largest = std::max(largest, bytes);
  }
  if (all == 0) return 1;
  // Of what slices have, which is decoded, the files' part, and of that what comes out.
  const auto stored = static_cast<double>(all);
  const double share = (stored + static_cast<double>(largest)) / 2 / decoded;
  const double bytes = share * static_cast<double>(slices) * static_cast<double>(slice_bytes);
  const double lanes = bytes / static_cast<double>(job.file_bytes) / kFilesPerLane;
  const auto most = static_cast<double>(std::min(slices, kLanesMax));
  return static_cast<std::size_t>(std::clamp(lanes, 1.0, most));
}

}  // namespace breccia::compaction
