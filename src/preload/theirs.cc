#include <breccia/rocks.h>
#include <rocksdb/utilities/db_ttl.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>

#include "facade/db/options.h"
#include "preload/blob_db.h"
#include "preload/real.h"
#include "preload/route.h"

/// The functions of RocksDB that stay RocksDB's. They are here because they must not touch a store
/// of breccia's, and because they call DB::Open, which has to be RocksDB's then.

namespace rocksdb {

namespace {

using breccia::preload::Inside;
using breccia::preload::is_ours;
using breccia::preload::open_theirs;
using breccia::preload::real;

using Families = std::vector<ColumnFamilyDescriptor>;
using Handles = std::vector<ColumnFamilyHandle*>;

/// Errors  NotSupported: `db` is breccia's; RocksDB's transactions would write past its log.
Status check_not_ours(const char* what, DB* db) {
  if (dynamic_cast<breccia::Rocks*>(db) == nullptr) return Status::OK();
  return Status::NotSupported(std::string(what) + ": the database is served by breccia",
                              "open it by TransactionDB::Open, or set BRECCIA_PRELOAD=0");
}

}  // namespace

// ---- transactions ------------------------------------------------------------------------------

Status TransactionDB::WrapDB(DB* db, const TransactionDBOptions& options,
                             const std::vector<std::size_t>& compaction_enabled_cf_indices,
                             const Handles& handles, TransactionDB** wrapped) {
  BRECCIA_TRY(check_not_ours("TransactionDB::WrapDB", db));
  return real(&TransactionDB::WrapDB)(db, options, compaction_enabled_cf_indices, handles, wrapped);
}

Status TransactionDB::WrapStackableDB(StackableDB* db, const TransactionDBOptions& options,
                                      const std::vector<std::size_t>& compaction_enabled_cf_indices,
                                      const Handles& handles, TransactionDB** wrapped) {
  BRECCIA_TRY(check_not_ours("TransactionDB::WrapStackableDB", db));
  return real(&TransactionDB::WrapStackableDB)(db, options, compaction_enabled_cf_indices, handles,
                                               wrapped);
}

Status OptimisticTransactionDB::Open(const Options& options, const std::string& name,
                                     OptimisticTransactionDB** db) {
  using Function = Status(const Options&, const std::string&, OptimisticTransactionDB**);
  *db = nullptr;
  return open_theirs("OptimisticTransactionDB", options, name, [&] {
    return real<Function>(&OptimisticTransactionDB::Open)(options, name, db);
  });
}

Status OptimisticTransactionDB::Open(const DBOptions& options, const std::string& name,
                                     const Families& families, Handles* handles,
                                     OptimisticTransactionDB** db) {
  using Function = Status(const DBOptions&, const std::string&, const Families&, Handles*,
                          OptimisticTransactionDB**);
  *db = nullptr;
  return open_theirs("OptimisticTransactionDB", options, name, [&] {
    return real<Function>(&OptimisticTransactionDB::Open)(options, name, families, handles, db);
  });
}

Status OptimisticTransactionDB::Open(const DBOptions& options,
                                     const OptimisticTransactionDBOptions& transaction_options,
                                     const std::string& name, const Families& families,
                                     Handles* handles, OptimisticTransactionDB** db) {
  using Function = Status(const DBOptions&, const OptimisticTransactionDBOptions&,
                          const std::string&, const Families&, Handles*, OptimisticTransactionDB**);
  *db = nullptr;
  return open_theirs("OptimisticTransactionDB", options, name, [&] {
    return real<Function>(&OptimisticTransactionDB::Open)(options, transaction_options, name,
                                                          families, handles, db);
  });
}

// ---- databases that store values in a form of their own ----------------------------------------

Status DBWithTTL::Open(const Options& options, const std::string& name, DBWithTTL** db,
                       std::int32_t ttl, bool read_only) {
  using Function = Status(const Options&, const std::string&, DBWithTTL**, std::int32_t, bool);
  *db = nullptr;
  return open_theirs("DBWithTTL", options, name, [&] {
    return real<Function>(&DBWithTTL::Open)(options, name, db, ttl, read_only);
  });
}

Status DBWithTTL::Open(const DBOptions& options, const std::string& name, const Families& families,
                       Handles* handles, DBWithTTL** db, const std::vector<std::int32_t>& ttls,
                       bool read_only) {
  using Function = Status(const DBOptions&, const std::string&, const Families&, Handles*,
                          DBWithTTL**, const std::vector<std::int32_t>&, bool);
  *db = nullptr;
  return open_theirs("DBWithTTL", options, name, [&] {
    return real<Function>(&DBWithTTL::Open)(options, name, families, handles, db, ttls, read_only);
  });
}

namespace blob_db {

Status BlobDB::Open(const Options& options, const BlobDBOptions& blob_options,
                    const std::string& name, BlobDB** db) {
  using Function = Status(const Options&, const BlobDBOptions&, const std::string&, BlobDB**);
  *db = nullptr;
  return open_theirs("BlobDB", options, name, [&] {
    return real<Function>(&BlobDB::Open)(options, blob_options, name, db);
  });
}

Status BlobDB::Open(const DBOptions& options, const BlobDBOptions& blob_options,
                    const std::string& name, const Families& families, Handles* handles,
                    BlobDB** db) {
  using Function = Status(const DBOptions&, const BlobDBOptions&, const std::string&,
                          const Families&, Handles*, BlobDB**);
  *db = nullptr;
  return open_theirs("BlobDB", options, name, [&] {
    return real<Function>(&BlobDB::Open)(options, blob_options, name, families, handles, db);
  });
}

}  // namespace blob_db

// ---- repair ------------------------------------------------------------------------------------

namespace {

/// Repairs by `repair` what is no store. A flush leaves the order of its files to the MANIFEST,
/// which a repair makes anew from the files alone: it could bring old values back.
template <class Repair>
Status repair_theirs(const DBOptions& options, const std::string& name, const Repair& repair) {
  if (!is_ours()) return repair();
  const Inside inside;
  if (breccia::facade::is_store(options, name)) {
    return Status::NotSupported("RepairDB: " + name + " is a store of breccia's",
                                "the order of its files is in the MANIFEST alone, which a repair "
                                "makes anew; restore a backup");
  }
  return repair();
}

}  // namespace

Status RepairDB(const std::string& name, const DBOptions& options, const Families& families) {
  using Function = Status(const std::string&, const DBOptions&, const Families&);
  return repair_theirs(options, name,
                       [&] { return real<Function>(&RepairDB)(name, options, families); });
}

Status RepairDB(const std::string& name, const DBOptions& options, const Families& families,
                const ColumnFamilyOptions& unknown) {
  using Function =
      Status(const std::string&, const DBOptions&, const Families&, const ColumnFamilyOptions&);
  return repair_theirs(options, name,
                       [&] { return real<Function>(&RepairDB)(name, options, families, unknown); });
}

Status RepairDB(const std::string& name, const Options& options) {
  using Function = Status(const std::string&, const Options&);
  return repair_theirs(options, name, [&] { return real<Function>(&RepairDB)(name, options); });
}

}  // namespace rocksdb
