#pragma once

#include <breccia/options.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

/// What a program under the preload library cannot say through RocksDB's options: environment
/// variables. docs/preload.md describes them.

namespace breccia::preload {

struct Settings {
  bool is_on = true;      // BRECCIA_PRELOAD
  bool is_quiet = false;  // BRECCIA_QUIET
  std::string log_dir;    // BRECCIA_LOG_DIR
  /// Databases stay RocksDB's, and their compactions alone come here.
  bool has_only_compaction = false;  // BRECCIA_COMPACTION
  bool reports_compaction = false;   // BRECCIA_COMPACTION_REPORT
  Options engine;                    // the rest, in the fields that they name

  Settings() { engine.flush_at_close = true; }
};

/// The value of an environment variable, or null.
using Variables = std::function<const char*(const char* name)>;

/// Errors  InvalidArgument: a variable's value is none of those that it may have.
Result<Settings> read_settings(const Variables& variables);

/// Puts the settings into the options that a database `name` is to be opened with. With a log_dir
/// each database has a folder of its own there, named by the database's last name and a hash of its
/// whole path.
void apply(const Settings& settings, const std::string& name, Options* options);

}  // namespace breccia::preload
