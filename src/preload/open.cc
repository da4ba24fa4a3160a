#include <breccia/rocks.h>
#include <breccia/transaction_db.h>
#include <rocksdb/utilities/options_util.h>

#include <atomic>

#include "facade/db/options.h"
#include "facade/txn/pessimistic.h"
#include "preload/compaction.h"
#include "preload/real.h"
#include "preload/route.h"
#include "tree/tree.h"

/// The functions of RocksDB that go to breccia. They have RocksDB's names: the dynamic linker takes
/// the first of a name, and a preloaded library comes first.

namespace rocksdb {

namespace {

using breccia::Rocks;
using breccia::preload::Compacted;
using breccia::preload::Inside;
using breccia::preload::is_ours;
using breccia::preload::open_ours;
using breccia::preload::real;
using breccia::preload::Settings;

breccia::Options engine_options(const Settings& settings, const DBOptions& options,
                                const std::string& name,
                                const std::vector<ColumnFamilyDescriptor>& families) {
  breccia::Options engine = breccia::facade::engine_options(options, name, families);
  breccia::preload::apply(settings, name, &engine);
  return engine;
}

std::vector<ColumnFamilyDescriptor> default_family(const Options& options) {
  return {ColumnFamilyDescriptor(kDefaultColumnFamilyName, options)};
}

/// Says why breccia cannot serve a database, if `checked` tells that.
Status say_refusal(const std::string& name, Status checked) {
  if (!checked.ok()) {
    breccia::preload::say(name + " cannot be served: " + checked.ToString() +
                          " (BRECCIA_PRELOAD=0 runs the program on RocksDB alone)");
  }
  return checked;
}

Status check(const breccia::Options& options, const std::string& name) {
  return say_refusal(name, breccia::facade::check_options(options, name));
}

Status check(const breccia::Options& options, const TransactionDBOptions& transactions,
             const std::string& name) {
  BRECCIA_TRY(say_refusal(name, breccia::facade::check_transactions(transactions)));
  return check(options, name);
}

/// Says that breccia is in use: once, and in each database's own log.
void announce(const std::string& name, DB* db) {
  std::string backend;
  db->GetProperty("breccia.backend", &backend);
  Info(db->GetDBOptions().info_log, "breccia serves %s: %s", name.c_str(), backend.c_str());
  static std::atomic<bool> is_said{false};
  if (!is_said.exchange(true)) {
    breccia::preload::say("serves " + name + ": " + backend +
                          " (BRECCIA_PRELOAD=0 turns it off, BRECCIA_QUIET=1 this line)");
  }
}

}  // namespace

Status DB::Open(const Options& options, const std::string& name, DB** db) {
  using Function = Status(const Options&, const std::string&, DB**);
  *db = nullptr;
  if (!is_ours()) {
    Compacted<Options> with(options);
    BRECCIA_TRY(with.add_service(name));
    return real<Function>(&DB::Open)(with.options(), name, db);
  }
  return open_ours([&](const Settings& settings) {
    const breccia::Options engine =
        engine_options(settings, options, name, default_family(options));
    BRECCIA_TRY(check(engine, name));
    BRECCIA_TRY(Rocks::Open(engine, name, db));
    announce(name, *db);
    return Status::OK();
  });
}

Status DB::Open(const DBOptions& options, const std::string& name,
                const std::vector<ColumnFamilyDescriptor>& families,
                std::vector<ColumnFamilyHandle*>* handles, DB** db) {
  using Function =
      Status(const DBOptions&, const std::string&, const std::vector<ColumnFamilyDescriptor>&,
             std::vector<ColumnFamilyHandle*>*, DB**);
  *db = nullptr;
  if (!is_ours()) {
    Compacted<DBOptions> with(options);
    BRECCIA_TRY(with.add_service(name));
    return real<Function>(&DB::Open)(with.options(), name, families, handles, db);
  }
  return open_ours([&](const Settings& settings) {
    const breccia::Options engine = engine_options(settings, options, name, families);
    BRECCIA_TRY(check(engine, name));
    BRECCIA_TRY(Rocks::Open(engine, name, families, handles, db));
    announce(name, *db);
    return Status::OK();
  });
}

Status TransactionDB::Open(const Options& options, const TransactionDBOptions& transactions,
                           const std::string& name, TransactionDB** db) {
  using Function =
      Status(const Options&, const TransactionDBOptions&, const std::string&, TransactionDB**);
  *db = nullptr;
  if (!is_ours()) {
    Compacted<Options> with(options);
    BRECCIA_TRY(with.add_service(name, transactions));
    return real<Function>(&TransactionDB::Open)(with.options(), transactions, name, db);
  }
  return open_ours([&](const Settings& settings) {
    const breccia::Options engine =
        engine_options(settings, options, name, default_family(options));
    BRECCIA_TRY(check(engine, transactions, name));
    BRECCIA_TRY(breccia::TransactionDB::Open(engine, transactions, name, db));
    announce(name, *db);
    return Status::OK();
  });
}

Status TransactionDB::Open(const DBOptions& options, const TransactionDBOptions& transactions,
                           const std::string& name,
                           const std::vector<ColumnFamilyDescriptor>& families,
                           std::vector<ColumnFamilyHandle*>* handles, TransactionDB** db) {
  using Function = Status(const DBOptions&, const TransactionDBOptions&, const std::string&,
                          const std::vector<ColumnFamilyDescriptor>&,
                          std::vector<ColumnFamilyHandle*>*, TransactionDB**);
  *db = nullptr;
  if (!is_ours()) {
    Compacted<DBOptions> with(options);
    BRECCIA_TRY(with.add_service(name, transactions));
    return real<Function>(&TransactionDB::Open)(with.options(), transactions, name, families,
                                                handles, db);
  }
  return open_ours([&](const Settings& settings) {
    const breccia::Options engine = engine_options(settings, options, name, families);
    BRECCIA_TRY(check(engine, transactions, name));
    BRECCIA_TRY(breccia::TransactionDB::Open(engine, transactions, name, families, handles, db));
    announce(name, *db);
    return Status::OK();
  });
}

Status DB::OpenForReadOnly(const Options& options, const std::string& name, DB** db,
                           bool error_if_wal_file_exists) {
  using Function = Status(const Options&, const std::string&, DB**, bool);
  if (!is_ours()) {
    return real<Function>(&DB::OpenForReadOnly)(options, name, db, error_if_wal_file_exists);
  }
  return open_ours([&](const Settings&) {
    return Rocks::OpenForReadOnly(options, name, db, error_if_wal_file_exists);
  });
}

Status DB::OpenForReadOnly(const DBOptions& options, const std::string& name,
                           const std::vector<ColumnFamilyDescriptor>& families,
                           std::vector<ColumnFamilyHandle*>* handles, DB** db,
                           bool error_if_wal_file_exists) {
  using Function =
      Status(const DBOptions&, const std::string&, const std::vector<ColumnFamilyDescriptor>&,
             std::vector<ColumnFamilyHandle*>*, DB**, bool);
  if (!is_ours()) {
    return real<Function>(&DB::OpenForReadOnly)(options, name, families, handles, db,
                                                error_if_wal_file_exists);
  }
  return open_ours([&](const Settings&) {
    return Rocks::OpenForReadOnly(options, name, families, handles, db, error_if_wal_file_exists);
  });
}

Status DB::OpenAndTrimHistory(const DBOptions& options, const std::string& name,
                              const std::vector<ColumnFamilyDescriptor>& families,
                              std::vector<ColumnFamilyHandle*>* handles, DB** db,
                              std::string trim_ts) {
  if (!is_ours()) {
    return real(&DB::OpenAndTrimHistory)(options, name, families, handles, db, std::move(trim_ts));
  }
  *db = nullptr;
  return open_ours([&](const Settings&) {
    return Rocks::OpenAndTrimHistory(options, name, families, handles, db, trim_ts);
  });
}

Status DB::ListColumnFamilies(const DBOptions& options, const std::string& name,
                              std::vector<std::string>* families) {
  if (!is_ours()) return real(&DB::ListColumnFamilies)(options, name, families);
  const Inside inside;
  return Rocks::ListColumnFamilies(options, name, families);
}

Status DestroyDB(const std::string& name, const Options& options,
                 const std::vector<ColumnFamilyDescriptor>& families) {
  if (!is_ours()) return real(&DestroyDB)(name, options, families);
  return open_ours([&](const Settings& settings) {
    return Rocks::DestroyDB(name, engine_options(settings, options, name, default_family(options)),
                            families);
  });
}

// An options file of a store names the families that are breccia's own, and has the others'
// triggers as the tree needs them. Every function of librocksdb that reads such a file ends in this
// one.

Status LoadOptionsFromFile(const ConfigOptions& config, const std::string& file, DBOptions* options,
                           std::vector<ColumnFamilyDescriptor>* families,
                           std::shared_ptr<Cache>* cache) {
  using Function = Status(const ConfigOptions&, const std::string&, DBOptions*,
                          std::vector<ColumnFamilyDescriptor>*, std::shared_ptr<Cache>*);
  BRECCIA_TRY(real<Function>(&LoadOptionsFromFile)(config, file, options, families, cache));
  if (is_ours()) breccia::facade::restore_given(families);
  return Status::OK();
}

}  // namespace rocksdb
