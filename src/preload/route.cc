#include "preload/route.h"

#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "facade/db/options.h"
#include "preload/real.h"

namespace breccia::preload {

thread_local int Inside::depth_ = 0;

const Result<Settings>& settings() {
  // Never destroyed: threads may open databases until the process ends.
  static const auto* const found = [] {
    // say() tells the rest, to who has not asked for more.
    if (std::getenv("BRECCIA_LOG_LEVEL") == nullptr) set_log_level(LogLevel::kWarning);
    return new Result<Settings>(read_settings([](const char* name) { return std::getenv(name); }));
  }();
  return *found;
}

bool is_ours() {
  if (Inside::is()) return false;
  const Result<Settings>& found = settings();
  return !found.ok() || (found.value().is_on && !found.value().has_only_compaction);
}

void say(const std::string& line) {
  if (settings().ok() && settings().value().is_quiet) return;
  std::fprintf(stderr, "breccia: %s\n", line.c_str());
}

Status open_ours(const std::function<Status(const Settings&)>& open) {
  const Inside inside;
  BRECCIA_TRY(settings().status());
  return open(settings().value());
}

Status open_theirs(const char* what, const rocksdb::DBOptions& options, const std::string& name,
                   const std::function<Status()>& open) {
  if (!is_ours()) return open();
  const Inside inside;
  if (facade::is_store(options, name)) {
    return Status::NotSupported(
        std::string(what) + ": " + name + " is a store of breccia's",
        "RocksDB alone would miss what is in its log; `breccia detach` makes it RocksDB's again");
  }
  say(std::string(what) + ": RocksDB alone serves " + name);
  return open();
}

}  // namespace breccia::preload
