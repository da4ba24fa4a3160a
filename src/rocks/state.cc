#include "rocks/state.h"

#include <spdlog/spdlog.h>

#include "batch/key_columns.h"
#include "wal/format.h"

namespace breccia::rocks {

bool BackendSlot::retire(const exec::Backend& failed, const Status& why) {
  if (why.IsMemoryLimit()) {
    ++memory_misses_;
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (current_.get() != &failed || current_ == host_) return false;
  spdlog::error("device retired, the host goes on alone: {}", why.ToString());
  current_ = host_;
  why_ = why;
  return true;
}

std::vector<std::uint64_t> payloads_of(const memtable::MemRun& run,
                                       const wal::SegmentTable& table) {
  std::vector<std::uint64_t> payloads(run.run->count());
  if (const exec::RunRef* const columns = run.run->host_view()) {
    std::copy_n(columns->payload, payloads.size(), payloads.data());
  } else if (run.payloads != nullptr) {
    payloads = *run.payloads;
  } else {
    for (std::uint64_t i = 0; i < payloads.size(); ++i) {
      const std::uint64_t position = run.position_at(i);
      payloads[i] =
          position | static_cast<std::uint64_t>(wal::record_header(table.at(position)).op());
    }
  }
  return payloads;
}

Result<memtable::MemRunPtr> rebuild_on_host(const memtable::MemRun& run,
                                            const wal::SegmentTable& table, exec::Backend& host) {
  const std::vector<std::uint64_t> payloads = payloads_of(run, table);
  batch::KeyColumns keys(host.host_memory());
  for (const std::uint64_t payload : payloads) {
    const std::byte* const record = table.at(wal::position_of(payload));
    if (!keys.append(wal::record_key(record), wal::record_header(record).key_bytes())) {
      return Status::MemoryLimit("no memory to rebuild a run on the host");
    }
  }
  auto rebuilt = std::make_shared<memtable::MemRun>();
  BRECCIA_TAKE(rebuilt->run, host.build_run(keys.ref(), payloads.data(), 0, /*sorted=*/true,
                                            /*descriptors=*/nullptr));
  rebuilt->begin = run.begin;
  rebuilt->end = run.end;
  return memtable::MemRunPtr(std::move(rebuilt));
}

Result<memtable::ViewPtr> view_on_host(const memtable::View& view, exec::Backend& host) {
  auto converted = std::make_shared<memtable::View>(view);
  std::vector<memtable::MemRunPtr> runs;
  for (const memtable::MemRunPtr& run : view.runs) {
    if (run->run->host_view() != nullptr) {
      runs.push_back(run);
    } else {
      BRECCIA_TAKE(auto rebuilt, rebuild_on_host(*run, *view.table, host));
      runs.push_back(std::move(rebuilt));
    }
  }
  converted->set_runs(std::move(runs));
  return memtable::ViewPtr(std::move(converted));
}

}  // namespace breccia::rocks
