#include "ordered/write/publisher.h"

#include <algorithm>
#include <map>

#include "base/memory.h"
#include "base/sometimes.h"
#include "record/entry_columns.h"
#include "wal/format.h"

/// How views change. One at a time, in a Turn: a committed batch goes into the memtable of the
/// current view (records: seen when `visible` passes them) or becomes runs of a new view, behind
/// the memtable, which is sealed first; range deletions make new views always. Whoever finds no
/// memory half way is called again, and goes on behind what is done (WriteTicket::published).
/// Changes by others (merges, flushes, the tree's) are made to a copy, in the same turns.

namespace breccia::ordered {

namespace {

FamilyId family_named_by(const std::byte* record) {
  FamilyId family;
  BRECCIA_ASSERT(record::record_header(record).value_bytes == sizeof family);
  std::memcpy(&family, record::record_value(record), sizeof family);
  return family;
}

memtable::Tombstone tombstone_of(const std::byte* record, std::uint64_t position) {
  const record::RecordHeader header = record::record_header(record);
  return {{record::record_key(record), header.key_bytes()},
          {record::record_value(record), header.value_bytes},
          position};
}

}  // namespace

class Publisher::Turn {
 public:
  explicit Turn(Publisher* publisher) : Turn(publisher, std::unique_lock(publisher->mutex_)) {}
  Turn(Publisher* publisher, std::unique_lock<std::mutex> lock)
      : publisher_(publisher), lock_(std::move(lock)) {
    if (lock_.owns_lock()) publisher_->owner_.store(std::this_thread::get_id());
  }
  ~Turn() {
    if (!lock_.owns_lock()) return;
    publisher_->owner_.store(std::thread::id());
    lock_.unlock();
    publisher_->settle();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  [[nodiscard]] bool is_mine() const { return lock_.owns_lock(); }

 private:
  Publisher* const publisher_;
  std::unique_lock<std::mutex> lock_;
};

void Publisher::leave_device() {
  must_leave_.store(true);
  settle();
}

// Whoever has the lock sees the flag when it unlocks, and comes here; so nobody waits, and a device
// that is lost under the lock does no harm.
void Publisher::settle() {
  while (must_leave_.load() && owner_.load() != std::this_thread::get_id()) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    if (!must_leave_.exchange(false)) return;
    auto on_host =
        base::or_memory_limit([this] { return view_on_host(*state_->view(), backends_->host()); });
    if (on_host.ok()) state_->publish(on_host.take(), state_->visible());
  }
}

void Publisher::begin(std::shared_ptr<View> view, std::uint64_t visible) {
  view->table = table_ = log_->table();
  state_->publish(std::move(view), visible);
}

std::shared_ptr<View> Publisher::copy_view(wal::SegmentTablePtr table) const {
  auto next = std::make_shared<View>(*state_->view());
  next->table = std::move(table);
  return next;
}

Publisher::FamilyPtr Publisher::copy_family(FamilyId id) const {
  const ViewPtr view = state_->view();
  const FamilyView* const family = view->family(id);
  return family == nullptr ? nullptr : std::make_shared<FamilyView>(*family);
}

void Publisher::replace(FamilyPtr family, std::uint64_t visible) {
  auto next = copy_view(table_);
  next->set_family(std::move(family));
  publish_view(std::move(next), visible);
}

void Publisher::publish_view(std::shared_ptr<View> next, std::uint64_t visible) {
  const std::size_t runs = next->runs_max();
  const std::size_t tombstones = next->tombstones();
  state_->publish(std::move(next), visible);
  room_->note_view(runs, tombstones);
  room_->merge_bell().ring();
}

void Publisher::change(const std::function<void(View*)>& change) {
  const Turn turn(this);
  wal::SegmentTablePtr table = log_->table();
  auto next = copy_view(table);
  change(next.get());
  table_ = std::move(table);  // as the view has it
  state_->publish(std::move(next), state_->visible());
}

std::optional<Pin> Publisher::pin_at_rest() {
  const Turn turn(this);
  if (gave_up_) return std::nullopt;
  return state_->pin();
}

wal::CommitEnvironment Publisher::commit_environment() {
  const auto note = [this](const wal::CommitNote& done) {
    statistics_->add(Ticker::kFrames, done.frames);
    statistics_->add(Ticker::kLogBytes, done.bytes);
    statistics_->add(Ticker::kCommits, done.commits);
    if (done.sync_micros.has_value()) statistics_->note_sync(*done.sync_micros);
  };
  return {
      .publish = [this](wal::Ticket& ticket) { return publish(static_cast<WriteTicket&>(ticket)); },
      .visible = [this] { return state_->visible(); },
      .note = note};
}

// Who waits for memory keeps the lock: nobody may seal or flush a part of a batch.
Status Publisher::publish(WriteTicket& ticket) {
  const Turn turn(this);
  const Status status = base::with_patience([&] { return publish_in_turn(&ticket); });
  gave_up_ = gave_up_ || !status.ok();
  return base::copy_of(status);
}

Status Publisher::publish_in_turn(WriteTicket* ticket) {
  const bool new_segment =
      table_->segments().empty() || ticket->frame.position >= table_->segments().back()->end();
  if (new_segment) {
    wal::SegmentTablePtr table = log_->table();
    auto next = copy_view(table);
    table_ = std::move(table);
    state_->publish(std::move(next), state_->visible());
  }
  if (ticket->runs.empty()) {
    publish_records(ticket);
  } else {
    BRECCIA_TRY(publish_runs(ticket));
  }
  publish_tombstones(*ticket);
  state_->show(ticket->frame.end());
  if (ticket->wants_view) ticket->view = state_->view();
  return Status::OK();
}

// Entries become visible with show(), so readers of the current view do not see half a batch.
void Publisher::publish_records(WriteTicket* ticket) {
  const auto& segments = table_->segments();
  const wal::SegmentPtr& segment = *std::find_if(
      segments.rbegin(), segments.rend(),
      [&](const wal::SegmentPtr& candidate) { return candidate->base <= ticket->frame.position; });
  const auto view = state_->view();
  WriteTicket::Progress& done = ticket->published;
  const FamilyView* family = view->family(done.family);
  const std::byte* const records = ticket->frame.at + ticket->frame.layout().records;
  while (done.records < ticket->frame.record_count) {
    const std::byte* const record = records + done.bytes;
    const std::uint64_t position = ticket->frame.records_position() + done.bytes;
    const record::RecordHeader header = record::record_header(record);
    if (header.op() == record::Op::kFamily) {
      done.family = family_named_by(record);
      family = view->family(done.family);
    } else if (header.op() == record::Op::kDeleteRange) {
      done.tombstones.emplace_back(done.family, tombstone_of(record, position));
    } else if (family != nullptr) {
      memtable::HostMemtable& active = *family->active;
      // If it was not sealed meanwhile.
      if (ticket->place.has_value() && ticket->place->memtable == family->active) {
        active.insert_at(ticket->place->at, record, position, segment);
      } else {
        active.insert(record, position, segment);
      }
    }
    // Behind all that may find no memory: each record is inserted once.
    done.bytes += header.record_bytes();
    ++done.records;
  }
}

/// Those of all families in one step. Called again, it has changed nothing before.
void Publisher::publish_tombstones(const WriteTicket& ticket) {
  if (ticket.published.tombstones.empty()) return;
  std::map<FamilyId, std::vector<memtable::Tombstone>> added;
  for (const auto& [id, one] : ticket.published.tombstones) {
    if (one.begin != one.end) added[id].push_back(one);
  }
  auto next = copy_view(table_);
  for (auto& [id, tombstones] : added) {
    const FamilyPtr family = copy_family(id);
    if (family == nullptr) continue;
    family->tombstones = memtable::Tombstones::with(family->tombstones, std::move(tombstones));
    next->set_family(family);
  }
  publish_view(std::move(next), state_->visible());
}

Status Publisher::publish_runs(WriteTicket* ticket) {
  for (WriteTicket::FamilyRuns& runs : ticket->runs) {
    if (runs.built.empty()) continue;
    BRECCIA_TRY(publish_family(*ticket, runs));
    runs.built.clear();
  }
  ticket->published.tombstones.clear();
  const std::byte* const records = ticket->frame.at + ticket->frame.layout().records;
  for (const auto& [family, offset] : ticket->range_deletes) {
    ticket->published.tombstones.emplace_back(
        family, tombstone_of(records + offset, ticket->frame.records_position() + offset));
  }
  return Status::OK();
}

// All chunks with one view: a search must not find a key's older version in one of them.
Status Publisher::publish_family(const WriteTicket& ticket,
                                 const WriteTicket::FamilyRuns& family_runs) {
  BRECCIA_TRY(seal(family_runs.family));
  const FamilyPtr family = copy_family(family_runs.family);
  if (family == nullptr) return Status::OK();
  auto runs = family->runs;
  for (const BuiltRun& built : family_runs.built) {
    BRECCIA_ASSERT(built.order.columns != nullptr || built.order.descriptors != nullptr ||
                   built.order.payloads != nullptr);
    MemRun run;
    run.run = built.run;
    run.begin = family->runs_end;
    run.searches = family->searches->load(std::memory_order_relaxed);
    // What comes between these entries and the next batch's is theirs.
    run.end = &built == &family_runs.built.back() ? ticket.frame.end() : built.end;
    run.set_order(built.order);
    run.orders.front().records = ticket.frame.records_position();
    run.has_merges = family_runs.has_merges;
    BRECCIA_TAKE(MemRunPtr published, on_device_in_use(std::move(run)));
    family->runs_end = published->end;
    runs.insert(runs.begin(), std::move(published));
  }
  family->set_runs(std::move(runs));
  replace(family, state_->visible());
  return Status::OK();
}

/// The run where it can be searched: the device may have been retired between its sort and now.
Result<MemRunPtr> Publisher::on_device_in_use(MemRun run) const {
  if (run.run->host_view() != nullptr || backends_->current()->holds(*run.run)) {
    return MemRunPtr(std::make_shared<MemRun>(std::move(run)));
  }
  return rebuild_on_host(run, *table_, backends_->host());
}

Status Publisher::seal(FamilyId id) {
  // The memtable may hold a part of a batch that nobody may see, and a flush takes all of a run.
  if (gave_up_) return base::io_error("a batch was not shown for want of memory");
  const FamilyPtr family = copy_family(id);
  if (family == nullptr || family->active->count() == 0) return Status::OK();
  record::EntryColumns columns(exec::plain_host_memory());
  if (!family->active->export_to(&columns)) {
    return Status::MemoryLimit("no memory to seal the memtable");
  }
  BRECCIA_ASSERT(columns.count() == family->active->count());
  auto run = std::make_shared<MemRun>();
  const record::EntriesRef entries = columns.ref(/*sorted=*/true);
  BRECCIA_TAKE(run->run, builder_->build_sorted(entries));
  run->begin = family->runs_end;
  run->end = state_->visible();
  run->searches = family->searches->load(std::memory_order_relaxed);
  run->has_merges = columns.has_merges();
  if (run->run->host_view() != nullptr) {
    run->set_order({run->run});
  } else {
    BRECCIA_TAKE(Order order,
                 copy_order(backends_->first(), columns.payloads().data(), columns.count()));
    run->set_order(std::move(order));
  }
  family->runs_end = run->end;
  family->active = std::make_shared<memtable::HostMemtable>();
  auto runs = family->runs;
  runs.insert(runs.begin(), std::move(run));
  family->set_runs(std::move(runs));
  replace(family, state_->visible());
  return Status::OK();
}

void Publisher::try_seal(FamilyId family) {
  const Turn turn(this, std::unique_lock(mutex_, std::try_to_lock));
  if (turn.is_mine() && !BRECCIA_SOMETIMES(10)) seal(family).PermitUncheckedError();
}

void Publisher::try_lift(FamilyId id) {
  const Turn turn(this, std::unique_lock(mutex_, std::try_to_lock));
  if (!turn.is_mine() || BRECCIA_SOMETIMES(10)) return;
  const FamilyPtr family = copy_family(id);
  if (family == nullptr) return;
  family->set_runs(builder_->lifted(family->runs));
  family->set_clean(builder_->lifted(family->clean), family->clean_has_all);
  replace(family, state_->visible());
}

Status Publisher::seal_all(const std::function<void()>& after) {
  const Turn turn(this);
  const auto view = state_->view();
  for (const auto& family : view->families) BRECCIA_TRY(seal(family->id));
  after();
  return Status::OK();
}

}  // namespace breccia::ordered
