#include "console/store_flags.h"

#include <breccia/disagg_options.h>
#include <breccia/hash_options.h>
#include <breccia/merge_operators.h>
#include <breccia/rocks.h>
#include <fmt/format.h>
#include <rocksdb/convenience.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/assert.h"
#include "console/console.h"
#include "console/text.h"
#include "facade/db/options.h"
#include "tree/tree.h"

namespace breccia::console {

namespace {

std::optional<std::string> decode(const std::string& argument, bool hex) {
  if (!hex) return argument;
  auto bytes = from_hex(argument);
  if (!bytes) {
    say(fmt::format("error: `{}` is not hexadecimal; write it as 0x and pairs of digits",
                    argument));
  }
  return bytes;
}

}  // namespace

Status load_options(const std::string& db, rocksdb::DBOptions* options,
                    std::vector<rocksdb::ColumnFamilyDescriptor>* families) {
  RegisterMergeOperators();
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = true;
  return Rocks::LoadLatestOptions(config, db, options, families);
}

Options stored_options(const std::string& db, const std::string& wal_dir) {
  rocksdb::DBOptions tree;
  facade::Descriptors families;
  const Status status = load_options(db, &tree, &families);
  if (!status.ok()) {
    tree = rocksdb::DBOptions();
    families = {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
  }
  if (!status.ok() && !status.IsNotFound() && !status.IsPathNotFound()) {
    say(fmt::format("the OPTIONS file cannot be read, RocksDB's defaults are used: {}",
                    status.ToString()));
  }
  tree.create_if_missing = tree.error_if_exists = false;
  Options options = facade::engine_options(tree, db, families);
  if (!wal_dir.empty()) options.wal_dir = wal_dir;
  return options;
}

void add_convert_flag(App* app, bool* convert) {
  app->add_flag("--convert", *convert,
                "Make a store of a RocksDB database; `breccia detach` is the way back");
}

Status check_is_store(const Options& options, const std::string& db) {
  if (!std::filesystem::exists(db + "/CURRENT")) return Status::OK();
  std::vector<std::string> families;
  // What keeps the list from being read, opening says.
  if (!rocksdb::DB::ListColumnFamilies(options.rocksdb, db, &families).ok()) return Status::OK();
  if (std::find(families.begin(), families.end(), tree::kHiddenFamily) != families.end()) {
    return Status::OK();
  }
  return Status::InvalidArgument(
      db + " is a RocksDB database and no store of breccia",
      "as a store, programs of RocksDB's could not open it until `breccia detach`");
}

BackendChoice backend_choice(const std::string& name) {
  if (name == "host") return BackendChoice::kHost;
  if (name == "cuda") return BackendChoice::kCuda;
  BRECCIA_ASSERT(name == "auto");
  return BackendChoice::kAuto;
}

std::string open_advice(const Status& status, const std::string& db) {
  if (status.IsIOError()) return "see whether another process holds it, and `breccia doctor --db`";
  if (status.IsNotSupported()) return "use --backend=auto or --backend=host";
  if (status.IsCorruption())
    return fmt::format("breccia db checkconsistency --db={}; then breccia db restore", db);
  return "check --db; add --create_if_missing for a new store, --convert for what is none yet";
}

void StoreFlags::add_to(App* app, const std::string& backend_default) {
  backend = backend_default;
  app->add_option(kStoreNames, db, kStoreHelp)->required();
  app->add_option("--wal_dir", wal_dir, kWalDirHelp);
  app->add_option("--backend", backend, "Where batches run: auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--device", device, "Which GPU, by CUDA's number")->capture_default_str();
}

void StoreFlags::add_engine(App* app) { add_engine_flag(app, &engine); }
void StoreFlags::add_convert(App* app) { add_convert_flag(app, &convert); }

void add_engine_flag(App* app, std::string* engine) {
  app->add_option(
         "--engine", *engine,
         "Engine of the store: ordered, above a RocksDB database; hash, of single keys; or "
         "disagg, in the memory of servers")
      ->one_of({"ordered", "hash", "disagg"})
      ->capture_default_str();
}

Status StoreFlags::open_ordered(std::unique_ptr<Store>* store) const {
  Options options = stored_options(db, wal_dir);
  options.create_if_missing = create_if_missing;
  options.backend = backend_choice(backend);
  options.device = device;
  if (!convert) BRECCIA_TRY(check_is_store(options, db));
  return Store::Open(options, db, store);
}

Status StoreFlags::open_hash(std::unique_ptr<Store>* store) const {
  HashOptions options;
  options.wal_dir = wal_dir;
  options.create_if_missing = create_if_missing;
  options.backend = backend_choice(backend);
  options.device = device;
  return Store::Open(options, db, store);
}

Status StoreFlags::open_disagg(std::unique_ptr<Store>* store) const {
  DisaggOptions options;
  options.config = db;
  return Store::Open(options, store);
}

std::unique_ptr<Store> StoreFlags::open() const {
  using Open = Status (StoreFlags::*)(std::unique_ptr<Store>*) const;
  static const std::map<std::string, Open> kOpen = {{"ordered", &StoreFlags::open_ordered},
                                                    {"hash", &StoreFlags::open_hash},
                                                    {"disagg", &StoreFlags::open_disagg}};
  std::unique_ptr<Store> store;
  const Status status = (this->*kOpen.at(engine))(&store);
  if (!status.ok()) {
    const std::string advice = engine == "disagg"
                                   ? fmt::format("see `breccia fabric status --config {}`", db)
                                   : open_advice(status, db);
    say_error(fmt::format("cannot open the store in {}", db), status, advice);
    return nullptr;
  }
  const std::string found = store->recovery().message;
  if (!found.empty()) say(found);
  return store;
}

void HexFlags::add_to(App* app) {
  app->add_flag("--key_hex", key_hex, "Keys are written as 0x...");
  app->add_flag("--value_hex", value_hex, "Values are written as 0x...");
  app->add_flag("--hex", hex, "Both are");
}

std::optional<std::string> HexFlags::key(const std::string& argument) const {
  return decode(argument, hex || key_hex);
}

std::optional<std::string> HexFlags::value(const std::string& argument) const {
  return decode(argument, hex || value_hex);
}

std::string HexFlags::show_key(const std::string& bytes) const {
  return hex || key_hex ? to_hex(bytes) : bytes;
}

std::string HexFlags::show_value(const std::string& bytes) const {
  return hex || value_hex ? to_hex(bytes) : bytes;
}

}  // namespace breccia::console
