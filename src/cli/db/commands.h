#pragma once

#include "cli/command.h"

/// The commands of `breccia db`, one file each.

namespace breccia::cli::db {

Command add_scan(App* parent);
Command add_dump(App* parent);
Command add_dump_wal(App* parent);
Command add_checkconsistency(App* parent);
Command add_checkpoint(App* parent);
Command add_backup(App* parent);
Command add_restore(App* parent);
Command add_stats(App* parent);

}  // namespace breccia::cli::db
