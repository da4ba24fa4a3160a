#include <breccia/rocks.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/memory.h"
#include "facade/db/core.h"
#include "facade/db/memory_figures.h"
#include "tree/level0_triggers.h"

/// Rocks: properties, sizes, options.
///
/// RocksDB's figures are the tree's, but for those that speak of memtables and snapshots: the
/// tree's memtables are empty, and its snapshots are the engine's.

namespace breccia {

namespace {

using facade::Amount;
using Properties = rocksdb::DB::Properties;

/// What a figure is computed from.
struct Source {
  facade::Core& core;
  const facade::Seen& seen;
  std::uint64_t in_tree;  // RocksDB's figure

  [[nodiscard]] Amount memtable() const {
    return facade::amount_of_memtable(*seen.view, *seen.pin.view->table);
  }
  [[nodiscard]] Amount runs() const {
    return facade::amount_of_runs(*seen.view, *seen.pin.view->table);
  }
  [[nodiscard]] Amount all() const {
    Amount sum = memtable();
    return sum += runs();
  }
};

std::uint64_t estimated_keys(const Source& from) {
  const Amount in_memory = from.all();
  const std::uint64_t keys = from.in_tree + in_memory.entries;
  return keys > 2 * in_memory.deletes ? keys - 2 * in_memory.deletes : 0;
}

std::uint64_t background_errors(const Source& from) {
  std::string cause;
  const bool known = from.core.engine().GetProperty("breccia.read-only", &cause);
  return from.in_tree + (known && !cause.empty() ? 1 : 0);
}

using Figure = std::uint64_t (*)(const Source& from);

/// Figures that are not the tree's alone.
const std::pair<const std::string&, Figure> kFigures[] = {
    {Properties::kNumImmutableMemTable, [](const Source& s) { return s.seen.view->runs.size(); }},
    {Properties::kCurSizeActiveMemTable, [](const Source& s) { return s.memtable().bytes; }},
    {Properties::kCurSizeAllMemTables, [](const Source& s) { return s.all().bytes; }},
    {Properties::kSizeAllMemTables, [](const Source& s) { return s.all().bytes; }},
    {Properties::kNumEntriesActiveMemTable, [](const Source& s) { return s.memtable().entries; }},
    {Properties::kNumEntriesImmMemTables, [](const Source& s) { return s.runs().entries; }},
    {Properties::kNumDeletesActiveMemTable, [](const Source& s) { return s.memtable().deletes; }},
    {Properties::kNumDeletesImmMemTables, [](const Source& s) { return s.runs().deletes; }},
    {Properties::kEstimateNumKeys, estimated_keys},
    {Properties::kBackgroundErrors, background_errors},
    {Properties::kNumSnapshots, [](const Source& s) { return s.core.snapshots().figures().count; }},
    {Properties::kOldestSnapshotTime,
     [](const Source& s) { return s.core.snapshots().figures().oldest_time; }},
    {Properties::kOldestSnapshotSequence,
     [](const Source& s) { return s.core.snapshots().figures().oldest_position; }},
};

Figure find_figure(const Slice& property) {
  for (const auto& [name, figure] : kFigures) {
    if (property == Slice(name)) return figure;
  }
  return nullptr;
}

bool is_own(const Slice& property) { return property.starts_with("breccia."); }

/// work(); false where it found no memory.
template <class Work>
bool or_false(const Work& work) {
  bool done = false;
  base::as_memory_allows([&] { done = work(); });
  return done;
}

}  // namespace

// ---- properties --------------------------------------------------------------------------------

bool Rocks::GetIntProperty(Handle* handle, const Slice& property, std::uint64_t* value) {
  return or_false([&] {
    auto seen = core_->see(rocksdb::ReadOptions(), handle);
    if (!seen.ok()) return false;
    if (is_own(property)) {
      const auto figure = core_->engine().figures().number(property.ToString());
      *value = figure.value_or(*value);
      return figure.has_value();
    }
    if (!core_->tree().GetIntProperty(seen.value().family->tree(), property, value)) return false;
    const Figure figure = find_figure(property);
    if (figure != nullptr) *value = figure({*core_, seen.value(), *value});
    return true;
  });
}

bool Rocks::GetProperty(Handle* handle, const Slice& property, std::string* value) {
  value->clear();
  auto tree_handle = core_->tree_handle(handle);
  if (!tree_handle.ok()) return false;
  return or_false([&] {
    if (is_own(property)) return core_->engine().GetProperty(property.ToString(), value);
    std::uint64_t number = 0;
    if (find_figure(property) != nullptr && GetIntProperty(handle, property, &number)) {
      *value = std::to_string(number);
      return true;
    }
    return core_->tree().GetProperty(tree_handle.value(), property, value);
  });
}

bool Rocks::GetMapProperty(Handle* handle, const Slice& property,
                           std::map<std::string, std::string>* value) {
  value->clear();
  auto tree_handle = core_->tree_handle(handle);
  return or_false([&] {
    if (tree_handle.ok() && property == Slice(ordered::Figures::kAll)) {
      *value = core_->engine().figures().map();
      return true;
    }
    return tree_handle.ok() && core_->tree().GetMapProperty(tree_handle.value(), property, value);
  });
}

bool Rocks::GetAggregatedIntProperty(const Slice& property, std::uint64_t* value) {
  if (!core_->check_open().ok()) return false;
  // Breccia's own are of the database, not of a family.
  if (is_own(property)) {
    return GetIntProperty(core_->default_handle(), property, value);
  }
  return or_false([&] {
    std::uint64_t sum = 0;
    for (const std::unique_ptr<facade::Handle>& handle : core_->handles_of_all()) {
      std::uint64_t one = 0;
      if (!GetIntProperty(handle.get(), property, &one)) return false;
      sum += one;
    }
    *value = sum;
    return true;
  });
}

Status Rocks::GetApproximateSizes(const rocksdb::SizeApproximationOptions& options, Handle* handle,
                                  const rocksdb::Range* ranges, int count, std::uint64_t* sizes) {
  BRECCIA_TAKE(const facade::Seen seen, core_->see(rocksdb::ReadOptions(), handle));
  if (!options.include_memtables && !options.include_files) {
    return Status::InvalidArgument("Invalid options");
  }
  std::fill_n(sizes, count, 0);
  if (options.include_files) {
    BRECCIA_TRY(
        core_->tree().GetApproximateSizes(options, seen.family->tree(), ranges, count, sizes));
  }
  for (int i = 0; options.include_memtables && i < count; ++i) {
    sizes[i] +=
        facade::amount_of_range(*seen.view, *seen.pin.view->table, ranges[i].start, ranges[i].limit)
            .bytes;
  }
  return Status::OK();
}

void Rocks::GetApproximateMemTableStats(Handle* handle, const rocksdb::Range& range,
                                        std::uint64_t* count, std::uint64_t* size) {
  *count = *size = 0;
  auto seen = core_->see(rocksdb::ReadOptions(), handle);
  if (!seen.ok()) return;
  const Amount amount = facade::amount_of_range(*seen.value().view, *seen.value().pin.view->table,
                                                range.start, range.limit);
  *count = amount.entries;
  *size = amount.bytes;
}

rocksdb::SequenceNumber Rocks::GetLatestSequenceNumber() const {
  return core_->check_open().ok() ? core_->engine().pin().visible : 0;
}

Status Rocks::GetStatsHistory(std::uint64_t start_time, std::uint64_t end_time,
                              std::unique_ptr<rocksdb::StatsHistoryIterator>* iterator) {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().GetStatsHistory(start_time, end_time, iterator);
}

// ---- options -----------------------------------------------------------------------------------

Status Rocks::SetOptions(Handle* handle,
                         const std::unordered_map<std::string, std::string>& options) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const auto scaled, tree::scaled_triggers(options, core_->flush_parts()));
    return core_->tree().SetOptions(tree_handle, scaled);
  });
}

rocksdb::DBOptions Rocks::GetDBOptions() const {
  if (!core_->check_open().ok()) return core_->given();
  rocksdb::DBOptions options = core_->tree().GetDBOptions();
  const rocksdb::DBOptions& given = core_->given();
  options.env = given.env;
  options.statistics = given.statistics;
  options.listeners = given.listeners;
  options.compaction_service = given.compaction_service;
  options.create_if_missing = given.create_if_missing;
  options.error_if_exists = given.error_if_exists;
  options.create_missing_column_families = given.create_missing_column_families;
  return options;
}

const std::string& Rocks::GetName() const { return core_->name(); }

rocksdb::Env* Rocks::GetEnv() const { return core_->given().env; }

rocksdb::FileSystem* Rocks::GetFileSystem() const { return GetEnv()->GetFileSystem().get(); }

rocksdb::Options Rocks::GetOptions(Handle* handle) const {
  if (!core_->check_open().ok()) return {core_->given(), rocksdb::ColumnFamilyOptions()};
  auto tree_handle = core_->tree_handle(handle);
  // As there is no status to return: a wrong handle has the options of the default family.
  Handle* const known =
      tree_handle.ok() ? tree_handle.value() : core_->tree().DefaultColumnFamily();
  return {GetDBOptions(),
          tree::given_triggers(core_->tree().GetOptions(known), core_->flush_parts())};
}

}  // namespace breccia
