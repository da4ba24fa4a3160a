#include "slab/engine/word_holder.h"

#include <algorithm>
#include <shared_mutex>

#include "base/assert.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "batch/answers.h"
#include "batch/key_order.h"
#include "batch/single_keys.h"
#include "slab/engine/parts.h"

namespace breccia::slab {

namespace {

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);

Status no_memory() { return Status::MemoryLimit("no memory for a batch's columns"); }

/// Where the lookups of a batch stand: all before its writes, all behind them, or between.
enum class Stand : std::uint8_t { kBefore, kBehind, kBetween };

Stand stand_of(const batch::Reads& reads, const batch::Writes& writes) {
  // Bytes of records before a lookup never become fewer.
  if (reads.after(reads.count() - 1) == 0) return Stand::kBefore;
  return reads.after(0) == writes.record_bytes() ? Stand::kBehind : Stand::kBetween;
}

/// Lookups that come so many at once leave the caches before anybody looks at them.
constexpr std::uint64_t kStreamedReadsMin = 128 << 10;

}  // namespace

/// What lookups found: of each its value, and whether there was one.
/// Owner   the keys and the values are elsewhere, and outlive it.
struct WordHolder::Words {
  Words(const record::KeyColumnsRef& keys, std::uint64_t* values, exec::HostMemory& memory)
      : key(keys.head), count(keys.count), value(values), codes(memory) {}

  [[nodiscard]] bool make() {
    if (!codes.reserve(count)) return false;
    code = codes.extend(count);
    return true;
  }
  [[nodiscard]] bool is_there(std::uint64_t i) const { return code[i] == hash::Code::kPresent; }
  [[nodiscard]] Found found() const {
    Found found{std::vector<std::uint8_t>(count), std::vector<std::uint64_t>(count)};
    for (std::uint64_t i = 0; i < count; ++i) {
      found.is_there[i] = is_there(i) ? 1 : 0;
      found.word[i] = is_there(i) ? value[i] : 0;
    }
    return found;
  }

  const std::uint64_t* const key;
  const std::uint64_t count;
  std::uint64_t* const value;
  hash::Code* code = nullptr;
  exec::HostVector<hash::Code> codes;
};

/// What a batch writes: of each key the last, and what was there before it.
struct WordHolder::Change {
  explicit Change(exec::HostMemory& memory)
      : keys(memory), values(memory), operations(memory), founds(memory), codes(memory) {}

  [[nodiscard]] bool reserve(std::uint64_t count) {
    return keys.reserve(count) && values.reserve(count) && operations.reserve(count) &&
           founds.reserve(count) && codes.reserve(count);
  }
  void add(std::uint64_t key, std::uint64_t value, hash::Operation operation) {
    keys.push(key);
    values.push(value);
    operations.push(operation);
  }
  /// Columns of [begin, end).
  [[nodiscard]] hash::RequestsRef part(std::uint64_t begin, std::uint64_t end) {
    return {.operation = operations.data() + begin,
            .key = keys.data() + begin,
            .value = values.data() + begin,
            .found = founds.data() + begin,
            .code = codes.data() + begin,
            .count = end - begin};
  }

  exec::HostVector<std::uint64_t> keys, values;
  exec::HostVector<hash::Operation> operations;
  exec::HostVector<std::uint64_t> founds;
  exec::HostVector<hash::Code> codes;
};

namespace {

/// Answers lookups. Wants no memory.
template <class Words>
void answer(const Words& words, batch::Requests* requests) {
  batch::Reads* const reads = batch::default_part(requests->reads());
  const std::uint64_t n = words.count;
  const std::uint64_t parts = requests->arena_count();
  base::shared_or_alone(parts, [&](std::uint64_t part) {
    batch::Answers answers(reads, /*arena=*/nullptr);
    if (n >= kStreamedReadsMin) answers.stream_values();
    const auto is_there = [&](std::uint64_t i) { return words.is_there(i); };
    const std::uint64_t end = n * (part + 1) / parts;
    for (std::uint64_t i = n * part / parts; i < end; ++i) {
      i = answers.add_numbers(i, end, words.value + i, is_there);
      if (i == end) return;
      // None, or one that goes to another place than those before it.
      is_there(i) ? answers.add_number(i, words.value + i)
                  : answers.add(i, Status::Code::kNotFound);
    }
  });
}

}  // namespace

Result<std::unique_ptr<Holder>> WordHolder::make(const SlabOptions& options,
                                                 exec::DevicePtr device) {
  BRECCIA_TAKE(TableOn table, TableOn::make({.device = device,
                                             .device_bytes_max = options.device_bytes_max,
                                             .host_bytes_max = options.index_host_bytes_max,
                                             .keys_expected = options.keys_expected}));
  return std::unique_ptr<Holder>(new WordHolder(std::move(device), std::move(table)));
}

Status WordHolder::check(const batch::Requests& requests) const {
  const batch::Writes* const writes = batch::default_part(requests.writes());
  const batch::Reads* const reads = batch::default_part(requests.reads());
  const auto are_words = [](const record::KeyColumnsRef& keys) {
    return keys.count == 0 || keys.uniform_bytes == kWordBytes;
  };
  const bool suits = (writes == nullptr || (are_words(writes->keys()) && writes->only_numbers())) &&
                     (reads == nullptr || are_words(reads->columns()));
  if (suits) return Status::OK();
  return Status::InvalidArgument("a key or a value that has not 8 bytes, of a store with in_place",
                                 "open the store without it");
}

Status WordHolder::run(const hash::RequestsRef& requests) const {
  Status status = is_half_done_ ? base::io_error("it has half a batch") : table_.run(requests);
  if (!status.IsIOError() || !(is_half_done_ || table_.device().is_lost())) return status;
  return Status::IOError("what a store with in_place had is lost: " + status.ToString(),
                         "open another one, and fill it");
}

/// The caller shares the table.
Status WordHolder::find(Words* words) const {
  for (std::uint64_t begin = 0; begin < words->count; begin += TableOn::kRequestsAtOnce) {
    BRECCIA_TRY(run({.all = hash::Operation::kFind,
                     .key = words->key + begin,
                     .found = words->value + begin,
                     .code = words->code + begin,
                     .count = std::min(words->count - begin, TableOn::kRequestsAtOnce)}));
  }
  return Status::OK();
}

/// The caller shares the table.
Status WordHolder::check_seen(std::span<const Seen> seen) const {
  for (const Seen& one : seen) {
    const batch::Reads* const reads = batch::default_part(one.reads->reads());
    if (reads == nullptr) continue;
    std::vector<std::uint64_t> values(reads->count());
    Words now(reads->keys(), values.data(), memory());
    if (!now.make()) return no_memory();
    BRECCIA_TRY(find(&now));
    if (now.found() != one.found) return Status::Busy("what the transaction read has changed");
  }
  return Status::OK();
}

Status WordHolder::look(std::span<const Seen> seen, batch::Requests* requests, Found* found) {
  batch::Reads* const reads = batch::default_part(requests->reads());
  if (reads == nullptr || reads->count() == 0) {
    const std::shared_lock lock(mutex_);
    return check_seen(seen);
  }
  Words words(reads->keys(), reads->make_numbers(), memory());
  if (words.value == nullptr || !words.make()) return no_memory();
  {
    const std::shared_lock lock(mutex_);
    BRECCIA_TRY(check_seen(seen));
    BRECCIA_TRY(find(&words));
  }
  if (found != nullptr) *found = words.found();
  answer(words, requests);
  return Status::OK();
}

Status WordHolder::write(std::span<const Seen> seen, batch::Requests* requests, Moment* moment) {
  const batch::Writes& writes = *batch::default_part(requests->writes());
  batch::Reads* const reads = batch::default_part(requests->reads());
  const bool looks = reads != nullptr && reads->count() > 0;
  const Stand stand = looks ? stand_of(*reads, writes) : Stand::kBefore;
  batch::KeyOrder order(memory());
  if (looks) reads->settle();
  if (!order.build(&writes, stand == Stand::kBetween ? reads : nullptr)) return no_memory();
  Change change(memory());
  if (!choose(writes, order, &change)) return no_memory();
  Words words(looks ? reads->keys() : record::KeyColumnsRef(),
              looks ? reads->make_numbers() : nullptr, memory());
  if (looks && (words.value == nullptr || !words.make())) return no_memory();
  {
    const std::unique_lock section(mutex_);
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_seen(seen));
    if (stand != Stand::kBehind) BRECCIA_TRY(find(&words));
    AtMoment at(moment);
    BRECCIA_TRY(this->change(&change));
    if (stand == Stand::kBehind) {
      Status status = base::or_memory_limit([&] { return find(&words); });
      // Nobody has seen it yet.
      if (!status.ok()) BRECCIA_TRY(undo(&change, change.keys.size()));
      BRECCIA_TRY(std::move(status));
    }
    ++sequence_;
    at.it_happens();
  }
  if (!looks) return Status::OK();
  if (stand == Stand::kBetween) show(writes, order, &words);
  answer(words, requests);
  return Status::OK();
}

/// Which writes stay: the last one of each key. False: there is no memory.
bool WordHolder::choose(const batch::Writes& writes, const batch::KeyOrder& order, Change* change) {
  const std::uint64_t n = writes.point_count();
  const std::uint64_t* const keys = writes.keys().head;
  const std::uint64_t* const values = writes.numbers();
  if (!change->reserve(n)) return false;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint32_t later = order.next(i);
    while (later != batch::KeyOrder::kNone && later >= n) later = order.next(later);
    if (later != batch::KeyOrder::kNone) continue;
    const bool deletes = record::is_deletion(record::op_of(writes.offsets()[i]));
    change->add(keys[i], values[i], deletes ? hash::Operation::kDelete : hash::Operation::kUpsert);
  }
  (void)change->founds.extend(change->keys.size());
  (void)change->codes.extend(change->keys.size());
  return true;
}

/// Lookups behind writes of their batch see these.
void WordHolder::show(const batch::Writes& writes, const batch::KeyOrder& order, Words* words) {
  const std::uint64_t n = writes.point_count();
  for (std::uint64_t i = 0; i < words->count; ++i) {
    const std::uint32_t before = order.before(n + i);
    if (before == batch::KeyOrder::kNone) continue;
    if (before >= n) {
      // A lookup of the same key has its answer by now.
      words->code[i] = words->code[before - n];
      words->value[i] = words->value[before - n];
      continue;
    }
    const bool deletes = record::is_deletion(record::op_of(writes.offsets()[before]));
    words->code[i] = deletes ? hash::Code::kAbsent : hash::Code::kPresent;
    words->value[i] = writes.numbers()[before];
  }
}

/// In a section: does all of it, or nothing.
/// Errors  those of the table: nothing was done, or what it had is lost.
Status WordHolder::change(Change* change) {
  const std::uint64_t n = change->keys.size();
  for (std::uint64_t begin = 0; begin < n; begin += TableOn::kRequestsAtOnce) {
    const std::uint64_t end = std::min(n, begin + TableOn::kRequestsAtOnce);
    const hash::RequestsRef part = change->part(begin, end);
    Status status = run_whole(part);
    const bool is_done = status.ok();
    if (is_done && std::count(part.code, part.code + part.count, hash::Code::kNoRoom) == 0) {
      continue;
    }
    BRECCIA_TRY(undo(change, is_done ? end : begin));
    if (!is_done) return status;
    return Status::MemoryLimit("the table finds no room to grow",
                               "delete something, or give the store more");
  }
  return Status::OK();
}

/// run() of changes. Where it throws nobody knows what was done.
Status WordHolder::run_whole(const hash::RequestsRef& part) {
  Status status = base::io_error("what the table did is not known");
  bool is_known = false;
  base::as_memory_allows([&] {
    status = run(part);
    is_known = true;
  });
  if (!is_known) is_half_done_ = true;
  return status;
}

/// In a section: takes back the first `count` changes, in their own columns, as memory may be what
/// there is none of.
/// Errors  IOError: what it had is lost.
Status WordHolder::undo(Change* change, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const hash::Code met = change->codes[i];
    const bool came = met == hash::Code::kAbsent;
    hash::Operation& operation = change->operations.data()[i];
    if (met == hash::Code::kNoRoom || (came && operation == hash::Operation::kDelete)) {
      operation = hash::Operation::kFind;
    } else {
      operation = came ? hash::Operation::kDelete : hash::Operation::kUpsert;
    }
    change->values.data()[i] = change->founds[i];
  }
  // What was there may find room only when what came is gone.
  for (int turn = 0; turn < 2; ++turn) {
    for (std::uint64_t begin = 0; begin < count; begin += TableOn::kRequestsAtOnce) {
      const std::uint64_t end = std::min(count, begin + TableOn::kRequestsAtOnce);
      if (!run_whole(change->part(begin, end)).ok()) return note_half_done();
      for (std::uint64_t i = begin; i < end; ++i) {
        if (change->codes[i] == hash::Code::kNoRoom) continue;
        change->operations.data()[i] = hash::Operation::kFind;
      }
    }
  }
  const hash::Operation* const operations = change->operations.data();
  const bool is_undone = std::all_of(operations, operations + count, [](hash::Operation one) {
    return one == hash::Operation::kFind;
  });
  return is_undone ? Status::OK() : note_half_done();
}

Status WordHolder::note_half_done() {
  is_half_done_ = true;
  return base::io_error("a batch could not be taken back");
}

Holder::Figures WordHolder::figures() const {
  const Table::Figures table = table_.figures();
  Figures figures = figures_of(table);
  figures.emplace_back("breccia.backend", table_.device().describe());
  figures.emplace_back("breccia.slab.keys", std::to_string(table.keys));
  return figures;
}

}  // namespace breccia::slab
