#include "preload/compaction.h"

#include <breccia/compaction.h>
#include <rocksdb/sst_file_manager.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "facade/db/options.h"
#include "preload/real.h"
#include "preload/route.h"

namespace breccia::preload {

namespace {

/// A service, and the listener that goes with it.
struct Service {
  std::shared_ptr<rocksdb::CompactionService> service;
  std::shared_ptr<rocksdb::EventListener> listener;
};

/// By what databases say of themselves: that files are managed, that all is committed.
struct Services {
  std::mutex mutex;
  std::array<Service, 4> by_kind;
};

/// Never destroyed: threads may compact until the process ends.
Services& services() {
  static auto* const made = new Services;
  return *made;
}

void report() {
  Services& all = services();
  const std::lock_guard lock(all.mutex);
  for (const Service& one : all.by_kind) {
    if (one.service == nullptr) continue;
    const std::string text = CompactionServiceReport(*one.service);
    std::fprintf(stderr, "breccia: compactions\n%s", text.c_str());
  }
}

Service make_service(const Settings& settings, bool has_file_manager, bool has_only_committed) {
  CompactionServiceOptions how;
  how.backend = settings.engine.backend;
  how.device = settings.engine.device;
  how.device_bytes_max = settings.engine.device_bytes_max;
  how.has_only_committed = has_only_committed;
  rocksdb::DBOptions told;
  if (has_file_manager) told.sst_file_manager.reset(rocksdb::NewSstFileManager(told.env));
  Service made;
  made.service = NewCompactionService(&told, how);
  made.listener = told.listeners.back();
  return made;
}

Service service_for(const Settings& settings, bool has_file_manager, bool has_only_committed) {
  Services& all = services();
  const std::lock_guard lock(all.mutex);
  const std::size_t kind = (has_file_manager ? 1U : 0U) + (has_only_committed ? 2U : 0U);
  Service& one = all.by_kind[kind];
  if (one.service == nullptr) one = make_service(settings, has_file_manager, has_only_committed);
  return one;
}

/// Says once that compactions come here.
void announce(const Settings& settings, const std::string& name) {
  static std::once_flag is_said;
  std::call_once(is_said, [&] {
    say("compacts " + name + ", which RocksDB serves" +
        " (BRECCIA_COMPACTION=0 turns it off, BRECCIA_QUIET=1 this line)");
    if (settings.reports_compaction) std::atexit(report);
  });
}

}  // namespace

bool has_only_compaction() {
  if (Inside::is()) return false;
  const Result<Settings>& found = settings();
  return found.ok() && found.value().is_on && found.value().has_only_compaction;
}

Status add_compaction_service(const std::string& name, bool has_only_committed,
                              rocksdb::DBOptions* options) {
  if (options->compaction_service != nullptr) return Status::OK();
  const Inside inside;
  if (facade::is_store(*options, name)) {
    return Status::NotSupported(
        name + " is a store of breccia's",
        "RocksDB alone would miss what is in its log; `breccia detach` makes it RocksDB's again");
  }
  const Service service =
      service_for(settings().value(), options->sst_file_manager != nullptr, has_only_committed);
  options->compaction_service = service.service;
  options->listeners.push_back(service.listener);
  announce(settings().value(), name);
  return Status::OK();
}

}  // namespace breccia::preload
