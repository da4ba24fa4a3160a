#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "ordered/background/room.h"
#include "ordered/background/taken_runs.h"
#include "ordered/write/publisher.h"
#include "ordered/write/run_builder.h"

namespace breccia::ordered {

/// Merges runs in the background, so that few are left to search; reads the orders of merged ones
/// when the host searches in them, and builds indexes of orders.
///
/// Threads start() and stop() by one; the rest by any number.
class Merger {
 public:
  Merger(const StoreParts& parts, const RunBuilder* builder, Publisher* publisher, TakenRuns* taken,
         Room* room);
  ~Merger();

  void start();
  void stop();

  /// To be called when a family changed.
  void wake() { room_->merge_bell().ring(); }
  /// To be called when `searches` lookups are about to search the family's runs, or walks to emit
  /// as many entries of them: enough pay for a merge.
  void note_searches(const FamilyView& family, std::uint64_t searches);
  /// To be called when the host searched in more than one order of a run: begins to read those that
  /// the runs have on the device.
  void want_orders();
  /// To be called when an order's index is due: begins to build those that are, when no merge is.
  void want_indexes();
  /// Merges on the calling thread while runs have piled up.
  void help();
  /// The runs of a family, newest first, as one; `reads_order`: with its own order.
  /// Errors  MemoryLimit, and what a device says that is not lost.
  Result<MemRunPtr> merged(const std::vector<MemRunPtr>& runs, bool reads_order);
  /// Clean runs as one. `only_puts`: nothing older lies below them but the tree, which knows what
  /// was deleted.
  Result<MemRunPtr> merged_clean(const std::vector<MemRunPtr>& runs, bool only_puts);

 private:
  void run();
  /// Merges what is due, if anything: then *merged. Errors  it failed; another call may not.
  Status merge_once(bool* merged);
  [[nodiscard]] std::optional<Taken> take_due();
  /// False in *installed: the view has other runs by now.
  Status merge_taken(const Taken& taken, bool* installed);
  /// Reads one run's own order from the device, if any is not read: then *read.
  Status read_order_once(bool* read);
  Status read_order_of(const Taken& taken, bool* read);
  /// Builds one index, if any is due: then *built.
  Status build_index_once(bool* built);
  /// Puts `one` in the place of what was taken. False: the view has other runs by now.
  bool install(const Taken& taken, const MemRunPtr& one);
  Result<MemRunPtr> merged_as(const std::vector<MemRunPtr>& runs, runs::Keep keep,
                              bool reads_order);
  static Result<MemRunPtr> merged_on(runs::Backend& backend, const std::vector<MemRunPtr>& runs,
                                     runs::Keep keep, bool reads_order);

  const StoreParts parts_;
  const RunBuilder* builder_;
  Publisher* publisher_;
  TakenRuns* taken_;
  Room* room_;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> orders_wanted_{false};
  std::atomic<bool> indexes_wanted_{false};
  std::thread thread_;
};

}  // namespace breccia::ordered
