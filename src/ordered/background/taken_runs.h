#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "ordered/state.h"

namespace breccia::ordered {

/// Runs of one family that somebody works on, newest first.
struct Taken {
  FamilyId family;
  std::vector<MemRunPtr> runs;
};

/// Who works on which runs: of those that are taken nobody else may take one, or put another in its
/// place. Merges take neighbours; the flush takes all there is.
///
/// Threads any; the flush's functions one.
class TakenRuns {
 public:
  /// Takes what `due`(family, taken ranges) says of the first family of which it says something,
  /// beginning behind the one that was served last. While a flush waits for its turn, only what
  /// takes little of the time that it waits for others anyhow.
  /// Errors  std::bad_alloc, with nothing taken.
  template <class Due>
  std::optional<Taken> take(const ViewState& state, const Due& due) {
    const std::lock_guard lock(mutex_);
    if (flush_waits_ && ranges_.empty()) return {};
    const ViewPtr view = state.view();
    const std::size_t count = view->families.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (next_ + i) % count;
      const FamilyView& family = *view->families[at];
      const RunRange range = due(family, ranges_);
      if (range.count == 0 || (flush_waits_ && !ends_soon(family, range))) continue;
      next_ = at + 1;
      return take_range(family, range);
    }
    return {};
  }
  void give_back(const Taken& taken);

  /// Keeps others from taking runs, and waits until they have given back theirs.
  void begin_flush();
  /// Lets others take runs again, but for those of `view`. Errors  std::bad_alloc, with nothing
  /// changed.
  void take_all(const View& view);
  /// begin_flush() was in vain.
  void give_up_flush();
  /// Of what take_all() took.
  void give_back_below(std::uint64_t position);

 private:
  [[nodiscard]] bool ends_soon(const FamilyView& family, RunRange range) const;
  Taken take_range(const FamilyView& family, RunRange range);

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<TakenRange> ranges_;
  std::size_t next_ = 0;  // where take() begins, among a view's families
  bool flush_waits_ = false;
};

}  // namespace breccia::ordered
