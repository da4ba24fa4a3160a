#include "ordered/read/reader.h"

#include <tbb/info.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "base/sometimes.h"
#include "exec/crew.h"
#include "ordered/read/tree_reads.h"
#include "ordered/read/versions.h"
#include "record/key_slices.h"
#include "wal/format.h"

namespace breccia::ordered {

namespace {

/// Batches up to this size are gathered by the crew.
constexpr std::uint64_t kCrewReadsMax = 64 << 10;

/// Reads from which on the device looks for places in the entry cache, too.
constexpr std::uint64_t kDeviceCacheReadsMin = 16 << 10;

/// Reads that a device searches at a time: cores gather what it found for those before.
constexpr std::uint64_t kSliceReads = 128 << 10;

/// Fewer reads are searched for latency, by a search that gives payloads alone.
constexpr std::uint64_t kOpsReadsMin = (16 << 10) + 1;

/// Reads whose values together leave the caches before anybody looks at them.
constexpr std::uint64_t kStreamedReadsMin = 128 << 10;

/// What a lookup says that found no memory: its code is all there is of a status.
constexpr Status::Code kNoMemory = Status::Code::kAborted;

std::uint64_t core_count() { return static_cast<std::uint64_t>(tbb::info::default_concurrency()); }

/// Parts of the work on `reads` reads: one for each core, and enough of them for slices.
std::uint64_t parts_of(std::uint64_t reads) {
  constexpr std::uint64_t kPartMin = 256;
  const std::uint64_t most = std::max(core_count(), reads / kSliceReads);
  return std::clamp<std::uint64_t>(reads / kPartMin, 1, most);
}

/// Where part `part` of `parts` begins among `reads` reads.
std::uint64_t part_begin(std::uint64_t reads, std::uint64_t part, std::uint64_t parts) {
  BRECCIA_ASSERT(part <= parts);
  return reads * part / parts;
}

/// Threads that share the work on `ranges` ranges.
std::uint64_t range_parts_of(std::uint64_t ranges) {
  constexpr std::uint64_t kPartMin = 8;
  return std::clamp<std::uint64_t>(ranges / kPartMin, 1, core_count());
}

/// Copies key `i` of `keys` into memory that lives with `arena`.
Slice copy_key(const record::KeyColumnsRef& keys, std::uint64_t i, batch::ResultArena* arena) {
  const std::uint64_t bytes = keys.bytes_at(i);
  char* const copy = arena->allocate(bytes);
  record::restore_key(keys, i, copy);
  return {copy, bytes};
}

void read_key_into(const record::KeyColumnsRef& keys, std::uint64_t i, std::string* key) {
  key->resize(keys.bytes_at(i));
  record::restore_key(keys, i, key->data());
}

void add_answer(std::uint64_t i, const Status& status, const Slice& value,
                batch::Answers* answers) {
  if (status.ok()) {
    answers->add_value(i, value);
  } else {
    answers->add(i, status.code());
  }
}

/// What files say of reads, those one behind the other in a row.
void add_known_to(std::span<const tree::KnownFiles::Known> known, batch::Answers* answers) {
  for (std::size_t i = 0; i < known.size();) {
    const std::uint64_t first = known[i].place;
    std::size_t end = i + 1;
    while (end < known.size() && known[end].place == first + (end - i)) ++end;
    const auto value_of = [&](std::uint64_t read) {
      const auto& one = known[i + (read - first)];
      return one.is_found ? one.value : Slice(nullptr, 0);
    };
    for (std::uint64_t read = first; read < first + (end - i); ++read) {
      read = answers->add_values(read, first + (end - i), value_of);
      if (read == first + (end - i)) break;
      const auto& one = known[i + (read - first)];
      if (one.is_found) {
        answers->add_value(read, one.value);
      } else {
        answers->add(read, Status::Code::kNotFound);
      }
    }
    i = end;
  }
}

bool is_put(std::uint64_t payload) {
  return payload != runs::kNotFound && record::op_of(payload) == record::Op::kPut;
}

/// Values of puts in the log, by what a search has found of reads up to `end`. Those that come next
/// are on their way meanwhile.
/// Threads one owner, whose loop keeps it in registers.
class LoggedPuts {
 public:
  /// `in_place`: of a record only its header is looked at.
  LoggedPuts(const wal::SegmentTable& table, const std::uint64_t* found, std::uint64_t end,
             bool in_place)
      : places_(table.places()),
        found_(found),
        end_(end),
        fetched_bytes_(in_place ? sizeof(record::RecordHeader) : 2 * kLineBytes) {}

  void fetch_ahead(std::uint64_t i) const { fetch(i + kAhead); }
  /// Before the first one, those that nobody else fetches.
  void fetch_first(std::uint64_t i) const {
    for (std::uint64_t ahead = 0; ahead < kAhead; ++ahead) fetch(i + ahead);
  }
  /// None if read `i` found no put.
  Slice value(std::uint64_t i) {
    const std::uint64_t payload = found_[i];
    if (!is_put(payload)) return {nullptr, 0};
    fetch_ahead(i);
    const std::byte* const record = places_.at(record::position_of(payload));
    const record::RecordHeader header = record::record_header(record);
    // What a record is long is known when it is there; most are about as long as the one before.
    fetched_bytes_ = std::min(header.record_bytes(), kFetchedBytesMax);
    return {reinterpret_cast<const char*>(record) + header.value_offset(), header.value_bytes};
  }

 private:
  // Far enough ahead to hide a miss of main memory behind the copies of the values before it. Into
  // the second cache: it waits for more lines at a time than the first.
  static constexpr std::uint64_t kAhead = 24;
  static constexpr std::uint64_t kLineBytes = 64;
  static constexpr std::uint64_t kFetchedBytesMax = 8 * kLineBytes;  // it goes on by itself

  void fetch(std::uint64_t i) const {
    if (i >= end_ || found_[i] == runs::kNotFound) return;
    const std::byte* const next = places_.at(record::position_of(found_[i]));
    for (std::uint64_t at = 0; at < fetched_bytes_; at += kLineBytes) {
      base::prefetch_far(next + at);
    }
    // A record need not begin with a line.
    base::prefetch_far(next + fetched_bytes_ - 1);
  }

  const wal::SegmentTable::Places places_;
  const std::uint64_t* const found_;
  const std::uint64_t end_;
  std::uint64_t fetched_bytes_;
};

/// What a search says of each read, in either form (runs::FoundRef).
class Findings {
 public:
  /// `ops` null: `found` holds payloads.
  Findings(const std::uint64_t* found, const std::uint64_t* numbers, const std::uint8_t* ops)
      : found_(found), numbers_(numbers), ops_(ops) {}
  /// Of a put without a payload something that says that it is one.
  [[nodiscard]] std::uint64_t payload(std::uint64_t i) const {
    if (ops_ == nullptr) return found_[i];
    if (ops_[i] == runs::kNoOp) return runs::kNotFound;
    constexpr std::uint64_t kSomePut = record::kOpMask + 1;
    return ops_[i] == runs::kPutOperation ? kSomePut : numbers_[i];
  }

 private:
  const std::uint64_t* const found_;
  const std::uint64_t* const numbers_;
  const std::uint8_t* const ops_;
};

/// Says `code` of reads [begin, end).
void fail(batch::Reads* reads, std::uint64_t begin, std::uint64_t end, Status::Code code) {
  batch::Answers answers(reads, /*arena=*/nullptr);
  for (std::uint64_t i = begin; i < end; ++i) answers.add(i, code);
}

}  // namespace

Status Reader::prepare(bool own_writes, batch::Requests* requests) {
  const std::uint64_t shares =
      std::max(parts_of(requests->read_count()), range_parts_of(requests->range_count()));
  if (requests->prepare_results(shares, own_writes)) return Status::OK();
  return Status::MemoryLimit("no memory for the results");
}

void Reader::read(const Pin& pin, bool own_writes, std::uint64_t base, std::uint64_t device_min,
                  batch::Requests* requests) const {
  if (requests->values_in_place() && requests->read_count() > 0) requests->hold(pin.view->table);
  for (const auto& reads : requests->reads()) {
    if (reads->count() == 0) continue;
    const FamilyView* const family = pin.view->family(reads->family());
    if (family == nullptr) {  // dropped since the batch was checked
      fail(reads.get(), 0, reads->count(), Status::Code::kInvalidArgument);
      continue;
    }
    runs::QueriesRef queries{reads->columns(), nullptr, pin.visible};
    if (own_writes) {
      const std::uint64_t place = base + requests->base_of(reads->family());
      for (std::uint64_t i = 0; i < reads->count(); ++i) {
        reads->bounds()[i] = place + reads->after(i);
      }
      queries.bound = reads->bounds();
    }
    const Status status = base::or_memory_limit([&] {
      read_family({*pin.view, *family, queries, reads.get(), requests}, device_min);
      return Status::OK();
    });
    if (!status.ok()) fail(reads.get(), 0, reads->count(), kNoMemory);
  }
  requests->deliver();
}

/// Few lookups are faster where the CPU looks into the cache by itself: a device would be given
/// the road for large batches.
bool Reader::wants_refs(const Job& job) const {
  return job.reads->count() >= kDeviceCacheReadsMin &&
         job.view.below.caches(job.family.below_memory()) && job.family.asks_tree() &&
         !files_come_first(job.family.below_memory()) && !backends_->is_host(*backends_->current());
}

/// A byte in place of 8 for what is written, brought in and read of each lookup. Where it matters
/// which of two is newer, or a device looks for what is not found, payloads are needed.
bool Reader::wants_ops(const Job& job) {
  const bool are_many = job.reads->count() >= kOpsReadsMin || BRECCIA_SOMETIMES(30);
  return are_many && job.numbers != nullptr && job.refs == nullptr &&
         job.family.tombstones == nullptr && RunSearch::are_in_one_place(job.family);
}

/// Whether the backend reads the keys where the caller has them. Whoever else wants one writes it
/// into its column first: the few that the log's record does not answer.
bool Reader::takes_rows(const Job& job) const {
  constexpr std::uint64_t kRowReadsMin = 16 << 10;
  const std::uint64_t* const rows = job.reads->rows();
  const std::uint64_t n = job.reads->count();
  if (rows == nullptr || !job.on_backend || job.refs != nullptr) return false;
  if (job.family.active->count() > 0 || job.family.tombstones != nullptr) return false;
  return (n >= kRowReadsMin || BRECCIA_SOMETIMES(30)) &&
         search_->takes_rows(job.family, rows, n, job.queries.keys.uniform_bytes);
}

void Reader::read_family(Job job, std::uint64_t device_min) const {
  const std::uint64_t n = job.reads->count();
  std::uint64_t parts = parts_of(n);
  const bool is_device = !backends_->is_host(*backends_->current());
  job.on_backend = n >= device_min && !BRECCIA_SOMETIMES(10);
  // A device answers a small batch in microseconds: whoever gathers its values must be awake then,
  // and nobody has two parts where others have one.
  const bool use_crew = job.on_backend && n <= kCrewReadsMax && parts > 1 && is_device;
  if (use_crew) {
    exec::Crew::shared().rouse();
    parts = std::min(parts, exec::Crew::shared_size());
  }
  exec::HostVector<std::uint32_t> refs(exec::plain_host_memory());
  if (job.on_backend && wants_refs(job) && refs.reserve(n)) job.refs = refs.extend(n);
  // Values of 8 bytes come with what is found, unless others may hide them.
  if (job.on_backend && job.family.has_values && job.family.active->count() == 0) {
    job.numbers = job.reads->make_numbers();
  }
  // Beside a device the cores do nothing but gather, and memory's bandwidth is what there is least
  // of; on the host a store past the caches waits longer than it spares.
  job.streams = BRECCIA_SOMETIMES(20) || (job.on_backend && is_device && n >= kStreamedReadsMin);
  job.wants_ops = wants_ops(job);
  job.is_nowhere = job.refs == nullptr && job.family.asks_tree() && job.family.memory_is_empty();
  if (takes_rows(job)) {
    job.queries.rows = job.reads->rows();
  } else {
    job.reads->settle();
  }

  Missing missing(parts);
  const std::uint64_t at_a_time = BRECCIA_SOMETIMES(20) ? 1 : is_device ? kSliceReads : n;
  const std::uint64_t slices =
      job.on_backend ? std::clamp<std::uint64_t>(n / at_a_time, 1, parts) : 1;
  const auto run_slice = [&](std::uint64_t slice) {
    const std::uint64_t first = parts * slice / slices;
    const std::uint64_t last = parts * (slice + 1) / slices;
    const std::uint64_t begin = part_begin(n, first, parts);
    const std::uint64_t count = part_begin(n, last, parts) - begin;
    read_slice(job.of(begin, count), first, last, use_crew, &missing);
  };
  if (slices == 1) {
    run_slice(0);
  } else {
    base::parallel_for(std::uint64_t{0}, slices, run_slice);
  }
  // Behind the crew: it is for what takes microseconds.
  read_below(job, missing);
}

Reader::Job Reader::Job::of(std::uint64_t begin, std::uint64_t count) const {
  const auto behind = [&](auto* column) { return column == nullptr ? nullptr : column + begin; };
  BRECCIA_ASSERT(first == 0 && begin + count <= reads->count());
  Job slice = *this;
  slice.first = begin;
  slice.queries.keys = record::slice(queries.keys, begin, count);
  slice.queries.bound = behind(queries.bound);
  if (queries.rows != nullptr) {
    slice.queries.rows += begin * (queries.keys.uniform_bytes / sizeof(std::uint64_t));
  }
  slice.numbers = behind(numbers);
  slice.refs = behind(refs);
  return slice;
}

void Reader::read_slice(Job job, std::uint64_t first, std::uint64_t last, bool use_crew,
                        Missing* missing) const {
  const std::uint64_t count = job.queries.keys.count;
  std::unique_ptr<SliceRoom> room;
  const Status status = base::or_memory_limit([&] {
    room = rooms_.take();
    return job.settle_in(room.get()) ? Status::OK() : Status::MemoryLimit("a slice's room");
  });
  if (status.ok()) {
    search_and_gather(std::move(job), first, last, use_crew, missing);
  } else {
    fail(job.reads, job.first, job.first + count, kNoMemory);
  }
  if (room != nullptr) rooms_.give_back(std::move(room));
}

bool Reader::Job::settle_in(SliceRoom* room) {
  // Slices differ by a read, and get the same room.
  const std::uint64_t count = base::round_up(queries.keys.count, batch::kChunkRequests);
  if (!room->found.reserve(count)) return false;
  found = room->found.data();
  // Without these it is slower.
  if (wants_ops && room->ops.reserve(count)) ops = room->ops.data();
  return true;
}

void Reader::search_and_gather(Job job, std::uint64_t first, std::uint64_t last, bool use_crew,
                               Missing* missing) const {
  BRECCIA_ASSERT(first < last && last <= missing->size());
  const std::uint64_t parts = missing->size();
  const std::uint64_t n = job.reads->count();
  const std::uint64_t count = job.queries.keys.count;
  job.on_backend = job.on_backend && !job.is_nowhere && search(&job);
  statistics_->add(job.on_backend ? Ticker::kGetsOnBackend : Ticker::kGetsOnHost, count);
  if (!job.family.backend_runs.empty()) {
    statistics_->add(Ticker::kRunsSearched, count * job.family.backend_runs.size());
  }
  // Whoever runs a part, a thread of the crew's, too, does not get its std::bad_alloc.
  const auto run_part = [&](std::uint64_t part) {
    const std::uint64_t begin = part_begin(n, part, parts);
    const std::uint64_t end = part_begin(n, part + 1, parts);
    const Status status = base::or_memory_limit([&] {
      batch::ResultArena& arena = job.requests->arena(part);
      if (job.is_nowhere) return leave_to_tree(job, begin, end, &arena, &(*missing)[part]);
      look_up(job, begin, end, &arena);
      gather(job, begin, end, &arena, &(*missing)[part]);
      return Status::OK();
    });
    if (status.ok()) return;
    (*missing)[part].clear();
    fail(job.reads, begin, end, kNoMemory);
  };
  if (last - first == 1) {
    run_part(first);
  } else if (use_crew) {
    BRECCIA_ASSERT(first == 0);
    exec::Crew::shared().run(static_cast<std::uint32_t>(last), run_part);
  } else {
    base::shared_for(first, last, run_part);
  }
}

/// Searches the slice's reads on the backend; of what was not looked for there, the job says
/// so.
bool Reader::search(Job* job) const {
  BRECCIA_ASSERT(job->queries.keys.count > 0 && job->found != nullptr);
  runs::FoundRef found{job->found, job->numbers};
  if (job->ops != nullptr) found = {nullptr, job->numbers, job->ops};
  CacheRefs cached{job->refs};
  const bool is_found = search_->search(job->family, job->family.backend_runs, job->queries, found,
                                        job->refs != nullptr ? &cached : nullptr);
  if (!is_found || !cached.is_filled) job->refs = nullptr;
  if (!is_found) job->numbers = nullptr;
  if (!is_found) job->ops = nullptr;
  return is_found;
}

// What the backend did not search: the active memtable, or everything.
void Reader::look_up(const Job& job, std::uint64_t begin, std::uint64_t end,
                     batch::ResultArena* arena) {
  const memtable::HostMemtable& active = *job.family.active;
  if (job.on_backend && active.count() == 0) return;
  job.reads->write_keys(begin, end);
  for (std::uint64_t i = begin - job.first; i < end - job.first; ++i) {
    const Slice key = copy_key(job.queries.keys, i, arena);
    const std::uint64_t bound = job.queries.bound_at(i);
    const std::byte* record = nullptr;
    if (!job.on_backend) {
      job.found[i] = find_one(job.family, *job.view.table, key, bound, &record);
    } else if (const auto hit = active.find(key, bound); hit.payload != 0) {
      BRECCIA_ASSERT(job.numbers == nullptr);  // it began empty, and the reads see no more
      job.found[i] = hit.payload;              // newer than every run
    }
  }
}

/// The newest range deletion that covers read `i` of the job, or 0. `key` is room for its key.
std::uint64_t Reader::covering(const Job& job, std::uint64_t i, std::string* key) {
  read_key_into(job.queries.keys, i, key);
  return job.family.covering(*key, job.queries.bound_at(i));
}

void Reader::gather(const Job& job, std::uint64_t begin, std::uint64_t end,
                    batch::ResultArena* arena, std::vector<std::uint32_t>* missing) const {
  BRECCIA_ASSERT(job.first <= begin && begin <= end);
  // Columns begin with the job's first read.
  const std::uint64_t first = job.first;
  const Findings found(job.found, job.numbers, job.ops);
  const std::uint64_t* const numbers = job.numbers;
  batch::Answers answers(job.reads, arena);
  if (job.streams) answers.stream_values();
  const wal::SegmentTable& table = *job.view.table;
  const bool has_tombstones = job.family.tombstones != nullptr;
  const bool in_place = job.requests->values_in_place();
  std::uint64_t in_tree = 0;
  std::string key;
  LoggedPuts logged(table, job.found, end - first, in_place);
  if (numbers == nullptr) logged.fetch_first(begin - first);
  // What most reads find, in a row: loops that look at one column each, and nowhere else.
  const auto add_row = [&](std::uint64_t i) {
    if (numbers == nullptr) {
      return answers.add_values(
          i, end, [&logged, first](std::uint64_t read) { return logged.value(read - first); });
    }
    const std::uint64_t* const own = numbers + (i - first);
    if (job.ops == nullptr) {
      return answers.add_numbers(i, end, own, [payloads = job.found, first](std::uint64_t read) {
        return is_put(payloads[read - first]);
      });
    }
    return answers.add_numbers(i, end, own, [ops = job.ops, first](std::uint64_t read) {
      return ops[read - first] == runs::kPutOperation;
    });
  };
  for (std::uint64_t i = begin; i < end; ++i) {
    if (!has_tombstones && !in_place) i = add_row(i);
    if (i == end) break;
    const std::uint64_t place = i - first;
    if (numbers == nullptr) logged.fetch_ahead(place);
    const std::uint64_t payload = found.payload(place);
    const std::uint64_t covered = has_tombstones ? covering(job, place, &key) : 0;
    if (payload == runs::kNotFound && covered == 0 && job.family.asks_tree()) {
      job.reads->write_keys(i, i + 1);
      missing->push_back(static_cast<std::uint32_t>(place));
    } else if (payload == runs::kNotFound || record::position_of(payload) < covered ||
               record::is_deletion(record::op_of(payload))) {
      answers.add(i, Status::Code::kNotFound);
    } else if (record::op_of(payload) != record::Op::kPut) {
      job.reads->write_keys(i, i + 1);
      read_key_into(job.queries.keys, place, &key);
      rocksdb::PinnableSlice value;
      bool from_tree = false;
      const Status status =
          read_version(job.view, job.family, key, payload, covered, &value, &from_tree);
      in_tree += from_tree ? 1 : 0;
      add_answer(i, status, value, &answers);
    } else if (numbers != nullptr) {
      answers.add_number(i, numbers + place);
    } else if (in_place) {
      answers.add_place(i, value_at(table, payload));
    } else {
      answers.add_value(i, value_at(table, payload));
    }
  }
  statistics_->add(Ticker::kGetsFromMemory, end - begin - in_tree - missing->size());
  note_missing(job, in_tree, &answers, arena, missing);
}

/// All reads of a part, of which memory has none.
Status Reader::leave_to_tree(const Job& job, std::uint64_t begin, std::uint64_t end,
                             batch::ResultArena* arena, std::vector<std::uint32_t>* missing) const {
  BRECCIA_ASSERT(job.first <= begin && begin <= end && missing->empty());
  job.reads->write_keys(begin, end);
  missing->resize(end - begin);
  std::iota(missing->begin(), missing->end(), static_cast<std::uint32_t>(begin - job.first));
  batch::Answers answers(job.reads, arena);
  note_missing(job, /*in_tree=*/0, &answers, arena, missing);
  return Status::OK();
}

/// Of `missing`, places in the job, what filters and caches say is answered; the others become
/// places in the batch. `in_tree` more asked the tree.
void Reader::note_missing(const Job& job, std::uint64_t in_tree, batch::Answers* answers,
                          batch::ResultArena* arena, std::vector<std::uint32_t>* missing) const {
  in_tree += missing->size();
  statistics_->add(Ticker::kGetsFromTree, in_tree);
  job.requests->note_from_tree(in_tree);
  answer_absent(job, answers, missing);
  ask_cache(job, arena, missing);
  for (std::uint32_t& place : *missing) place += static_cast<std::uint32_t>(job.first);
}

/// Answers those of `missing`, places in the job, that a filter knows to be nowhere.
void Reader::answer_absent(const Job& job, batch::Answers* answers,
                           std::vector<std::uint32_t>* missing) {
  const tree::FamilyRef family = job.family.below_memory();
  if (files_come_first(family)) return;
  take_absent(family, job.queries.keys, missing, [&](std::uint32_t place) {
    answers->add(job.first + place, Status::Code::kNotFound);
  });
}

/// Answers those of `missing`, places in the job, that the entry cache has, and leaves the others.
/// Where it answers few, most are left without asking it: what it costs to ask for eight saves less
/// than one lookup.
void Reader::ask_cache(const Job& job, batch::ResultArena* arena,
                       std::vector<std::uint32_t>* missing) {
  constexpr std::size_t kStep = 256;
  constexpr std::size_t kStepsPerTry = 8;
  constexpr std::size_t kWorthOneIn = 8;
  const tree::FamilyRef family = job.family.below_memory();
  if (!job.view.below.caches(family)) return;
  batch::Answers answers(job.reads, arena);
  record::KeySlices slices;
  std::array<std::uint32_t, kStep> refs;
  std::array<std::uint32_t, kStep> not_there;
  std::size_t left = 0;
  std::size_t asked = 0;
  std::size_t found = 0;
  for (std::size_t from = 0; from < missing->size(); from += kStep) {
    const std::size_t count = std::min(kStep, missing->size() - from);
    const std::uint32_t* const places = missing->data() + from;
    if (found * kWorthOneIn < asked && from / kStep % kStepsPerTry != 0) {
      for (std::size_t i = 0; i < count; ++i) (*missing)[left++] = places[i];
      continue;
    }
    const auto keys =
        slices.restore(job.queries.keys, count, [&](std::size_t i) { return places[i]; });
    if (job.refs != nullptr) {
      std::transform(places, places + count, refs.begin(),
                     [&](std::uint32_t place) { return job.refs[place]; });
    }
    const std::size_t more = job.view.below.find_cached(
        family, keys, job.refs == nullptr ? nullptr : refs.data(),
        [&](std::size_t i, const Status& status, const Slice& value) {
          add_answer(job.first + places[i], status, value, &answers);
        },
        not_there.data());
    asked += count;
    found += count - more;
    // What is left comes to stand before what was looked at.
    for (std::size_t i = 0; i < more; ++i) (*missing)[left++] = places[not_there[i]];
  }
  missing->resize(left);
}

/// Answers reads whose keys no memtable, no run and no cache holds.
void Reader::read_below(const Job& job, const Missing& missing) {
  const auto answer = [&](std::uint64_t worker, std::span<const batch::KeyParts::Key> same,
                          const Status& status, const Slice& value) {
    batch::Answers answers(job.reads, &job.requests->arena(worker));
    for (const batch::KeyParts::Key& key : same) add_answer(key.index, status, value, &answers);
  };
  const auto add_known = [&](std::uint64_t worker, std::span<const tree::KnownFiles::Known> known) {
    batch::Answers answers(job.reads, &job.requests->arena(worker));
    if (job.streams) answers.stream_values();
    add_known_to(known, &answers);
  };
  const bool is_any =
      std::any_of(missing.begin(), missing.end(), [](const auto& list) { return !list.empty(); });
  if (!is_any) return;
  const Status status = base::or_memory_limit([&] {
    read_tree({job.view.below, job.family.below_memory(), job.reads->columns()}, missing,
              std::min<std::uint64_t>(missing.size(), core_count()), answer, add_known);
    return Status::OK();
  });
  if (status.ok()) return;
  batch::Answers answers(job.reads, /*arena=*/nullptr);
  for (const auto& list : missing) {
    for (const std::uint32_t read : list) answers.add(read, kNoMemory);
  }
}

}  // namespace breccia::ordered
