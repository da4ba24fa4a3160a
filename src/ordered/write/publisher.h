#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ordered/background/room.h"
#include "ordered/parts.h"
#include "ordered/write/ticket.h"
#include "wal/commit_queue.h"

namespace breccia::ordered {

/// Makes the next view from the current one: what a batch brought, runs for memtables, families.
///
/// Threads any: it owns the lock under which views are published. Tickets come in their order from
///         the commit queue.
class Publisher {
 public:
  /// `room` hears of every family that a batch, or a seal, has changed.
  Publisher(const StoreParts& parts, const RunBuilder* builder, Room* room)
      : state_(parts.state),
        backends_(parts.backends),
        log_(parts.log),
        statistics_(parts.statistics),
        builder_(builder),
        room_(room) {}

  /// Publishes the first view.
  void begin(std::shared_ptr<View> view, std::uint64_t visible);

  /// What the commit queue asks of the engine: publish() for each ticket, and counts.
  [[nodiscard]] wal::CommitEnvironment commit_environment();
  /// Makes the entries of a committed ticket visible. What is for a family that was dropped
  /// meanwhile is left out.
  /// Errors  MemoryLimit, after a while: nothing of it is visible, and nothing must be from now on.
  Status publish(WriteTicket& ticket);

  /// Turns the family's memtable into a run, unless somebody publishes just now.
  void try_seal(FamilyId family);
  /// Brings small runs of the host to the device where the family's others lie, likewise.
  void try_lift(FamilyId family);
  /// Turns every memtable into a run. What is then: `after`, under the lock.
  /// Errors  MemoryLimit: nothing changed.
  Status seal_all(const std::function<void()>& after = [] {});

  /// True if a ticket was published in part, and nothing may be shown any more. For changes.
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  /// The view and what is visible of it, at a time when nobody publishes; none if it gave up.
  [[nodiscard]] std::optional<Pin> pin_at_rest();

  /// Publishes a changed copy of the current view; `change` runs under the lock.
  void change(const std::function<void(View*)>& change);

  /// Builds what the view holds on a device again on the host: at once, or, if views are being
  /// published, right behind that. If there is no memory, readers go on with what views they have.
  void leave_device();

 private:
  /// The lock. At its end it does what leave_device() has left to it.
  class Turn;
  using FamilyPtr = std::shared_ptr<FamilyView>;
  [[nodiscard]] std::shared_ptr<View> copy_view(wal::SegmentTablePtr table) const;
  [[nodiscard]] FamilyPtr copy_family(FamilyId id) const;
  void replace(FamilyPtr family, std::uint64_t visible);
  void publish_view(std::shared_ptr<View> next, std::uint64_t visible);

  Status seal(FamilyId family);
  void settle();
  void publish_records(WriteTicket* ticket);
  Status publish_runs(WriteTicket* ticket);
  Status publish_in_turn(WriteTicket* ticket);
  Status publish_family(const WriteTicket& ticket, const WriteTicket::FamilyRuns& family_runs);
  [[nodiscard]] Result<MemRunPtr> on_device_in_use(MemRun run) const;
  void publish_tombstones(const WriteTicket& ticket);

  ViewState* state_;
  Backends* backends_;
  wal::Log* log_;
  Statistics* statistics_;
  const RunBuilder* builder_;
  Room* room_;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};  // who has the lock
  std::atomic<bool> must_leave_{false};
  wal::SegmentTablePtr table_;
  bool gave_up_ = false;  // a ticket was published in part
};

}  // namespace breccia::ordered
