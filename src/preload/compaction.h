#pragma once

#include <rocksdb/options.h>
#include <rocksdb/utilities/transaction_db.h>

#include <optional>
#include <string>

#include "base/result.h"

/// RocksDB programs whose compactions alone are breccia's: BRECCIA_COMPACTION=1.

namespace breccia::preload {

/// True if a database that is opened now stays RocksDB's, and is to have the service.
bool has_only_compaction();

/// Gives `options` the service, if they have none. One serves all databases of the process that
/// say the same of themselves: there is one GPU, and one queue for it.
/// Errors  NotSupported: `name` is a store of breccia's, which RocksDB alone must not open.
Status add_compaction_service(const std::string& name, bool has_only_committed,
                              rocksdb::DBOptions* options);

/// The options of a program's call, or a copy of them with the service.
/// Owner   `given` must live as long.
template <class Given>
class Compacted {
 public:
  explicit Compacted(const Given& given) : given_(given) {}
  Compacted(const Compacted&) = delete;
  Compacted& operator=(const Compacted&) = delete;

  Status add_service(const std::string& name) {
    return has_only_compaction() ? add(name, /*has_only_committed=*/false) : Status::OK();
  }
  Status add_service(const std::string& name, const rocksdb::TransactionDBOptions& transactions) {
    if (!has_only_compaction()) return Status::OK();
    return add(name, transactions.write_policy == rocksdb::WRITE_COMMITTED);
  }

  [[nodiscard]] const Given& options() const { return copy_.has_value() ? *copy_ : given_; }

 private:
  Status add(const std::string& name, bool has_only_committed) {
    return add_compaction_service(name, has_only_committed, &copy_.emplace(given_));
  }

  const Given& given_;
  std::optional<Given> copy_;
};

}  // namespace breccia::preload
