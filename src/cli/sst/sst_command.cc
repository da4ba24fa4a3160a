#include "cli/commands.h"
#include "cli/sst/commands.h"

namespace breccia::cli {

console::Command add_sst(console::App* parent) {
  console::App* app =
      parent->add_subcommand("sst", "Look into files of tables (SST) of any RocksDB database");
  app->require_subcommand();
  app->footer(
      "Files are read as they lie: no database is opened, and one that is open may go on.\n"
      "Examples:\n"
      "  breccia sst check DB/*.sst\n"
      "  breccia sst show DB/000012.sst\n"
      "  breccia sst scan --from=a --to=b --max_keys=10 DB/000012.sst");
  return {app, {}};
}

std::vector<console::Command> add_sst_commands(console::App* parent) {
  return {sst::add_check(parent), sst::add_show(parent), sst::add_scan(parent)};
}

}  // namespace breccia::cli
