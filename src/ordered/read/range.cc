#include "ordered/read/range.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "ordered/read/iterator.h"
#include "ordered/read/tree_part.h"
#include "ordered/read/versions.h"

/// RANGE requests of one family at a time. If the backend can walk the family's runs, it finds each
/// range's newest versions there (one lane a range), and WalkMerge joins them with the parts of the
/// active memtable and the tree, which the backend that has keys of its files can tell where they
/// begin; ranges that have more than a walk makes room for, or whose memory
/// is elsewhere, go on by the iterator. Both write the same results: pairs, or pointers to records.

namespace breccia::ordered {

namespace {

/// Entries of a range that a walk on the backend finds at most; what has more goes on by iterator.
constexpr std::uint64_t kWalkMax = 1024;
/// Entries that one walk of the backend makes room for.
constexpr std::uint64_t kRoomMax = 16 << 20;
/// Ranges that go together.
constexpr std::uint64_t kRangesMax = 1 << 20;

/// Where records will be written behind this one: whoever looks at a key that was put together in
/// parts waits for all stores before that.
void fetch_to_write(const char* record, std::uint64_t bytes) {
  constexpr std::uint64_t kAhead = 2 << 10;
  constexpr std::uint64_t kLine = 64;
  for (std::uint64_t at = 0; at < std::min(bytes, kAhead); at += kLine) {
    base::prefetch_to_write(record + kAhead + at);
  }
}

/// A record like the log's, in memory of the results.
const std::byte* make_record(const Slice& key, const Slice& value, batch::ResultArena* arena) {
  const auto header = record::RecordHeader::make(record::Op::kPut, key.size(), value.size());
  const std::uint64_t bytes = sizeof header + key.size() + value.size();
  char* const record = arena->allocate(bytes);
  fetch_to_write(record, bytes);
  std::memcpy(record, &header, sizeof header);
  std::memcpy(record + sizeof header, key.data(), key.size());
  std::memcpy(record + sizeof header + key.size(), value.data(), value.size());
  return reinterpret_cast<const std::byte*>(record);
}

template <class T>
T* make_array(std::uint64_t count, batch::ResultArena* arena) {
  char* const memory = arena->allocate(count * sizeof(T) + alignof(T) - 1);
  return reinterpret_cast<T*>(base::round_up(reinterpret_cast<std::uint64_t>(memory), alignof(T)));
}
const std::byte** make_list(std::uint64_t count, batch::ResultArena* arena) {
  return make_array<const std::byte*>(count, arena);
}

batch::RangeResult kept(const std::vector<const std::byte*>& records, Status::Code code,
                        batch::ResultArena* arena) {
  const std::byte** const list = make_list(records.size(), arena);
  std::copy(records.begin(), records.end(), list);
  return {nullptr, list, static_cast<std::uint32_t>(records.size()), code};
}

/// A range's entries: pairs as long as all have 8 bytes and 8 bytes, else records.
class PairsOrRecords {
 public:
  void clear() {
    pairs_ = 0;
    records_.clear();
  }
  [[nodiscard]] std::uint64_t count() const { return pairs_ + records_.size(); }
  void add(const Slice& key, const Slice& value, batch::ResultArena* arena) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    if (records_.empty() && key.size() == kWord && value.size() == kWord) {
      if (2 * pairs_ == words_.size()) words_.resize(std::max<std::size_t>(256, 4 * pairs_));
      std::memcpy(&words_[2 * pairs_], key.data(), kWord);
      std::memcpy(&words_[2 * pairs_ + 1], value.data(), kWord);
      ++pairs_;
      return;
    }
    if (pairs_ > 0) make_records(arena);
    records_.push_back(make_record(key, value, arena));
  }
  /// Takes more pairs, behind pairs alone: take(limit, pairs) says how many there are.
  template <class Take>
  void take_pairs(std::uint64_t limit, const Take& take) {
    constexpr std::uint64_t kAtATime = 256;
    if (limit == 0 || pairs_ == 0 || !records_.empty()) return;
    const auto most = static_cast<std::uint32_t>(std::min(limit, kAtATime));
    if (words_.size() < 2 * (pairs_ + most)) words_.resize(4 * (pairs_ + most));
    pairs_ += take(most, &words_[2 * pairs_]);
  }
  batch::RangeResult keep(Status::Code code, batch::ResultArena* arena) const {
    if (pairs_ == 0) return kept(records_, code, arena);
    auto* const pairs = make_array<std::uint64_t>(2 * pairs_, arena);
    std::copy_n(words_.begin(), 2 * pairs_, pairs);
    return {pairs, nullptr, static_cast<std::uint32_t>(pairs_), code};
  }

 private:
  void make_records(batch::ResultArena* arena) {
    for (std::size_t i = 0; i < pairs_; ++i) {
      const auto* const pair = reinterpret_cast<const char*>(&words_[2 * i]);
      records_.push_back(make_record(Slice(pair, 8), Slice(pair + 8, 8), arena));
    }
    pairs_ = 0;
  }

  std::vector<std::uint64_t> words_;  // of pairs, and room behind them
  std::size_t pairs_ = 0;
  std::vector<const std::byte*> records_;
};

Slice key_of(const wal::SegmentTable& table, std::uint64_t payload) {
  const std::byte* const record = table.at(record::position_of(payload));
  return {record::record_key(record), record::record_header(record).key_bytes()};
}

void restore_key_at(const record::KeyColumnsRef& keys, std::uint64_t i, std::string* key) {
  key->resize(keys.bytes_at(i));
  record::restore_key(keys, i, key->data());
}

std::string key_at(const record::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key;
  restore_key_at(keys, i, &key);
  return key;
}

}  // namespace

using StartsPtr = std::unique_ptr<const residency::FileSet::Starts>;

/// One family's ranges with what they are read from.
struct RangeReader::Job {
  Pin pin;
  const FamilyView& family;
  batch::Ranges* ranges;
  const std::uint64_t* bounds;  // null: pin.visible for all
  batch::Requests* requests;

  [[nodiscard]] std::uint64_t bound_at(std::uint64_t i) const {
    return bounds != nullptr ? bounds[i] : pin.visible;
  }
  /// The ranges [first, last), shared among threads, each by work(i, worker).
  template <class Work>
  void for_each(std::uint64_t first, std::uint64_t last, const residency::FileSet::Starts* starts,
                const Work& work) const;
  /// Where the ranges [first, last) begin in the tree's files; null: RocksDB is asked. Of what
  /// range deletions cover RocksDB leaves out more at once.
  [[nodiscard]] StartsPtr seek(std::uint64_t first, std::uint64_t last) const {
    if (family.files == nullptr || !family.asks_tree() || family.tombstones != nullptr) {
      return nullptr;
    }
    auto found = family.files->seek(record::slice(ranges->begin(), first, last - first));
    return found.ok() ? found.take() : nullptr;
  }
};

/// What a thread answers ranges with.
struct RangeReader::Worker {
  batch::ResultArena* arena;
  std::string begin;  // of the range that is answered
  std::string end;
  std::uint64_t first;  // of the ranges whose begins the tree's part has
  TreePart tree;
  PairsOrRecords entries;
  std::vector<const std::byte*> records;
};

template <class Work>
void RangeReader::Job::for_each(std::uint64_t first, std::uint64_t last,
                                const residency::FileSet::Starts* starts, const Work& work) const {
  const std::uint64_t n = last - first;
  const std::uint64_t parts = std::min<std::uint64_t>(requests->arena_count(), n);
  base::shared_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    Worker worker{&requests->arena(part),
                  {},
                  {},
                  first,
                  TreePart(pin, family, record::slice(ranges->begin(), first, n),
                           record::slice(ranges->end(), first, n), starts),
                  {},
                  {}};
    for (std::uint64_t i = n * part / parts; i < n * (part + 1) / parts; ++i) {
      work(first + i, &worker);
    }
  });
}

namespace {

/// The keys before `end` that the active memtable has below a bound, each with its newest version
/// there.
/// Owner   begin and end live longer.
class FreshKeys {
 public:
  FreshKeys(const memtable::HostMemtable& memtable, std::uint64_t bound, const Slice& begin,
            const Slice& end)
      : at_(memtable), bound_(bound), end_(end) {
    if (memtable.count() == 0) return;
    at_.seek(begin, bound_);
    settle();
  }

  [[nodiscard]] bool valid() const { return at_.valid() && at_.key().compare(end_) < 0; }
  /// Shape   valid(). It lies in the log.
  [[nodiscard]] Slice key() const { return at_.key(); }
  [[nodiscard]] std::uint64_t payload() const { return at_.payload(); }
  void next() {
    const Slice key = at_.key();
    do {
      at_.next();
    } while (at_.valid() && at_.key() == key);
    settle();
  }

 private:
  void settle() {
    while (at_.valid() && at_.payload() >= bound_) at_.next();
  }

  memtable::HostMemtable::Cursor at_;
  const std::uint64_t bound_;
  const Slice end_;
};

/// Merges what a walk found in a range, newest versions in key order, with the active memtable's
/// part and the tree's, and leaves out what range deletions cover.
class WalkMerge {
 public:
  WalkMerge(const wal::SegmentTable& table, const memtable::CoverCursor& covers,
            const std::uint64_t* found, std::uint32_t count, FreshKeys* fresh, TreePart* tree,
            batch::ResultArena* arena)
      : table_(table),
        covers_(covers),
        found_(found),
        count_(count),
        fresh_(fresh),
        tree_(tree),
        arena_(arena) {}

  /// Up to `limit` records; false if the walk may have missed some of them (`cut`: it ran out of
  /// room), the tree's part is not known, or one is combined from operands.
  /// Shape   the tree's part has begun.
  bool run(std::uint64_t limit, bool cut, std::vector<const std::byte*>* records) {
    while (records->size() < limit) {
      skip_covered();
      if (tree_ != nullptr && !tree_->knows()) return false;
      const bool is_walked_out = at_ == count_;
      if (is_walked_out && cut) return false;
      if (is_walked_out && !fresh_->valid() && !has_tree()) break;
      if (take_tree_alone(limit, records)) continue;
      if (!take_least(records)) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] bool has_tree() const { return tree_ != nullptr && tree_->valid(); }
  /// Takes the tree's entries up to the next key of memory. False: there are none.
  bool take_tree_alone(std::uint64_t limit, std::vector<const std::byte*>* records) {
    if (!has_tree() || covers_.has_any()) return false;
    const std::size_t before = records->size();
    const Slice walked = at_ < count_ ? walked_key() : Slice();
    const Slice fresh = fresh_->valid() ? fresh_->key() : Slice();
    const auto is_before = [&](const Slice& key) {
      return (at_ == count_ || base::compare_inline(key, walked) < 0) &&
             (!fresh_->valid() || base::compare_inline(key, fresh) < 0);
    };
    while (records->size() < limit && tree_->valid() && is_before(tree_->key())) {
      records->push_back(make_record(tree_->key(), tree_->value(), arena_));
      tree_->next();
    }
    return records->size() > before;
  }
  /// The least key of those that come next.
  [[nodiscard]] Slice least_key() const {
    const Slice* least = nullptr;
    std::array<Slice, 3> keys;
    std::size_t count = 0;
    if (at_ < count_) keys[count++] = walked_key();
    if (fresh_->valid()) keys[count++] = fresh_->key();
    if (has_tree()) keys[count++] = tree_->key();
    for (std::size_t i = 0; i < count; ++i) {
      if (least == nullptr || keys[i].compare(*least) < 0) least = &keys[i];
    }
    BRECCIA_ASSERT(least != nullptr);
    return *least;
  }
  /// Takes that key from all who have it. False if its newest version is an operand.
  bool take_least(std::vector<const std::byte*>* records) {
    const Slice key = least_key();
    std::uint64_t payload = 0;  // of the newest version above the tree
    if (at_ < count_ && walked_key() == key) payload = found_[at_++];
    const bool is_in_tree = has_tree() && tree_->key() == key;  // its key ends with next()
    if (fresh_->valid() && fresh_->key() == key) {
      payload = std::max(payload, fresh_->payload());
      if (record::op_of(payload) == record::Op::kMerge) return false;
      fresh_->next();
    }
    if (payload == 0) {
      records->push_back(make_record(tree_->key(), tree_->value(), arena_));
    } else if (record::op_of(payload) == record::Op::kPut && !is_covered(payload)) {
      records->push_back(table_.at(record::position_of(payload)));
    }
    if (is_in_tree) tree_->next();
    return true;
  }

  /// Of the tree's entries nothing counts that a range deletion covers.
  void skip_covered() {
    if (tree_ == nullptr || !covers_.has_any()) return;
    while (has_tree()) {
      const memtable::Cover& cover = covers_.at(tree_->key());
      if (cover.position == 0) return;
      tree_->next();
      if (tree_->valid() && cover.has(tree_->key())) tree_->seek(cover.end);
    }
  }
  /// Whether one covers the version with this payload.
  [[nodiscard]] bool is_covered(std::uint64_t payload) {
    return covers_.has_any() &&
           record::position_of(payload) < covers_.at(key_of(table_, payload)).position;
  }
  [[nodiscard]] Slice walked_key() const { return key_of(table_, found_[at_]); }

  const wal::SegmentTable& table_;
  memtable::CoverCursor covers_;
  const std::uint64_t* found_;
  const std::uint32_t count_;
  std::uint32_t at_ = 0;
  FreshKeys* fresh_;
  TreePart* tree_;
  batch::ResultArena* arena_;
};

}  // namespace

void RangeReader::finish_walk(const Job& job, std::uint64_t i, const std::uint64_t* found,
                              std::uint32_t count, Worker* worker) const {
  batch::ResultArena* const arena = worker->arena;
  TreePart* const tree = job.family.asks_tree() ? &worker->tree : nullptr;
  const std::uint32_t limit = job.ranges->limits()[i];
  const wal::SegmentTable& table = *job.pin.view->table;
  const bool cut = count == kWalkMax && limit > kWalkMax;
  batch::RangeResult& result = job.ranges->results()[i];
  const memtable::TombstonesPtr& tombstones = job.family.tombstones;
  const bool only_puts = tree == nullptr && tombstones == nullptr && !cut &&
                         std::all_of(found, found + count, [](std::uint64_t payload) {
                           return record::op_of(payload) == record::Op::kPut;
                         });
  const auto give_found = [&] {
    const std::byte** const list = make_list(count, arena);
    for (std::uint32_t j = 0; j < count; ++j) list[j] = table.at(record::position_of(found[j]));
    result = {nullptr, list, count, Status::Code::kOk};
  };
  if (only_puts && job.family.active->count() == 0) return give_found();
  // What is deleted took room that other keys need: there may be more behind it.
  const bool may_miss = count == std::min<std::uint64_t>(limit, kWalkMax);
  restore_key_at(job.ranges->begin(), i, &worker->begin);
  restore_key_at(job.ranges->end(), i, &worker->end);
  const auto fresh_keys = [&] {
    return FreshKeys(*job.family.active, job.bound_at(i), worker->begin, worker->end);
  };
  FreshKeys fresh = fresh_keys();
  // Most ranges have no key of the few that lie in the memtable.
  const bool none_fresh =
      !fresh.valid() ||
      (may_miss && count > 0 && fresh.key().compare(key_of(table, found[count - 1])) > 0);
  if (only_puts && none_fresh) return give_found();
  std::vector<const std::byte*>& records = worker->records;
  const auto merge = [&](FreshKeys* keys) {
    records.clear();
    WalkMerge merging(table, {tombstones.get(), job.bound_at(i)}, found, count, keys, tree, arena);
    return merging.run(limit, may_miss, &records);
  };
  if (tree != nullptr) tree->begin(i - worker->first, job.ranges->limits()[i]);
  bool is_whole = merge(&fresh);
  if (!is_whole && tree != nullptr && !tree->knows()) {
    statistics_->add(Ticker::kRangesByIterator, 1);
    tree->begin_below();
    FreshKeys again = fresh_keys();
    is_whole = merge(&again);
  }
  if (!is_whole) return read_by_iterator(job, i, arena);
  const Status status = tree == nullptr ? Status::OK() : tree->status();
  result = kept(records, status.code(), arena);
}

/// A range of which memory has nothing.
void RangeReader::read_tree_alone(const Job& job, std::uint64_t i, Worker* worker) const {
  const std::uint32_t limit = job.ranges->limits()[i];
  TreePart& tree = worker->tree;
  PairsOrRecords& entries = worker->entries;
  const auto read = [&] {
    entries.clear();
    for (; entries.count() < limit && tree.valid(); tree.next()) {
      entries.add(tree.key(), tree.value(), worker->arena);
      entries.take_pairs(limit - entries.count(), [&](std::uint32_t most, std::uint64_t* pairs) {
        return tree.take_pairs(most, pairs);
      });
      if (entries.count() == limit) return;  // what comes next need not be looked at
    }
  };
  tree.begin(i - worker->first, limit);
  read();
  if (!tree.knows()) {
    statistics_->add(Ticker::kRangesByIterator, 1);
    tree.begin_below();
    read();
  }
  job.ranges->results()[i] = entries.keep(tree.status().code(), worker->arena);
}

void RangeReader::read_by_iterator(const Job& job, std::uint64_t i,
                                   batch::ResultArena* arena) const {
  statistics_->add(Ticker::kRangesByIterator, 1);
  const std::string end_key = key_at(job.ranges->end(), i);
  const Slice end(end_key);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  const Pin at{job.pin.view, job.bound_at(i)};
  const auto iterator = make_iterator(options, at, job.family, {});
  std::vector<const std::byte*> records;
  for (iterator->Seek(key_at(job.ranges->begin(), i));
       iterator->Valid() && records.size() < job.ranges->limits()[i]; iterator->Next()) {
    records.push_back(make_record(iterator->key(), iterator->value(), arena));
  }
  job.ranges->results()[i] = kept(records, iterator->status().code(), arena);
}

void RangeReader::read(const Pin& pin, bool own_writes, std::uint64_t base,
                       std::uint64_t device_min, batch::Requests* requests) const {
  if (requests->range_count() == 0) return;
  requests->hold(pin.view);
  for (const auto& ranges : requests->ranges()) {
    if (ranges->count() == 0) continue;
    const FamilyView* const family = pin.view->family(ranges->family());
    if (family == nullptr) {  // dropped since the batch was checked
      const batch::RangeResult gone{nullptr, nullptr, 0, Status::Code::kInvalidArgument};
      std::fill_n(ranges->results(), ranges->count(), gone);
      continue;
    }
    const std::uint64_t* bounds = nullptr;
    if (own_writes) {
      const std::uint64_t place = base + requests->base_of(ranges->family());
      for (std::uint64_t i = 0; i < ranges->count(); ++i) {
        ranges->bounds()[i] = place + ranges->after()[i];
      }
      bounds = ranges->bounds();
    }
    const Status status = base::or_memory_limit([&] {
      read_family({pin, *family, ranges.get(), bounds, requests}, device_min);
      return Status::OK();
    });
    if (status.ok()) continue;
    const batch::RangeResult no_memory{nullptr, nullptr, 0, status.code()};
    std::fill_n(ranges->results(), ranges->count(), no_memory);
  }
}

void RangeReader::read_family(const Job& job, std::uint64_t device_min) const {
  const std::uint64_t n = job.ranges->count();
  if (n < device_min) {
    // Where the host has the keys of files, few are found there as fast as many.
    const bool are_at_hand =
        job.family.asks_tree() && job.family.files != nullptr && job.family.files->host_reads();
    if (are_at_hand && (read_tree(job, 0, n) || read_walked(job, 0, n))) return;
    return read_by_iterators(job, 0, n);
  }
  std::uint64_t first = 0;
  while (first < n) {
    std::uint64_t last = first;
    std::uint64_t room = 0;
    while (last < n && last - first < kRangesMax && room < kRoomMax) {
      room += std::min<std::uint64_t>(job.ranges->limits()[last++], kWalkMax);
    }
    if (!read_tree(job, first, last) && !read_walked(job, first, last)) {
      read_by_iterators(job, first, last);
    }
    first = last;
  }
}

void RangeReader::read_by_iterators(const Job& job, std::uint64_t first, std::uint64_t last) const {
  job.for_each(first, last, /*starts=*/nullptr,
               [&](std::uint64_t i, Worker* worker) { read_by_iterator(job, i, worker->arena); });
}

/// Who can walk all of the family's runs where they lie, if a walk over runs can answer, but for
/// the parts of the active memtable and the tree; null: nobody.
std::shared_ptr<runs::Backend> RangeReader::walker_of(const FamilyView& family) const {
  if (family.backend_runs.empty() && family.active->count() > 0) return nullptr;
  if (family.backend_runs.size() > limits::kRunsPerSearchMax) {
    statistics_->add(Ticker::kTooManyRuns, 1);
    return nullptr;
  }
  if (family.any_run([](const auto& run) { return run->has_merges; })) return nullptr;
  auto backend = backends_->current();
  if (!family.any_run([&](const auto& run) { return !backend->holds(*run->run); })) return backend;
  const bool on_device =
      family.any_run([](const auto& run) { return run->run->host_view() == nullptr; });
  return on_device ? nullptr : backends_->host_ptr();
}

/// True if a walk finds all there is, as keys and values.
bool RangeReader::fits_pairs(const FamilyView& family) {
  return !family.asks_tree() && family.tombstones == nullptr && family.has_values &&
         family.active->count() == 0 && !family.any_run([](const auto& run) {
           return run->run->uniform_bytes() != sizeof(std::uint64_t);
         });
}

bool RangeReader::read_tree(const Job& job, std::uint64_t first, std::uint64_t last) const {
  if (!job.family.backend_runs.empty()) return false;
  const StartsPtr starts = job.seek(first, last);
  if (starts == nullptr) return false;
  const bool is_alone = job.family.memory_is_empty();
  job.for_each(first, last, starts.get(), [&](std::uint64_t i, Worker* worker) {
    if (is_alone) return read_tree_alone(job, i, worker);
    finish_walk(job, i, /*found=*/nullptr, /*count=*/0, worker);
  });
  return true;
}

bool RangeReader::read_walked(const Job& job, std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t n = last - first;
  const auto backend = walker_of(job.family);
  if (backend == nullptr) return false;
  exec::HostVector<std::uint64_t> out_at(exec::plain_host_memory());
  exec::HostVector<std::uint64_t> payloads(backend->host_memory());
  exec::HostVector<std::uint32_t> counts(backend->host_memory());
  if (!out_at.reserve(n + 1) || !counts.reserve(n)) return false;
  std::uint64_t room = 0;
  for (std::uint64_t i = first; i < last; ++i) {
    out_at.push(room);
    room += std::min<std::uint64_t>(job.ranges->limits()[i], kWalkMax);
  }
  out_at.push(room);
  std::uint64_t* const pairs = fits_pairs(job.family) ? job.ranges->make_pairs(room) : nullptr;
  if (pairs == nullptr && !payloads.reserve(room)) return false;
  const runs::RangesRef wanted{
      record::slice(job.ranges->begin(), first, n), record::slice(job.ranges->end(), first, n),
      out_at.data(), job.bounds == nullptr ? nullptr : job.bounds + first, job.pin.visible};
  const runs::WalkedRef walked{pairs == nullptr ? payloads.extend(room) : nullptr, pairs,
                               counts.extend(n)};
  const Status status = backends_->attempt(*backend, [&](runs::Backend& on) {
    return on.ranges(job.family.backend_runs, wanted, walked);
  });
  if (!status.ok()) return false;
  // What was found lies anywhere in the log: of ranges that come later it is on its way.
  const auto fetch_found = [&](std::uint64_t i) {
    constexpr std::uint32_t kFoundFetched = 8;
    if (i >= last || pairs != nullptr) return;
    const std::uint64_t* const found = payloads.data() + out_at[i - first];
    // More are found than come between the tree's.
    for (std::uint32_t j = 0; j < std::min(counts[i - first], kFoundFetched); ++j) {
      base::prefetch_far(job.pin.view->table->at(record::position_of(found[j])));
    }
  };
  const auto finish = [&](std::uint64_t i, Worker* worker) {
    constexpr std::uint64_t kRangesAhead = 4;
    fetch_found(i + kRangesAhead);
    const std::uint64_t at = out_at[i - first];
    const std::uint32_t count = counts[i - first];
    if (pairs == nullptr) {
      finish_walk(job, i, payloads.data() + at, count, worker);
    } else if (count == kWalkMax && job.ranges->limits()[i] > kWalkMax) {
      read_by_iterator(job, i, worker->arena);
    } else {
      job.ranges->results()[i] = {pairs + 2 * at, nullptr, count, Status::Code::kOk};
    }
  };
  const StartsPtr starts = job.seek(first, last);
  job.for_each(first, last, starts.get(), finish);
  return true;
}

}  // namespace breccia::ordered
