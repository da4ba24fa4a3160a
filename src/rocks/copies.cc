#include "rocks/copies.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "rocks/below.h"

namespace breccia::rocks {

namespace {

/// The database opened by RocksDB itself.
struct OpenTree {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;

  ~OpenTree() {
    for (auto* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
};

Status open_tree(const Options& options, const std::string& name,
                 const std::vector<std::string>& families, OpenTree* tree) {
  std::map<std::string, rocksdb::ColumnFamilyOptions> known;
  for (const auto& [family, family_options] : options.families) known[family] = family_options;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string& family : families) {
    const auto at = known.find(family);
    rocksdb::ColumnFamilyOptions family_options = options.rocksdb;
    if (at != known.end()) family_options = at->second;
    if (is_reserved(family)) family_options = rocksdb::ColumnFamilyOptions();
    without_memtables(&family_options);
    descriptors.emplace_back(family, family_options);
  }
  rocksdb::DBOptions db_options = options.rocksdb;
  without_memtables(&db_options);
  db_options.create_if_missing = false;
  db_options.error_if_exists = false;
  rocksdb::DB* db = nullptr;
  BRECCIA_TRY(rocksdb::DB::Open(db_options, name, descriptors, &tree->handles, &db));
  tree->db.reset(db);
  return Status::OK();
}

/// True if RocksDB made the folder's files as a copy of a store's.
bool is_copy(const Options& options, const std::string& name) {
  rocksdb::Env* const env = options.rocksdb.env;
  if (!env->FileExists(name + "/" + kStagingFolder).IsNotFound()) return false;
  const std::string log = log_folder(options, name);
  std::vector<std::string> names;
  env->GetChildren(log, &names).PermitUncheckedError();  // mostly it is not there
  return std::none_of(names.begin(), names.end(),
                      [](const std::string& file) { return file.ends_with(".log"); });
}

/// Drops the families that `is_dropped` names, if any.
Status drop_families(const Options& options, const std::string& name,
                     const std::function<bool(const std::string&)>& is_dropped) {
  std::vector<std::string> families;
  if (!rocksdb::DB::ListColumnFamilies(options.rocksdb, name, &families).ok()) return Status::OK();
  if (std::none_of(families.begin(), families.end(), is_dropped)) return Status::OK();
  OpenTree tree;
  BRECCIA_TRY(open_tree(options, name, families, &tree));
  for (std::size_t i = 0; i < families.size(); ++i) {
    if (is_dropped(families[i])) BRECCIA_TRY(tree.db->DropColumnFamily(tree.handles[i]));
  }
  return Status::OK();
}

}  // namespace

Status adopt_copy(const Options& options, const std::string& name) {
  if (options.error_if_exists || !is_copy(options, name)) return Status::OK();
  Options quiet = options;
  quiet.rocksdb.disable_auto_compactions = true;
  for (auto& [family, family_options] : quiet.families) {
    family_options.disable_auto_compactions = true;
  }
  return drop_families(quiet, name, [](const auto& family) { return family == kHiddenFamily; });
}

Status drop_own_families(const Options& options, const std::string& name) {
  return drop_families(options, name, is_reserved);
}

}  // namespace breccia::rocks
