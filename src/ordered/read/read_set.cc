#include "ordered/read/read_set.h"

#include <algorithm>
#include <atomic>

#include "base/parallel.h"
#include "record/key_columns.h"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

/// The oldest position that something of `reads` depends on.
std::uint64_t oldest_of(const ReadSet& reads) {
  std::uint64_t oldest = ~std::uint64_t{0};
  for (const ReadSet::Keys& keys : reads.keys) {
    for (std::uint64_t i = 0; i < keys.keys.count; ++i) {
      oldest = std::min(oldest, keys.since_at(i));
      if (keys.since == nullptr) break;
    }
  }
  for (const ReadSet::Range& range : reads.ranges) oldest = std::min(oldest, range.since);
  return oldest;
}

Status check_families(const ReadSet& reads, const View& view) {
  const auto check = [&](FamilyId id) {
    return view.family(id) != nullptr
               ? Status::OK()
               : Status::InvalidArgument("Could not access column family " + std::to_string(id));
  };
  for (const ReadSet::Keys& keys : reads.keys) BRECCIA_TRY(check(keys.family));
  for (const ReadSet::Range& range : reads.ranges) BRECCIA_TRY(check(range.family));
  return Status::OK();
}

/// A range and the positions whose versions count.
struct Window {
  const ReadSet::Range& range;
  std::uint64_t bound;

  [[nodiscard]] bool ends_before(const Slice& key) const {
    return !range.is_open && key.compare(range.end) >= 0;
  }
  [[nodiscard]] bool has(std::uint64_t position) const {
    return position >= range.since && position < bound;
  }
};

bool changed_in_memtable(const memtable::HostMemtable& active, const Window& window) {
  memtable::HostMemtable::Cursor at(active);
  for (at.seek(window.range.begin, ~std::uint64_t{0}); at.valid(); at.next()) {
    if (window.ends_before(at.key())) return false;
    if (window.has(record::position_of(at.payload()))) return true;
  }
  return false;
}

bool changed_in_order(const Order& order, const wal::SegmentTable& table, const Window& window) {
  if (order.end <= window.range.since) return false;
  for (std::uint64_t i = lower_bound(order, table, window.range.begin, ~std::uint64_t{0});
       i < order.count; ++i) {
    const std::uint64_t position = order.position_at(i);
    const std::byte* const record = table.at(position);
    if (window.ends_before(
            {record::record_key(record), record::record_header(record).key_bytes()})) {
      return false;
    }
    if (window.has(position)) return true;
  }
  return false;
}

bool range_changed(const View& view, const FamilyView& family, const Window& window) {
  if (window.ends_before(window.range.begin)) return false;  // nothing is in it
  if (family.tombstones != nullptr) {
    bool overlaps = false;
    family.tombstones->for_each(window.range.since, [&](const memtable::Tombstone& one) {
      overlaps = window.has(one.position) && !window.ends_before(one.begin) &&
                 one.end.compare(window.range.begin) > 0;
      return !overlaps;
    });
    if (overlaps) return true;
  }
  return changed_in_memtable(*family.active, window) ||
         std::any_of(family.runs.begin(), family.runs.end(), [&](const MemRunPtr& run) {
           return std::any_of(run->orders.begin(), run->orders.end(), [&](const Order& order) {
             return changed_in_order(order, *view.table, window);
           });
         });
}

}  // namespace

Status Validator::validate(const Pin& pin, const ReadSet& reads, std::uint64_t device_min) const {
  if (reads.empty()) return Status::OK();
  BRECCIA_TRY(check_families(reads, *pin.view));
  const Status busy = Status::Busy("a key or range was written by somebody else since it was read",
                                   "roll back and run the transaction again");
  if (changed(*pin.view, pin.visible, reads, device_min)) return busy;
  const auto flushed = history_->between(oldest_of(reads), pin.view->flushed);
  if (!flushed.has_value()) {
    return Status::TryAgain(
        "Transaction could not check for conflicts: what was written since it began was flushed, "
        "and is more than is kept",
        "run it again; Options::memtable_bytes bounds what is kept");
  }
  for (const History::Part& part : *flushed) {
    if (changed(*part.view, part.end, reads, device_min)) return busy;
  }
  return Status::OK();
}

bool Validator::changed(const View& view, std::uint64_t bound, const ReadSet& reads,
                        std::uint64_t device_min) const {
  for (const ReadSet::Keys& keys : reads.keys) {
    const FamilyView* const family = view.family(keys.family);
    if (family != nullptr && keys_changed(view, *family, bound, keys, device_min)) return true;
  }
  return std::any_of(reads.ranges.begin(), reads.ranges.end(), [&](const auto& range) {
    const FamilyView* const family = view.family(range.family);
    return family != nullptr && range_changed(view, *family, {range, bound});
  });
}

// The newest version of a key decides: if it is older than the key's position, all of them are.
bool Validator::keys_changed(const View& view, const FamilyView& family, std::uint64_t bound,
                             const ReadSet::Keys& keys, std::uint64_t device_min) const {
  constexpr std::uint64_t kKeysPerPart = 4096;
  const std::uint64_t n = keys.keys.count;
  const auto backend = backends_->current();
  exec::HostVector<std::uint64_t> found(backend->host_memory());
  bool searched = n >= device_min && found.reserve(n);
  if (searched) {
    found.extend(n);
    searched = search_->search(family, family.backend_runs, {keys.keys, nullptr, bound},
                               {found.data()}, /*cached=*/nullptr);
  }
  const bool only_runs = family.active->count() == 0 && family.tombstones == nullptr;
  std::atomic<bool> any{false};
  const auto look_at = [&](std::uint64_t part) {
    std::string key;
    const std::uint64_t end = std::min(n, (part + 1) * kKeysPerPart);
    for (std::uint64_t i = part * kKeysPerPart; i < end && !any.load(); ++i) {
      std::uint64_t newest = searched ? found.data()[i] : runs::kNotFound;
      std::uint64_t covered = 0;
      if (!searched || !only_runs) {
        key.resize(keys.keys.bytes_at(i));
        record::restore_key(keys.keys, i, key.data());
        covered = family.covering(key, bound);
      }
      if (!searched) {
        const std::byte* record = nullptr;
        newest = find_one(family, *view.table, key, bound, &record);
      } else if (!only_runs) {
        newest = std::max(newest, family.active->find(key, bound).payload);
      }
      static_assert(runs::kNotFound == 0);  // at position 0, which is no record's
      if (std::max(record::position_of(newest), covered) >= keys.since_at(i)) any = true;
    }
  };
  const std::uint64_t parts = (n + kKeysPerPart - 1) / kKeysPerPart;
  if (parts <= 1) {
    if (parts == 1) look_at(0);
  } else {
    base::parallel_for(std::uint64_t{0}, parts, look_at);
  }
  return any;
}

}  // namespace breccia::ordered
