#include "ordered/write/writer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/perf.h"
#include "base/sometimes.h"
#include "batch/batch_records.h"
#include "exec/crew.h"
#include "ordered/request_counter.h"
#include "wal/format.h"
#include "wal/frame.h"

namespace breccia::ordered {

namespace {

/// Writes from which on records are copied and runs built at once: beside a device by the crew,
/// which need not be woken; else, and of more, by whatever threads there are.
constexpr std::uint64_t kCrewMin = 1 << 10;
constexpr std::uint64_t kTogetherMin = 64 << 10;

record::EntriesRef entries_of(const batch::Writes& writes, std::uint64_t base) {
  return {writes.keys(), writes.offsets(), base, writes.numbers(), /*sorted=*/false};
}

}  // namespace

Writer::Writer(const StoreParts& parts, Room* room, Merger* merger, wal::CommitQueue* commits,
               const RunBuilder* builder, Publisher* publisher, const Updater* updater,
               const Lookups* lookups)
    : parts_(parts),
      room_(room),
      merger_(merger),
      commits_(commits),
      builder_(builder),
      publisher_(publisher),
      updater_(updater),
      lookups_(lookups) {}

Status Writer::write_one(const WriteOptions& options, record::Op op, FamilyId family,
                         const Slice& key, const Slice& value) {
  return base::or_memory_limit([&] {
    batch::Requests& requests = batch::thread_requests();
    BRECCIA_TRY(requests.add_write(op, family, key, value));
    return submit(options, ReadSet(), &requests);
  });
}

Status Writer::write(const WriteOptions& options, const ReadSet& validated,
                     batch::Requests* requests) {
  if (options.moment != nullptr) {
    return Status::NotSupported("the ordered engine tells nobody of moments");
  }
  BRECCIA_TRY(base::or_memory_limit([&] { return write_and_read(options, validated, requests); }));
  parts_.counter->count(*requests);
  return Status::OK();
}

Status Writer::write_and_read(const WriteOptions& options, const ReadSet& validated,
                              batch::Requests* requests) {
  BRECCIA_TRY(parts_.closed->check());
  BRECCIA_TRY(check_families(*requests, *parts_.state->pin().view));
  WriteTicket ticket;
  ticket.wants_view = requests->read_count() > 0 || requests->range_count() > 0;
  // Before the writes: once they are in the log, the reads must not fail for want of memory.
  if (ticket.wants_view) BRECCIA_TRY(Reader::prepare(/*own_writes=*/true, requests));
  lookups_->seal_for_search(validated);
  lookups_->seal_for_ranges(*requests);
  BRECCIA_TRY(submit_writes(options, validated, requests, &ticket));
  if (!ticket.wants_view) return Status::OK();
  const Pin pin{std::move(ticket.view), ticket.frame.end()};
  lookups_->read_behind_writes(pin, ticket.frame.records_position(), requests);
  return Status::OK();
}

// Up to its place in the log a batch that finds no memory was never there. From then on others wait
// for it: it is patient, and gives up only with the whole store.
Status Writer::submit_writes(const WriteOptions& options, const ReadSet& validated,
                             batch::Requests* requests, WriteTicket* ticket) {
  const bool as_runs = requests->write_count() >= parts_.backend_min.writes;
  ticket->durability = options.durability;
  if (as_runs && takes_crew(requests->write_count())) exec::Crew::shared().rouse();
  UpdatedBatch updated;  // at its end the batch has its operands back: it may be submitted again
  requests->lay_out();
  BRECCIA_TRY(enter(options, validated, requests, as_runs, &updated, ticket));
  const Status filled =
      base::with_patience([&] { return fill_frame(requests, as_runs, updated, ticket); });
  if (!filled.ok()) {
    commits_->abandon(ticket, filled);
    return base::copy_of(filled);
  }
  if (!as_runs) find_place(ticket);
  BRECCIA_TRY(commits_->finish(ticket));
  parts_.statistics->add(as_runs ? Ticker::kWritesToRuns : Ticker::kWritesToMemtable,
                         requests->write_count());
  return Status::OK();
}

/// Waits for room and takes the batch's place in the log. `validated` is checked and updates worked
/// out just before that, when all that came before is visible and nobody else may enter.
Status Writer::enter(const WriteOptions& options, const ReadSet& validated,
                     batch::Requests* requests, bool as_runs, UpdatedBatch* updated,
                     WriteTicket* ticket) {
  const std::uint64_t wait_us_max = options.wait_us_max.value_or(room_->wait_us_max());
  // While the merger is busy with large runs, small ones pile up: who makes them merges them, and
  // has the time.
  if (wait_us_max > 0) merger_->help();
  BRECCIA_TAKE(const auto room, room_->claim(requests->record_bytes(), wait_us_max));
  const std::uint32_t count = requests->record_count();
  const bool in_order = as_runs && requests->only_points() && become_one_run_each(*requests);
  const std::uint32_t descriptors = in_order ? count : 0;
  const std::uint64_t bytes = requests->record_bytes();
  UpdatesAhead ahead;
  if (as_runs && !BRECCIA_SOMETIMES(10)) prepare_updates(requests, &ahead);
  if (validated.empty() && ahead.empty()) return commits_->enter(ticket, bytes, count, descriptors);
  const wal::CommitQueue::Turn turn(commits_);
  BRECCIA_TRY(lookups_->validate(parts_.state->pin(), validated));
  if (!ahead.empty()) update_in_turn(&ahead, updated);
  return commits_->enter_in_turn(ticket, bytes, count, descriptors);
}

void Writer::prepare_updates(batch::Requests* requests, UpdatesAhead* ahead) const {
  const Pin pin = parts_.state->pin();
  for (const auto& writes : requests->writes()) {
    const FamilyView* const family = pin.view->family(writes->family());
    if (family == nullptr || !Updater::can_update(*family, *writes)) continue;
    auto work = updater_->prepare(pin, *family, writes.get());
    if (work.ok()) ahead->push_back(work.take());
  }
}

// Operands that cannot be worked out now stay operands; reads combine them.
void Writer::update_in_turn(UpdatesAhead* ahead, UpdatedBatch* updated) {
  // A search on the backend sees runs only.
  base::or_memory_limit([this] { return publisher_->seal_all(); }).PermitUncheckedError();
  const Pin pin = parts_.state->pin();
  for (const auto& work : *ahead) {
    const FamilyView* const family = pin.view->family(work->writes->family());
    if (family == nullptr) continue;
    const std::uint64_t merges = work->puts->merges();
    auto one = base::or_memory_limit([&] { return updater_->finish(pin, *family, work.get()); });
    if (!one.ok()) continue;
    parts_.statistics->add(Ticker::kUpdatesWorkedOut, merges);
    updated->push_back(one.take());
  }
}

bool Writer::takes_crew(std::uint64_t writes) const {
  return writes >= kCrewMin && writes < kTogetherMin &&
         !parts_.backends->is_host(*parts_.backends->current());
}

/// False if a family's writes become runs in chunks, which have no common order for the frame.
bool Writer::become_one_run_each(const batch::Requests& requests) const {
  return std::all_of(requests.writes().begin(), requests.writes().end(), [&](const auto& writes) {
    return builder_->is_one_run(entries_of(*writes, /*base=*/0));
  });
}

/// Makes the frame whole, whatever an earlier call left of it.
Status Writer::fill_frame(batch::Requests* requests, bool as_runs, const UpdatedBatch& updated,
                          WriteTicket* ticket) {
  ticket->runs.clear();
  ticket->range_deletes.clear();
  BRECCIA_ASSERT(!ticket->place.has_value() || ticket->frame.record_count == 1);
  ticket->frame.mixed = requests->is_mixed();
  const std::uint64_t writes = requests->write_count();
  if (as_runs && updated.empty() && takes_crew(writes)) return fill_by_crew(requests, ticket);
  // Others wait for the longer one: a device builds runs while cores copy records.
  Status copied;
  Status built;
  std::chrono::nanoseconds copying{0};
  const auto work = [&](std::uint32_t part) {
    (part == 0 ? copied : built) = base::or_memory_limit([&] {
      if (part == 1) return build_runs(requests, ticket);
      const auto begin = std::chrono::steady_clock::now();
      for (const auto& writes : updated) writes->write_records();
      parts_.log->fill(&ticket->frame, batch::BatchRecords(*requests));
      copying = std::chrono::steady_clock::now() - begin;
      return Status::OK();
    });
  };
  if (as_runs && (writes >= kTogetherMin || BRECCIA_SOMETIMES(30))) {
    base::parallel_for(0U, 2U, work);
  } else if (as_runs && takes_crew(writes)) {
    exec::Crew::shared().run(2, work);
  } else {
    work(0);
    if (as_runs) work(1);
  }
  base::perf_add_time(&rocksdb::PerfContext::write_wal_time, copying);
  BRECCIA_TRY(copied);
  BRECCIA_TRY(built);
  parts_.log->seal(&ticket->frame);
  return Status::OK();
}

/// The same for few writes without updates, whose latency is what counts: records are copied in
/// pieces while a device builds the runs.
Status Writer::fill_by_crew(batch::Requests* requests, WriteTicket* ticket) {
  wal::Frame* const frame = &ticket->frame;
  const wal::FrameLayout layout = frame->layout();
  const batch::BatchRecords records(*requests);
  std::vector<std::uint64_t> digests(wal::piece_count(layout));
  parts_.log->begin_fill(frame);
  Status built;
  std::atomic<bool> has_memory{true};
  std::atomic<std::int64_t> copying_ns{0};  // of all threads
  // Parts are taken from the last one on.
  const auto build = static_cast<std::uint32_t>(digests.size());
  exec::Crew::shared().run(build + 1, [&](std::uint32_t part) {
    if (part == build) {
      built = base::or_memory_limit([&] { return build_runs(requests, ticket); });
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    const Status copied = base::or_memory_limit([&] {
      digests[part] = wal::copy_piece(frame->at, layout, records, part);
      return Status::OK();
    });
    if (!copied.ok()) has_memory = false;
    copying_ns += (std::chrono::steady_clock::now() - begin).count();
  });
  base::perf_add_time(&rocksdb::PerfContext::write_wal_time,
                      std::chrono::nanoseconds(copying_ns.load()));
  if (!has_memory) return Status::MemoryLimit("no memory to copy records");
  BRECCIA_TRY(built);
  frame->checksum = wal::sum_digests(digests);
  parts_.log->seal(frame);
  return Status::OK();
}

/// Looks for the place of a single write in the memtable. Behind its place in the log, while others
/// publish theirs: who publishes does so for all, one at a time, and has to link it only.
void Writer::find_place(WriteTicket* ticket) const {
  const wal::Frame& frame = ticket->frame;
  if (frame.record_count != 1) return;
  const std::byte* const record = frame.at + frame.layout().records;
  if (!record::is_point(record::record_header(record).op())) return;
  const ViewPtr view = parts_.state->pin().view;
  const FamilyView* const family = view->family(kDefaultFamily);
  ticket->place = {family->active, family->active->find_place(record, frame.records_position())};
}

// Descriptors stand in the order of the records' families, each family's behind that of its name.
Status Writer::build_runs(batch::Requests* requests, WriteTicket* ticket) {
  std::uint32_t* descriptors =
      ticket->frame.descriptor_count > 0 ? ticket->frame.descriptors() : nullptr;
  for (const auto& writes : requests->writes()) {
    if (writes->record_count() == 0) continue;
    for (const std::uint64_t offset : writes->range_deletes()) {
      ticket->range_deletes.emplace_back(writes->family(), writes->base() + offset);
    }
    if (descriptors != nullptr && writes->family() != kDefaultFamily) {
      *descriptors++ = static_cast<std::uint32_t>(writes->base() / 8);
    }
    if (writes->point_count() > 0) BRECCIA_TRY(build_run(*writes, descriptors, ticket));
    if (descriptors != nullptr) descriptors += writes->point_count();
  }
  return Status::OK();
}

Status Writer::build_run(const batch::Writes& writes, std::uint32_t* descriptors,
                         WriteTicket* ticket) {
  const std::uint64_t base = ticket->frame.records_position() + writes.base();
  BRECCIA_TAKE(auto built, builder_->build(entries_of(writes, base), descriptors));
  if (descriptors != nullptr && writes.base() > 0) {
    // From the family's records to the frame's.
    for (std::uint64_t i = 0; i < writes.point_count(); ++i) {
      descriptors[i] += static_cast<std::uint32_t>(writes.base() / 8);
    }
  }
  ticket->runs.push_back({writes.family(), writes.merges() > 0, std::move(built)});
  return Status::OK();
}

}  // namespace breccia::ordered
