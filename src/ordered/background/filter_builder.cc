#include "ordered/background/filter_builder.h"

#include <rocksdb/db.h>
#include <rocksdb/metadata.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"

namespace breccia::ordered {

namespace {

/// A scan reads so many keys in the time of one lookup that the tree answers.
constexpr std::uint64_t kKeysPerMiss = 8;
/// What could not be built is tried again after so many times as many misses.
constexpr std::uint64_t kBackOff = 8;

}  // namespace

FilterBuilder::FilterBuilder(const StoreParts& parts, Publisher* publisher)
    : parts_(parts), publisher_(publisher) {}

FilterBuilder::~FilterBuilder() { stop(); }

void FilterBuilder::start() {
  thread_ = std::thread([this] { run(); });
}

void FilterBuilder::stop() {
  stopping_ = true;
  parts_.filters->bell().ring();
  if (thread_.joinable()) thread_.join();
}

void FilterBuilder::run() {
  while (true) {
    parts_.filters->bell().wait();
    if (stopping_) return;
    const bool whim = parts_.filters->take_whim();
    base::as_memory_allows([&] {
      const ViewPtr view = parts_.state->view();
      for (const FamilyViewPtr& family : view->families) {
        if (stopping_ || !parts_.fault->get().ok()) return;
        if (family->dropped || family->misses == nullptr) continue;
        if (!whim && !family->misses->is_due()) continue;
        const std::uint64_t keys = keys_of(*family);
        if (whim || is_due(*family, keys)) build(*family, keys);
      }
    });
  }
}

/// RocksDB's estimate.
std::uint64_t FilterBuilder::keys_of(const FamilyView& family) const {
  constexpr std::uint64_t kKeysMax = std::uint64_t{1} << 40;
  std::uint64_t keys = 0;
  (void)parts_.below->db()->GetIntProperty(family.tree.get(),
                                           rocksdb::DB::Properties::kEstimateNumKeys, &keys);
  return std::min(keys, kKeysMax);
}

/// True if the misses pay for a scan of the tree; else they go on being counted.
bool FilterBuilder::is_due(const FamilyView& family, std::uint64_t keys) const {
  cache::MissMeter& misses = *family.misses;
  misses.set_due(std::max(TreeFilters::kMissesMin, keys / kKeysPerMiss));
  if (family.filter == nullptr || family.filter->is_full()) return misses.is_due();
  misses.start_over();  // it takes other keys for its own as seldom as it can
  return false;
}

void FilterBuilder::build(const FamilyView& family, std::uint64_t keys) {
  const base::Stopwatch watch;
  bool built = false;
  const Status status = base::or_memory_limit([&] { return build_once(family, keys, &built); });
  cache::MissMeter& misses = *family.misses;
  if (built) {
    misses.start_over();
  } else {
    // No room, a merge operator that fails, the medium: there may be another answer later.
    misses.set_due(kBackOff * std::max(misses.misses(), TreeFilters::kMissesMin));
  }
  if (!built && status.ok()) return;
  base::as_memory_allows([&] {
    const auto messages = parts_.below->db()->GetDBOptions().info_log;
    const std::uint64_t millis = watch.micros() / 1000;
    rocksdb::Info(messages.get(), "breccia: a filter of family %u: %s, %llu ms", family.id,
                  status.ToString().c_str(), static_cast<unsigned long long>(millis));
  });
}

Status FilterBuilder::build_once(const FamilyView& family, std::uint64_t keys, bool* built) {
  FilterPtr filter;
  tree::TreeSnapshot snapshot;
  {
    // No ingest is under way: the snapshot has all that was added before the filter was there.
    const auto unchanged = parts_.below->keep_unchanged();
    snapshot = parts_.below->snapshot();
    filter = parts_.filters->begin(family.id, keys);
  }
  if (filter == nullptr) return Status::OK();
  Status status = base::or_memory_limit([&] {
    BRECCIA_TRY(read_keys(family, snapshot, filter));
    *built = !stopping_ && install(family.id, filter);
    return Status::OK();
  });
  if (!*built) parts_.filters->give_up(family.id, filter);
  return status;
}

/// Keys between which about as many of the family's files begin, for half of the cores, two at
/// least: who makes the misses has the others.
std::vector<std::string> FilterBuilder::division(const FamilyView& family) const {
  rocksdb::ColumnFamilyMetaData tree;
  parts_.below->db()->GetColumnFamilyMetaData(family.tree.get(), &tree);
  std::vector<std::string> begins;
  for (const rocksdb::LevelMetaData& level : tree.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) begins.push_back(file.smallestkey);
  }
  std::sort(begins.begin(), begins.end());
  const std::size_t parts =
      std::min<std::size_t>(begins.size(), std::max(2U, std::thread::hardware_concurrency() / 2));
  std::vector<std::string> keys;
  for (std::size_t part = 1; part < parts; ++part) {
    keys.push_back(begins[part * begins.size() / parts]);
  }
  BRECCIA_ASSERT(std::is_sorted(keys.begin(), keys.end()));
  return keys;
}

/// All keys of the tree that are there at the snapshot. Ends early, and well, where the filter is
/// not wanted any more.
Status FilterBuilder::read_keys(const FamilyView& family, const tree::TreeSnapshot& snapshot,
                                const FilterPtr& filter) const {
  const std::vector<std::string> between = division(family);
  std::vector<Status> statuses(between.size() + 1);
  base::parallel_for(std::size_t{0}, statuses.size(), [&](std::size_t part) {
    const std::string* const begin = part == 0 ? nullptr : &between[part - 1];
    const std::string* const end = part == between.size() ? nullptr : &between[part];
    statuses[part] =
        base::or_memory_limit([&] { return read_range(family, snapshot, begin, end, filter); });
  });
  for (const Status& status : statuses) BRECCIA_TRY(base::copy_of(status));
  return Status::OK();
}

/// Those from `begin` to below `end`; null: all there are on that side.
Status FilterBuilder::read_range(const FamilyView& family, const tree::TreeSnapshot& snapshot,
                                 const std::string* begin, const std::string* end,
                                 const FilterPtr& filter) const {
  constexpr std::size_t kStep = 256;
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  options.fill_cache = false;
  options.total_order_seek = true;
  const rocksdb::Slice bound = end == nullptr ? rocksdb::Slice() : rocksdb::Slice(*end);
  if (end != nullptr) options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(
      parts_.below->db()->NewIterator(options, family.tree.get()));
  std::array<std::uint64_t, kStep> hashes;
  std::size_t count = 0;
  if (begin == nullptr) {
    at->SeekToFirst();
  } else {
    at->Seek(*begin);
  }
  for (; at->Valid(); at->Next()) {
    hashes[count++] = filter->hash(at->key());
    if (count < kStep) continue;
    filter->add(hashes);
    count = 0;
    if (stopping_ || !parts_.filters->is_building(family.id, filter)) return Status::OK();
  }
  filter->add(std::span(hashes).first(count));
  return at->status();
}

/// Publishes a view with the filter; false if it is not wanted any more.
bool FilterBuilder::install(FamilyId id, const FilterPtr& filter) {
  bool installed = false;
  publisher_->change([&](View* next) {
    const FamilyView* const before = next->family(id);
    if (before == nullptr || before->dropped) return;
    const auto changed = std::make_shared<FamilyView>(*before);
    changed->filter = filter;
    next->set_family(changed);
    // Last, as from here on flushes add to this one alone.
    installed = parts_.filters->finish(id, filter);
    if (!installed) changed->filter = nullptr;
  });
  return installed;
}

}  // namespace breccia::ordered
