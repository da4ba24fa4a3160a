#include "ordered/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "ordered/background/clean_runs.h"

namespace breccia::ordered {

namespace {

using From = const FigureSources&;
using Number = std::uint64_t (*)(From from);
using Text = std::string (*)(From from);
using CacheFigure = std::uint64_t cache::CacheFigures::*;
using AdmissionFigure = std::uint64_t batch::AdmissionFigures::*;

struct Figure {
  const char* name;
  std::variant<Ticker, Timing, CacheFigure, AdmissionFigure, Number, Text> is;
};

std::string backend(From from) { return from.backends.current()->device().describe(); }
std::string backend_retired(From from) { return from.backends.left().ToString(); }
std::string read_only(From from) {
  const Status cause = from.fault.get();
  return cause.ok() ? "" : cause.ToString();
}
std::string admission_mode(From from) {
  return from.async.figures().mode == batch::Mode::kAlone ? "alone" : "together";
}
std::uint64_t device_bytes(From from) { return from.backends.current()->tenant().used(); }
std::uint64_t memtable_bytes(From from) { return from.options.memtable_bytes; }
std::uint64_t log_segment_bytes(From from) { return from.options.log_segment_bytes; }
std::uint64_t log_bytes(From from) { return from.log.bytes_in_use(); }
std::uint64_t runs(From from) { return from.state.view()->runs_max(); }
std::uint64_t index_bytes(From from) {
  std::uint64_t bytes = 0;
  const ViewPtr view = from.state.view();
  for (const auto& family : view->families) {
    family->any_run([&](const MemRunPtr& run) {
      for (const Order& order : run->orders) {
        const OrderIndex* const index = order.index == nullptr ? nullptr : order.index->get();
        bytes += index == nullptr ? 0 : index->memory_bytes();
      }
      return false;
    });
  }
  return bytes;
}
std::uint64_t clean_runs(From from) {
  const ViewPtr view = from.state.view();
  std::size_t most = 0;
  for (const auto& family : view->families) most = std::max(most, family->clean.size());
  return most;
}
std::uint64_t clean_log_bytes(From from) {
  const ViewPtr view = from.state.view();
  return view->flushed - clean_begin(*view);
}
std::uint64_t clean_refill_bytes(From from) {
  const ViewPtr view = from.state.view();
  std::uint64_t most = 0;
  for (const auto& family : view->families) {
    most = std::max(most, family->clean_from - family->log_from);
  }
  return most;
}
std::uint64_t clean_bytes(From from) { return clean_memory(*from.state.view()); }
std::uint64_t memtable_entries(From from) {
  std::uint64_t entries = 0;
  const ViewPtr view = from.state.view();
  for (const auto& family : view->families) entries += family->active->count();
  return entries;
}
std::uint64_t cache_bytes_max(From from) {
  return from.cache == nullptr ? 0 : from.cache->bytes_max();
}
std::uint64_t cache_device_copies(From from) {
  return from.cache_tags == nullptr ? 0 : from.cache_tags->copies();
}

std::uint64_t filter_negatives(From from) { return from.filters.negatives(); }
std::uint64_t filter_builds(From from) { return from.filters.built(); }
std::uint64_t filter_keys(From from) { return from.filters.keys(); }
std::uint64_t filter_bytes(From from) { return from.filters.bytes(); }

std::uint64_t resident_answered(From from) { return from.files.usage()->answered(); }
std::uint64_t resident_ranges(From from) { return from.files.usage()->ranges(); }
std::uint64_t resident_left(From from) { return from.files.usage()->left(); }
std::uint64_t resident_loads(From from) { return from.files.loads(); }
std::uint64_t resident_load_bytes(From from) { return from.files.loaded_bytes(); }
std::uint64_t resident_load_micros(From from) { return from.files.load_micros(); }
residency::FileSet::Figures resident(From from) {
  residency::FileSet::Figures all;
  const ViewPtr view = from.state.view();
  for (const auto& family : view->families) {
    if (family->files == nullptr) continue;
    const residency::FileSet::Figures own = family->files->figures();
    all.files += own.files;
    all.resident_files += own.resident_files;
    all.keys += own.keys;
    all.bytes += own.bytes;
  }
  return all;
}
std::uint64_t listed_files(From from) { return resident(from).files; }
std::uint64_t resident_files(From from) { return resident(from).resident_files; }
std::uint64_t resident_keys(From from) { return resident(from).keys; }
std::uint64_t resident_bytes(From from) { return resident(from).bytes; }

compaction::Figures compactions(From from) {
  return from.compactions == nullptr ? compaction::Figures{} : from.compactions->figures();
}
std::uint64_t compactions_in(From from, compaction::Place place) {
  return compactions(from).done[static_cast<std::size_t>(place)];
}
std::uint64_t compactions_on_device(From from) {
  return compactions_in(from, compaction::Place::kDevice);
}
std::uint64_t compactions_on_host(From from) {
  return compactions_in(from, compaction::Place::kHost);
}
std::uint64_t compactions_left(From from) {
  return compactions_in(from, compaction::Place::kLocal);
}
std::uint64_t compactions_bytes_read(From from) { return compactions(from).counts.bytes_read; }
std::uint64_t compactions_bytes_written(From from) {
  return compactions(from).counts.bytes_written;
}

using Cache = cache::CacheFigures;
using Admission = batch::AdmissionFigures;

constexpr Figure kFigures[] = {
    {"breccia.batches", Ticker::kBatches},
    {"breccia.requests.put", Ticker::kPuts},
    {"breccia.requests.delete", Ticker::kDeletes},
    {"breccia.requests.merge", Ticker::kMerges},
    {"breccia.requests.delete-range", Ticker::kRangeDeletes},
    {"breccia.requests.get", Ticker::kGets},
    {"breccia.requests.range", Ticker::kRanges},
    {"breccia.iterators", Ticker::kIterators},
    {"breccia.writes.to-memtable", Ticker::kWritesToMemtable},
    {"breccia.writes.to-runs", Ticker::kWritesToRuns},
    {"breccia.updates.worked-out", Ticker::kUpdatesWorkedOut},
    {"breccia.gets.on-host", Ticker::kGetsOnHost},
    {"breccia.gets.on-backend", Ticker::kGetsOnBackend},
    {"breccia.gets.from-memory", Ticker::kGetsFromMemory},
    {"breccia.gets.from-tree", Ticker::kGetsFromTree},
    {"breccia.runs.searched", Ticker::kRunsSearched},
    {"breccia.runs.merges", Ticker::kRunMerges},
    {"breccia.runs.merged-entries", Ticker::kRunMergeEntries},
    {"breccia.runs.orders-read", Ticker::kOrdersRead},
    {"breccia.runs.indexes-built", Ticker::kIndexesBuilt},
    {"breccia.log.frames", Ticker::kFrames},
    {"breccia.log.bytes.written", Ticker::kLogBytes},
    {"breccia.log.commits", Ticker::kCommits},
    {"breccia.log.syncs", Ticker::kSyncs},
    {"breccia.flush.count", Ticker::kFlushes},
    {"breccia.flush.files", Ticker::kFlushFiles},
    {"breccia.flush.file-bytes", Ticker::kFlushFileBytes},
    {"breccia.flush.log-bytes", Ticker::kFlushLogBytes},
    {"breccia.waits", Ticker::kWaits},
    {"breccia.waits.micros", Ticker::kWaitMicros},
    {"breccia.waits.refused", Ticker::kRefused},
    {"breccia.backend.errors", Ticker::kBackendErrors},
    {"breccia.backend.memory-misses", Ticker::kMemoryMisses},
    {"breccia.backend.too-many-runs", Ticker::kTooManyRuns},
    {"breccia.backend.staged-batches", Ticker::kStagedBatches},
    {"breccia.backend.small-builds", Ticker::kSmallBuilds},
    {"breccia.backend.chunks", Ticker::kChunks},
    {"breccia.ranges.by-iterator", Ticker::kRangesByIterator},
    {"breccia.entry-cache.hits", &Cache::hits},
    {"breccia.entry-cache.misses", &Cache::misses},
    {"breccia.entry-cache.inserts", &Cache::inserts},
    {"breccia.entry-cache.evictions", &Cache::evictions},
    {"breccia.entry-cache.erased", &Cache::erased},
    {"breccia.entry-cache.skipped", &Cache::skipped},
    {"breccia.entry-cache.device-hits", &Cache::device_hits},
    {"breccia.entry-cache.device-copies", cache_device_copies},
    {"breccia.tree-filter.negatives", filter_negatives},
    {"breccia.tree-filter.builds", filter_builds},
    {"breccia.residency.answered", resident_answered},
    {"breccia.residency.left", resident_left},
    {"breccia.residency.ranges", resident_ranges},
    {"breccia.residency.loads", resident_loads},
    {"breccia.residency.load-bytes", resident_load_bytes},
    {"breccia.residency.load-micros", resident_load_micros},
    {"breccia.compactions.on-device", compactions_on_device},
    {"breccia.compactions.on-host", compactions_on_host},
    {"breccia.compactions.left", compactions_left},
    {"breccia.compactions.bytes-read", compactions_bytes_read},
    {"breccia.compactions.bytes-written", compactions_bytes_written},
    {"breccia.admission.batches", &Admission::batches},
    {"breccia.admission.groups", &Admission::groups},
    {"breccia.admission.switches", &Admission::switches},
    {"breccia.log.sync.micros", Timing::kSyncMicros},
    {"breccia.wait.micros", Timing::kWaitMicros},
    {"breccia.runs.merge.micros", Timing::kRunMergeMicros},
    {"breccia.flush.micros", Timing::kFlushMicros},
    {"breccia.backend", backend},
    {"breccia.backend-retired", backend_retired},
    {"breccia.read-only", read_only},
    {"breccia.log-bytes", log_bytes},
    {"breccia.memtable-bytes", memtable_bytes},
    {"breccia.log-segment-bytes", log_segment_bytes},
    {"breccia.runs", runs},
    {"breccia.runs.index-bytes", index_bytes},
    {"breccia.clean.runs", clean_runs},
    {"breccia.clean.log-bytes", clean_log_bytes},
    {"breccia.clean.bytes", clean_bytes},
    {"breccia.clean.refill-bytes", clean_refill_bytes},
    {"breccia.memtable-entries", memtable_entries},
    {"breccia.device-bytes", device_bytes},
    {"breccia.entry-cache.bytes", &Cache::bytes},
    {"breccia.entry-cache.bytes-max", cache_bytes_max},
    {"breccia.tree-filter.keys", filter_keys},
    {"breccia.tree-filter.bytes", filter_bytes},
    {"breccia.residency.files-listed", listed_files},
    {"breccia.residency.files", resident_files},
    {"breccia.residency.keys", resident_keys},
    {"breccia.residency.bytes", resident_bytes},
    {"breccia.admission.mode", admission_mode},
    {"breccia.admission.threshold", &Admission::threshold},
    {"breccia.admission.queued", &Admission::queued},
};

/// True if each value of the enumeration stands in the table once.
template <class Counted>
consteval bool has_each_once() {
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(Counted::kEnd); ++i) {
    const auto is_it = [&](const Figure& figure) {
      const auto* const counted = std::get_if<Counted>(&figure.is);
      return counted != nullptr && *counted == static_cast<Counted>(i);
    };
    if (std::count_if(std::begin(kFigures), std::end(kFigures), is_it) != 1) return false;
  }
  return true;
}
static_assert(has_each_once<Ticker>() && has_each_once<Timing>());

const Figure* find(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kFigures), std::end(kFigures),
                                         [&](const Figure& figure) { return name == figure.name; });
  return found == std::end(kFigures) ? nullptr : found;
}

/// What a figure that is a number reads.
struct ReadNumber {
  From from;

  std::optional<std::uint64_t> operator()(Ticker ticker) const {
    return from.statistics.value(ticker);
  }
  std::optional<std::uint64_t> operator()(CacheFigure figure) const {
    return from.cache == nullptr ? 0 : from.cache->figures().*figure;
  }
  std::optional<std::uint64_t> operator()(AdmissionFigure figure) const {
    return from.async.figures().*figure;
  }
  std::optional<std::uint64_t> operator()(Number number) const { return number(from); }
  std::optional<std::uint64_t> operator()(Timing) const { return std::nullopt; }
  std::optional<std::uint64_t> operator()(Text) const { return std::nullopt; }
};

std::optional<std::uint64_t> number_of(const Figure& figure, From from) {
  return std::visit(ReadNumber{from}, figure.is);
}

std::string text_of(const Figure& figure, From from) {
  if (const auto number = number_of(figure, from)) return std::to_string(*number);
  if (const auto* const timing = std::get_if<Timing>(&figure.is)) {
    return from.statistics.text(*timing);
  }
  return std::get<Text>(figure.is)(from);
}

}  // namespace

std::optional<std::string> Figures::text(const std::string& name) const {
  if (name == kAll) return lines();
  const Figure* const figure = find(name);
  return figure == nullptr ? std::nullopt : std::optional(text_of(*figure, from_));
}

std::optional<std::uint64_t> Figures::number(const std::string& name) const {
  const Figure* const figure = find(name);
  return figure == nullptr ? std::nullopt : number_of(*figure, from_);
}

std::map<std::string, std::string> Figures::map() const {
  std::map<std::string, std::string> all;
  for (const Figure& figure : kFigures) all[figure.name] = text_of(figure, from_);
  return all;
}

std::string Figures::lines() const {
  std::string lines;
  for (const Figure& figure : kFigures) {
    const char* const between = number_of(figure, from_) ? "COUNT : " : "";
    lines += fmt::format("{} {}{}\n", figure.name, between, text_of(figure, from_));
  }
  return lines;
}

}  // namespace breccia::ordered
