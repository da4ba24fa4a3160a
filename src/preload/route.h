#pragma once

#include <breccia/status.h>
#include <rocksdb/options.h>

#include <functional>
#include <string>

#include "preload/settings.h"

/// Where an interposed call goes.

namespace breccia::preload {

/// The settings of this process, read from its environment once.
const Result<Settings>& settings();

/// True if a call of the program is ours: not one from inside another, not turned off, and not of a
/// program whose compactions alone are (preload/compaction.h).
bool is_ours();

/// Runs `open` as the program's call to open a database on breccia.
/// Errors  InvalidArgument: an environment variable is wrong; else those of `open`.
Status open_ours(const std::function<Status(const Settings&)>& open);

/// Runs `open`, which opens the database by librocksdb alone, if it is no store of breccia's.
/// Errors  NotSupported: it is one; else those of `open`.
Status open_theirs(const char* what, const rocksdb::DBOptions& options, const std::string& name,
                   const std::function<Status()>& open);

/// Says a line on standard error, unless the settings say not to.
void say(const std::string& line);

}  // namespace breccia::preload
