#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "list.h"

namespace breccia::metamorphic {

namespace {

/// Which family stands behind each number: 0 for none, else different for each creation.
using Incarnations = std::array<std::uint32_t, kFamilies>;

struct OpenIterator {
  std::uint32_t family;
  std::uint32_t incarnation;
  bool on_snapshot;
  bool tailing;
  bool stale = false;  // something was written since a tailing iterator's last seek
};

/// What is there while a list runs.
class Tracker {
 public:
  Tracker(const model::Universe& universe, Api api)
      : universe_(universe),
        api_(api),
        put_(kFamilies, std::vector<bool>(universe.keys.size(), false)) {
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) families_[family] = ++made_;
  }

  /// Takes the op if it means something here; of a batch, the parts that do.
  bool take(Op* op) {
    const bool taken = take_any(op);
    const Kind kind = op->kind;
    const bool writes =
        is_write(kind) || kind == Kind::kBatch || kind == Kind::kIndexed || kind == Kind::kCommit;
    for (auto& iterator : iterators_) {
      if (taken && writes && iterator.has_value()) iterator->stale = true;
    }
    return taken;
  }

 private:
  bool take_any(Op* op) {
    if (is_save_point(op->kind)) return false;  // only a part
    if (op->kind == Kind::kIndexed || op->kind == Kind::kWithin) return take_within(op);
    if (has_parts(op->kind)) return take_parts(op);
    if (is_request(op->kind)) return take_request(*op, op->snapshot, /*alone=*/true);
    return take_other(*op);
  }

  [[nodiscard]] bool open(std::uint32_t transaction) const {
    return transaction < kTransactions && open_[transaction];
  }

  [[nodiscard]] bool on_facade() const { return api_ != Api::kStore; }

  bool take_within(Op* op) {
    const bool indexed = op->kind == Kind::kIndexed;
    if (indexed ? !on_facade() : !open(op->transaction)) return false;
    std::erase_if(op->parts, [&](const Op& part) { return !take_part_within(part); });
    return !op->parts.empty();
  }

  // What is written here may never happen, so that keys for single deletions are not touched.
  bool take_part_within(const Op& part) {
    if (is_save_point(part.kind)) return on_facade();
    if (!is_request(part.kind) || part.family >= kFixedFamilies || part.key == kNone) return false;
    if (part.kind == Kind::kDeleteRange) {
      return !on_facade() && !has_single_key(part) && take_delete_range(part);
    }
    if (is_write(part.kind) && is_single_key(part.key)) return false;
    return take_request(part, kNone, /*alone=*/false);
  }

  [[nodiscard]] bool has_single_key(const Op& range) const {
    for (std::uint32_t key = 0; key < universe_.keys.size() && range.end != kNone; ++key) {
      const std::string& text = universe_.keys[key];
      const bool within = universe_.keys[range.key] <= text && text < universe_.keys[range.end];
      if (is_single_key(key) && within) return true;
    }
    return false;
  }

  bool take_parts(Op* op) {
    if (op->snapshot != kNone && (op->kind != Kind::kRead || !taken(op->snapshot))) return false;
    std::erase_if(op->parts, [&](const Op& part) {
      const bool fits = op->kind == Kind::kBatch ? is_request(part.kind)
                        : op->kind == Kind::kRead
                            ? part.kind == Kind::kGet || part.kind == Kind::kRange
                            : part.kind == Kind::kGet && part.family == 0;
      // What is submitted twice would put a single key twice.
      const bool once = is_write(part.kind) && part.key != kNone && is_single_key(part.key);
      return !fits || (op->number > 0 && once) ||
             !take_request(part, op->snapshot, /*alone=*/false);
    });
    return !op->parts.empty();
  }

  [[nodiscard]] bool taken(std::uint32_t snapshot) const {
    return snapshot < kSnapshots && snapshots_[snapshot].has_value();
  }
  /// The family's incarnation as of the snapshot, or now; 0 if there is none.
  [[nodiscard]] std::uint32_t incarnation(std::uint32_t family, std::uint32_t snapshot) const {
    if (family >= kFamilies) return 0;
    if (snapshot == kNone) return families_[family];
    return taken(snapshot) ? (*snapshots_[snapshot])[family] : 0;
  }

  bool take_request(const Op& op, std::uint32_t snapshot, bool alone) {
    if (op.key == kNone || incarnation(op.family, snapshot) == 0) return false;
    const bool single = is_single_key(op.key);
    std::vector<bool>& put = put_[op.family];
    switch (op.kind) {
      case Kind::kPut:
        if (!single) return true;
        if (put[op.key]) return false;
        return put[op.key] = true;
      case Kind::kSingleDelete:
        // Where a lock is held a batch does nothing, and what is put once may be put again.
        if (!single || !put[op.key] || api_ == Api::kLocking) return false;
        put[op.key] = false;
        return true;
      case Kind::kDelete:
        return !single;
      case Kind::kMerge:
        // In a batch, and so in a locking database, operands that have no operator end all writing
        // to RocksDB.
        return !single && ((alone && api_ != Api::kLocking) || op.family != kFamilies - 1);
      case Kind::kDeleteRange:
        return take_delete_range(op);
      case Kind::kRange:
        return op.end != kNone;
      default:
        return true;
    }
  }

  bool take_delete_range(const Op& op) {
    // RocksDB's transactions do not see them as conflicts, its tailing iterators not at all.
    if (op.end == kNone || (on_facade() && (open(0) || open(1))) || any_tailing()) return false;
    const std::string& begin = universe_.keys[op.key];
    const std::string& end = universe_.keys[op.end];
    if (end < begin) return false;
    any_range_deleted_ = true;
    for (std::uint32_t key = 0; key < universe_.keys.size(); ++key) {
      if (!is_single_key(key) || !put_[op.family][key]) continue;
      const std::string& text = universe_.keys[key];
      if (begin <= text && text < end) put_[op.family][key] = false;
    }
    return true;
  }

  [[nodiscard]] bool any_tailing() const {
    return std::any_of(iterators_.begin(), iterators_.end(), [](const auto& iterator) {
      return iterator.has_value() && iterator->tailing;
    });
  }

  bool take_other(const Op& op) {
    switch (op.kind) {
      case Kind::kBegin:
        if (op.transaction >= kTransactions || open_[op.transaction]) return false;
        return open_[op.transaction] = true;
      case Kind::kCommit:
      case Kind::kRollback:
        if (!open(op.transaction)) return false;
        open_[op.transaction] = false;
        return true;
      case Kind::kSnapshot:
        if (op.snapshot == kNone || taken(op.snapshot)) return false;
        snapshots_[op.snapshot] = families_;
        return true;
      case Kind::kRelease:
        if (!taken(op.snapshot)) return false;
        snapshots_[op.snapshot].reset();
        return true;
      case Kind::kScan:
        return incarnation(op.family, op.snapshot) != 0;
      case Kind::kCreate:
      case Kind::kDrop:
        return take_family(op);
      default:
        break;
    }
    if (op.kind >= Kind::kIterator && op.kind <= Kind::kClose) return take_iterator(op);
    if (ends_readers(op.kind)) {
      open_.fill(false);
      snapshots_.fill({});
      iterators_.fill({});
    }
    return true;
  }

  bool take_family(const Op& op) {
    if (op.family < kFixedFamilies || op.family >= kFamilies) return false;
    if ((families_[op.family] == 0) != (op.kind == Kind::kCreate)) return false;
    families_[op.family] = op.kind == Kind::kCreate ? ++made_ : 0;
    put_[op.family].assign(universe_.keys.size(), false);
    return true;
  }

  bool take_iterator(const Op& op) {
    if (op.iterator >= kIterators) return false;
    std::optional<OpenIterator>& iterator = iterators_[op.iterator];
    if (op.kind == Kind::kIterator) {
      const std::uint32_t number = incarnation(op.family, op.snapshot);
      if (iterator.has_value() || number == 0 || op.number >= kModes) return false;
      const bool tailing = op.number == kTailing;
      const bool can_tail =
          op.family < kFixedFamilies && op.snapshot == kNone && !any_range_deleted_;
      if (tailing && !can_tail) return false;
      iterator = OpenIterator{op.family, number, op.snapshot != kNone, tailing};
      return true;
    }
    if (!iterator.has_value()) return false;
    if (iterator->tailing && !take_tailing(op.kind, &*iterator)) return false;
    if (op.kind == Kind::kClose) iterator.reset();
    if (op.kind == Kind::kRefresh) {
      return iterator->on_snapshot || families_[iterator->family] == iterator->incarnation;
    }
    return (op.kind != Kind::kSeek && op.kind != Kind::kSeekForPrev) || op.key != kNone;
  }

  /// The present is seen by seeks; a step shows what a seek saw only if nothing was written since.
  bool take_tailing(Kind kind, OpenIterator* iterator) const {
    switch (kind) {
      case Kind::kSeek:
      case Kind::kSeekToFirst:
        iterator->stale = false;
        return true;
      case Kind::kNext:
        return !iterator->stale;
      default:
        return kind == Kind::kClose || on_facade();  // a store's goes back, RocksDB's refuses
    }
  }

  const model::Universe& universe_;
  const Api api_;
  bool any_range_deleted_ = false;
  std::array<bool, kTransactions> open_{};
  std::uint32_t made_ = 0;
  Incarnations families_{};
  std::vector<std::vector<bool>> put_;  // single keys that were put since their last deletion
  std::array<std::optional<Incarnations>, kSnapshots> snapshots_;
  std::array<std::optional<OpenIterator>, kIterators> iterators_;
};

}  // namespace

void make_legal(List* list) {
  const model::Universe universe = universe_of(*list);
  Tracker tracker(universe, list->api);
  std::erase_if(list->ops, [&](Op& op) { return !tracker.take(&op); });
}

}  // namespace breccia::metamorphic
