#pragma once

#include <breccia/options.h>
#include <breccia/store.h>
#include <rocksdb/db.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "console/app.h"

namespace breccia::console {

/// What --wal_dir says of itself.
inline constexpr char kWalDirHelp[] =
    "Folder of breccia's log; default: `log` below RocksDB's wal_dir as the database's OPTIONS "
    "file has it, else in the database's folder. Options::wal_dir and BRECCIA_LOG_DIR of a program "
    "are kept nowhere: repeat them here";

/// Flags that name a store, with ldb's names, shared by the commands that open one.
struct StoreFlags {
  std::string db;  // a folder; of a cluster its file
  std::string engine = "ordered";
  std::string wal_dir;
  std::string backend;
  int device = 0;
  bool create_if_missing = false;
  bool convert = false;

  void add_to(App* app, const std::string& backend_default);
  void add_engine(App* app);
  void add_convert(App* app);
  /// Opens the store with the options that it was last opened with; on failure says what, where and
  /// what to do next, and returns null. A RocksDB database that never was a store is refused,
  /// unless `convert`.
  [[nodiscard]] std::unique_ptr<Store> open() const;

 private:
  [[nodiscard]] Status open_ordered(std::unique_ptr<Store>* store) const;
  [[nodiscard]] Status open_hash(std::unique_ptr<Store>* store) const;
  [[nodiscard]] Status open_disagg(std::unique_ptr<Store>* store) const;
};

/// Names of the option that says where a store is, and what it says of itself.
inline constexpr char kStoreNames[] = "--db,--config";
inline constexpr char kStoreHelp[] =
    "Folder of the store; with --engine=disagg the file of its cluster (--config says the same)";

/// Adds --engine.
void add_engine_flag(App* app, std::string* engine);

/// How keys and values are written on the command line, with ldb's names.
struct HexFlags {
  bool key_hex = false;
  bool value_hex = false;
  bool hex = false;

  void add_to(App* app);
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

/// Adds --convert, for commands that open a store for writing.
void add_convert_flag(App* app, bool* convert);
/// Errors  InvalidArgument: `db` is a RocksDB database that is no store. Opened as one it would
///         become one, which its own program can open no more.
Status check_is_store(const Options& options, const std::string& db);

/// The backend named by `--backend`, one of auto, host, cuda.
BackendChoice backend_choice(const std::string& name);
/// What to try after Store::Open failed with `status`.
std::string open_advice(const Status& status, const std::string& db);

}  // namespace breccia::console
