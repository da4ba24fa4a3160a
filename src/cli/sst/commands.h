#pragma once

#include "console/command.h"

namespace breccia::cli::sst {

// Each adds its subcommand to `parent`, which is `breccia sst`.
console::Command add_check(console::App* parent);
console::Command add_show(console::App* parent);
console::Command add_scan(console::App* parent);

}  // namespace breccia::cli::sst
