#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "cli/db/db_flags.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/text.h"

namespace breccia::cli {

namespace {

struct GetFlags {
  db::DbFlags db;
  std::string engine = "ordered";
  std::vector<std::string> keys;
  bool json = false;
  bool pairs = false;  // print keys beside values, even of one key
};

// JSON carries text only: other bytes go out in hexadecimal under a name of their own.
void put_bytes(nlohmann::ordered_json* into, const std::string& name, const std::string& bytes) {
  if (console::is_utf8(bytes)) {
    (*into)[name] = bytes;
  } else {
    (*into)[name + "_hex"] = console::to_hex(bytes);
  }
}

void print_found(const GetFlags& flags, const std::string& key, const std::string& value) {
  if (flags.json) {
    nlohmann::ordered_json line;
    put_bytes(&line, "key", key);
    put_bytes(&line, "value", value);
    fmt::print("{}\n", line.dump());
  } else if (flags.pairs || flags.keys.size() > 1) {
    fmt::print("{}\t{}\n", console::tsv_escape(flags.db.hex.show_key(key)),
               console::tsv_escape(flags.db.hex.show_value(value)));
  } else {
    fmt::print("{}\n", flags.db.hex.show_value(value));
  }
}

/// Errors  NotFound; those of the iterator.
Status look_up(const ordered::ReadOnlyStore& store, rocksdb::ColumnFamilyHandle* family,
               const std::string& key, std::string* value) {
  // The bound keeps a neighbour that cannot be read from spoiling the answer.
  const std::string behind = key + std::string(1, '\0');
  const Slice bound(behind);
  rocksdb::ReadOptions options;
  options.total_order_seek = true;
  options.iterate_upper_bound = &bound;
  const auto at = store.iterate(options, family);
  at->Seek(key);
  BRECCIA_TRY(at->status());
  if (!at->Valid()) return Status::NotFound();
  *value = at->value().ToString();
  return at->status();
}

/// Looks up one key. Errors  NotFound; those of the store.
using LookUp = std::function<Status(const std::string& key, std::string* value)>;

int print_all(const GetFlags& flags, const std::vector<std::string>& keys, const LookUp& look_up) {
  int exit_code = console::kExitOk;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::string value;
    const Status status = look_up(keys[i], &value);
    if (status.ok()) {
      print_found(flags, keys[i], value);
    } else if (status.IsNotFound()) {
      console::say(fmt::format("no key `{}` in {}", flags.keys[i], flags.db.db));
      if (exit_code == console::kExitOk) exit_code = console::kExitNotFound;
    } else {
      console::say_error(fmt::format("cannot read key `{}`", flags.keys[i]), status,
                         db::reading_advice(status, flags.db.db));
      exit_code = console::kExitFailed;
    }
  }
  return exit_code;
}

/// Nothing in the folder changes.
int get_from_tree(const GetFlags& flags, const std::vector<std::string>& keys) {
  const auto store = db::open_to_look(flags.db);
  if (store == nullptr) return console::kExitFailed;
  rocksdb::ColumnFamilyHandle* const family = db::find_family(*store, flags.db.column_family);
  if (family == nullptr) return console::kExitUsage;
  return print_all(flags, keys, [&](const std::string& key, std::string* value) {
    return look_up(*store, family, key, value);
  });
}

int get_from_store(const GetFlags& flags, const std::vector<std::string>& keys) {
  console::StoreFlags where;
  where.db = flags.db.db;
  where.wal_dir = flags.db.wal_dir;
  where.engine = flags.engine;
  where.backend = "host";
  const auto store = where.open();
  if (store == nullptr) return console::kExitFailed;
  return print_all(flags, keys, [&](const std::string& key, std::string* value) {
    return store->Get(key, value);
  });
}

int run_get(const GetFlags& flags) {
  std::vector<std::string> keys;
  for (const std::string& argument : flags.keys) {
    auto key = flags.db.hex.key(argument);
    if (!key) return console::kExitUsage;
    keys.push_back(*std::move(key));
  }
  return flags.engine == "ordered" ? get_from_tree(flags, keys) : get_from_store(flags, keys);
}

console::Command add(console::App* parent, const char* name, const char* help, bool pairs) {
  auto flags = std::make_shared<GetFlags>();
  flags->pairs = pairs;
  console::App* app = parent->add_subcommand(name, help);
  app->add_option(console::kStoreNames, flags->db.db, console::kStoreHelp)->required();
  app->add_option("--wal_dir", flags->db.wal_dir, console::kWalDirHelp);
  console::add_engine_flag(app, &flags->engine);
  flags->db.hex.add_to(app);
  app->add_flag("--json", flags->json, "Print one JSON object per key that was found");
  app->add_option("KEY", flags->keys, "Keys to look up")->required();
  return {app, [flags] { return run_get(*flags); }};
}

}  // namespace

console::Command add_get(console::App* parent) {
  return add(parent, "get", "Print the value of a key; of several keys: key, tab, value", false);
}

console::Command add_multiget(console::App* parent) {
  return add(parent, "multiget", "Print key, tab and value of each key that was found", true);
}

}  // namespace breccia::cli
