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
};

/// What is there while a list runs.
class Tracker {
 public:
  explicit Tracker(const model::Universe& universe)
      : universe_(universe), put_(kFamilies, std::vector<bool>(universe.keys.size(), false)) {
    for (std::uint32_t family = 0; family < kFixedFamilies; ++family) families_[family] = ++made_;
  }

  /// Takes the op if it means something here; of a batch, the parts that do.
  bool take(Op* op) {
    if (has_parts(op->kind)) return take_parts(op);
    if (is_request(op->kind)) return take_request(*op, op->snapshot, /*alone=*/true);
    return take_other(*op);
  }

 private:
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
        if (!single || !put[op.key]) return false;
        put[op.key] = false;
        return true;
      case Kind::kDelete:
        return !single;
      case Kind::kMerge:
        // RocksDB lets a batch add operands that it cannot read later.
        return !single && (alone || op.family != kFamilies - 1);
      case Kind::kDeleteRange:
        return take_delete_range(op);
      case Kind::kRange:
        return op.end != kNone;
      default:
        return true;
    }
  }

  bool take_delete_range(const Op& op) {
    if (op.end == kNone) return false;
    const std::string& begin = universe_.keys[op.key];
    const std::string& end = universe_.keys[op.end];
    if (end < begin) return false;
    for (std::uint32_t key = 0; key < universe_.keys.size(); ++key) {
      if (!is_single_key(key) || !put_[op.family][key]) continue;
      const std::string& text = universe_.keys[key];
      if (begin <= text && text < end) put_[op.family][key] = false;
    }
    return true;
  }

  bool take_other(const Op& op) {
    switch (op.kind) {
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
      if (iterator.has_value() || number == 0) return false;
      iterator = OpenIterator{op.family, number, op.snapshot != kNone};
      return true;
    }
    if (!iterator.has_value()) return false;
    if (op.kind == Kind::kClose) iterator.reset();
    if (op.kind == Kind::kRefresh) {
      return iterator->on_snapshot || families_[iterator->family] == iterator->incarnation;
    }
    return (op.kind != Kind::kSeek && op.kind != Kind::kSeekForPrev) || op.key != kNone;
  }

  const model::Universe& universe_;
  std::uint32_t made_ = 0;
  Incarnations families_{};
  std::vector<std::vector<bool>> put_;  // single keys that were put since their last deletion
  std::array<std::optional<Incarnations>, kSnapshots> snapshots_;
  std::array<std::optional<OpenIterator>, kIterators> iterators_;
};

}  // namespace

void make_legal(List* list) {
  const model::Universe universe = universe_of(*list);
  Tracker tracker(universe);
  std::erase_if(list->ops, [&](Op& op) { return !tracker.take(&op); });
}

}  // namespace breccia::metamorphic
