#pragma once

#include <breccia/status.h>

#include <string>

namespace breccia::bench {

/// What to do when a benchmark on an engine failed with `status`.
inline std::string advice(const std::string& engine, const Status& status) {
  if (engine == "disagg") {
    if (status.IsNotSupported()) return "leave out what a cluster does not do (docs/disagg.md)";
    if (!status.IsInvalidArgument()) return "see `breccia fabric status --config`";
    return "begin a new cluster, or pass --use_existing_db to run on what is there";
  }
  if (status.IsNotSupported()) return "use --backend=auto or --backend=host, or another --engine";
  if (!status.IsInvalidArgument()) return "see `breccia doctor --db`";
  return "choose another --db or --wal_dir, or pass --use_existing_db to run on what is there";
}

}  // namespace breccia::bench
