#include <fmt/format.h>

#include "cli/commands.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"

namespace breccia::cli {

namespace {

struct PutFlags {
  console::StoreFlags store;
  console::HexFlags hex;
  std::string key;
  std::string value;
};

int run_put(const PutFlags& flags) {
  const auto key = flags.hex.key(flags.key);
  const auto value = flags.hex.value(flags.value);
  if (!key || !value) return console::kExitUsage;
  const auto store = flags.store.open();
  if (store == nullptr) return console::kExitFailed;
  const Status status = store->Put({.durability = Durability::kSync}, *key, *value);
  if (!status.ok()) {
    console::say_error(fmt::format("cannot write key `{}`", flags.key), status,
                       "breccia doctor --db");
    return console::kExitFailed;
  }
  fmt::print("OK\n");
  return console::kExitOk;
}

}  // namespace

console::Command add_put(console::App* parent) {
  auto flags = std::make_shared<PutFlags>();
  console::App* app = parent->add_subcommand("put", "Write a key and its value");
  flags->store.add_to(app, "host");
  flags->store.add_engine(app);
  flags->store.add_convert(app);
  flags->hex.add_to(app);
  app->add_flag("--create_if_missing", flags->store.create_if_missing,
                "Make the store if there is none");
  app->add_option("KEY", flags->key, "The key")->required();
  app->add_option("VALUE", flags->value, "Its value")->required();
  return {app, [flags] { return run_put(*flags); }};
}

}  // namespace breccia::cli
