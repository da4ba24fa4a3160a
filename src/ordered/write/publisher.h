#pragma once

#include <functional>
#include <memory>

#include "ordered/state.h"
#include "ordered/write/commit.h"
#include "wal/log.h"

namespace breccia::ordered {

/// Makes the next view from the current one: what a batch brought, runs for memtables, families.
///
/// Threads one at a time: every member is called under the publish lock (CommitQueue).
class Publisher {
 public:
  /// Called when a family changes: how many runs the fullest one has, and how many range deletions
  /// there are.
  using Note = std::function<void(std::size_t runs, std::size_t tombstones)>;
  Publisher(ViewState* state, BackendSlot* backends, wal::Log* log, Note note)
      : state_(state), backends_(backends), log_(log), note_(std::move(note)) {}

  /// Publishes the first view.
  void begin(std::shared_ptr<View> view, std::uint64_t visible);

  /// Makes the entries of a committed ticket visible. What is for a family that was dropped
  /// meanwhile is left out.
  /// Errors  MemoryLimit.
  Status publish(Ticket& ticket);

  /// Turns the family's memtable into a run; ok if it is empty.
  /// Errors  MemoryLimit: nothing changed.
  Status seal(FamilyId family);
  Status seal_all();

  /// Publishes a changed copy of the current view.
  void change(const std::function<void(View*)>& change);

  /// Builds what the view holds on a device again on the host.
  Status leave_device();

 private:
  using FamilyPtr = std::shared_ptr<FamilyView>;
  [[nodiscard]] std::shared_ptr<View> copy_view() const;
  [[nodiscard]] FamilyPtr copy_family(FamilyId id) const;
  void replace(FamilyPtr family, std::uint64_t visible);

  void publish_records(const Ticket& ticket);
  Status publish_runs(Ticket& ticket);
  Status publish_run(const Ticket& ticket, Ticket::FamilyRun* family_run);
  void publish_range_deletes(const Ticket& ticket);
  void add_tombstones(FamilyId family, std::vector<memtable::Tombstone> added);
  Result<runs::RunPtr> sealed_run(const record::EntriesRef& entries);

  ViewState* state_;
  BackendSlot* backends_;
  wal::Log* log_;
  Note note_;
  wal::SegmentTablePtr table_;
};

}  // namespace breccia::ordered
