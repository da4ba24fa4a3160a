#include <breccia/rocks.h>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/exit_codes.h"
#include "cli/store_flags.h"
#include "facade/options.h"

namespace breccia::cli {

namespace {

Status detach(const StoreFlags& flags) {
  rocksdb::DBOptions db_options;
  facade::Descriptors families;
  BRECCIA_TRY(load_options(flags.db, &db_options, &families));
  Options options = facade::engine_options(db_options, flags.db, families);
  options.backend = backend_choice(flags.backend);
  if (!flags.wal_dir.empty()) options.wal_dir = flags.wal_dir;
  return Rocks::Detach(options, flags.db, families);
}

int run_detach(const StoreFlags& flags) {
  const Status status = detach(flags);
  if (!status.ok()) {
    say_error(fmt::format("cannot detach {}", flags.db), status, open_advice(status, flags.db));
    return kExitFailed;
  }
  fmt::print("OK\n");
  return kExitOk;
}

}  // namespace

Command add_detach(App* parent) {
  auto flags = std::make_shared<StoreFlags>();
  App* app =
      parent->add_subcommand("detach", "Flush a store and make it an ordinary RocksDB database");
  flags->add_to(app, "host");
  return {app, [flags] { return run_detach(*flags); }};
}

}  // namespace breccia::cli
