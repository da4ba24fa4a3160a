#include <breccia/rocks.h>
#include <fmt/format.h>

#include "cli/commands.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "facade/db/options.h"

namespace breccia::cli {

namespace {

Status detach(const console::StoreFlags& flags) {
  rocksdb::DBOptions db_options;
  facade::Descriptors families;
  BRECCIA_TRY(console::load_options(flags.db, &db_options, &families));
  Options options = facade::engine_options(db_options, flags.db, families);
  options.backend = console::backend_choice(flags.backend);
  if (!flags.wal_dir.empty()) options.wal_dir = flags.wal_dir;
  return Rocks::Detach(options, flags.db, families);
}

int run_detach(const console::StoreFlags& flags) {
  const Status status = detach(flags);
  if (!status.ok()) {
    console::say_error(fmt::format("cannot detach {}", flags.db), status,
                       console::open_advice(status, flags.db));
    return console::kExitFailed;
  }
  fmt::print("OK\n");
  return console::kExitOk;
}

}  // namespace

console::Command add_detach(console::App* parent) {
  auto flags = std::make_shared<console::StoreFlags>();
  console::App* app =
      parent->add_subcommand("detach", "Flush a store and make it an ordinary RocksDB database");
  flags->add_to(app, "host");
  return {app, [flags] { return run_detach(*flags); }};
}

}  // namespace breccia::cli
