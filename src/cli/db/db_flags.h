#pragma once

#include <breccia/options.h>

#include <functional>
#include <memory>
#include <string>

#include "console/store_flags.h"
#include "ordered/read_only.h"

/// What the commands of `breccia db` share: flags with ldb's names, and two ways to open a store.

namespace breccia::cli::db {

struct DbFlags {
  std::string db;
  std::string wal_dir;
  std::string column_family = "default";
  console::HexFlags hex;
  bool progress = false;

  void add_db(console::App* app);
  void add_family(console::App* app);
  void add_progress(console::App* app, const char* help);
};

/// console::stored_options for the host backend.
[[nodiscard]] Options stored_options(const DbFlags& flags);

/// Opens the store to be looked at: nothing in its folder changes. Null, with words on stderr, if
/// that fails.
[[nodiscard]] std::unique_ptr<ordered::ReadOnlyStore> open_to_look(const DbFlags& flags);
/// The same where the log may be damaged.
[[nodiscard]] std::unique_ptr<ordered::ReadOnlyStore> open_damaged(const DbFlags& flags);

/// The family that --column_family names. Null, with words on stderr, if there is none.
[[nodiscard]] rocksdb::ColumnFamilyHandle* find_family(const ordered::ReadOnlyStore& store,
                                                       const std::string& name);

/// Calls visit(key, value) for the entries from `from` to below `to` (null: no bound) in order,
/// until it returns false.
/// Errors  those of the iterator.
Status visit_entries(const ordered::ReadOnlyStore& store, rocksdb::ColumnFamilyHandle* family,
                     const std::string* from, const std::string* to,
                     const std::function<bool(const Slice& key, const Slice& value)>& visit);

/// What to do after reading entries failed.
[[nodiscard]] std::string reading_advice(const Status& status, const std::string& db);

}  // namespace breccia::cli::db
