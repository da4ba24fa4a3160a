#include "rocks/engine.h"

#include <algorithm>

#include "base/limits.h"
#include "batch/requests.h"
#include "wal/format.h"

namespace breccia {

Status Store::Open(const Options& options, const std::string& path, std::unique_ptr<Store>* store) {
  return rocks::Engine::open(options, path, store);
}

namespace rocks {

// ---- writing -----------------------------------------------------------------------------------

Status Engine::Submit(const WriteOptions& options, Batch* batch) {
  batch::Requests& requests = batch->requests();
  Ticket ticket;
  const bool writes = requests.write_count() > 0;
  const bool reads = requests.read_count() > 0;
  ticket.wants_view = reads;
  // Before the writes: once they are in the log, the reads must not fail for want of memory.
  if (reads) BRECCIA_TRY(Reader::prepare(/*own_writes=*/writes, &requests));
  if (writes) BRECCIA_TRY(submit_writes(options, &requests, &ticket));
  if (!reads) return Status::OK();
  if (writes) {
    const Pin pin{std::move(ticket.view), ticket.frame.end()};
    submit_reads(pin, /*own_writes=*/true, ticket.frame.records_position(), &requests);
    return Status::OK();
  }
  if (requests.read_count() >= reads_min_) seal_for_search();
  submit_reads(state_.pin(), /*own_writes=*/false, 0, &requests);
  return Status::OK();
}

/// Waits for room and takes the batch's place in the log.
Status Engine::enter(const batch::Requests& requests, bool as_run, Ticket* ticket) {
  BRECCIA_TAKE(const auto room,
               maintenance_->claim_room(requests.record_bytes(), options_.wait_us_max));
  const auto count = static_cast<std::uint32_t>(requests.write_count());
  return commits_->enter(ticket, requests.record_bytes(), count, as_run ? count : 0);
}

// Once a batch has its place in the log, others wait for it: `noexcept` ends the process if the
// little memory that is taken here is not to be had, with the log as it is.
Status Engine::submit_writes(const WriteOptions& options, batch::Requests* requests,
                             Ticket* ticket) noexcept {
  const bool as_run = requests->write_count() >= writes_min_;
  ticket->durability = options.durability;
  BRECCIA_TRY(enter(*requests, as_run, ticket));
  log_->fill(&ticket->frame, requests->records());
  if (as_run) {
    const Status status = build_run(requests, ticket);
    if (!status.ok()) {
      commits_->abandon(ticket, status);
      return status;
    }
  }
  log_->seal(&ticket->frame);
  return commits_->finish(ticket);
}

Status Engine::build_run(batch::Requests* requests, Ticket* ticket) {
  const auto build = [&](exec::Backend& backend) {
    return backend.build_run(requests->write_keys(), requests->write_offsets(),
                             ticket->frame.records_position(), /*sorted=*/false,
                             ticket->frame.descriptors());
  };
  const auto backend = backends_->current();
  auto run = build(*backend);
  if (!run.ok() && !backends_->is_host(*backend)) {
    BRECCIA_TRY(retire_device(*backend, run.status()));
    run = build(backends_->host());
  }
  BRECCIA_TRY(run.status());
  ticket->run = run.take();
  return Status::OK();
}

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken =
      workers_->submit([this, options, batch, done] { done(Submit(options, batch)); });
  if (!taken.ok()) done(taken);
}

Batch Engine::NewBatch() {
  const auto backend = backends_->current();
  // The batch may outlive the store: its memory keeps the backend.
  return Batch(std::make_unique<batch::Requests>(
      std::shared_ptr<exec::HostMemory>(backend, &backend->host_memory())));
}

Status Engine::write_one(const WriteOptions& options, wal::Op op, const Slice& key,
                         const Slice& value) {
  // One per thread: its memory is used again, and no request outlives the call.
  constexpr std::uint64_t kKeptBytesMax = 1 << 20;
  thread_local std::unique_ptr<batch::Requests> requests;
  if (requests == nullptr || requests->record_bytes() > kKeptBytesMax) {
    requests = std::make_unique<batch::Requests>(exec::shared_plain_host_memory());
  }
  requests->clear();
  BRECCIA_TRY(requests->add_write(op, key, value));
  Ticket ticket;
  return submit_writes(options, requests.get(), &ticket);
}

Status Engine::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return write_one(options, wal::Op::kPut, key, value);
}

Status Engine::Delete(const WriteOptions& options, const Slice& key) {
  return write_one(options, wal::Op::kDelete, key, Slice());
}

// ---- reading -----------------------------------------------------------------------------------

void Engine::submit_reads(const Pin& pin, bool own_writes, std::uint64_t base,
                          batch::Requests* requests) {
  const std::uint64_t n = requests->read_count();
  if (pin.view->runs.size() > 1) maintenance_->note_probes(n * (pin.view->runs.size() - 1));
  reader_->read(pin, own_writes, base, reads_min_, requests);
}

Status Engine::Get(const Slice& key, std::string* value) {
  rocksdb::PinnableSlice pinned;
  const Pin pin = state_.pin();
  if (pin.view->runs.size() > 1) maintenance_->note_probes(pin.view->runs.size() - 1);
  BRECCIA_TRY(reader_->get(pin, key, &pinned));
  value->assign(pinned.data(), pinned.size());
  return Status::OK();
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  batch::Requests requests(exec::shared_plain_host_memory());
  values->assign(keys.size(), std::string());
  Status status;
  for (const Slice& key : keys) {
    if (status.ok() && key.size() <= limits::kKeyBytesMax) status = requests.add_read(key);
  }
  if (status.ok()) status = Reader::prepare(/*own_writes=*/false, &requests);
  if (status.ok() && requests.read_count() >= reads_min_) seal_for_search();
  if (status.ok()) submit_reads(state_.pin(), /*own_writes=*/false, 0, &requests);
  if (!status.ok()) return std::vector<Status>(keys.size(), status);
  std::vector<Status> statuses(keys.size(), Status::NotFound());
  std::size_t read = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].size() > limits::kKeyBytesMax) continue;  // no such key can be
    const batch::ReadResult& result = requests.results()[read++];
    statuses[i] = batch::status_of(result.code);
    if (statuses[i].ok()) (*values)[i].assign(result.data, result.bytes);
  }
  return statuses;
}

// ---- publishing: everything here runs under the publish lock -----------------------------------

std::shared_ptr<memtable::View> Engine::copy_view() const {
  auto next = std::make_shared<memtable::View>(*state_.view());
  next->table = publish_table_;
  return next;
}

void Engine::change_view(const std::function<void(memtable::View*)>& change) {
  const std::lock_guard lock(commits_->publish_lock());
  publish_table_ = log_->table();
  auto next = copy_view();
  change(next.get());
  state_.publish(std::move(next), state_.visible());
}

Status Engine::publish(Ticket& ticket) {
  const bool new_segment = publish_table_->segments().empty() ||
                           ticket.frame.position >= publish_table_->segments().back()->end();
  if (new_segment) publish_table_ = log_->table();
  if (ticket.run != nullptr) {
    BRECCIA_TRY(publish_run(ticket));
  } else {
    publish_records(ticket);
    if (new_segment) {
      state_.publish(copy_view(), ticket.frame.end());
    } else {
      state_.show(ticket.frame.end());
    }
  }
  if (ticket.wants_view) ticket.view = state_.view();
  return Status::OK();
}

void Engine::publish_records(const Ticket& ticket) {
  const auto& segments = publish_table_->segments();
  const wal::SegmentPtr& segment = *std::find_if(
      segments.rbegin(), segments.rend(),
      [&](const wal::SegmentPtr& candidate) { return candidate->base <= ticket.frame.position; });
  const auto view = state_.view();
  const std::byte* record = ticket.frame.at + ticket.frame.layout().records;
  std::uint64_t position = ticket.frame.records_position();
  for (std::uint32_t i = 0; i < ticket.frame.record_count; ++i) {
    view->active->insert(record, position, segment);
    const std::uint64_t bytes = wal::record_header(record).record_bytes();
    record += bytes;
    position += bytes;
  }
}

Status Engine::publish_run(Ticket& ticket) {
  BRECCIA_TRY(seal_active_locked());
  auto run = std::make_shared<memtable::MemRun>();
  run->run = std::move(ticket.run);
  run->begin = last_run_end_;
  run->end = ticket.frame.end();
  if (run->run->host_view() == nullptr) {
    run->descriptors = ticket.frame.descriptors();
    run->records = ticket.frame.records_position();
  }
  memtable::MemRunPtr published = std::move(run);
  if (!backends_->holds(*backends_->current(), *published->run) &&
      published->run->host_view() == nullptr) {
    // The device was retired between this batch's sort and its turn.
    BRECCIA_TAKE(published, rebuild_on_host(*published, *publish_table_, backends_->host()));
  }
  last_run_end_ = published->end;
  auto next = copy_view();
  auto runs = next->runs;
  runs.insert(runs.begin(), std::move(published));
  const std::size_t count = runs.size();
  next->set_runs(std::move(runs));
  state_.publish(std::move(next), ticket.frame.end());
  maintenance_->note_runs(count);
  return Status::OK();
}

// A search on the backend sees runs. If a commit is under way, or sealing fails, the reader looks
// into the memtable key by key, which is slower and no less right.
void Engine::seal_for_search() {
  constexpr std::uint64_t kWorthSealing = 64;
  if (state_.view()->active->count() < kWorthSealing) return;
  const std::unique_lock lock(commits_->publish_lock(), std::try_to_lock);
  if (lock.owns_lock()) seal_active_locked().PermitUncheckedError();
}

Status Engine::seal_active_locked() {
  const auto view = state_.view();
  if (view->active->count() == 0) return Status::OK();
  batch::KeyColumns keys(exec::plain_host_memory());
  exec::HostVector<std::uint64_t> payloads(exec::plain_host_memory());
  if (!view->active->export_to(&keys, &payloads)) {
    return Status::MemoryLimit("no memory to seal the memtable");
  }
  const auto backend = backends_->current();
  auto built = backend->build_run(keys.ref(), payloads.data(), 0, /*sorted=*/true, nullptr);
  if (!built.ok() && !backends_->is_host(*backend)) {
    if (backends_->retire(*backend, built.status())) BRECCIA_TRY(leave_device_locked());
    built = backends_->host().build_run(keys.ref(), payloads.data(), 0, /*sorted=*/true, nullptr);
  }
  BRECCIA_TRY(built.status());
  auto run = std::make_shared<memtable::MemRun>();
  run->run = built.take();
  run->begin = last_run_end_;
  run->end = state_.visible();
  if (run->run->host_view() == nullptr) {
    run->payloads = std::make_shared<const std::vector<std::uint64_t>>(
        payloads.data(), payloads.data() + payloads.size());
  }
  last_run_end_ = run->end;
  auto next = copy_view();
  next->active = std::make_shared<memtable::HostMemtable>();
  auto runs = next->runs;
  runs.insert(runs.begin(), std::move(run));
  const std::size_t count = runs.size();
  next->set_runs(std::move(runs));
  state_.publish(std::move(next), state_.visible());
  maintenance_->note_runs(count);
  return Status::OK();
}

Status Engine::retire_device(exec::Backend& failed, const Status& why) {
  if (!backends_->retire(failed, why)) return Status::OK();
  const std::lock_guard lock(commits_->publish_lock());
  return leave_device_locked();
}

Status Engine::leave_device_locked() {
  BRECCIA_TAKE(const auto on_host, view_on_host(*state_.view(), backends_->host()));
  state_.publish(on_host, state_.visible());
  return Status::OK();
}

Status Engine::SyncLog() { return commits_->sync(state_.visible()); }

Status Engine::Flush() {
  BRECCIA_TRY(fault_.get());
  return maintenance_->flush();
}

bool Engine::GetProperty(const std::string& name, std::string* value) {
  const auto view = state_.view();
  const auto backend = backends_->current();
  const std::pair<const char*, std::function<std::string()>> own[] = {
      {"breccia.backend", [&] { return backend->describe(); }},
      {"breccia.backend-retired", [&] { return backends_->retired().ToString(); }},
      {"breccia.log-bytes", [&] { return std::to_string(log_->end() - log_->begin()); }},
      {"breccia.runs", [&] { return std::to_string(view->runs.size()); }},
      {"breccia.memtable-entries", [&] { return std::to_string(view->active->count()); }},
      {"breccia.flushes", [&] { return std::to_string(maintenance_->flushes()); }},
      {"breccia.merges", [&] { return std::to_string(maintenance_->merges()); }},
      {"breccia.device-bytes", [&] { return std::to_string(backend->memory_used()); }},
      {"breccia.device-memory-misses", [&] { return std::to_string(backends_->memory_misses()); }},
      {"breccia.read-only", [&] { return fault_.get().ok() ? "" : fault_.get().ToString(); }},
  };
  for (const auto& [own_name, read] : own) {
    if (name == own_name) {
      *value = read();
      return true;
    }
  }
  return below_->db()->GetProperty(name, value);
}

}  // namespace rocks
}  // namespace breccia
