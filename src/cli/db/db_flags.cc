#include "cli/db/db_flags.h"

#include <fmt/format.h>

#include "console/console.h"
#include "wal/log_open.h"

namespace breccia::cli::db {

namespace {

using Open = Result<std::unique_ptr<ordered::ReadOnlyStore>> (*)(const Options& options,
                                                                 const std::string& path);

std::unique_ptr<ordered::ReadOnlyStore> open_with(const DbFlags& flags, Open open) {
  auto store = open(stored_options(flags), flags.db);
  if (!store.ok()) {
    const Status& status = store.status();
    const std::string next =
        status.IsCorruption() ? "breccia db checkconsistency; then breccia db restore"
        : status.IsIOError()  ? "close the program that has it open; `breccia doctor --db`"
                              : "check --db and --wal_dir";
    console::say_error(fmt::format("cannot open the database in {}", flags.db), status, next);
    return nullptr;
  }
  const std::string& found = store.value()->log().recovery.message;
  if (!found.empty()) console::say(found);
  // Most likely the original's; but where somebody removed the mark, this is all that tells.
  if (store.value()->is_copy()) {
    const auto log = wal::log_identity(store.value()->log_dir());
    if (log.ok() && log.value() == store.value()->watermark().store_id) {
      console::say(fmt::format("{} is a copy of the store whose log is in {}; that log is not read",
                               flags.db, store.value()->log_dir()));
    }
  }
  return store.take();
}

}  // namespace

void DbFlags::add_db(console::App* app) {
  app->add_option("--db", db, "Folder of the database")->required();
  app->add_option("--wal_dir", wal_dir, console::kWalDirHelp);
}

void DbFlags::add_family(console::App* app) {
  app->add_option("--column_family", column_family, "Name of the column family")
      ->capture_default_str();
  hex.add_to(app);
}

void DbFlags::add_progress(console::App* app, const char* help) {
  app->add_flag("--progress", progress, help);
}

Options stored_options(const DbFlags& flags) {
  Options options = console::stored_options(flags.db, flags.wal_dir);
  options.backend = BackendChoice::kHost;
  return options;
}

std::unique_ptr<ordered::ReadOnlyStore> open_to_look(const DbFlags& flags) {
  return open_with(flags, &ordered::ReadOnlyStore::open);
}

std::unique_ptr<ordered::ReadOnlyStore> open_damaged(const DbFlags& flags) {
  return open_with(flags, &ordered::ReadOnlyStore::open_damaged);
}

rocksdb::ColumnFamilyHandle* find_family(const ordered::ReadOnlyStore& store,
                                         const std::string& name) {
  std::string names;
  for (rocksdb::ColumnFamilyHandle* family : store.families()) {
    if (family->GetName() == name) return family;
    names += (names.empty() ? "" : ", ") + family->GetName();
  }
  console::say(fmt::format("error: there is no column family `{}`; there are: {}", name, names));
  return nullptr;
}

Status visit_entries(const ordered::ReadOnlyStore& store, rocksdb::ColumnFamilyHandle* family,
                     const std::string* from, const std::string* to,
                     const std::function<bool(const Slice& key, const Slice& value)>& visit) {
  rocksdb::ReadOptions options;
  options.total_order_seek = true;
  options.fill_cache = false;
  const auto at = store.iterate(options, family);
  if (from != nullptr) {
    at->Seek(*from);
  } else {
    at->SeekToFirst();
  }
  for (; at->Valid(); at->Next()) {
    if (to != nullptr && at->key().compare(*to) >= 0) break;
    if (!visit(at->key(), at->value())) break;
  }
  return at->status();
}

std::string reading_advice(const Status& status, const std::string& db) {
  if (status.IsInvalidArgument()) {
    return "the family has merge operands, and RocksDB cannot make its merge operator by name; "
           "read it with the program that wrote it";
  }
  return fmt::format("breccia db checkconsistency --db={}", db);
}

}  // namespace breccia::cli::db
