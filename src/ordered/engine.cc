#include "ordered/engine.h"

#include <algorithm>

#include "base/limits.h"
#include "base/memory.h"
#include "base/perf.h"
#include "batch/requests.h"
#include "ordered/read/iterator.h"
#include "ordered/read/range.h"
#include "ordered/read/versions.h"
#include "ordered/write/store_transaction.h"
#include "wal/format.h"

/// The road of all requests. A batch with writes: room, a place in the log (enter), its records and
/// runs (fill_frame, build_runs), then the commit queue, which publishes in log order; reads see
/// what is published, as of one pin. Background work, opening and closing are elsewhere
/// (background/, open.cc).

namespace breccia::ordered {

namespace {

/// Entries in a memtable from which a run is worth its place for a search on the backend.
constexpr std::uint64_t kWorthSealing = 64;

Status no_family(FamilyId family) {
  return Status::InvalidArgument("Invalid column family specified in write batch",
                                 "there is no column family " + std::to_string(family));
}

/// Errors  InvalidArgument: a request names a family that `view` does not have, or that takes no
///         writes any more.
Status check_families(const batch::Requests& requests, const View& view) {
  const auto check = [&](FamilyId id, bool writes) {
    const FamilyView* const family = view.family(id);
    return family != nullptr && !(writes && family->dropped) ? Status::OK() : no_family(id);
  };
  for (const auto& writes : requests.writes()) {
    if (writes->record_count() == 0) continue;
    BRECCIA_TRY(check(writes->family(), true));
    if (writes->merges() > 0 && view.family(writes->family())->merge_operator == nullptr) {
      return Status::NotSupported("Provide a merge_operator when opening DB");
    }
  }
  for (const auto& reads : requests.reads()) {
    if (reads->count() > 0) BRECCIA_TRY(check(reads->family(), false));
  }
  for (const auto& ranges : requests.ranges()) {
    if (ranges->count() > 0) BRECCIA_TRY(check(ranges->family(), false));
  }
  return Status::OK();
}

}  // namespace

void Engine::count_requests(const batch::Requests& requests) {
  std::uint64_t puts = 0;
  std::uint64_t deletes = 0;
  std::uint64_t merges = 0;
  std::uint64_t range_deletes = 0;
  for (const auto& writes : requests.writes()) {
    deletes += writes->deletes();
    merges += writes->merges();
    puts += writes->point_count() - writes->deletes() - writes->merges();
    range_deletes += writes->range_deletes().size();
  }
  const auto add = [this](Ticker ticker, std::uint64_t more) {
    if (more > 0) statistics_->add(ticker, more);
  };
  add(Ticker::kBatches, 1);
  add(Ticker::kPuts, puts);
  add(Ticker::kDeletes, deletes);
  add(Ticker::kMerges, merges);
  add(Ticker::kRangeDeletes, range_deletes);
  add(Ticker::kGets, requests.read_count());
  add(Ticker::kRanges, requests.range_count());
  if (!no_device_.empty()) base::as_memory_allows([&] { miss_device(requests); });
}

// ---- writing -----------------------------------------------------------------------------------

Status Engine::Submit(const WriteOptions& options, Batch* batch) {
  return submit_validated(options, ReadSet(), &batch->requests());
}

std::unique_ptr<Transaction> Engine::OpenTransaction() {
  return std::make_unique<StoreTransaction>(this);
}

Status Engine::submit_validated(const WriteOptions& options, const ReadSet& validated,
                                batch::Requests* requests) {
  BRECCIA_TRY(base::or_memory_limit([&] { return carry_out(options, validated, requests); }));
  count_requests(*requests);
  return Status::OK();
}

Status Engine::carry_out(const WriteOptions& options, const ReadSet& validated,
                         batch::Requests* batch) {
  BRECCIA_TRY(check_open());
  batch::Requests& requests = *batch;
  WriteTicket ticket;
  const bool writes = requests.write_count() > 0;
  const bool reads = requests.read_count() > 0 || requests.range_count() > 0;
  BRECCIA_TRY(check_families(requests, *state_.view()));
  ticket.wants_view = reads;
  // Before the writes: once they are in the log, the reads must not fail for want of memory.
  if (reads) BRECCIA_TRY(Reader::prepare(/*own_writes=*/writes, &requests));
  seal_for_search(validated);
  if (writes) BRECCIA_TRY(submit_writes(options, validated, &requests, &ticket));
  if (writes && !reads) return Status::OK();
  if (writes) {
    const Pin pin{std::move(ticket.view), ticket.frame.end()};
    submit_reads(pin, /*own_writes=*/true, ticket.frame.records_position(), &requests);
    return Status::OK();
  }
  seal_for_search(requests);
  const Pin pin = state_.pin();
  BRECCIA_TRY(check_families(requests, *pin.view));  // one may have gone meanwhile
  BRECCIA_TRY(validator_->validate(pin, validated, reads_min_));
  submit_reads(pin, /*own_writes=*/false, 0, &requests);
  return Status::OK();
}

Status Engine::commit(const WriteOptions& options, const ReadSet& reads,
                      batch::Requests* requests) {
  return base::or_memory_limit([&] { return commit_writes(options, reads, requests); });
}

Status Engine::commit_writes(const WriteOptions& options, const ReadSet& reads,
                             batch::Requests* requests) {
  BRECCIA_TRY(check_open());
  seal_for_search(reads);
  if (requests->write_count() == 0) return check(reads);
  BRECCIA_TRY(check_families(*requests, *state_.view()));
  WriteTicket ticket;
  BRECCIA_TRY(submit_writes(options, reads, requests, &ticket));
  count_requests(*requests);
  return Status::OK();
}

/// Waits for room and takes the batch's place in the log. `reads` are validated and
/// updates worked out just before that, when all that came before is visible and nobody else may
/// enter.
Status Engine::enter(const WriteOptions& options, const ReadSet& reads, batch::Requests* requests,
                     bool as_runs, UpdatedBatch* updated, WriteTicket* ticket) {
  const std::uint64_t wait_us_max = options.wait_us_max.value_or(*options_.wait_us_max);
  // While the merger is busy with large runs, small ones pile up: who makes them merges them, and
  // has the time.
  if (wait_us_max > 0) merger_->help();
  BRECCIA_TAKE(const auto room, room_->claim(requests->record_bytes(), wait_us_max));
  const std::uint32_t count = requests->record_count();
  const bool in_order = as_runs && requests->only_points() && become_one_run_each(*requests);
  const std::uint32_t descriptors = in_order ? count : 0;
  const std::uint64_t bytes = requests->record_bytes();
  UpdatesAhead ahead;
  if (as_runs) prepare_updates(requests, &ahead);
  if (reads.empty() && ahead.empty()) return commits_->enter(ticket, bytes, count, descriptors);
  const wal::CommitQueue::Turn turn(commits_.get());
  BRECCIA_TRY(validator_->validate(state_.pin(), reads, reads_min_));
  if (!ahead.empty()) update_in_turn(&ahead, updated);
  return commits_->enter_in_turn(ticket, bytes, count, descriptors);
}

void Engine::prepare_updates(batch::Requests* requests, UpdatesAhead* ahead) const {
  const Pin pin = state_.pin();
  for (const auto& writes : requests->writes()) {
    const FamilyView* const family = pin.view->family(writes->family());
    if (family == nullptr || !Updater::can_update(*family, *writes)) continue;
    auto work = updater_->prepare(pin, *family, writes.get());
    if (work.ok()) ahead->push_back(work.take());
  }
}

// Operands that cannot be worked out now stay operands; reads combine them.
void Engine::update_in_turn(UpdatesAhead* ahead, UpdatedBatch* updated) {
  // A search on the backend sees runs only.
  base::or_memory_limit([this] { return publisher_->seal_all(); }).PermitUncheckedError();
  const Pin pin = state_.pin();
  for (const auto& work : *ahead) {
    const FamilyView* const family = pin.view->family(work->writes->family());
    if (family == nullptr) continue;
    const std::uint64_t merges = work->writes->merges();
    auto one = base::or_memory_limit([&] { return updater_->finish(pin, *family, work.get()); });
    if (!one.ok()) continue;
    statistics_->add(Ticker::kUpdatesWorkedOut, merges);
    updated->push_back(one.take());
  }
}

// Up to its place in the log a batch that finds no memory was never there. From then on others wait
// for it: it is patient, and gives up only with the whole store.
Status Engine::submit_writes(const WriteOptions& options, const ReadSet& reads,
                             batch::Requests* requests, WriteTicket* ticket) {
  const bool as_runs = requests->write_count() >= writes_min_;
  ticket->durability = options.durability;
  UpdatedBatch updated;  // at its end the batch has its operands back: it may be submitted again
  if (!requests->lay_out()) return Status::MemoryLimit("no memory for the batch");
  BRECCIA_TRY(enter(options, reads, requests, as_runs, &updated, ticket));
  const Status filled = base::with_patience([&] { return fill_frame(requests, as_runs, ticket); });
  if (!filled.ok()) {
    commits_->abandon(ticket, filled);
    return base::copy_of(filled);
  }
  BRECCIA_TRY(commits_->finish(ticket));
  statistics_->add(as_runs ? Ticker::kWritesToRuns : Ticker::kWritesToMemtable,
                   requests->write_count());
  return Status::OK();
}

/// Makes the frame whole, whatever an earlier call left of it.
Status Engine::fill_frame(batch::Requests* requests, bool as_runs, WriteTicket* ticket) {
  ticket->runs.clear();
  ticket->range_deletes.clear();
  if (requests->is_mixed()) ticket->frame.flags |= wal::kFrameMixed;
  {
    const base::PerfTimer timer(&rocksdb::PerfContext::write_wal_time);
    log_->fill(&ticket->frame, requests->flat_records());
  }
  if (as_runs) BRECCIA_TRY(build_runs(requests, ticket));
  log_->seal(&ticket->frame);
  return Status::OK();
}

// Descriptors stand in the order of the records' families, each family's behind that of its name.
Status Engine::build_runs(batch::Requests* requests, WriteTicket* ticket) {
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

namespace {

record::EntriesRef entries_of(const batch::Writes& writes, std::uint64_t base) {
  return {writes.keys(), writes.offsets(), base, writes.numbers(), /*sorted=*/false};
}

}  // namespace

/// False if a family's writes become runs in chunks, which have no common order for the frame.
bool Engine::become_one_run_each(const batch::Requests& requests) const {
  return std::all_of(requests.writes().begin(), requests.writes().end(), [&](const auto& writes) {
    return builder_->is_one_run(entries_of(*writes, /*base=*/0));
  });
}

Status Engine::build_run(const batch::Writes& writes, std::uint32_t* descriptors,
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

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken = base::or_memory_limit([&] {
    return async_->submit({options, &batch->requests(), done, Status()});
  });
  if (!taken.ok()) done(taken);
}

/// Runs the batches of a group as one, if that can be.
void Engine::run_group(std::span<AsyncBatch> group) {
  const auto run_alone = [&](AsyncBatch& one) {
    one.status = submit_validated(one.options, ReadSet(), one.requests);
  };
  if (group.size() == 1) return run_alone(group.front());
  const Status status = base::or_memory_limit([&] { return run_together(group); });
  if (status.ok()) return;
  // Nothing of the group was written, or the store is read-only now. Whoever may have been the
  // cause must not spoil it for the others; those that found no room have waited long enough.
  for (AsyncBatch& one : group) {
    if (!one.status.ok()) continue;  // it was never among them
    if (status.IsIncomplete() && one.requests->write_count() > 0) {
      one.status = base::copy_of(status);
    } else {
      run_alone(one);
    }
  }
}

/// Submits those that can be as one batch; the others get their status.
Status Engine::run_together(std::span<AsyncBatch> group) {
  const auto view = state_.view();
  std::vector<AsyncBatch*> together;
  for (AsyncBatch& one : group) {
    one.status = check_families(*one.requests, *view);
    if (one.status.ok()) together.push_back(&one);
  }
  return submit_together(together);
}

/// Submits the requests of all batches as one batch, and hands the results to each. Those lie in
/// the large batch's memory, in which each of the small ones holds a share.
Status Engine::submit_together(std::span<AsyncBatch* const> batches) {
  if (batches.empty()) return Status::OK();
  const auto all = std::make_shared<batch::Requests>(batch_memory());
  const Status no_memory = Status::MemoryLimit("no memory to run batches together");
  for (const AsyncBatch* const one : batches) {
    if (!all->append(*one->requests)) return no_memory;
    if (!one->requests->prepare_results(/*parts=*/0, /*with_bounds=*/false)) return no_memory;
  }
  BRECCIA_TRY(carry_out(batches.front()->options, ReadSet(), all.get()));
  for (const AsyncBatch* const one : batches) {
    all->hand_over(one->requests);
    one->requests->hold(all);
    count_requests(*one->requests);
  }
  return Status::OK();
}

/// Memory of batches. They may outlive the store: it keeps the device.
std::shared_ptr<exec::HostMemory> Engine::batch_memory() const {
  const exec::DevicePtr device = backends_->current()->tenant().device_ptr();
  return {device, &device->host_memory()};
}

Batch Engine::NewBatch() { return Batch(std::make_unique<batch::Requests>(batch_memory())); }

Status Engine::write_one(const WriteOptions& options, record::Op op, FamilyId family,
                         const Slice& key, const Slice& value) {
  return base::or_memory_limit([&] {
    batch::Requests& requests = batch::thread_requests();
    BRECCIA_TRY(requests.add_write(op, family, key, value));
    return commit(options, ReadSet(), &requests);
  });
}

Status Engine::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return write_one(options, record::Op::kPut, kDefaultFamily, key, value);
}

Status Engine::Delete(const WriteOptions& options, const Slice& key) {
  return write_one(options, record::Op::kDelete, kDefaultFamily, key, Slice());
}

Status Engine::Merge(const WriteOptions& options, const Slice& key, const Slice& operand) {
  return write_one(options, record::Op::kMerge, kDefaultFamily, key, operand);
}

// ---- reading -----------------------------------------------------------------------------------

void Engine::submit_reads(const Pin& pin, bool own_writes, std::uint64_t base,
                          batch::Requests* requests) {
  const auto note_probes = [&](FamilyId id, std::uint64_t probes) {
    const FamilyView* const family = pin.view->family(id);
    if (probes > 0 && family != nullptr && family->runs.size() > 1) {
      merger_->note_probes(probes * (family->runs.size() - 1));
    }
  };
  for (const auto& reads : requests->reads()) {
    note_probes(reads->family(), reads->count());
    const FamilyView* const family = pin.view->family(reads->family());
    if (reads->count() < reads_min_ && family != nullptr) note_host_search(*family);
  }
  for (const auto& ranges : requests->ranges()) note_probes(ranges->family(), ranges->probes());
  reader_->read(pin, own_writes, base, reads_min_, requests);
  ranges_->read(pin, own_writes, base, reads_min_, requests);
}

void Engine::note_host_search(const FamilyView& family) const {
  if (family.orders > family.runs.size()) merger_->want_orders();
}

Status Engine::get(const Pin& pin, FamilyId id, const Slice& key, rocksdb::PinnableSlice* value,
                   bool* from_tree) const {
  const FamilyView* const family = pin.view->family(id);
  if (family == nullptr) return no_family(id);
  const std::size_t runs = family->runs.size();
  if (runs > 1) merger_->note_probes(runs - 1);
  note_host_search(*family);
  std::uint64_t found = runs::kNotFound;
  std::uint64_t searched = 0;
  {
    const base::PerfTimer timer(&rocksdb::PerfContext::get_from_memtable_time);
    const std::byte* record = nullptr;
    found = find_one(*family, *pin.view->table, key, pin.visible, &record, &searched);
  }
  base::perf_add(&rocksdb::PerfContext::get_from_memtable_count, searched);
  bool reached_tree = false;
  const Status status = read_version(*pin.view, *family, key, found,
                                     family->covering(key, pin.visible), value, &reached_tree);
  statistics_->add(Ticker::kGets, 1);
  statistics_->add(Ticker::kRunsSearched, searched);
  statistics_->add(reached_tree ? Ticker::kGetsFromTree : Ticker::kGetsFromMemory, 1);
  if (from_tree != nullptr) *from_tree = reached_tree;
  return status;
}

Status Engine::Get(const Slice& key, std::string* value) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    rocksdb::PinnableSlice pinned;
    BRECCIA_TRY(get(state_.pin(), kDefaultFamily, key, &pinned, /*from_tree=*/nullptr));
    value->assign(pinned.data(), pinned.size());
    return Status::OK();
  });
}

Status Engine::read(const Pin& pin, batch::Requests* requests) {
  BRECCIA_TRY(base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_families(*requests, *pin.view));
    return Reader::prepare(/*own_writes=*/false, requests);
  }));
  submit_reads(pin, /*own_writes=*/false, 0, requests);
  count_requests(*requests);
  return Status::OK();
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size(), Status::NotFound());
  const Status status = base::or_memory_limit([&] { return multi_get(keys, values, &statuses); });
  if (!status.ok()) {
    for (Status& one : statuses) one = base::copy_of(status);
  }
  return statuses;
}

Status Engine::multi_get(std::span<const Slice> keys, std::vector<std::string>* values,
                         std::vector<Status>* statuses) {
  BRECCIA_TRY(check_open());
  batch::Requests requests(exec::shared_plain_host_memory());
  values->assign(keys.size(), std::string());
  for (const Slice& key : keys) {
    if (key.size() <= limits::kKeyBytesMax) BRECCIA_TRY(requests.add_read(kDefaultFamily, key));
  }
  seal_for_search(requests);
  BRECCIA_TRY(read(state_.pin(), &requests));
  std::size_t read = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].size() > limits::kKeyBytesMax) continue;  // no such key can be
    const batch::ReadResult& result = requests.result(read++);
    (*statuses)[i] = batch::status_of(result.code);
    if ((*statuses)[i].ok()) (*values)[i].assign(result.data, result.bytes);
  }
  return Status::OK();
}

std::unique_ptr<rocksdb::Iterator> Engine::iterate(const rocksdb::ReadOptions& options, FamilyId id,
                                                   const Pin& pin,
                                                   std::function<Pin()> repin) const {
  const FamilyView* const family = pin.view->family(id);
  if (family == nullptr) {
    return std::unique_ptr<rocksdb::Iterator>(rocksdb::NewErrorIterator(no_family(id)));
  }
  statistics_->add(Ticker::kIterators, 1);
  note_host_search(*family);
  return make_iterator(options, pin, *family, std::move(repin));
}

// A search on the backend sees runs. If a commit is under way, or sealing fails, the reader looks
// into the memtable key by key, which is slower and no less right.
void Engine::seal_for_search(FamilyId id, std::uint64_t requests, std::uint64_t entries_min) {
  if (requests < reads_min_) return;
  const auto view = state_.view();
  const FamilyView* const family = view->family(id);
  if (family == nullptr || family->active->count() < entries_min) return;
  base::as_memory_allows([&] { publisher_->try_seal(id); });
}

// Many lookups in small runs cost the host more than the device's builds of those.
void Engine::lift_for_search(FamilyId id, std::uint64_t requests, std::uint64_t requests_min) {
  if (requests < requests_min) return;
  const auto view = state_.view();
  const FamilyView* const family = view->family(id);
  if (family == nullptr || !builder_->is_split(*family)) return;
  base::as_memory_allows([&] { publisher_->try_lift(id); });
}

void Engine::seal_for_search(const ReadSet& reads) {
  for (const ReadSet::Keys& keys : reads.keys) {
    seal_for_search(keys.family, keys.keys.count, kWorthSealing);
  }
}

void Engine::seal_for_search(const batch::Requests& requests) {
  for (const auto& reads : requests.reads()) {
    seal_for_search(reads->family(), reads->count(), kWorthSealing);
    lift_for_search(reads->family(), reads->count(), std::max(reads_min_, writes_min_));
  }
  // A walk sees runs only, and all of them in one place.
  for (const auto& ranges : requests.ranges()) {
    seal_for_search(ranges->family(), ranges->count(), 1);
    lift_for_search(ranges->family(), ranges->count(), reads_min_);
  }
}

// ---- column families ---------------------------------------------------------------------------

FamilyViewPtr Engine::new_family(const tree::TreeFamily& family) const {
  auto view = std::make_shared<FamilyView>();
  view->id = family->GetID();
  view->active = std::make_shared<memtable::HostMemtable>();
  view->tree = family;
  view->tree_has_data = below_->has_data(family.get());
  const rocksdb::Options options = below_->db()->GetOptions(family.get());
  view->merge_operator = options.merge_operator;
  // Elsewhere a compaction may change what readers see.
  view->tree_is_cached = options.compaction_filter == nullptr &&
                         options.compaction_filter_factory == nullptr &&
                         options.compaction_style != rocksdb::kCompactionStyleFIFO;
  return view;
}

Result<tree::TreeFamily> Engine::create_family(const std::string& name,
                                               const rocksdb::ColumnFamilyOptions& options) {
  BRECCIA_TRY(check_open());
  BRECCIA_TAKE(const tree::TreeFamily family, below_->create_family(name, options));
  publish_family(family);
  return family;
}

Result<tree::TreeFamily> Engine::import_family(const std::string& name,
                                               const rocksdb::ColumnFamilyOptions& options,
                                               const rocksdb::ImportColumnFamilyOptions& how,
                                               const rocksdb::ExportImportFilesMetaData& files) {
  BRECCIA_TAKE(const tree::TreeFamily family, below_->import_family(name, options, how, files));
  publish_family(family);
  return family;
}

/// Publishes what happened to the tree already. Without memory for that the store stops.
void Engine::publish_change(const std::function<void(View*)>& change) {
  const Status status = base::with_patience([&] {
    publisher_->change(change);
    return Status::OK();
  });
  if (status.ok()) return;
  fault_.set(Fault::Place::kFlush,
             base::io_error("no memory to show a change of the tree; open the store again"));
}

void Engine::publish_family(const tree::TreeFamily& family) {
  publish_change([&](View* next) {
    auto view = std::make_shared<FamilyView>(*new_family(family));
    view->runs_end = state_.visible();
    next->set_family(std::move(view));
  });
}

Status Engine::drop_family(FamilyId id, const std::function<void()>& about_to_drop) {
  BRECCIA_TRY(check_open());
  if (id == kDefaultFamily) return Status::InvalidArgument("Can't drop default column family");
  const auto view = state_.view();
  const FamilyView* const family = view->family(id);
  if (family == nullptr || family->dropped) {
    return Status::InvalidArgument("Column family already dropped!\n");
  }
  about_to_drop();
  return below_->drop_family(family->tree.get(), [&] {
    publish_change([&](View* next) {
      auto changed = std::make_shared<FamilyView>(*next->family(id));
      changed->dropped = true;
      next->set_family(std::move(changed));
    });
  });
}

void Engine::forget_family(FamilyId id) {
  publish_change([&](View* next) { next->erase_family(id); });
}

/// Publishes a changed view of a tree whose contents somebody changed, with an empty cache. Not
/// beside a flush: between its ingest and its view, memory holds what the tree has already.
void Engine::change_tree(const std::function<void(View*)>& change) {
  below_->while_unchanged([&] {
    cache::RowCache::Change tree_change(cache_.get());
    tree_change.begin();
    if (cache_ != nullptr) cache_->clear();
    publish_change([&](View* next) {
      change(next);
      next->below.version = tree_change.publish();
    });
  });
}

void Engine::forget_cached() {
  change_tree([](View*) {});
}

void Engine::stop_caching() {
  if (cache_ != nullptr) cache_->turn_off();
}

void Engine::refresh_tree() {
  change_tree([&](View* next) {
    const auto families = next->families;
    for (const auto& family : families) {
      auto changed = std::make_shared<FamilyView>(*family);
      changed->tree_has_data = family->tree_has_data || below_->has_data(family->tree.get());
      next->set_family(std::move(changed));
    }
    next->below.snapshot = below_->snapshot();
  });
}

Status Engine::CreateFamily(const std::string& name, FamilyId* family) {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const tree::TreeFamily created, create_family(name, options_.rocksdb));
    *family = created->GetID();
    return Status::OK();
  });
}

Status Engine::DropFamily(FamilyId family) {
  BRECCIA_TRY(base::or_memory_limit([&] { return drop_family(family, [] {}); }));
  forget_family(family);
  return Status::OK();
}

std::vector<std::pair<std::string, FamilyId>> Engine::Families() const {
  std::vector<std::pair<std::string, FamilyId>> families;
  for (const tree::TreeFamily& family : below_->families()) {
    if (tree::is_reserved(family->GetName())) continue;
    families.emplace_back(family->GetName(), family->GetID());
  }
  return families;
}

// ---- the rest ----------------------------------------------------------------------------------

Status Engine::Changes(std::uint64_t from, const ChangesOptions& options,
                       std::unique_ptr<ChangeStream>* stream) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TAKE(*stream, wal::open_changes(change_source(), from, options));
    return Status::OK();
  });
}

Status Engine::SyncLog() {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    return commits_->sync();
  });
}

Status Engine::flush(bool waits_for_tree) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(fault_.get());
    return flusher_->flush(waits_for_tree);
  });
}

Figures Engine::figures() const {
  return Figures(
      {*statistics_, state_, *backends_, *log_, fault_, *async_, cache_.get(), device_tags_.get()});
}

bool Engine::GetProperty(const std::string& name, std::string* value) {
  return base::or_memory_limit([&] { return figure(name, value); }).ok();
}

/// Errors  NotFound: there is none of that name.
Status Engine::figure(const std::string& name, std::string* value) const {
  auto figure = figures().text(name);
  if (!figure.has_value()) {
    // RocksDB clears the value of a name that it does not know.
    figure.emplace();
    if (!below_->db()->GetProperty(name, &*figure)) return Status::NotFound();
  }
  *value = std::move(*figure);
  return Status::OK();
}

}  // namespace breccia::ordered
