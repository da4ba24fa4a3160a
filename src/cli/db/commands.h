#pragma once

#include "cli/commands.h"

/// The commands of `breccia db`, one file each.

namespace breccia::cli::db {

console::Command add_scan(console::App* parent);
console::Command add_dump(console::App* parent);
console::Command add_dump_wal(console::App* parent);
console::Command add_checkconsistency(console::App* parent);
console::Command add_checkpoint(console::App* parent);
console::Command add_backup(console::App* parent);
console::Command add_restore(console::App* parent);
console::Command add_stats(console::App* parent);

}  // namespace breccia::cli::db
