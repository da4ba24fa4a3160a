#pragma once

#include "cli/command.h"

/// The commands of `breccia db`, one file each.

namespace breccia::cli::db {

Command add_scan(CLI::App* parent);
Command add_dump(CLI::App* parent);
Command add_dump_wal(CLI::App* parent);
Command add_checkconsistency(CLI::App* parent);
Command add_checkpoint(CLI::App* parent);
Command add_backup(CLI::App* parent);
Command add_restore(CLI::App* parent);
Command add_stats(CLI::App* parent);

}  // namespace breccia::cli::db
