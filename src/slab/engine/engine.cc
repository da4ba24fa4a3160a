#include "slab/engine/engine.h"

#include <tbb/info.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/secret.h"
#include "batch/answers.h"
#include "batch/checked_transaction.h"
#include "batch/multi_get.h"
#include "batch/single_keys.h"
#include "exec/choose.h"
#include "exec/registration.h"
#include "record/key_check.h"

namespace breccia::slab {

namespace {

constexpr std::uint64_t kPerTask = 4096;

hash::Numbering draw_numbering(std::uint64_t mask) {
  return {
      record::HashSeed{.start = base::draw_secret_word(), .factor = base::draw_secret_word() | 1},
      mask};
}

/// work(begin, end) for parts of [0, n), by many cores if there are many.
template <class Work>
void in_parts(std::uint64_t n, const Work& work) {
  if (n < 2 * kPerTask) return work(0, n);
  base::parallel_for(tbb::blocked_range<std::uint64_t>(0, n, kPerTask),
                     [&](const auto& range) { work(range.begin(), range.end()); });
}

/// The entry of key `i` in a list.
Entry* entry_of(Entry* list, std::uint64_t i, record::KeyCheck* check) {
  while (list != nullptr && !check->is_of(i, list->record())) list = list->next;
  return list;
}

std::uint64_t parts_of(std::uint64_t reads) {
  constexpr std::uint64_t kReadsPerPart = 256;
  const auto cores = static_cast<std::uint64_t>(tbb::info::default_concurrency());
  return std::clamp<std::uint64_t>(reads / kReadsPerPart, 1, cores);
}

Status prepare_answers(batch::Requests* requests) {
  if (requests->prepare_results(parts_of(requests->read_count()), /*with_bounds=*/false)) {
    return Status::OK();
  }
  return Status::MemoryLimit("no memory for the results");
}

/// Copies what lookups found. Requests::deliver() is to follow, when nobody waits.
/// Shape   entries[reads]; after prepare_answers().
void answer(std::span<const Entry* const> entries, batch::Requests* requests) {
  batch::Reads* const reads = batch::default_part(requests->reads());
  if (reads == nullptr || reads->count() == 0) return;
  const std::uint64_t n = reads->count();
  BRECCIA_ASSERT(entries.size() == n);
  const std::uint64_t parts = std::min(parts_of(n), requests->arena_count());
  base::shared_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    batch::Answers answers(reads, &requests->arena(part));
    for (std::uint64_t i = n * part / parts; i < n * (part + 1) / parts; ++i) {
      constexpr std::uint64_t kAhead = 16;
      if (i + kAhead < n && entries[i + kAhead] != nullptr) {
        __builtin_prefetch(entries[i + kAhead]);
      }
      entries[i] == nullptr ? answers.add(i, Status::Code::kNotFound)
                            : answers.add_value(i, entries[i]->value());
    }
  });
}

Status not_durable(const char* call) {
  return Status::NotSupported(std::string(call) + ": a store of the slab engine is in memory alone",
                              "use the hash engine or the ordered one");
}

}  // namespace

/// What a batch does, on its way.
struct Engine::Change {
  explicit Change(std::atomic<std::uint64_t>* booked)
      : order(exec::plain_host_memory()), booked_with(*booked) {}
  ~Change() {
    for (Entry* const entry : made) Entries::discard(entry);
    for (Entry* const entry : gone) Entries::discard(entry);
    booked_with -= booked;
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  record::KeyColumnsRef keys;         // of the writes
  std::vector<std::uint64_t> number;  // of each write
  std::vector<Entry*> made;           // of each put; those that came in are no longer its
  std::vector<const Entry*> shown;    // of each write, to lookups of the batch behind it
  batch::KeyOrder order;
  Lists changes;                     // of the last write of each key
  std::vector<std::uint64_t> write;  // which one that is
  std::vector<Entry*> before;        // what each number had
  Lists lists;                       // of numbers that several keys have
  std::vector<Entry*> replaced;      // what is to go
  std::vector<Entry*> gone;          // what nobody finds any more
  std::uint64_t booked = 0;          // bytes that are not yet, or no longer, the store's
  std::atomic<std::uint64_t>& booked_with;
};

Status Engine::open(const SlabOptions& options, std::uint64_t number_mask,
                    std::unique_ptr<Engine>* engine) {
  std::unique_ptr<Engine> made(new Engine(draw_numbering(number_mask)));
  BRECCIA_TRY(made->start(options));
  *engine = std::move(made);
  return Status::OK();
}

Engine::~Engine() { Close().PermitUncheckedError(); }

Status Engine::start(const SlabOptions& options) {
  options_ = options;
  BRECCIA_TAKE(device_, exec::choose_device(options, &no_device_));
  BRECCIA_TAKE(index_, Index::make({.device = device_,
                                    .device_bytes_max = options.device_bytes_max,
                                    .host_bytes_max = options.index_host_bytes_max,
                                    .keys_expected = options.keys_expected}));
  together_ = std::make_unique<batch::Together>(batch::Together::Engine{
      .check =
          [](const batch::Requests& requests) {
            return batch::check_single_keys(requests, "slab");
          },
      .submit = [this](const WriteOptions& how,
                       batch::Requests* requests) { return submit(how, {}, requests); },
      .memory = [this]() -> std::shared_ptr<exec::HostMemory> {
        return {device_, &device_->host_memory()};
      },
      .note = [](std::uint64_t) {}});
  async_ = std::make_unique<batch::AsyncQueue>(
      batch::admission_options(options),
      [this](std::span<batch::AsyncBatch> group) { together_->run(group); });
  return Status::OK();
}

Status Engine::Close() {
  if (async_ != nullptr) async_->stop();
  closed_ = true;
  return Status::OK();
}

Status Engine::check_open() const {
  if (closed_.load(std::memory_order_relaxed)) {
    return Status::ShutdownInProgress("the store is closed", "open it again");
  }
  return Status::OK();
}

// ---- lookups -----------------------------------------------------------------------------------

Status Engine::look(std::span<const Seen> seen, batch::Requests* requests, Found* found) {
  BRECCIA_TRY(check_open());
  BRECCIA_TRY(batch::check_single_keys(*requests, "slab"));
  BRECCIA_TRY(prepare_answers(requests));
  const batch::Reads* const reads = batch::default_part(requests->reads());
  const auto look = [&]() -> Status {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_seen(seen));
    std::vector<const Entry*> entries;
    if (reads != nullptr) BRECCIA_TRY(find(reads->keys(), &entries));
    answer(entries, requests);
    if (found == nullptr) return Status::OK();
    found->sequence.clear();
    for (const Entry* const entry : entries) {
      found->sequence.push_back(entry == nullptr ? 0 : entry->sequence);
    }
    return Status::OK();
  };
  Status status = Status::IOError();
  {
    const std::shared_lock lock(mutex_);
    if (index_ != nullptr) status = look();
  }
  if (status.IsIOError()) {
    // Who comes first makes the index again; the others find it.
    const std::unique_lock section(mutex_);
    status = with_index(look);
  }
  BRECCIA_TRY(std::move(status));
  requests->deliver();
  if (reads != nullptr) gets_ += reads->count();
  return Status::OK();
}

/// In a section: work(), and once more with an index that was made again, if it fails.
template <class Work>
Status Engine::with_index(const Work& work) {
  if (index_ != nullptr) {
    Status status = work();
    if (!status.IsIOError()) return status;
    log(LogLevel::kError, "the index goes to the host: " + status.ToString());
    index_.reset();
  }
  BRECCIA_TRY(restore());
  Status status = work();
  if (status.IsIOError()) index_.reset();
  return status;
}

/// In a section: makes the index again from all entries, on the host, as large as it needs to be.
/// Errors  those of the host; there is none then, and who comes next tries again.
Status Engine::restore() {
  return base::or_memory_limit([&]() -> Status {
    std::vector<std::pair<std::uint64_t, Entry*>> all;
    all.reserve(entries_.count());
    entries_.for_each([&](Entry* entry) { all.emplace_back(numbering_.of(entry->key()), entry); });
    std::sort(all.begin(), all.end());
    Lists lists;
    for (const auto& [number, entry] : all) {
      const bool is_shared = lists.count() > 0 && lists.number.back() == number;
      entry->next = is_shared ? lists.entry.back() : nullptr;
      if (is_shared) {
        lists.entry.back() = entry;
      } else {
        lists.add(number, entry);
      }
    }
    BRECCIA_TAKE(const exec::DevicePtr host, exec::open_device(exec::DeviceKind::kHost, 0));
    BRECCIA_TAKE(auto made, Index::make({.device = host, .keys_expected = lists.count()}));
    std::vector<Entry*> before;
    BRECCIA_TRY(made->change(lists, sequence_ + 1, &before));
    index_ = std::move(made);
    return Status::OK();
  });
}

/// The entries of keys; null: there is none. The caller shares the table.
Status Engine::find(const record::KeyColumnsRef& keys, std::vector<const Entry*>* entries) const {
  std::vector<std::uint64_t> number(keys.count);
  numbering_.of_all(keys, number.data());
  std::vector<Entry*> lists(keys.count);
  BRECCIA_TRY(index_->find(number, lists.data()));
  entries->resize(keys.count);
  in_parts(keys.count, [&](std::uint64_t begin, std::uint64_t end) {
    record::KeyCheck check(keys);
    for (std::uint64_t i = begin; i < end; ++i) {
      constexpr std::uint64_t kAhead = 16;
      if (i + kAhead < end) __builtin_prefetch(lists[i + kAhead]);
      (*entries)[i] = entry_of(lists[i], i, &check);
    }
  });
  return Status::OK();
}

Status Engine::check_seen(std::span<const Seen> seen) const {
  for (const Seen& one : seen) {
    const batch::Reads* const reads = batch::default_part(one.reads->reads());
    if (reads == nullptr) continue;
    std::vector<const Entry*> now;
    BRECCIA_TRY(find(reads->keys(), &now));
    BRECCIA_ASSERT(now.size() == one.found.sequence.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      if ((now[i] == nullptr ? 0 : now[i]->sequence) != one.found.sequence[i]) {
        return Status::Busy("what the transaction read has changed");
      }
    }
  }
  return Status::OK();
}

// ---- writes ------------------------------------------------------------------------------------

Status Engine::submit(const WriteOptions& /*options*/, std::span<const Seen> seen,
                      batch::Requests* requests) {
  return base::or_memory_limit([&] {
    if (requests->write_count() == 0) return look(seen, requests, nullptr);
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(batch::check_single_keys(*requests, "slab"));
    BRECCIA_TRY(prepare_answers(requests));
    return write(seen, requests);
  });
}

Status Engine::write(std::span<const Seen> seen, batch::Requests* requests) {
  requests->lay_out();
  const batch::Writes& writes = *batch::default_part(requests->writes());
  const batch::Reads* const reads = batch::default_part(requests->reads());
  const bool looks = reads != nullptr && reads->count() > 0;
  Change change(&booked_);
  BRECCIA_TRY(make_entries(writes, &change));
  if (looks) reads->settle();
  if (!change.order.build(&writes, looks ? reads : nullptr)) {
    return Status::MemoryLimit("no memory for the batch's order");
  }
  choose(writes, &change);
  BRECCIA_TRY(book(&change));
  {
    const std::unique_lock section(mutex_);
    BRECCIA_TRY(check_open());
    std::vector<const Entry*> entries;
    BRECCIA_TRY(with_index([&]() -> Status {
      BRECCIA_TRY(check_seen(seen));
      return looks ? find(reads->keys(), &entries) : Status::OK();
    }));
    const std::uint64_t n = writes.point_count();
    for (std::uint64_t i = 0; i < entries.size(); ++i) {
      const std::uint32_t before = change.order.before(n + i);
      if (before == batch::KeyOrder::kNone) continue;
      entries[i] = before < n ? change.shown[before] : entries[before - n];
    }
    // Before anything is there: what finds no memory has done nothing.
    answer(entries, requests);
    BRECCIA_TRY(come_in(&change));
  }
  writes_ += writes.point_count();
  if (!looks) return Status::OK();
  requests->deliver();
  gets_ += reads->count();
  return Status::OK();
}

/// Copies of the records of puts, and all numbers.
/// Errors  MemoryLimit.
Status Engine::make_entries(const batch::Writes& writes, Change* change) {
  if (!writes.gather()) return Status::MemoryLimit("no memory for the batch's records");
  const std::uint64_t n = writes.point_count();
  change->keys = writes.keys();
  change->number.resize(n);
  numbering_.of_all(writes.keys(), change->number.data());
  change->made.resize(n);
  const std::byte* const records = writes.records();
  std::atomic<bool> has_memory = true;
  in_parts(n, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::uint64_t offset = writes.offsets()[i];
      if (record::is_deletion(record::op_of(offset))) continue;
      change->made[i] = Entries::make(records + record::position_of(offset), /*sequence=*/0);
      if (change->made[i] == nullptr) has_memory = false;
    }
  });
  change->shown.assign(change->made.begin(), change->made.end());
  return has_memory ? Status::OK() : Status::MemoryLimit("no memory for records");
}

/// Which writes stay: the last one of each key.
void Engine::choose(const batch::Writes& writes, Change* change) {
  const std::uint64_t n = writes.point_count();
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint32_t later = change->order.next(i);
    while (later != batch::KeyOrder::kNone && later >= n) later = change->order.next(later);
    if (later != batch::KeyOrder::kNone) continue;
    change->changes.add(change->number[i], change->made[i]);
    change->write.push_back(i);
  }
}

/// Room for what comes in, beside what it replaces.
/// Errors  MemoryLimit: record_bytes_max.
Status Engine::book(Change* change) {
  std::uint64_t bytes = 0;
  for (const Entry* const entry : change->changes.entry) {
    if (entry != nullptr) bytes += entry->bytes();
  }
  change->booked = bytes;
  const std::uint64_t all = booked_.fetch_add(bytes) + bytes;
  if (bytes == 0 || options_.record_bytes_max == 0 || all <= options_.record_bytes_max) {
    return Status::OK();
  }
  return Status::MemoryLimit("record_bytes_max", "delete something, or give the store more");
}

/// In a section: the batch becomes what is there.
/// Errors  MemoryLimit, IOError: nothing was done.
Status Engine::come_in(Change* change) {
  for (Entry* const entry : change->made) {
    if (entry != nullptr) entry->sequence = sequence_ + 1;
  }
  BRECCIA_TRY(with_index([&] { return put_in(change); }));
  ++sequence_;
  settle(change);
  return Status::OK();
}

/// Puts the changes into the index.
/// Errors  MemoryLimit: nothing was done. IOError: what was done is not known.
Status Engine::put_in(Change* change) {
  for (Entry* const entry : change->made) {
    if (entry != nullptr) entry->next = nullptr;
  }
  Status changed = base::io_error("what the index did is not known");
  base::as_memory_allows(
      [&] { changed = index_->change(change->changes, sequence_ + 1, &change->before); });
  BRECCIA_TRY(std::move(changed));
  const Status listed = base::or_memory_limit([&] {
    list(change);
    if (change->lists.count() == 0) return Status::OK();
    std::vector<Entry*> ignored;
    return index_->change(change->lists, sequence_ + 1, &ignored);
  });
  if (listed.IsMemoryLimit()) return base::io_error("no memory for lists of keys");
  return base::copy_of(listed);
}

/// What the batch replaces, and, for numbers that several keys have, what each is to have: what
/// comes in, and what was there of other keys.
void Engine::list(Change* change) {
  std::map<std::uint64_t, std::vector<std::size_t>> shared;  // changes of these numbers
  record::KeyCheck check(change->keys);
  change->replaced.clear();
  change->lists.clear();
  for (std::size_t i = 0; i < change->changes.count(); ++i) {
    const Entry* const before = change->before[i];
    if (before == nullptr) continue;
    const bool is_own = before->next == nullptr && check.is_of(change->write[i], before->record());
    if (!is_own) shared.try_emplace(change->changes.number[i]);
  }
  for (std::size_t i = 0; i < change->changes.count(); ++i) {
    const auto at = shared.empty() ? shared.end() : shared.find(change->changes.number[i]);
    if (at != shared.end()) {
      at->second.push_back(i);
    } else if (change->before[i] != nullptr) {
      change->replaced.push_back(change->before[i]);
    }
  }
  for (const auto& [number, changes] : shared) {
    Entry* old = nullptr;
    for (const std::size_t i : changes) {
      // Others met what came in of this batch.
      Entry* const before = change->before[i];
      if (before != nullptr && before->sequence != sequence_ + 1) old = before;
    }
    Entry* list = nullptr;
    const auto add = [&](Entry* entry) {
      entry->next = list;
      list = entry;
    };
    for (Entry* next = nullptr; old != nullptr; old = next) {
      next = old->next;
      const bool is_replaced = std::any_of(changes.begin(), changes.end(), [&](std::size_t i) {
        return check.is_of(change->write[i], old->record());
      });
      is_replaced ? change->replaced.push_back(old) : add(old);
    }
    for (const std::size_t i : changes) {
      if (change->changes.entry[i] != nullptr) add(change->changes.entry[i]);
    }
    change->lists.add(number, list);
  }
}

/// What came in is the store's, what it replaced is nobody's. Wants no memory.
void Engine::settle(Change* change) {
  for (Entry* const entry : change->replaced) {
    change->booked += entry->bytes();
    entries_.take_out(entry);
  }
  for (std::size_t i = 0; i < change->changes.count(); ++i) {
    Entry* const entry = change->changes.entry[i];
    if (entry == nullptr) continue;
    change->booked -= entry->bytes();
    entries_.take_in(entry);
    change->made[change->write[i]] = nullptr;
  }
  change->gone.swap(change->replaced);
}

// ---- the rest of Store -------------------------------------------------------------------------

Status Engine::write_one(record::Op op, const Slice& key, const Slice& value) {
  return base::or_memory_limit([&] {
    batch::Requests& requests = batch::thread_requests();
    BRECCIA_TRY(requests.add_write(op, kDefaultFamily, key, value));
    return submit({}, {}, &requests);
  });
}

Status Engine::Put(const WriteOptions& /*options*/, const Slice& key, const Slice& value) {
  return write_one(record::Op::kPut, key, value);
}

Status Engine::Delete(const WriteOptions& /*options*/, const Slice& key) {
  return write_one(record::Op::kDelete, key, Slice());
}

Status Engine::Merge(const WriteOptions& /*options*/, const Slice& /*key*/,
                     const Slice& /*operand*/) {
  return Status::NotSupported("the slab engine has no merge operators");
}

void Engine::SubmitAsync(const WriteOptions& options, Batch* batch,
                         std::function<void(Status)> done) {
  const Status taken = base::or_memory_limit([&] {
    return async_->submit({options, &batch->requests(), done, Status()});
  });
  if (!taken.ok()) done(taken);
}

Status Engine::Get(const Slice& key, std::string* value) {
  std::vector<std::string> values;
  std::vector<Status> statuses = MultiGet({&key, 1}, &values);
  if (statuses.front().ok()) *value = std::move(values.front());
  return std::move(statuses.front());
}

std::vector<Status> Engine::MultiGet(std::span<const Slice> keys,
                                     std::vector<std::string>* values) {
  return batch::multi_get(keys, values, [this](batch::Requests* requests) {
    BRECCIA_TRY(check_open());
    return submit({}, {}, requests);
  });
}

std::unique_ptr<Transaction> Engine::OpenTransaction() {
  return std::make_unique<batch::CheckedTransaction<Engine, Seen>>(this, NewBatch());
}

Batch Engine::NewBatch() {
  return Batch(std::make_unique<batch::Requests>(
      std::shared_ptr<exec::HostMemory>(device_, &device_->host_memory())));
}

Status Engine::RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    return exec::register_memory(device_, memory, bytes, registration);
  });
}

Status Engine::CreateFamily(const std::string& /*name*/, FamilyId* /*family*/) {
  return Status::NotSupported("a store of the slab engine has the default family only");
}

Status Engine::DropFamily(FamilyId /*family*/) {
  return Status::NotSupported("a store of the slab engine has the default family only");
}

std::vector<std::pair<std::string, FamilyId>> Engine::Families() const {
  return {{"default", kDefaultFamily}};
}

Status Engine::Changes(std::uint64_t /*from*/, const ChangesOptions& /*options*/,
                       std::unique_ptr<ChangeStream>* /*stream*/) {
  return not_durable("Changes");
}

Status Engine::SyncLog() { return not_durable("SyncLog"); }

Status Engine::Flush() { return not_durable("Flush"); }

bool Engine::GetProperty(const std::string& name, std::string* value) {
  return base::or_memory_limit([&] {
           const std::shared_lock lock(mutex_);
           const Table::Figures table =
               index_ == nullptr ? Table::Figures() : index_->table().figures();
           const std::pair<const char*, std::string> figures[] = {
               {"breccia.backend",
                index_ == nullptr ? "none" : index_->backend().device().describe()},
               {"breccia.backend.none", no_device_},
               {"breccia.engine", "slab"},
               {"breccia.gets", std::to_string(gets_.load())},
               {"breccia.writes", std::to_string(writes_.load())},
               {"breccia.slab.keys", std::to_string(entries_.count())},
               {"breccia.slab.record_bytes", std::to_string(entries_.bytes())},
               {"breccia.slab.buckets", std::to_string(table.buckets)},
               {"breccia.slab.chained", std::to_string(table.chained - table.chained_free)},
               {"breccia.slab.index_bytes", std::to_string(table.bytes)},
               {"breccia.slab.index_host_bytes", std::to_string(table.host_bytes)},
               {"breccia.admission.batches", std::to_string(async_->figures().batches)},
           };
           std::string all;
           for (const auto& [known, figure] : figures) {
             if (name == known) {
               *value = figure;
               return Status::OK();
             }
             all += std::string(known) + ": " + figure + "\n";
           }
           if (name != "breccia.stats") return Status::NotFound();
           *value = std::move(all);
           return Status::OK();
         })
      .ok();
}

}  // namespace breccia::slab
