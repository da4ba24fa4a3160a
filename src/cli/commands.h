#pragma once

#include <vector>

#include "console/command.h"

namespace breccia::cli {

// Each adds its subcommand to `parent`. The flags live as long as the returned command.
console::Command add_import(console::App* parent);
console::Command add_get(console::App* parent);
console::Command add_multiget(console::App* parent);
console::Command add_put(console::App* parent);
console::Command add_delete(console::App* parent);
console::Command add_detach(console::App* parent);
console::Command add_compact(console::App* parent);
console::Command add_doctor(console::App* parent);
console::Command add_db(console::App* parent);
std::vector<console::Command> add_db_commands(console::App* parent);
console::Command add_fabric(console::App* parent);
std::vector<console::Command> add_fabric_commands(console::App* parent);
console::Command add_sst(console::App* parent);
std::vector<console::Command> add_sst_commands(console::App* parent);

}  // namespace breccia::cli
