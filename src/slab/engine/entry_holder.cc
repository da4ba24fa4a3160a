#include "slab/engine/entry_holder.h"

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
#include "base/prefetch.h"
#include "batch/answers.h"
#include "batch/single_keys.h"
#include "record/key_check.h"
#include "slab/engine/parts.h"

namespace breccia::slab {

namespace {

/// The entry of key `i` in a list.
Entry* entry_of(Entry* list, std::uint64_t i, record::KeyCheck* check) {
  while (list != nullptr && !check->is_of(i, list->record())) list = list->next;
  return list;
}

/// Copies what lookups found. Requests::deliver() is to follow, when nobody waits.
/// Shape   entries[reads]; after prepare_answers().
void answer(std::span<const Entry* const> entries, batch::Requests* requests) {
  batch::Reads* const reads = batch::default_part(requests->reads());
  if (reads == nullptr || reads->count() == 0) return;
  const std::uint64_t n = reads->count();
  BRECCIA_ASSERT(entries.size() == n);
  const std::uint64_t parts = requests->arena_count();
  base::shared_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    batch::Answers answers(reads, &requests->arena(part));
    for (std::uint64_t i = n * part / parts; i < n * (part + 1) / parts; ++i) {
      constexpr std::uint64_t kAhead = 16;
      if (i + kAhead < n && entries[i + kAhead] != nullptr) {
        base::prefetch(entries[i + kAhead]);
      }
      entries[i] == nullptr ? answers.add(i, Status::Code::kNotFound)
                            : answers.add_value(i, entries[i]->value());
    }
  });
}

Found found_of(std::span<const Entry* const> entries) {
  Found found;
  for (const Entry* const entry : entries) {
    found.is_there.push_back(entry == nullptr ? 0 : 1);
    found.word.push_back(entry == nullptr ? 0 : entry->sequence);
  }
  return found;
}

}  // namespace

/// What a batch does, on its way.
struct EntryHolder::Change {
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

Result<std::unique_ptr<Holder>> EntryHolder::make(const SlabOptions& options,
                                                  exec::DevicePtr device,
                                                  const hash::Numbering& numbering) {
  std::unique_ptr<EntryHolder> made(new EntryHolder(options, numbering));
  BRECCIA_TAKE(made->index_, Index::make({.device = std::move(device),
                                          .device_bytes_max = options.device_bytes_max,
                                          .host_bytes_max = options.index_host_bytes_max,
                                          .keys_expected = options.keys_expected}));
  return std::unique_ptr<Holder>(std::move(made));
}

// ---- lookups -----------------------------------------------------------------------------------

Status EntryHolder::look(std::span<const Seen> seen, batch::Requests* requests, Found* found) {
  const batch::Reads* const reads = batch::default_part(requests->reads());
  const auto look = [&]() -> Status {
    BRECCIA_TRY(check_seen(seen));
    std::vector<const Entry*> entries;
    if (reads != nullptr) BRECCIA_TRY(find(reads->keys(), &entries));
    answer(entries, requests);
    if (found != nullptr) *found = found_of(entries);
    return Status::OK();
  };
  {
    const std::shared_lock lock(mutex_);
    Status status = index_ == nullptr ? Status::IOError() : look();
    if (!status.IsIOError()) return status;
  }
  // Who comes first makes the index again; the others find it.
  const std::unique_lock section(mutex_);
  return with_index(look);
}

/// In a section: work(), and once more with an index that was made again, if it fails.
template <class Work>
Status EntryHolder::with_index(const Work& work) {
  if (index_ != nullptr) {
    Status status = work();
    if (!status.IsIOError()) return status;
    index_.reset();
    base::as_memory_allows(
        [&] { log(LogLevel::kError, "the index goes to the host: " + status.ToString()); });
  }
  BRECCIA_TRY(restore());
  Status status = work();
  if (status.IsIOError()) index_.reset();
  return status;
}

/// In a section: makes the index again from all entries, on the host, as large as it needs to be.
/// Errors  those of the host; there is none then, and who comes next tries again.
Status EntryHolder::restore() {
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
Status EntryHolder::find(const record::KeyColumnsRef& keys,
                         std::vector<const Entry*>* entries) const {
  std::vector<std::uint64_t> number(keys.count);
  numbering_.of_all(keys, number.data());
  std::vector<Entry*> lists(keys.count);
  BRECCIA_TRY(index_->find(number, lists.data()));
  entries->resize(keys.count);
  in_parts(keys.count, [&](std::uint64_t begin, std::uint64_t end) {
    record::KeyCheck check(keys);
    for (std::uint64_t i = begin; i < end; ++i) {
      constexpr std::uint64_t kAhead = 16;
      if (i + kAhead < end) base::prefetch(lists[i + kAhead]);
      (*entries)[i] = entry_of(lists[i], i, &check);
    }
  });
  return Status::OK();
}

Status EntryHolder::check_seen(std::span<const Seen> seen) const {
  for (const Seen& one : seen) {
    const batch::Reads* const reads = batch::default_part(one.reads->reads());
    if (reads == nullptr) continue;
    std::vector<const Entry*> now;
    BRECCIA_TRY(find(reads->keys(), &now));
    if (found_of(now) != one.found) return Status::Busy("what the transaction read has changed");
  }
  return Status::OK();
}

// ---- writes ------------------------------------------------------------------------------------

Status EntryHolder::write(std::span<const Seen> seen, batch::Requests* requests, Moment* moment) {
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
  AtMoment at(moment);
  BRECCIA_TRY(come_in(&change));
  at.it_happens();
  return Status::OK();
}

/// Copies of the records of puts, and all numbers.
/// Errors  MemoryLimit.
Status EntryHolder::make_entries(const batch::Writes& writes, Change* change) {
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
void EntryHolder::choose(const batch::Writes& writes, Change* change) {
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
Status EntryHolder::book(Change* change) {
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
Status EntryHolder::come_in(Change* change) {
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
Status EntryHolder::put_in(Change* change) {
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

/// Of each change, whether it met another thing than its key's entry alone: 1.
std::vector<std::uint8_t> EntryHolder::met_others(const Change& change) {
  std::vector<std::uint8_t> met(change.changes.count());
  in_parts(met.size(), [&](std::uint64_t begin, std::uint64_t end) {
    record::KeyCheck check(change.keys);
    for (std::uint64_t i = begin; i < end; ++i) {
      constexpr std::uint64_t kAhead = 16;
      if (i + kAhead < end) base::prefetch(change.before[i + kAhead]);
      const Entry* const before = change.before[i];
      if (before == nullptr) continue;
      const bool is_own = before->next == nullptr && check.is_of(change.write[i], before->record());
      met[i] = is_own ? 0 : 1;
    }
  });
  return met;
}

/// What the batch replaces, and, for numbers that several keys have, what each is to have: what
/// comes in, and what was there of other keys.
void EntryHolder::list(Change* change) {
  std::map<std::uint64_t, std::vector<std::size_t>> shared;  // changes of these numbers
  record::KeyCheck check(change->keys);
  change->replaced.clear();
  change->lists.clear();
  const std::vector<std::uint8_t> met_other = met_others(*change);
  for (std::size_t i = 0; i < change->changes.count(); ++i) {
    if (met_other[i] != 0) shared.try_emplace(change->changes.number[i]);
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
void EntryHolder::settle(Change* change) {
  std::atomic<std::uint64_t> gone_bytes{0}, come_bytes{0};
  each_once(change->replaced.size(), [&](std::uint64_t begin, std::uint64_t end) {
    std::uint64_t bytes = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      bytes += change->replaced[i]->bytes();
      entries_.take_out(change->replaced[i]);
    }
    gone_bytes += bytes;
  });
  each_once(change->changes.count(), [&](std::uint64_t begin, std::uint64_t end) {
    std::uint64_t bytes = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      Entry* const entry = change->changes.entry[i];
      if (entry == nullptr) continue;
      bytes += entry->bytes();
      entries_.take_in(entry);
      change->made[change->write[i]] = nullptr;
    }
    come_bytes += bytes;
  });
  BRECCIA_ASSERT(change->booked >= come_bytes);
  change->booked += gone_bytes - come_bytes;
  change->gone.swap(change->replaced);
}

Holder::Figures EntryHolder::figures() const {
  const std::shared_lock lock(mutex_);
  Figures figures = figures_of(index_ == nullptr ? Table::Figures() : index_->table().figures());
  figures.emplace_back("breccia.backend",
                       index_ == nullptr ? "none" : index_->table().device().describe());
  figures.emplace_back("breccia.slab.keys", std::to_string(entries_.count()));
  figures.emplace_back("breccia.slab.record_bytes", std::to_string(entries_.bytes()));
  return figures;
}

}  // namespace breccia::slab
