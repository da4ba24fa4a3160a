#include "ordered/read/lookups.h"

#include <algorithm>
#include <memory>

#include "base/limits.h"
#include "base/memory.h"
#include "base/perf.h"
#include "ordered/read/iterator.h"
#include "ordered/read/versions.h"
#include "ordered/request_counter.h"

namespace breccia::ordered {

namespace {

/// Entries in a memtable from which a run is worth its place for a search on the backend.
constexpr std::uint64_t kWorthSealing = 64;

}  // namespace

Status Lookups::submit(const ReadSet& validated, batch::Requests* requests) const {
  BRECCIA_TRY(base::or_memory_limit([&] { return prepare_and_search(validated, requests); }));
  parts_.counter->count(*requests);
  return Status::OK();
}

Status Lookups::prepare_and_search(const ReadSet& validated, batch::Requests* requests) const {
  BRECCIA_TRY(parts_.closed->check());
  BRECCIA_TRY(check_families(*requests, *parts_.state->pin().view));
  BRECCIA_TRY(Reader::prepare(/*own_writes=*/false, requests));
  seal_for_search(validated);
  seal_for_search(*requests);
  const Pin pin = parts_.state->pin();
  BRECCIA_TRY(check_families(*requests, *pin.view));  // one may have gone meanwhile
  BRECCIA_TRY(validate(pin, validated));
  search(pin, /*own_writes=*/false, 0, requests);
  return Status::OK();
}

Status Lookups::read(const Pin& pin, batch::Requests* requests) const {
  BRECCIA_TRY(base::or_memory_limit([&] {
    BRECCIA_TRY(parts_.closed->check());
    BRECCIA_TRY(check_families(*requests, *pin.view));
    return Reader::prepare(/*own_writes=*/false, requests);
  }));
  search(pin, /*own_writes=*/false, 0, requests);
  parts_.counter->count(*requests);
  return Status::OK();
}

void Lookups::search(const Pin& pin, bool own_writes, std::uint64_t base,
                     batch::Requests* requests) const {
  const std::uint64_t reads_min = parts_.backend_min.reads;
  for (const auto& reads : requests->reads()) {
    const FamilyView* const family = pin.view->family(reads->family());
    if (family == nullptr) continue;
    merger_->note_searches(*family, reads->count());
    if (reads->count() < reads_min) note_host_searches(*family);
  }
  for (const auto& ranges : requests->ranges()) {
    const FamilyView* const family = pin.view->family(ranges->family());
    if (family != nullptr) merger_->note_searches(*family, ranges->probes());
  }
  reader_->read(pin, own_writes, base, reads_min, requests);
  ranges_->read(pin, own_writes, base, reads_min, requests);
}

/// The host is about to search the family's runs: where it would search more orders than runs,
/// the runs' own are read for those who come next.
void Lookups::note_host_search(const FamilyView& family) const {
  if (family.orders > family.backend_runs.size()) merger_->want_orders();
}

/// The same, by somebody who does not learn which orders it looks at.
void Lookups::note_host_searches(const FamilyView& family) const {
  note_host_search(family);
  const bool index_is_due = family.any_run([](const MemRunPtr& run) {
    return std::any_of(run->orders.begin(), run->orders.end(),
                       [](const Order& order) { return order.index_is_due(); });
  });
  if (index_is_due) merger_->want_indexes();
}

Status Lookups::get(const Pin& pin, FamilyId id, const Slice& key, rocksdb::PinnableSlice* value,
                    bool* from_tree) const {
  const FamilyView* const family = pin.view->family(id);
  if (family == nullptr) return no_family(id);
  merger_->note_searches(*family, 1);
  note_host_search(*family);
  std::uint64_t found = runs::kNotFound;
  Searched searched;
  {
    const base::PerfTimer timer(&rocksdb::PerfContext::get_from_memtable_time);
    const std::byte* record = nullptr;
    found = find_one(*family, *pin.view->table, key, pin.visible, &record, &searched);
  }
  base::perf_add(&rocksdb::PerfContext::get_from_memtable_count, searched.parts);
  if (searched.index_is_due) merger_->want_indexes();
  bool reached_tree = false;
  const Status status = read_version(*pin.view, *family, key, found,
                                     family->covering(key, pin.visible), value, &reached_tree);
  parts_.statistics->add(Ticker::kGets, 1);
  parts_.statistics->add(Ticker::kRunsSearched, searched.parts);
  parts_.statistics->add(reached_tree ? Ticker::kGetsFromTree : Ticker::kGetsFromMemory, 1);
  if (from_tree != nullptr) *from_tree = reached_tree;
  return status;
}

Status Lookups::multi_get(std::span<const Slice> keys, std::vector<std::string>* values,
                          std::vector<Status>* statuses) const {
  BRECCIA_TRY(parts_.closed->check());
  batch::Requests requests(exec::shared_plain_host_memory());
  values->assign(keys.size(), std::string());
  const auto can_be = [](const Slice& key) { return key.size() <= limits::kKeyBytesMax; };
  for (auto begin = keys.begin(); begin != keys.end();) {
    const auto end = std::find_if_not(begin, keys.end(), can_be);
    const auto column =
        BytesColumn::Slices(std::to_address(begin), static_cast<std::size_t>(end - begin));
    BRECCIA_TRY(requests.add_reads(kDefaultFamily, column, ValueArray()));
    begin = std::find_if(end, keys.end(), can_be);
  }
  seal_for_search(requests);
  BRECCIA_TRY(read(parts_.state->pin(), &requests));
  std::size_t read = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!can_be(keys[i])) continue;
    const batch::ReadResult& result = requests.result(read++);
    (*statuses)[i] = batch::status_of(result.code);
    if ((*statuses)[i].ok()) (*values)[i].assign(result.data, result.bytes);
  }
  return Status::OK();
}

std::unique_ptr<rocksdb::Iterator> Lookups::iterate(const rocksdb::ReadOptions& options,
                                                    FamilyId id, const Pin& pin,
                                                    std::function<Pin()> repin) const {
  const FamilyView* const family = pin.view->family(id);
  if (family == nullptr) {
    return std::unique_ptr<rocksdb::Iterator>(rocksdb::NewErrorIterator(no_family(id)));
  }
  parts_.statistics->add(Ticker::kIterators, 1);
  note_host_searches(*family);
  return make_iterator(options, pin, *family, std::move(repin));
}

// A search on the backend sees runs. If a commit is under way, or sealing fails, the reader looks
// into the memtable key by key, which is slower and no less right.
void Lookups::seal_for_search(FamilyId id, std::uint64_t requests,
                              std::uint64_t entries_min) const {
  if (requests < parts_.backend_min.reads) return;
  const ViewPtr view = parts_.state->pin().view;
  const FamilyView* const family = view->family(id);
  if (family == nullptr || family->active->count() < entries_min) return;
  base::as_memory_allows([&] { publisher_->try_seal(id); });
}

// Many lookups in small runs cost the host more than the device's builds of those.
void Lookups::lift_for_search(FamilyId id, std::uint64_t requests,
                              std::uint64_t requests_min) const {
  if (requests < requests_min) return;
  const ViewPtr view = parts_.state->pin().view;
  const FamilyView* const family = view->family(id);
  if (family == nullptr || !builder_->is_split(*family)) return;
  base::as_memory_allows([&] { publisher_->try_lift(id); });
}

void Lookups::seal_for_search(const ReadSet& reads) const {
  for (const ReadSet::Keys& keys : reads.keys) {
    seal_for_search(keys.family, keys.keys.count, kWorthSealing);
  }
}

// What the batch writes is in the memtable in any case: a run is worth its place only for more.
void Lookups::seal_for_ranges(const batch::Requests& requests) const {
  for (const auto& ranges : requests.ranges()) {
    seal_for_search(ranges->family(), ranges->count(), std::max(kWorthSealing, ranges->count()));
  }
}

void Lookups::seal_for_search(const batch::Requests& requests) const {
  const auto [reads_min, writes_min] = parts_.backend_min;
  for (const auto& reads : requests.reads()) {
    seal_for_search(reads->family(), reads->count(), kWorthSealing);
    lift_for_search(reads->family(), reads->count(), std::max(reads_min, writes_min));
  }
  // A walk sees runs only, and all of them in one place.
  for (const auto& ranges : requests.ranges()) {
    seal_for_search(ranges->family(), ranges->count(), 1);
    lift_for_search(ranges->family(), ranges->count(), reads_min);
  }
}

}  // namespace breccia::ordered
