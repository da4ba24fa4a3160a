#include "ordered/background/refill.h"

#include <algorithm>
#include <memory>

#include "base/log.h"
#include "base/memory.h"
#include "ordered/recover.h"
#include "wal/recovery.h"

/// From a store's watermark downwards:
///
///   log_from        frontier_        View::flushed
///      v               v                 v
///      | still to come |  clean runs     |  runs, memtables
///
/// A step takes the frames of one segment below the frontier, all of them or none, makes a run of
/// each family's and puts it behind the family's clean runs. Whatever was let go of meanwhile (a
/// budget, a file that somebody brought in) has moved clean_from, and that family has ended: older
/// entries below a gap would hide what the tree has.

namespace breccia::ordered {

Refill::Refill(const StoreParts& parts, Publisher* publisher, Merger* merger)
    : parts_(parts), publisher_(publisher), merger_(merger) {
  const ViewPtr view = parts.state->view();
  if (may_refill(*view)) frontier_ = view->flushed;
}

void Refill::step(const CleanBudget& budget) {
  bool more = false;
  const Status status = base::or_memory_limit([&] { return step_down(budget, &more); });
  if (status.IsCorruption()) {
    log(LogLevel::kInfo, "memory is not filled further from the log: " + status.ToString());
  }
  if (!status.ok() || !more) end();
}

void Refill::end() {
  if (!is_pending()) return;
  frontier_ = 0;
  parts_.log->remove_hold(wal::kOpeningHold);
  base::or_memory_limit([&] {
    publisher_->change([](View* next) {
      const std::vector<FamilyViewPtr> families = next->families;
      for (const FamilyViewPtr& family : families) {
        if (family->log_from == family->clean_from) continue;
        auto changed = std::make_shared<FamilyView>(*family);
        changed->log_from = family->clean_from;  // what lies below may be used again
        changed->log_has_all = false;
        next->set_family(std::move(changed));
      }
    });
    return Status::OK();
  }).PermitUncheckedError();
}

bool Refill::wants(const FamilyView& family) const {
  return !family.dropped && family.tree_is_cached && family.clean_from == frontier_ &&
         family.log_from < frontier_;
}

/// Where the next step begins at the lowest: no family may get what the tree did not take from the
/// log, nor the log's budget be passed. frontier_ if there is nothing more to do.
std::uint64_t Refill::floor(const View& view, const CleanBudget& budget) const {
  std::uint64_t lowest = 0;
  bool any = false;
  for (const FamilyViewPtr& family : view.families) {
    if (!wants(*family)) continue;
    any = true;
    lowest = std::max(lowest, family->log_from);
  }
  if (!any || !view.keeps_clean) return frontier_;
  const std::uint64_t in_budget = view.flushed - std::min(view.flushed, budget.log_bytes);
  return std::min(std::max(lowest, in_budget), frontier_);
}

/// The segment with the frames right below `position`, in the log's table; null if it is gone.
Result<wal::SegmentPtr> Refill::segment_below(std::uint64_t position) {
  const wal::SegmentTablePtr table = parts_.log->table();
  for (const wal::SegmentPtr& segment : table->segments()) {
    if (segment->base < position && position <= segment->end()) return segment;
  }
  BRECCIA_TAKE(wal::SegmentPtr taken, parts_.log->take_back());
  const bool is_it = taken != nullptr && taken->base < position && position <= taken->end();
  return is_it ? std::move(taken) : nullptr;
}

Status Refill::step_down(const CleanBudget& budget, bool* more) {
  const ViewPtr view = parts_.state->view();
  const std::uint64_t lowest = floor(*view, budget);
  if (lowest >= frontier_) return Status::OK();
  BRECCIA_TAKE(const wal::SegmentPtr segment, segment_below(frontier_));
  if (segment == nullptr) return Status::OK();
  publisher_->change([](View*) {});  // views can read it now
  std::uint64_t from = 0;
  const wal::SegmentView image{segment->base, segment->size, segment->file->image(), segment->path,
                               segment->size};
  BRECCIA_TAKE(const auto frames,
               wal::whole_frames(image, std::max(lowest, segment->base), frontier_, &from));
  if (from >= frontier_) return Status::OK();
  BRECCIA_TAKE(const Runs runs, runs_of(frames, from));
  std::uint64_t memory = 0;
  for (const auto& [id, run] : runs) memory += run->run->memory_bytes();
  publisher_->change([&](View* next) {
    for (const auto& [id, run] : runs) {
      const bool is_in_use =
          run->run->host_view() != nullptr || parts_.backends->current()->holds(*run->run);
      if (!is_in_use) return;
    }
    if (!next->keeps_clean || clean_memory(*next) + memory > budget.memory_bytes) return;
    add(runs, from, next);
    *more = true;
  });
  frontier_ = from;
  return Status::OK();
}

/// Of each family that wants it, what `frames` hold, as one run.
/// Errors  Corruption: what no clean run may hold; then the note was wrong.
Result<Refill::Runs> Refill::runs_of(const std::vector<wal::RecoveredFrame>& frames,
                                     std::uint64_t from) {
  BRECCIA_TAKE(auto recovered, parts_.backends->run([&](runs::Backend& backend) {
    return recover_families(frames, from, backend);
  }));
  const ViewPtr view = parts_.state->view();
  Runs runs;
  for (auto& [id, family] : recovered) {
    const FamilyView* const own = view->family(id);
    if (own == nullptr || !wants(*own)) continue;
    const bool has_merges = std::any_of(family.runs.begin(), family.runs.end(),
                                        [](const MemRunPtr& run) { return run->has_merges; });
    if (has_merges || !family.tombstones.empty()) {
      return Status::Corruption("operands below the watermark, where none were noted");
    }
    if (family.runs.empty()) continue;
    // Also a single one: of each key the newest version is enough.
    BRECCIA_TAKE(runs[id], merger_->merged(family.runs, /*reads_order=*/true));
    BRECCIA_ASSERT(from <= runs[id]->begin && runs[id]->end <= frontier_);
  }
  return runs;
}

void Refill::add(const Runs& runs, std::uint64_t from, View* next) const {
  const std::vector<FamilyViewPtr> families = next->families;
  for (const FamilyViewPtr& family : families) {
    if (!wants(*family)) continue;
    const auto run = runs.find(family->id);
    auto changed = std::make_shared<FamilyView>(*family);
    auto clean = family->clean;
    if (run != runs.end()) clean.push_back(run->second);
    changed->clean_from = from;
    const bool has_all = family->log_has_all && family->log_from == from && !clean.empty();
    changed->set_clean(std::move(clean), has_all);
    next->set_family(std::move(changed));
  }
}

}  // namespace breccia::ordered
