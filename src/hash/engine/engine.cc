#include "hash/engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "batch/batch_records.h"
#include "batch/checked_transaction.h"
#include "batch/multi_get.h"
#include "batch/single_keys.h"
#include "exec/registration.h"
#include "hash/engine/answer.h"
#include "hash/engine/figures.h"
#include "wal/read/changes.h"

namespace breccia::hash {

namespace {

Status only_one_family() {
  return Status::NotSupported("a store of the hash engine has the default family only");
}

}  // namespace

Status Engine::check_requests(const batch::Requests& requests) {
  return batch::check_single_keys(requests, "hash");
}

Status Engine::check_open() const {
  if (!closed_.load(std::memory_order_relaxed)) return Status::OK();
  return Status::ShutdownInProgress("the store is closed", "open it again");
}

// ---- writes ------------------------------------------------------------------------------------

Status Engine::submit(const WriteOptions& options, std::span<const Seen> seen,
                      batch::Requests* requests) {
  return base::or_memory_limit([&] {
    Found found;
    if (options.moment != nullptr)
      return Status::NotSupported("the hash engine tells nobody of moments");
    if (requests->write_count() == 0) return look(seen, requests, &found);
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_requests(*requests));
    BRECCIA_TRY(prepare_answers(requests));
    return write(options, seen, requests);
  });
}

// Up to its place in the log a batch that finds no memory was never there. From then on others wait
// for it.
Status Engine::write(const WriteOptions& options, std::span<const Seen> seen,
                     batch::Requests* requests) {
  if (may_wait(options)) cleaner_->help();
  requests->lay_out();
  const batch::Writes& writes = *batch::default_part(requests->writes());
  const batch::Reads* const reads = batch::default_part(requests->reads());
  const std::uint64_t n = writes.point_count();
  WriteTicket ticket;
  ticket.durability = options.durability;
  const bool has_puts = writes.deletes() < n;
  ticket.common = {writes.keys().uniform_bytes == sizeof(std::uint64_t),
                   has_puts ? CommonPut::several() : CommonPut()};
  ticket.entries.number.resize(n);
  ticket.entries.payload.assign(writes.offsets(), writes.offsets() + n);
  state_->numbering().of_all(writes.keys(), ticket.entries.number.data());
  OwnWrites own;
  if (reads != nullptr && reads->count() > 0) {
    reads->settle();
    ticket.reads = reads;
    ticket.found.payload.resize(reads->count());
    BRECCIA_TRY(own.look(writes, *reads));
  }
  BRECCIA_TRY(enter(seen, *requests, &ticket));
  BRECCIA_TRY(write_frame(log_.get(), commits_.get(), batch::BatchRecords(*requests), &ticket));
  note_written(n, requests->record_bytes());
  if (ticket.reads == nullptr) return Status::OK();
  own.show(writes, ticket.frame.records_position(), &ticket.found);
  answer(ticket.found, requests);
  gets_ += reads->count();
  return Status::OK();
}

Status Engine::enter(std::span<const Seen> seen, const batch::Requests& requests,
                     WriteTicket* ticket) {
  const std::uint64_t bytes = requests.record_bytes();
  const std::uint32_t count = requests.record_count();
  if (seen.empty()) return commits_->enter(ticket, bytes, count, /*descriptors=*/0);
  const wal::CommitQueue::Turn turn(commits_.get());
  Found nothing;
  BRECCIA_TRY(read(seen, nullptr, &nothing));
  return commits_->enter_in_turn(ticket, bytes, count, /*descriptors=*/0);
}

Status Engine::write_one(const WriteOptions& options, record::Op op, const Slice& key,
                         const Slice& value) {
  return base::or_memory_limit([&] {
    batch::Requests& requests = batch::thread_requests();
    BRECCIA_TRY(requests.add_write(op, kDefaultFamily, key, value));
    return submit(options, {}, &requests);
  });
}

Status Engine::Merge(const WriteOptions& /*options*/, const Slice& /*key*/,
                     const Slice& /*operand*/) {
  return Status::NotSupported("the hash engine has no merge operators");
}

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken = base::or_memory_limit([&] {
    return async_->submit({options, &batch->requests(), done, Status()});
  });
  if (!taken.ok()) done(taken);
}

// ---- reads -------------------------------------------------------------------------------------

Status Engine::look(std::span<const Seen> seen, batch::Requests* requests, Found* found) {
  BRECCIA_TRY(check_open());
  BRECCIA_TRY(check_requests(*requests));
  BRECCIA_TRY(prepare_answers(requests));
  BRECCIA_TRY(read(seen, requests, found));
  answer(*found, requests);
  return Status::OK();
}

/// Finds what the requests look up (null: nothing), at a moment when what was seen is still so.
Status Engine::read(std::span<const Seen> seen, const batch::Requests* requests, Found* found) {
  const batch::Reads* const reads =
      requests == nullptr ? nullptr : batch::default_part(requests->reads());
  std::vector<State::Lookup> lookups;
  if (reads != nullptr) lookups.push_back({reads->keys(), &found->payload});
  std::vector<Found> now(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const batch::Reads* const before = batch::default_part(seen[i].reads->reads());
    if (before != nullptr) lookups.push_back({before->keys(), &now[i].payload});
  }
  BRECCIA_TRY(state_->find(lookups, &found->table));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const batch::Reads* const before = batch::default_part(seen[i].reads->reads());
    now[i].table = found->table;
    if (before != nullptr && !is_unchanged(before->keys(), seen[i].found, now[i])) {
      return Status::Busy("what the transaction read has changed");
    }
  }
  if (reads != nullptr) gets_ += reads->count();
  return Status::OK();
}

Status Engine::Get(const Slice& key, std::string* value) {
  return base::or_memory_limit([&] {
    std::vector<std::string> values;
    std::vector<Status> statuses = MultiGet({&key, 1}, &values);
    if (statuses.front().ok()) *value = std::move(values.front());
    return std::move(statuses.front());
  });
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  return batch::multi_get(keys, values, [this](batch::Requests* requests) {
    BRECCIA_TRY(check_open());
    return submit(WriteOptions(), {}, requests);
  });
}

// ---- the rest of Store -------------------------------------------------------------------------

std::unique_ptr<Transaction> Engine::OpenTransaction() {
  return std::make_unique<batch::CheckedTransaction<Engine, Seen>>(this, NewBatch());
}

Batch Engine::NewBatch() { return Batch(std::make_unique<batch::Requests>(batch_memory())); }

Status Engine::RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    return exec::register_memory(device_, memory, bytes, registration);
  });
}

Status Engine::CreateFamily(const std::string& /*name*/, FamilyId* /*family*/) {
  return only_one_family();
}

Status Engine::DropFamily(FamilyId /*family*/) { return only_one_family(); }

std::vector<std::pair<std::string, FamilyId>> Engine::Families() const {
  return {{"default", kDefaultFamily}};
}

Status Engine::Changes(std::uint64_t from, const ChangesOptions& options,
                       std::unique_ptr<ChangeStream>* stream) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TAKE(*stream, wal::open_changes({log_.get(), commits_.get()}, from, options));
    return Status::OK();
  });
}

Status Engine::SyncLog() {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    return commits_->keep(/*sync=*/true);
  });
}

bool Engine::GetProperty(const std::string& name, std::string* value) {
  const Status found = base::or_memory_limit([&] {
    auto figure =
        figure_of({*state_, *cleaner_, *log_, fault_, async_->figures(), *device_, no_device_,
                   row_cache_.get(), *log_view_, gets_.load(), writes_.load()},
                  name);
    if (!figure.has_value()) return Status::NotFound();
    *value = std::move(*figure);
    return Status::OK();
  });
  return found.ok();
}

}  // namespace breccia::hash
