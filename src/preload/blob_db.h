#pragma once

#include <rocksdb/db.h>

#include <string>
#include <vector>

/// What librocksdb exports of BlobDB, whose header the distributions do not install.

namespace rocksdb::blob_db {

struct BlobDBOptions;

class BlobDB {
 public:
  static Status Open(const Options& options, const BlobDBOptions& blob_options,
                     const std::string& name, BlobDB** db);
  static Status Open(const DBOptions& options, const BlobDBOptions& blob_options,
                     const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& column_families,
                     std::vector<ColumnFamilyHandle*>* handles, BlobDB** db);
};

}  // namespace rocksdb::blob_db
