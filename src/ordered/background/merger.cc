#include "ordered/background/merger.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/sometimes.h"
#include "ordered/background/waits.h"

namespace breccia::ordered {

namespace {

/// Orders that a merged run has at most before a merge reads its own: what one key's search on the
/// host costs until then, in searches of one order.
constexpr std::size_t kOrdersMax = 32;

/// Whether keys are looked up one by one in a run, so that what it is merged into wants an index.
bool is_indexed(const MemRunPtr& run) {
  return std::any_of(run->orders.begin(), run->orders.end(), [](const Order& order) {
    return order.index != nullptr && order.index->get() != nullptr;
  });
}

/// Makes `order`, which was just read, the only one of a run that is made from others.
void set_read_order(Order order, bool was_indexed, MemRun* one) {
  one->set_order(std::move(order));
  if (was_indexed && one->run->count() >= OrderIndex::kEntriesMin) {
    one->orders.front().index->inherit();
  }
}

}  // namespace

Merger::Merger(const StoreParts& parts, const RunBuilder* builder, Publisher* publisher,
               TakenRuns* taken, Room* room)
    : parts_(parts), builder_(builder), publisher_(publisher), taken_(taken), room_(room) {}

Merger::~Merger() { stop(); }

void Merger::start() {
  thread_ = std::thread([this] { run(); });
}

void Merger::stop() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void Merger::run() {
  Status status;
  base::MemoryPause pause(kMemoryPauseMax);
  while (true) {
    if (!status.ok()) {
      // Every new run rings: this is no time for one merge after the other that fails.
      std::this_thread::sleep_for(pause.next());
    } else {
      pause.start_over();
      room_->merge_bell().wait();
    }
    bool worked = true;
    while (worked && !stopping_ && parts_.fault->get().ok()) {
      bool read = false;
      Status of_order = read_order_once(&read);
      status = merge_once(&worked);
      if (status.ok()) status = std::move(of_order);
      worked = status.ok() && (worked || read);
      // Behind all merges: what they take away needs no index.
      if (!worked && status.ok()) {
        build_index_once(&worked).PermitUncheckedError();  // searches pay again
      }
    }
    if (stopping_) return;
  }
}

void Merger::note_searches(const FamilyView& family, std::uint64_t searches) {
  constexpr std::uint64_t kWorthLooking = 1 << 14;
  if (family.runs.size() < 2) return;
  const std::uint64_t before = family.searches->fetch_add(searches, std::memory_order_relaxed);
  if (before / kWorthLooking != (before + searches) / kWorthLooking) wake();
}

void Merger::want_orders() {
  if (!orders_wanted_.load(std::memory_order_relaxed) && !orders_wanted_.exchange(true)) wake();
}

void Merger::want_indexes() {
  if (!indexes_wanted_.load(std::memory_order_relaxed) && !indexes_wanted_.exchange(true)) wake();
}

void Merger::help() {
  bool merged = true;
  while (merged && room_->is_crowded() && parts_.fault->get().ok()) {
    merge_once(&merged).PermitUncheckedError();  // the thread says why
  }
}

// ---- merges ------------------------------------------------------------------------------------

Status Merger::merge_once(bool* merged) {
  *merged = false;
  if (stopping_) return Status::OK();
  bool installed = false;
  std::optional<Taken> taken;
  Status status = base::or_memory_limit([&] {
    taken = take_due();
    return Status::OK();
  });
  if (taken.has_value()) {
    status = base::or_memory_limit([&] { return merge_taken(*taken, &installed); });
    *merged = status.ok();
    taken_->give_back(*taken);
    room_->look_again();
  }
  if (!status.ok() && taken.has_value()) {
    base::as_memory_allows([&] {
      log(LogLevel::kWarning,
          fmt::format("a merge of {} runs failed, searches go on with all of them: {}",
                      taken->runs.size(), status.ToString()));
    });
  }
  return status;
}

std::optional<Taken> Merger::take_due() {
  return taken_->take(*parts_.state, [](const FamilyView& family, const auto& ranges) {
    const RunRange due = merge_due(family, ranges);
    return due.count < 2 ? RunRange{} : due;
  });
}

Status Merger::merge_taken(const Taken& taken, bool* installed) {
  const base::Stopwatch watch;
  std::uint64_t entries = 0;
  std::size_t orders = 0;
  for (const auto& run : taken.runs) {
    entries += run->run->count();
    orders += run->orders.size();
  }
  const bool reads_order = orders > kOrdersMax || BRECCIA_SOMETIMES(20);
  BRECCIA_TAKE(const MemRunPtr one, merged(taken.runs, reads_order));
  *installed = install(taken, one);
  parts_.statistics->add(Ticker::kRunMerges, 1);
  parts_.statistics->add(Ticker::kRunMergeEntries, entries);
  parts_.statistics->record(Timing::kRunMergeMicros, watch.micros());
  return Status::OK();
}

bool Merger::install(const Taken& taken, const MemRunPtr& one) {
  bool installed = false;
  publisher_->change([&](View* next) {
    const FamilyView* const family = next->family(taken.family);
    // After a fault the newest runs may be of a batch that was never shown; the publisher knows
    // first.
    if (family == nullptr || publisher_->gave_up() || !parts_.fault->get().ok()) return;
    // The device that has the merged run may be lost, and with it a front run of the host's stays.
    if (one->run->host_view() == nullptr && !parts_.backends->current()->holds(*one->run)) return;
    auto list = family->runs;
    const auto first = std::find(list.begin(), list.end(), taken.runs.front());
    // A device lost meanwhile has replaced the runs; the merged one is of no use then.
    if (first == list.end()) return;
    *first = one;
    list.erase(first + 1, first + static_cast<std::ptrdiff_t>(taken.runs.size()));
    auto changed = std::make_shared<FamilyView>(*family);
    changed->set_runs(std::move(list));
    next->set_family(std::move(changed));
    room_->note_view(next->runs_max(), next->tombstones());
    installed = true;
  });
  return installed;
}

Result<MemRunPtr> Merger::merged(const std::vector<MemRunPtr>& runs, bool reads_order) {
  const bool has_merges =
      std::any_of(runs.begin(), runs.end(), [](const MemRunPtr& run) { return run->has_merges; });
  return merged_as(runs, has_merges ? runs::Keep::kStacks : runs::Keep::kNewest, reads_order);
}

Result<MemRunPtr> Merger::merged_clean(const std::vector<MemRunPtr>& runs, bool only_puts) {
  return merged_as(runs, only_puts ? runs::Keep::kPuts : runs::Keep::kNewest,
                   /*reads_order=*/true);
}

Result<MemRunPtr> Merger::merged_as(const std::vector<MemRunPtr>& runs, runs::Keep keep,
                                    bool reads_order) {
  const auto backend = parts_.backends->current();
  if (builder_->merges_on(*backend, runs)) {
    auto one = parts_.backends->attempt(
        *backend, [&](runs::Backend& on) { return merged_on(on, runs, keep, reads_order); });
    if (one.ok() || parts_.backends->is_host(*backend)) return one;
  }
  // The host cannot read the runs of a device: it builds them again from the log.
  BRECCIA_TAKE(const auto on_host,
               runs_on_host(runs, *parts_.state->view()->table, parts_.backends->host()));
  return merged_on(parts_.backends->host(), on_host, keep, /*reads_order=*/true);
}

// What the host has built goes to the device for the merge: else it would draw all that it is
// merged with to the host.
Result<MemRunPtr> Merger::merged_on(runs::Backend& backend, const std::vector<MemRunPtr>& runs,
                                    runs::Keep keep, bool reads_order) {
  std::vector<runs::RunPtr> inputs;
  auto one = std::make_shared<MemRun>();
  for (const auto& run : runs) {
    inputs.push_back(run->run);
    if (!backend.holds(*run->run)) {
      BRECCIA_TAKE(inputs.back(), backend.build_run(entries_of(*run->run->host_view()),
                                                    /*descriptors=*/nullptr));
    }
    one->has_merges = one->has_merges || run->has_merges;
  }
  one->begin = runs.back()->begin;
  one->searches = runs.back()->searches;
  one->end = runs.front()->end;
  BRECCIA_ASSERT(!one->has_merges || keep == runs::Keep::kStacks);
  BRECCIA_TAKE(one->run, backend.merge_runs(inputs, keep));
  if (reads_order || one->run->host_view() != nullptr) {
    BRECCIA_TAKE(Order order, read_order(backend, one->run));
    set_read_order(std::move(order), std::any_of(runs.begin(), runs.end(), is_indexed), one.get());
  } else {
    for (const auto& run : runs) {
      one->orders.insert(one->orders.end(), run->orders.begin(), run->orders.end());
    }
  }
  return MemRunPtr(std::move(one));
}

// ---- orders ------------------------------------------------------------------------------------

Status Merger::read_order_once(bool* read) {
  if (!orders_wanted_.exchange(false)) return Status::OK();
  std::optional<Taken> taken;
  BRECCIA_TRY(base::or_memory_limit([&] {
    taken = taken_->take(*parts_.state, [](const FamilyView& family, const auto& ranges) {
      for (std::size_t i = 0; i < family.runs.size(); ++i) {
        const MemRun& run = *family.runs[i];
        if (run.orders.size() > 1 && is_free(family.id, run, ranges)) return RunRange{i, 1};
      }
      return RunRange{};
    });
    return Status::OK();
  }));
  if (!taken.has_value()) return Status::OK();
  Status status = base::or_memory_limit([&] { return read_order_of(*taken, read); });
  taken_->give_back(*taken);
  room_->look_again();
  if (*read) orders_wanted_ = true;  // there may be more
  return status;
}

Status Merger::read_order_of(const Taken& taken, bool* read) {
  const auto one = std::make_shared<MemRun>(*taken.runs.front());
  const auto backend = parts_.backends->current();
  // The device may be lost, and then the view has other runs by now.
  if (!backend->holds(*one->run)) return Status::OK();
  BRECCIA_TAKE(Order order, parts_.backends->attempt(*backend, [&](runs::Backend& on) {
    return ordered::read_order(on, one->run);
  }));
  set_read_order(std::move(order), is_indexed(taken.runs.front()), one.get());
  *read = install(taken, one);
  if (*read) parts_.statistics->add(Ticker::kOrdersRead, 1);
  return Status::OK();
}

// Nobody has to be kept away from the run: whoever has the order in his view finds the index in it,
// and if it is merged meanwhile the index goes with it.
Status Merger::build_index_once(bool* built) {
  if (!indexes_wanted_.exchange(false)) return Status::OK();
  const ViewPtr view = parts_.state->view();
  const Order* due = nullptr;
  const auto look = [&](const MemRunPtr& run) {
    const auto first = std::find_if(run->orders.begin(), run->orders.end(),
                                    [](const Order& order) { return order.index_is_due(); });
    if (first != run->orders.end()) due = &*first;
    return due != nullptr;
  };
  for (const FamilyViewPtr& family : view->families) {
    if (family->any_run(look)) break;
  }
  if (due == nullptr) return Status::OK();
  std::unique_ptr<const OrderIndex> index;
  const Status status = base::or_memory_limit([&] {
    index = OrderIndex::make(*due, *view->table, stopping_);
    return Status::OK();
  });
  if (index == nullptr) {
    due->index->give_up();
    return status;
  }
  due->index->give(std::move(index));
  parts_.statistics->add(Ticker::kIndexesBuilt, 1);
  *built = true;
  indexes_wanted_ = true;  // there may be more
  return Status::OK();
}

}  // namespace breccia::ordered
