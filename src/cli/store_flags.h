#pragma once

#include <breccia/store.h>
#include <rocksdb/db.h>

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace breccia::cli {

/// Flags that name a store, with ldb's names, shared by the commands that open one.
struct StoreFlags {
  std::string db;
  std::string wal_dir;
  std::string backend;
  bool create_if_missing = false;

  void add_to(CLI::App* app, const std::string& backend_default);
  /// Opens the store with the options that it was last opened with; on failure says what, where and
  /// what to do next, and returns null.
  [[nodiscard]] std::unique_ptr<Store> open() const;
};

/// How keys and values are written on the command line, with ldb's names.
struct HexFlags {
  bool key_hex = false;
  bool value_hex = false;
  bool hex = false;

  void add_to(CLI::App* app);
  /// The bytes meant by an argument; nothing, with words on stderr, if it is not hexadecimal.
  [[nodiscard]] std::optional<std::string> key(const std::string& argument) const;
  [[nodiscard]] std::optional<std::string> value(const std::string& argument) const;
  [[nodiscard]] std::string show_key(const std::string& bytes) const;
  [[nodiscard]] std::string show_value(const std::string& bytes) const;
};

/// What the OPTIONS file of the database in `db` says. Breccia's merge operators and those that
/// RocksDB can make by name are among it.
/// Errors  NotFound, PathNotFound: there is none; those of Rocks::LoadLatestOptions.
Status load_options(const std::string& db, rocksdb::DBOptions* options,
                    std::vector<rocksdb::ColumnFamilyDescriptor>* families);
/// The same as options to open with, and the log where the file says, or in `wal_dir` if that is
/// not empty. RocksDB's defaults where there is no OPTIONS file, or, with words on stderr, where it
/// cannot be read.
[[nodiscard]] Options stored_options(const std::string& db, const std::string& wal_dir);

/// The backend named by `--backend`, one of auto, host, cuda.
BackendChoice backend_choice(const std::string& name);
/// What to try after Store::Open failed with `status`.
std::string open_advice(const Status& status, const std::string& db);

}  // namespace breccia::cli
