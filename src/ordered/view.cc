#include "ordered/view.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/bytes.h"
#include "base/prefetch.h"
#include "base/result.h"
#include "base/sometimes.h"
#include "batch/requests.h"
#include "record/one_key.h"
#include "runs/algo/search.cuh"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

constexpr std::size_t kMergeFanIn = 4;
constexpr std::uint64_t kSmallestClass = 1024;
/// Free runs above which some are merged whatever their sizes.
constexpr std::size_t kRunsCrowded = 20;
/// Merging costs about as much per entry as this many probes of a further run: on the host three of
/// a small one, on a device one.
constexpr std::uint64_t kProbesPerEntry = 2;
/// Bytes of a line of the cache.
constexpr std::size_t kLine = 64;

/// Size class of a run: each is kMergeFanIn times as large as the one below.
int size_class(std::uint64_t count) {
  return static_cast<int>(std::bit_width(count / kSmallestClass) + 1) / 2;
}

Slice key_of(const std::byte* record) {
  return {record::record_key(record), record::record_header(record).key_bytes()};
}

/// lower_bound in a run whose columns the host reads where they are.
runs::algo::Sought sought_in_columns(const runs::RunRef& run, const runs::QueriesRef& query) {
  return runs::algo::sought_in(run, query, runs::algo::load_sought(query, 0));
}

std::uint64_t lower_bound_in_columns(const runs::RunRef& run, const runs::QueriesRef& query,
                                     const runs::algo::Sought& sought) {
  if (run.keys.count == 0) return 0;
  const exec::HostGroup<1> group;
  const auto soughts = group.per_lane([&](int) { return sought; });
  return runs::algo::lower_bound(group, run, query, soughts)[0];
}

std::uint64_t find_in_columns(const runs::RunRef& run, const runs::QueriesRef& query) {
  const runs::algo::Sought sought = sought_in_columns(run, query);
  const std::uint64_t i = lower_bound_in_columns(run, query, sought);
  const bool hit = i < run.keys.count && runs::algo::is_key(run.keys, i, query.keys, sought);
  return hit ? run.payload[i] : runs::kNotFound;
}

/// lower_bound among entries `among`, at the end of which it may lie: each probe reads a key from
/// the log.
std::uint64_t lower_bound_in_log(const Order& order, const wal::SegmentTable& table,
                                 const OrderRange& among, const Slice& key, std::uint64_t bound) {
  BRECCIA_ASSERT(among.end <= order.count);
  std::uint64_t low = among.begin;
  std::uint64_t high = among.end;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const std::uint64_t position = order.position_at(middle);
    const int compared = key_of(table.at(position)).compare(key);
    if (compared != 0 ? compared < 0 : position >= bound) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Where versions of `key` may lie, if the order has an index. Without one, this search counts.
std::optional<OrderRange> narrowed(const Order& order, const Slice& key) {
  if (order.count < OrderIndex::kEntriesMin || order.index == nullptr) return std::nullopt;
  if (const OrderIndex* const index = order.index->get()) return index->narrow(key);
  order.index->note_search(order.count);
  return std::nullopt;
}

/// As find_one, in one order: among `among`, beyond which no version of `key` lies.
std::uint64_t find_in_log(const Order& order, const wal::SegmentTable& table,
                          const OrderRange& among, const Slice& key, std::uint64_t bound) {
  // Who has found a record reads its value next, which is behind the key's line.
  if (among.begin + 1 == among.end) {
    base::prefetch(table.at(order.position_at(among.begin)) + kLine);
  }
  const std::uint64_t low = lower_bound_in_log(order, table, among, key, bound);
  if (low == among.end) return runs::kNotFound;
  const std::uint64_t position = order.position_at(low);
  const std::byte* const record = table.at(position);
  if (key_of(record) != key) return runs::kNotFound;
  return position | static_cast<std::uint64_t>(record::record_header(record).op());
}

}  // namespace

bool are_newest_first(const std::vector<MemRunPtr>& newest_first) {
  const auto older_overlaps = [](const MemRunPtr& newer, const MemRunPtr& older) {
    return older->begin > older->end || older->end > newer->begin;
  };
  return std::adjacent_find(newest_first.begin(), newest_first.end(), older_overlaps) ==
         newest_first.end();
}

bool are_unchanged(const View& before, const View& now) {
  return std::equal(before.families.begin(), before.families.end(), now.families.begin(),
                    now.families.end(), [](const FamilyViewPtr& a, const FamilyViewPtr& b) {
                      return a->id == b->id && a->tree_changes == b->tree_changes;
                    });
}

Status no_family(FamilyId family) {
  return Status::InvalidArgument("Invalid column family specified in write batch",
                                 "there is no column family " + std::to_string(family));
}

Status check_families(const batch::Requests& requests, const View& view) {
  const auto check = [&](FamilyId id, bool writes) {
    const FamilyView* const family = view.family(id);
    return family != nullptr && !(writes && family->dropped) ? Status::OK() : no_family(id);
  };
  for (const auto& writes : requests.writes()) {
    if (writes->record_count() == 0) continue;
    BRECCIA_TRY(check(writes->family(), true));
    if (writes->merges() > 0 && view.family(writes->family())->merge_operator == nullptr) {
      return Status::NotSupported("Provide a merge_operator when opening DB");
    }
  }
  for (const auto& reads : requests.reads()) {
    if (reads->count() > 0) BRECCIA_TRY(check(reads->family(), false));
  }
  for (const auto& ranges : requests.ranges()) {
    if (ranges->count() > 0) BRECCIA_TRY(check(ranges->family(), false));
  }
  return Status::OK();
}

const FamilyView* View::family(FamilyId id) const {
  for (const FamilyViewPtr& family : families) {
    if (family->id == id) return family.get();
  }
  return nullptr;
}

void View::set_family(FamilyViewPtr changed) {
  const auto place = std::find_if(families.begin(), families.end(),
                                  [&](const auto& family) { return family->id >= changed->id; });
  if (place != families.end() && (*place)->id == changed->id) {
    *place = std::move(changed);
  } else {
    families.insert(place, std::move(changed));
  }
}

void View::erase_family(FamilyId id) {
  std::erase_if(families, [&](const auto& family) { return family->id == id; });
}

std::size_t View::runs_max() const {
  std::size_t most = 0;
  for (const FamilyViewPtr& family : families) most = std::max(most, family->runs.size());
  return most;
}

std::size_t View::tombstones() const {
  std::size_t all = 0;
  for (const FamilyViewPtr& family : families) {
    if (family->tombstones != nullptr) all += family->tombstones->size();
  }
  return all;
}

std::uint64_t lower_bound(const Order& order, const wal::SegmentTable& table, const Slice& key,
                          std::uint64_t bound) {
  const runs::RunRef* const columns = order.host_view();
  const std::optional<OrderRange> among = narrowed(order, key);
  if (columns == nullptr || among.has_value()) {
    return lower_bound_in_log(order, table, among.value_or(OrderRange{0, order.count}), key, bound);
  }
  const record::OneKey sought(key);
  const runs::QueriesRef query{sought.ref(), nullptr, bound};
  return lower_bound_in_columns(*columns, query, sought_in_columns(*columns, query));
}

std::uint64_t find_one(const FamilyView& family, const wal::SegmentTable& table, const Slice& key,
                       std::uint64_t bound, const std::byte** record) {
  Searched searched;
  return find_one(family, table, key, bound, record, &searched);
}

std::uint64_t find_one(const FamilyView& family, const wal::SegmentTable& table, const Slice& key,
                       std::uint64_t bound, const std::byte** record, Searched* searched) {
  *searched = {};
  if (family.active->count() > 0) {
    ++searched->parts;
    const memtable::HostMemtable::Hit hit = family.active->find(key, bound);
    if (hit.record != nullptr) {
      *record = hit.record;
      return hit.payload;
    }
  }
  std::optional<record::OneKey> columns;
  std::uint64_t payload = runs::kNotFound;
  const auto find_in = [&](const MemRunPtr& run) {
    for (const Order& order : run->orders) {
      if (order.begin >= bound) continue;
      ++searched->parts;
      const std::optional<OrderRange> among = narrowed(order, key);
      searched->index_is_due = searched->index_is_due || order.index_is_due();
      const runs::RunRef* const own = order.host_view();
      if (own == nullptr || among.has_value()) {
        payload = find_in_log(order, table, among.value_or(OrderRange{0, order.count}), key, bound);
      } else {
        if (!columns.has_value()) columns.emplace(key);
        payload = find_in_columns(*own, {columns->ref(), nullptr, bound});
      }
      if (payload != runs::kNotFound) return true;
    }
    return false;
  };
  if (family.any_run(find_in)) *record = table.at(record::position_of(payload));
  return payload;
}

namespace {

/// Of the free runs, the smallest class of which kMergeFanIn lie together with nothing larger
/// between them; with them what is smaller around.
RunRange same_class_due(const std::vector<int>& classes) {
  const int largest = classes.empty() ? 0 : *std::max_element(classes.begin(), classes.end());
  for (int wanted = 0; wanted <= largest; ++wanted) {
    RunRange segment;
    std::size_t of_class = 0;
    for (std::size_t i = 0; i <= classes.size(); ++i) {
      if (i < classes.size() && classes[i] <= wanted) {
        of_class += classes[i] == wanted ? 1 : 0;
        ++segment.count;
        continue;
      }
      if (of_class >= kMergeFanIn) return segment;
      segment = {i + 1, 0};
      of_class = 0;
    }
  }
  return {};
}

/// The kMergeFanIn neighbours with the fewest entries.
RunRange cheapest_due(const std::vector<std::uint64_t>& counts) {
  RunRange cheapest{0, kMergeFanIn};
  std::uint64_t fewest = ~std::uint64_t{0};
  for (std::size_t i = 0; i + kMergeFanIn <= counts.size(); ++i) {
    std::uint64_t entries = 0;
    for (std::size_t j = i; j < i + kMergeFanIn; ++j) entries += counts[j];
    if (entries >= fewest) continue;
    fewest = entries;
    cheapest.first = i;
  }
  return cheapest;
}

}  // namespace

namespace {

/// How many of the runs from `first` on, up to `end`, searches have paid to merge: the most, or 0.
/// Each extension is paid for by its own pairs: were it by those before it, small runs that pile up
/// behind a merge would pay for the next large one.
std::size_t paid_for(const FamilyView& family, std::size_t first, std::size_t end) {
  const std::uint64_t searches = family.searches->load(std::memory_order_relaxed);
  std::uint64_t probes = 0;
  std::uint64_t entries = 0;
  std::size_t count = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (i > first) probes += searches - std::min(searches, family.runs[i - 1]->searches);
    entries += family.runs[i]->run->count();
    const bool are_paid_for = probes >= kProbesPerEntry * entries || BRECCIA_SOMETIMES(2);
    if (i == first || !are_paid_for) continue;
    count = i + 1 - first;
    probes = entries = 0;
  }
  return count;
}

}  // namespace

bool is_free(FamilyId family, const MemRun& run, const std::vector<TakenRange>& taken) {
  return std::none_of(taken.begin(), taken.end(), [&](const TakenRange& range) {
    return range.family == family && run.begin < range.end && range.begin < run.end;
  });
}

RunRange merge_due(const FamilyView& family, const std::vector<TakenRange>& taken) {
  const std::vector<MemRunPtr>& newest_first = family.runs;
  const auto is_free_at = [&](std::size_t i) {
    return is_free(family.id, *newest_first[i], taken);
  };
  std::size_t first = 0;
  while (first < newest_first.size() && !is_free_at(first)) ++first;
  std::vector<std::uint64_t> counts;
  std::vector<int> classes;
  for (std::size_t i = first; i < newest_first.size() && is_free_at(i); ++i) {
    counts.push_back(newest_first[i]->run->count());
    classes.push_back(size_class(counts.back()));
  }
  const std::size_t paid = paid_for(family, first, first + counts.size());
  if (paid > 0) return {first, paid};

  RunRange due = same_class_due(classes);
  // Sizes may come in an order in which no class ever lies together.
  if (due.count == 0 && counts.size() > kRunsCrowded) due = cheapest_due(counts);
  due.first += first;
  return due;
}

}  // namespace breccia::ordered
