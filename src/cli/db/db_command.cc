#include "cli/db/commands.h"

namespace breccia::cli {

console::Command add_db(console::App* parent) {
  console::App* app = parent->add_subcommand(
      "db", "Look into a store, check, copy and restore it: ldb's commands and flags");
  app->require_subcommand();
  app->footer(
      "A store that is looked at does not change, and must not be open elsewhere.\n"
      "Examples:\n"
      "  breccia db scan --db=DIR --from=a --to=b --max_keys=10\n"
      "  breccia db dump --db=DIR --column_family=users --count_only\n"
      "  breccia db dump_wal --db=DIR --header --print_value\n"
      "  breccia db checkconsistency --db=DIR --verify_checksums\n"
      "  breccia db checkpoint --db=DIR --checkpoint_dir=NEW\n"
      "  breccia db backup --db=DIR --backup_dir=BACKUPS\n"
      "  breccia db restore --db=DIR --backup_dir=BACKUPS\n"
      "  breccia db stats --db=DIR");
  return {app, {}};
}

std::vector<console::Command> add_db_commands(console::App* parent) {
  return {db::add_scan(parent),       db::add_dump(parent),
          db::add_dump_wal(parent),   db::add_checkconsistency(parent),
          db::add_checkpoint(parent), db::add_backup(parent),
          db::add_restore(parent),    db::add_stats(parent)};
}

}  // namespace breccia::cli
