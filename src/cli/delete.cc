#include <fmt/format.h>

#include "cli/commands.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"

namespace breccia::cli {

namespace {

struct DeleteFlags {
  console::StoreFlags store;
  console::HexFlags hex;
  std::string key;
};

int run_delete(const DeleteFlags& flags) {
  const auto key = flags.hex.key(flags.key);
  if (!key) return console::kExitUsage;
  const auto store = flags.store.open();
  if (store == nullptr) return console::kExitFailed;
  const Status status = store->Delete({.durability = Durability::kSync}, *key);
  if (!status.ok()) {
    console::say_error(fmt::format("cannot delete key `{}`", flags.key), status,
                       "breccia doctor --db");
    return console::kExitFailed;
  }
  fmt::print("OK\n");
  return console::kExitOk;
}

}  // namespace

console::Command add_delete(console::App* parent) {
  auto flags = std::make_shared<DeleteFlags>();
  console::App* app = parent->add_subcommand("delete", "Delete a key; a missing key is no error");
  flags->store.add_to(app, "host");
  flags->store.add_engine(app);
  flags->store.add_convert(app);
  flags->hex.add_to(app);
  app->add_flag("--create_if_missing", flags->store.create_if_missing,
                "Make the store if there is none");
  app->add_option("KEY", flags->key, "The key")->required();
  return {app, [flags] { return run_delete(*flags); }};
}

}  // namespace breccia::cli
