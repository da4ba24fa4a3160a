#include "ordered/check.h"

#include <fmt/format.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <cstdio>

#include "base/result.h"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

/// Looks at one family.
class FamilyCheck {
 public:
  FamilyCheck(const FamilyView& family, const View& view, const PositionBounds& bounds)
      : family_(family), table_(*view.table), flushed_(view.flushed), bounds_(bounds) {}

  [[nodiscard]] Status check() const {
    BRECCIA_TRY(check_counts());
    BRECCIA_TRY(check_positions());
    for (const MemRunPtr& run : family_.runs) BRECCIA_TRY(check_orders(*run, bounds_.log_begin));
    BRECCIA_TRY(check_clean());
    BRECCIA_TRY(check_memtable());
    return check_tombstones();
  }

 private:
  [[nodiscard]] Status wrong(const std::string& what) const {
    return Status::Corruption(fmt::format("family {}: {}", family_.id, what));
  }

  [[nodiscard]] Status check_counts() const {
    std::size_t orders = 0;
    std::vector<runs::RunPtr> searched;
    family_.any_run([&](const MemRunPtr& run) {
      orders += run->orders.size();
      searched.push_back(run->run);
      return false;
    });
    if (family_.backend_runs != searched) return wrong("runs for searches");
    return orders == family_.orders ? Status::OK() : wrong("the number of orders");
  }

  [[nodiscard]] Status check_positions() const {
    if (family_.runs.empty()) return Status::OK();
    if (!are_newest_first(family_.runs)) return wrong("runs overlap, or are not newest first");
    const std::uint64_t end = family_.runs.front()->end;
    if (family_.runs_end != end) {
      return wrong(fmt::format("runs end at {}, not at {}", end, family_.runs_end));
    }
    if (end > bounds_.visible) {
      return wrong(fmt::format("runs end at {}, above {}, which is visible", end, bounds_.visible));
    }
    // A run may begin where the family's last one ended, whatever was flushed since.
    return family_.runs.back()->end > bounds_.log_begin ? Status::OK()
                                                        : wrong("a run that was flushed");
  }

  [[nodiscard]] Status check_clean() const {
    if (!are_newest_first(family_.clean))
      return wrong("clean runs overlap, or stand the other way");
    for (const MemRunPtr& run : family_.clean) {
      if (run->end > flushed_) return wrong("a clean run that was not flushed");
      if (run->has_merges || run->orders.size() != 1) return wrong("a clean run of operands");
      BRECCIA_TRY(check_orders(*run, /*from=*/0));
    }
    if (family_.clean_has_all && family_.clean.empty()) {
      return wrong("no clean run has all of the tree");
    }
    const bool in_order =
        family_.log_from <= family_.clean_from && family_.clean_from <= flushed_ &&
        (family_.clean.empty() || family_.clean.back()->begin >= family_.clean_from);
    return in_order ? Status::OK() : wrong("clean runs begin before they are whole");
  }

  /// `from`: below it the run has nothing, wherever it begins.
  [[nodiscard]] Status check_orders(const MemRun& run, std::uint64_t from) const {
    std::uint64_t entries = 0;
    std::uint64_t end = run.end;
    for (const Order& order : run.orders) {
      if (order.end > end || order.begin > order.end || order.begin < run.begin) {
        return wrong(fmt::format("an order of [{}, {}) in a run of [{}, {})", order.begin,
                                 order.end, run.begin, run.end));
      }
      BRECCIA_TRY(check_order(order, from));
      entries += order.count;
      end = order.begin;
    }
    const std::uint64_t count = run.run->count();
    // Of a device's merge the orders are those of its sources, with what it left out.
    const bool agrees = run.orders.size() == 1 ? entries == count : entries >= count;
    return agrees ? Status::OK()
                  : wrong(fmt::format("orders of {} entries for {} in the run", entries, count));
  }

  /// Neighbours at regular places are enough where there are many.
  [[nodiscard]] Status check_order(const Order& order, std::uint64_t from) const {
    constexpr std::uint64_t kPairsMax = 4096;
    const std::uint64_t step = order.count / kPairsMax + 1;
    for (std::uint64_t i = 0; i < order.count; i += step) {
      const std::uint64_t position = order.position_at(i);
      const std::uint64_t begin = std::max(order.begin, from);
      if (position < begin || position >= order.end) {
        return wrong(
            fmt::format("position {} in an order of [{}, {})", position, begin, order.end));
      }
      if (!is_indexed_well(order, i)) {
        return wrong(fmt::format("entry {} of an order is not where the index says", i));
      }
      if (i + 1 == order.count) break;
      const std::uint64_t next = order.position_at(i + 1);
      if (!is_before(key_at(position), position, key_at(next), next)) {
        return wrong(fmt::format("entries {} and {} of an order are not sorted", i, i + 1));
      }
    }
    return Status::OK();
  }

  [[nodiscard]] bool is_indexed_well(const Order& order, std::uint64_t i) const {
    const OrderIndex* const index = order.index == nullptr ? nullptr : order.index->get();
    if (index == nullptr) return true;
    const OrderRange among = index->narrow(key_at(order.position_at(i)));
    return among.begin <= i && i < among.end && among.end <= order.count;
  }

  [[nodiscard]] Status check_memtable() const {
    memtable::HostMemtable::Cursor cursor(*family_.active);
    Slice last_key;
    std::uint64_t last = 0;
    std::uint64_t count = 0;
    for (cursor.seek_to_first(); cursor.valid(); cursor.next(), ++count) {
      const std::uint64_t position = record::position_of(cursor.payload());
      if (position < family_.runs_end || position >= bounds_.visible) {
        return wrong(fmt::format("position {} in a memtable of [{}, {})", position,
                                 family_.runs_end, bounds_.visible));
      }
      if (count > 0 && !is_before(last_key, last, cursor.key(), position)) {
        return wrong("a memtable is not sorted");
      }
      last_key = cursor.key();
      last = position;
    }
    return count == family_.active->count() ? Status::OK() : wrong("the memtable's count");
  }

  [[nodiscard]] Status check_tombstones() const {
    if (family_.tombstones == nullptr) return Status::OK();
    bool are_visible = true;
    family_.tombstones->for_each(0, [&](const memtable::Tombstone& one) {
      are_visible = one.position < bounds_.visible;
      return are_visible;
    });
    return are_visible ? Status::OK() : wrong("a range deletion that is not visible");
  }

  [[nodiscard]] static bool is_before(const Slice& key, std::uint64_t position,
                                      const Slice& next_key, std::uint64_t next) {
    const int order = key.compare(next_key);
    return order < 0 || (order == 0 && position > next);
  }
  [[nodiscard]] Slice key_at(std::uint64_t position) const {
    const std::byte* const record = table_.at(position);
    return {record::record_key(record), record::record_header(record).key_bytes()};
  }

  const FamilyView& family_;
  const wal::SegmentTable& table_;
  const std::uint64_t flushed_;
  const PositionBounds& bounds_;
};

}  // namespace

Status check_view(const View& view, const PositionBounds& bounds) {
  if (bounds.visible > bounds.log_end || view.flushed > bounds.visible) {
    return Status::Corruption(fmt::format("memory is [{}, {}) of a log that ends at {}",
                                          view.flushed, bounds.visible, bounds.log_end));
  }
  for (const FamilyViewPtr& family : view.families) {
    BRECCIA_TRY(FamilyCheck(*family, view, bounds).check());
  }
  return Status::OK();
}

Status check_tree(const View& view, const std::vector<tree::TreeFamily>& families) {
  for (const tree::TreeFamily& family : families) {
    const FamilyView* const own = view.family(family->GetID());
    if (own == nullptr || own->dropped) {
      return Status::Corruption("the view lacks family " + family->GetName());
    }
  }
  const auto is_live = [](const FamilyViewPtr& family) { return !family->dropped; };
  const auto live = std::count_if(view.families.begin(), view.families.end(), is_live);
  if (static_cast<std::size_t>(live) == families.size()) return Status::OK();
  return Status::Corruption("the view has a family that the tree lacks");
}

namespace {

/// Keys of a family that are looked at.
constexpr int kKeysMax = 16 << 10;

/// Null: the tree has none.
std::unique_ptr<rocksdb::Iterator> all_keys(const View& view, const FamilyView& family) {
  rocksdb::ReadOptions options;
  options.total_order_seek = true;
  options.fill_cache = false;  // what a user finds cached must not depend on it
  return view.below.iterate(options, family.in_tree());
}

}  // namespace

Status check_filters(const View& view) {
  for (const FamilyViewPtr& family : view.families) {
    if (family->filter == nullptr || family->dropped) continue;
    const auto at = all_keys(view, *family);
    if (at == nullptr) continue;
    int left = kKeysMax;
    for (at->SeekToFirst(); at->Valid() && left > 0; at->Next(), --left) {
      if (family->filter->may_hold(family->filter->hash(at->key()))) continue;
      return Status::Corruption(fmt::format("the filter of family {} lacks a key", family->id));
    }
  }
  return Status::OK();
}

namespace {

/// Whether known files say of a key, if they do, that it has `value`; null: that it is nowhere.
Status check_known(const View& view, const FamilyView& family, const Slice& key,
                   const Slice* value) {
  rocksdb::PinnableSlice known;
  bool was_packed = false;
  const std::byte* record = nullptr;
  const std::uint64_t none_bound = ~std::uint64_t{0};
  // Of what memory or a clean run has, older files may say what was.
  if (family.files == nullptr &&
      find_one(family, *view.table, key, none_bound, &record) != runs::kNotFound) {
    return Status::OK();
  }
  const auto found = family.below_memory().files->get(key, &known, &was_packed);
  if (!found.has_value()) return Status::OK();
  if (value != nullptr ? found->ok() && known == *value : found->IsNotFound()) return Status::OK();
  return Status::Corruption(
      fmt::format("files of family {} say something else than the tree", family.id));
}

}  // namespace

Status check_files(const View& view) {
  for (const FamilyViewPtr& family : view.families) {
    if (family->below_memory().files == nullptr || family->dropped) continue;
    const auto at = all_keys(view, *family);
    if (at == nullptr) continue;
    std::string behind;  // the least key behind the one before
    int left = kKeysMax;
    for (at->SeekToFirst(); at->Valid() && left > 0; at->Next(), --left) {
      if (!behind.empty() && at->key() != Slice(behind)) {
        BRECCIA_TRY(check_known(view, *family, behind, /*value=*/nullptr));
      }
      const Slice value = at->value();
      BRECCIA_TRY(check_known(view, *family, at->key(), &value));
      behind.assign(at->key().data(), at->key().size());
      behind.push_back('\0');
    }
  }
  return Status::OK();
}

bool holds(const Status& checked) {
  if (!checked.IsCorruption()) return true;
  std::fprintf(stderr, "%s\n", checked.ToString().c_str());
  return false;
}

}  // namespace breccia::ordered
