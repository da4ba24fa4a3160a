#include "shrink.h"

#include <algorithm>
#include <utility>

namespace breccia::metamorphic {

namespace {

class Shrinker {
 public:
  Shrinker(List list, const std::function<bool(const List&)>& fails, std::uint64_t runs_max)
      : best_(std::move(list)), fails_(fails), runs_left_(runs_max) {}

  List run() {
    List before;
    do {
      before = best_;
      take_sets_out();
      take_out([](List* list) { return &list->ops; });
      for (std::size_t i = 0; i < best_.ops.size(); ++i) {
        // The operation may go with its last part.
        take_out([i](List* list) { return i < list->ops.size() ? &list->ops[i].parts : nullptr; });
      }
      for (std::size_t i = 0; i < best_.ops.size(); ++i) simplify(i);
    } while (before != best_ && runs_left_ > 0);
    return std::move(best_);
  }

 private:
  /// Keeps the candidate if it is another list and fails.
  bool keep_if_fails(List candidate) {
    make_legal(&candidate);
    if (runs_left_ == 0 || candidate == best_) return false;
    --runs_left_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  void take_sets_out() {
    const std::vector<std::uint32_t> sets = best_.sets;
    for (std::size_t i = 0; sets.size() > 1 && i < sets.size(); ++i) {
      List candidate = best_;
      candidate.sets = {sets[i]};
      if (keep_if_fails(std::move(candidate))) return;
    }
  }

  /// Takes ever smaller chunks out of a sequence of the list.
  template <class Sequence>
  void take_out(const Sequence& sequence) {
    const auto size = [&] {
      const std::vector<Op>* const ops = sequence(&best_);
      return ops == nullptr ? 0 : ops->size();
    };
    std::size_t chunk = (size() + 1) / 2;
    while (chunk > 0) {
      bool any = false;
      std::size_t at = 0;
      while (at < size()) {
        List candidate = best_;
        std::vector<Op>* const ops = sequence(&candidate);
        const auto first = ops->begin() + static_cast<std::ptrdiff_t>(at);
        const auto last =
            ops->begin() + static_cast<std::ptrdiff_t>(std::min(at + chunk, ops->size()));
        ops->erase(first, last);
        if (ops->empty()) break;
        if (keep_if_fails(std::move(candidate))) {
          any = true;
        } else {
          at += chunk;
        }
      }
      // What could not go before may go now.
      if (!any || chunk > 1) chunk /= 2;
    }
  }

  void simplify(std::size_t i) {
    const auto change = [&](const auto& edit) {
      if (i >= best_.ops.size()) return;
      List candidate = best_;
      edit(&candidate.ops[i]);
      keep_if_fails(std::move(candidate));
    };
    change([](Op* op) {
      if (op->parts.size() == 1 && op->parts[0].kind != Kind::kRange) *op = Op(op->parts[0]);
    });
    change([](Op* op) { op->durability = Durability::kDefault; });
    change([](Op* op) { op->snapshot = kNone; });
    change([](Op* op) {
      if (op->kind == Kind::kIterator) op->key = kNone;
    });
    change([](Op* op) {
      if (op->kind == Kind::kIterator) op->end = kNone;
    });
    simplify_request(change);
    for (std::size_t part = 0; i < best_.ops.size() && part < best_.ops[i].parts.size(); ++part) {
      simplify_request([&](const auto& edit) {
        change([&](Op* op) {
          if (part < op->parts.size()) edit(&op->parts[part]);
        });
      });
    }
  }

  template <class Change>
  static void simplify_request(const Change& change) {
    change([](Op* op) {
      if (op->family != kNone) op->family = 0;
    });
    change([](Op* op) { op->variant = false; });
    for (const std::uint32_t number : {0u, 1u}) {
      change([number](Op* op) { op->number = std::min(op->number, number); });
    }
    change([](Op* op) { op->value = {}; });
    for (const std::uint32_t bytes : {1u, 8u}) {
      change([bytes](Op* op) { op->value.bytes = std::min(op->value.bytes, bytes); });
    }
    change([](Op* op) { op->value.fill &= 0xff; });
  }

  List best_;
  const std::function<bool(const List&)>& fails_;
  std::uint64_t runs_left_;
};

}  // namespace

List shrink(List list, const std::function<bool(const List&)>& fails, std::uint64_t runs_max) {
  return Shrinker(std::move(list), fails, runs_max).run();
}

}  // namespace breccia::metamorphic
