#include "ordered/write/run_builder.h"

#include <algorithm>

#include "base/sometimes.h"
#include "runs/build_bytes.h"

namespace breccia::ordered {

namespace {

/// Runs that a batch's entries become at most while the device has room: more would cost every
/// search more than the device saves. What is left then is one run of the host.
constexpr std::uint64_t kChunksMax = 8;

/// Memory that the tenant may still take.
std::uint64_t room_of(const runs::Backend& device) {
  exec::Tenant& tenant = device.tenant();
  const std::uint64_t bytes_max = std::min(tenant.bytes_max(), tenant.device().memory_limit());
  return bytes_max - std::min(bytes_max, tenant.used());
}

/// The position behind those of the entries before entry `i`.
std::uint64_t position_at(const record::EntriesRef& entries, std::uint64_t i) {
  return record::position_of(entries.base + entries.relative[i]);
}

Status no_memory_for_chunk() { return Status::MemoryLimit("no memory to cut a batch into chunks"); }

Result<BuiltRun> build_on(runs::Backend& backend, const record::EntriesRef& entries,
                          std::uint32_t* descriptors) {
  BuiltRun built;
  BRECCIA_TAKE(built.run, backend.build_run(entries, descriptors));
  if (descriptors != nullptr && built.run->host_view() == nullptr) {
    built.order.descriptors = descriptors;
  } else {
    BRECCIA_TAKE(built.order, read_order(backend, built.run));
  }
  return built;
}

}  // namespace

/// Neighbouring entries of a batch. Those of keys of several lengths get a `meta` column of their
/// own, so that no other entry's tail goes to the device with them.
class RunBuilder::Part {
 public:
  Part(const record::EntriesRef& all, std::uint64_t first, std::uint64_t count)
      : entries_(all), meta_(exec::plain_host_memory()) {
    entries_.keys = record::slice(all.keys, first, count);
    entries_.relative += first;
    if (all.value != nullptr) entries_.value += first;
  }

  /// Errors  false: out of memory.
  [[nodiscard]] bool cut_tails() {
    record::KeyColumnsRef& keys = entries_.keys;
    if (keys.uniform() || keys.count == 0) return true;
    if (!meta_.reserve(keys.count)) return false;
    const std::uint64_t begin = keys.tail_at(0);
    for (std::uint64_t i = 0; i < keys.count; ++i) {
      meta_.push(keys.meta[i] - (begin << record::kMetaLengthBits));
    }
    const std::uint64_t last = keys.count - 1;
    keys.tail_count = keys.tail_at(last) + record::tail_words(keys.bytes_at(last)) - begin;
    keys.tail += begin;
    keys.meta = meta_.data();
    return true;
  }
  [[nodiscard]] const record::EntriesRef& ref() const { return entries_; }

 private:
  record::EntriesRef entries_;
  exec::HostVector<std::uint64_t> meta_;
};

record::EntriesRef entries_of(const runs::RunRef& run) {
  return {run.keys, run.payload, /*base=*/0, run.value, /*sorted=*/true};
}

/// How many of `entries` fit on the device at once, if those are of their mean size.
std::uint64_t RunBuilder::fitting(const runs::Backend& device, const record::EntriesRef& entries) {
  const std::uint64_t n = entries.keys.count;
  const std::uint64_t wanted = runs::build_bytes(entries);
  const std::uint64_t room = BRECCIA_SOMETIMES(5) ? wanted / 3 : room_of(device);
  return wanted <= room ? n : room / (wanted / n + 1);
}

bool RunBuilder::is_one_run(const record::EntriesRef& entries) const {
  const auto backend = backends_->current();
  const std::uint64_t n = entries.keys.count;
  return backend->device().host_reads() || n < device_min_ || fitting(*backend, entries) == n;
}

Result<BuiltRun> RunBuilder::build_one(const record::EntriesRef& entries,
                                       std::uint32_t* descriptors) const {
  const auto backend = backends_->current();
  if (is_small(*backend, entries.keys.count)) {
    statistics_->add(Ticker::kSmallBuilds, 1);
    return build_on(backends_->host(), entries, descriptors);
  }
  const std::uint64_t n = entries.keys.count;
  const exec::Device& device = backend->device();
  const bool is_staged =
      !device.reaches(entries.keys.head, n * sizeof *entries.keys.head) ||
      !device.reaches(entries.relative, n * sizeof *entries.relative) ||
      (descriptors != nullptr && !device.reaches(descriptors, n * sizeof *descriptors));
  if (is_staged) statistics_->add(Ticker::kStagedBatches, 1);
  return backends_->run([&](runs::Backend& on) { return build_on(on, entries, descriptors); });
}

/// Builds chunks on the device until what is left is one, or has to go to the host. Each of them
/// holds newer entries than the one before. Returns how many entries are built.
Result<std::uint64_t> RunBuilder::build_chunks(const record::EntriesRef& entries,
                                               std::vector<BuiltRun>* runs, bool* is_full) const {
  const std::uint64_t n = entries.keys.count;
  const std::uint64_t least = std::max((n + kChunksMax - 1) / kChunksMax, device_min_);
  std::uint64_t first = 0;
  while (true) {
    const auto backend = backends_->current();
    if (backend->device().host_reads()) return first;  // the device is lost
    const std::uint64_t count = std::max(fitting(*backend, entries), least);
    if (count >= n - first) return first;
    Part chunk(entries, first, count);
    if (!chunk.cut_tails()) return no_memory_for_chunk();
    auto built = backends_->attempt(*backend, [&](runs::Backend& on) {
      return build_on(on, chunk.ref(), /*descriptors=*/nullptr);
    });
    *is_full = !built.ok();
    if (*is_full) return first;
    first += count;
    runs->push_back(built.take());
    runs->back().end = position_at(entries, first);
  }
}

Result<std::vector<BuiltRun>> RunBuilder::build(const record::EntriesRef& entries,
                                                std::uint32_t* descriptors) const {
  std::vector<BuiltRun> runs;
  std::uint64_t first = 0;
  bool is_full = false;
  if (descriptors == nullptr && !is_one_run(entries)) {
    BRECCIA_TAKE(first, build_chunks(entries, &runs, &is_full));
  }
  Part rest(entries, first, entries.keys.count - first);
  if (first > 0 && !rest.cut_tails()) return no_memory_for_chunk();
  BRECCIA_TAKE(BuiltRun last, is_full ? build_on(backends_->host(), rest.ref(), descriptors)
                                      : build_one(rest.ref(), descriptors));
  runs.push_back(std::move(last));
  if (runs.size() > 1) statistics_->add(Ticker::kChunks, runs.size());
  return runs;
}

Result<runs::RunPtr> RunBuilder::build_sorted(const record::EntriesRef& entries) const {
  if (is_small(*backends_->current(), entries.keys.count)) {
    statistics_->add(Ticker::kSmallBuilds, 1);
    return backends_->host().build_run(entries, /*descriptors=*/nullptr);
  }
  return backends_->run(
      [&](runs::Backend& backend) { return backend.build_run(entries, /*descriptors=*/nullptr); });
}

bool RunBuilder::merges_on(const runs::Backend& device, const std::vector<MemRunPtr>& runs) const {
  std::uint64_t entries = 0;
  bool holds_any = false;
  for (const MemRunPtr& run : runs) {
    const bool holds = device.holds(*run->run);
    if (!holds && run->run->host_view() == nullptr) return false;  // of a device that was left
    holds_any = holds_any || holds;
    entries += run->run->count();
  }
  return holds_any || !is_small(device, entries);
}

bool RunBuilder::is_split(const FamilyView& family) const {
  const auto backend = backends_->current();
  bool has_device_run = false;
  bool has_small_run = false;
  for (const runs::RunPtr& run : family.backend_runs) {
    if (run->host_view() == nullptr) {
      has_device_run = true;
    } else {
      has_small_run = has_small_run || is_small(*backend, run->count());
    }
  }
  return has_device_run && has_small_run;
}

Result<MemRunPtr> RunBuilder::lift(const MemRun& run, runs::Backend& device) {
  const runs::RunRef& columns = *run.run->host_view();
  auto lifted = std::make_shared<MemRun>(run);
  BRECCIA_TAKE(Order order, copy_order(device, columns.payload, columns.keys.count));
  BRECCIA_TAKE(lifted->run, device.build_run(entries_of(columns), /*descriptors=*/nullptr));
  lifted->set_order(std::move(order));
  return MemRunPtr(std::move(lifted));
}

std::vector<MemRunPtr> RunBuilder::lifted(std::vector<MemRunPtr> runs) const {
  const auto backend = backends_->current();
  for (MemRunPtr& run : runs) {
    if (run->run->host_view() == nullptr || !is_small(*backend, run->run->count())) continue;
    auto on_device =
        backends_->attempt(*backend, [&](runs::Backend& on) { return lift(*run, on); });
    if (!on_device.ok()) break;
    run = on_device.take();
  }
  return runs;
}

}  // namespace breccia::ordered
