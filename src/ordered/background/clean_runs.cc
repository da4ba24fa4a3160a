#include "ordered/background/clean_runs.h"

#include <algorithm>
#include <memory>

#include "base/assert.h"

/// A flush is not an eviction: the run that it has merged stays, and with it the log that its
/// payloads point to, until a budget wants it back.
///
///   View::flushed
///         v
///   clean | runs | active      positions ascend to the right; only what is clean is in the tree
///
/// A clean run must say what the tree says. So it holds the newest version of each key and no merge
/// operands (they are in the tree, combined), and a family lets go of all its clean runs when a
/// flush brings operands or range deletions below what they hold.

namespace breccia::ordered {

namespace {

/// With what is not flushed, a search still takes all runs of a family (kRunsPerSearchMax).
constexpr std::size_t kCleanRunsMax = 24;

/// A run that positions below `from` have nothing in: its range may begin far before.
MemRunPtr beginning_at(const MemRun& run, std::uint64_t from) {
  BRECCIA_ASSERT(run.orders.size() == 1 && !run.has_merges && from < run.end);
  auto clean = std::make_shared<MemRun>(run);
  clean->begin = std::max(run.begin, from);
  clean->set_order(run.orders.front());
  return clean;
}

/// The family of the view whose oldest clean run is the oldest of all; null if there is none.
const FamilyView* with_oldest(const View& view) {
  const FamilyView* oldest = nullptr;
  for (const FamilyViewPtr& family : view.families) {
    if (family->clean.empty()) continue;
    const std::uint64_t begin = family->clean.back()->begin;
    if (oldest == nullptr || begin < oldest->clean.back()->begin) oldest = family.get();
  }
  return oldest;
}

/// The view without the oldest clean run of a family.
void drop_oldest(const FamilyView& family, View* view) {
  BRECCIA_ASSERT(!family.clean.empty());
  auto changed = std::make_shared<FamilyView>(family);
  auto clean = changed->clean;
  changed->clean_from = changed->log_from = clean.back()->end;
  changed->log_has_all = false;
  clean.pop_back();
  changed->set_clean(std::move(clean), /*has_all=*/false);
  changed->drop_older_files();
  view->set_family(std::move(changed));
}

}  // namespace

void keep_flushed(FamilyView* family, const FamilyView& before, const MemRunPtr& merged,
                  std::uint64_t from, std::uint64_t applied, bool keeps) {
  BRECCIA_ASSERT(from <= applied && family->clean_from <= from);
  BRECCIA_ASSERT(family->id == before.id && (merged != nullptr || before.runs.empty()));
  const bool is_plain = before.tombstones == nullptr && (merged == nullptr || !merged->has_merges);
  // Where a compaction may change what readers see, a clean run would hide that.
  if (!keeps || !is_plain || !family->tree_is_cached) {
    family->forget_clean(applied);
    return;
  }
  if (merged == nullptr) return;
  family->log_has_all = !before.tree_has_data || family->log_has_all;
  std::vector<MemRunPtr> clean{beginning_at(*merged, from)};
  clean.insert(clean.end(), family->clean.begin(), family->clean.end());
  family->set_clean(std::move(clean), !before.tree_has_data || family->clean_has_all);
}

void forget_clean(View* view) {
  const std::vector<FamilyViewPtr> families = view->families;
  for (const FamilyViewPtr& family : families) {
    auto changed = std::make_shared<FamilyView>(*family);
    changed->forget_clean(view->flushed);
    view->set_family(std::move(changed));
  }
}

std::vector<tree::LogPart> log_parts(const View& view) {
  std::vector<tree::LogPart> parts;
  for (const FamilyViewPtr& family : view.families) {
    if (family->dropped) continue;
    BRECCIA_ASSERT(family->log_from <= family->clean_from);
    parts.push_back({family->id, family->log_from, family->log_has_all});
  }
  return parts;
}

bool may_refill(const View& view) {
  return std::any_of(view.families.begin(), view.families.end(), [](const FamilyViewPtr& family) {
    return family->log_from < family->clean_from;
  });
}

void shrink_clean(View* view, const CleanBudget& budget) {
  const std::vector<FamilyViewPtr> families = view->families;
  for (const FamilyViewPtr& family : families) {
    if (family->clean.size() > kCleanRunsMax) drop_oldest(*family, view);
  }
  while (const FamilyView* const family = with_oldest(*view)) {
    const bool fits = view->flushed - clean_begin(*view) <= budget.log_bytes &&
                      clean_memory(*view) <= budget.memory_bytes;
    if (fits) return;
    drop_oldest(*family, view);
  }
}

RunRange clean_merge_due(const FamilyView& family, std::uint64_t log_bytes_max) {
  FamilyView alone;
  alone.id = family.id;
  alone.set_runs(family.clean);
  RunRange due = merge_due(alone, /*taken=*/{});
  const auto log_bytes = [&] {
    return family.clean[due.first]->end - family.clean[due.first + due.count - 1]->begin;
  };
  // Runs of one size may hold much of the log, where the same keys are written again.
  while (due.count >= 2 && log_bytes() > log_bytes_max) --due.count;
  return due.count >= 2 ? due : RunRange{};
}

std::uint64_t clean_begin(const View& view) {
  const FamilyView* const family = with_oldest(view);
  return family == nullptr ? view.flushed : family->clean.back()->begin;
}

std::uint64_t clean_memory(const View& view) {
  std::uint64_t bytes = 0;
  for (const FamilyViewPtr& family : view.families) {
    for (const MemRunPtr& run : family->clean) bytes += run->run->memory_bytes();
  }
  return bytes;
}

std::uint64_t device_bytes(const std::vector<MemRunPtr>& runs) {
  std::uint64_t bytes = 0;
  for (const MemRunPtr& run : runs) {
    if (run->run->host_view() == nullptr) bytes += run->run->memory_bytes();
  }
  return bytes;
}

}  // namespace breccia::ordered
