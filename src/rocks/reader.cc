#include "rocks/reader.h"

#include <tbb/info.h>

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/parallel.h"
#include "exec/crew.h"
#include "wal/format.h"

namespace breccia::rocks {

namespace {

/// Batches up to this size are gathered by the crew.
constexpr std::uint64_t kCrewReadsMax = 64 << 10;

/// Threads that share the work on `reads` reads.
std::uint64_t parts_of(std::uint64_t reads) {
  const auto cores = static_cast<std::uint64_t>(tbb::info::default_concurrency());
  constexpr std::uint64_t kPartMin = 256;
  return std::clamp<std::uint64_t>(reads / kPartMin, 1, cores);
}

Slice value_of(const std::byte* record) {
  const wal::RecordHeader header = wal::record_header(record);
  return {wal::record_key(record) + header.key_bytes(), header.value_bytes};
}

/// Copies key `i` of `keys` into memory that lives with `arena`.
Slice copy_key(const exec::KeyColumnsRef& keys, std::uint64_t i, batch::ResultArena* arena) {
  const std::uint64_t bytes = keys.bytes_at(i);
  char* const copy = arena->allocate(bytes);
  batch::restore_key(keys, i, copy);
  return {copy, bytes};
}

}  // namespace

Status Reader::get(const Pin& pin, const Slice& key, rocksdb::PinnableSlice* value) const {
  const std::byte* record = nullptr;
  const std::uint64_t payload = memtable::find_one(*pin.view, key, pin.visible, &record);
  if (payload == exec::kNotFound && !below_->has_data()) return Status::NotFound();
  if (payload == exec::kNotFound) return below_->get(pin.view->below.get(), key, value);
  if (wal::op_of(payload) == wal::Op::kDelete) return Status::NotFound();
  value->PinSelf(value_of(record));
  return Status::OK();
}

Status Reader::prepare(bool own_writes, batch::Requests* requests) {
  if (requests->prepare_results(parts_of(requests->read_count()), own_writes)) return Status::OK();
  return Status::MemoryLimit("no memory for the results");
}

void Reader::read(const Pin& pin, bool own_writes, std::uint64_t base, std::uint64_t device_min,
                  batch::Requests* requests) const {
  const std::uint64_t n = requests->read_count();
  const std::uint64_t parts = parts_of(n);
  exec::QueriesRef queries{requests->read_keys(), nullptr, pin.visible};
  if (own_writes) {
    for (std::uint64_t i = 0; i < n; ++i) requests->bounds()[i] = base + requests->read_after()[i];
    queries.bound = requests->bounds();
  }
  const memtable::View& view = *pin.view;
  std::uint64_t* const found = requests->found();
  // A group commit may publish more runs at once than a search takes; the CPU path takes any
  // number.
  const bool for_backend = n >= device_min && view.runs.size() <= limits::kRunsPerSearchMax;
  // A device answers a small batch in microseconds: whoever gathers its values must be awake then.
  const bool use_crew =
      for_backend && n <= kCrewReadsMax && parts > 1 && !backends_->is_host(*backends_->current());
  if (use_crew) exec::Crew::shared().rouse();
  const bool on_backend = for_backend && search(view, queries, found);

  const auto run_part = [&](std::uint64_t part) {
    const std::uint64_t begin = n * part / parts;
    const std::uint64_t end = n * (part + 1) / parts;
    batch::ResultArena& arena = requests->arena(part);
    const bool look_in_memtable = view.active->count() > 0;
    for (std::uint64_t i = begin; i < end && (look_in_memtable || !on_backend); ++i) {
      const Slice key = copy_key(queries.keys, i, &arena);
      const std::byte* record = nullptr;
      if (!on_backend) {
        found[i] = memtable::find_one(view, key, queries.bound_at(i), &record);
      } else if (const auto hit = view.active->find(key, queries.bound_at(i)); hit.payload != 0) {
        found[i] = hit.payload;  // newer than every run
      }
    }
    gather(view, queries.keys, begin, end, part, requests);
  };
  if (parts == 1) {
    run_part(0);
  } else if (use_crew) {
    exec::Crew::shared().run(static_cast<std::uint32_t>(parts), run_part);
  } else {
    base::parallel_for(std::uint64_t{0}, parts, run_part);
  }
}

// Runs that the device had no room for lie on the host: each is searched where it lies. False if
// that cannot be done; the caller's threads look the keys up one by one then. A device that fails
// is retired; a view older than that may hold its runs a while longer, and gets there too.
bool Reader::search(const memtable::View& view, const exec::QueriesRef& queries,
                    std::uint64_t* found) const {
  const auto backend = backends_->current();
  std::vector<exec::RunPtr> here;
  std::vector<exec::RunPtr> on_host;
  for (const exec::RunPtr& run : view.backend_runs) {
    if (!backends_->holds(*backend, *run) && run->host_view() == nullptr) return false;
    (backends_->holds(*backend, *run) ? here : on_host).push_back(run);
  }
  const Status status = backend->search(here, queries, found);
  if (!status.ok()) {
    if (backends_->retire(*backend, status)) leave_device_();
    return false;
  }
  if (on_host.empty()) return true;
  const std::uint64_t n = queries.keys.count;
  exec::HostVector<std::uint64_t> others(exec::plain_host_memory());
  if (!others.reserve(n)) return false;
  others.extend(n);
  if (!backends_->host().search(on_host, queries, others.data()).ok()) return false;
  // Each run has positions of its own, so the newer version is the larger payload; none is 0.
  for (std::uint64_t i = 0; i < n; ++i) found[i] = std::max(found[i], others[i]);
  return true;
}

void Reader::gather(const memtable::View& view, const exec::KeyColumnsRef& keys,
                    std::uint64_t begin, std::uint64_t end, std::size_t part,
                    batch::Requests* requests) const {
  // Far enough ahead to hide a miss of main memory behind the copies of the values before it.
  constexpr std::uint64_t kAhead = 16;
  const std::uint64_t* const found = requests->found();
  batch::ResultArena& arena = requests->arena(part);
  std::vector<std::uint32_t> missing;
  const bool has_data_below = below_->has_data();
  for (std::uint64_t i = begin; i < end; ++i) {
    if (i + kAhead < end && found[i + kAhead] != exec::kNotFound) {
      const std::byte* const next = view.table->at(wal::position_of(found[i + kAhead]));
      __builtin_prefetch(next);
      __builtin_prefetch(next + 64);
    }
    if (found[i] == exec::kNotFound && has_data_below) {
      missing.push_back(static_cast<std::uint32_t>(i));
      continue;
    }
    if (found[i] == exec::kNotFound || wal::op_of(found[i]) == wal::Op::kDelete) {
      requests->results()[i] = {nullptr, 0, Status::Code::kNotFound};
      continue;
    }
    const Slice value = value_of(view.table->at(wal::position_of(found[i])));
    char* const copy = arena.allocate(value.size());
    std::memcpy(copy, value.data(), value.size());
    requests->results()[i] = {copy, static_cast<std::uint32_t>(value.size()), Status::Code::kOk};
  }
  if (!missing.empty()) read_below(view, keys, missing, part, requests);
}

void Reader::read_below(const memtable::View& view, const exec::KeyColumnsRef& keys,
                        const std::vector<std::uint32_t>& missing, std::size_t part,
                        batch::Requests* requests) const {
  constexpr std::size_t kStep = 256;
  batch::ResultArena& arena = requests->arena(part);
  std::vector<Slice> slices(kStep);
  std::vector<Status> statuses(kStep);
  for (std::size_t done = 0; done < missing.size(); done += kStep) {
    const std::size_t count = std::min(kStep, missing.size() - done);
    std::vector<rocksdb::PinnableSlice> values(count);
    for (std::size_t i = 0; i < count; ++i) slices[i] = copy_key(keys, missing[done + i], &arena);
    below_->multi_get(view.below.get(), count, slices.data(), values.data(), statuses.data());
    for (std::size_t i = 0; i < count; ++i) {
      batch::ReadResult& result = requests->results()[missing[done + i]];
      result = {nullptr, 0, statuses[i].code()};
      if (!statuses[i].ok()) continue;
      char* const copy = arena.allocate(values[i].size());
      std::memcpy(copy, values[i].data(), values[i].size());
      result = {copy, static_cast<std::uint32_t>(values[i].size()), Status::Code::kOk};
    }
  }
}

}  // namespace breccia::rocks
