#include "facade/db/options.h"

#include <rocksdb/comparator.h>
#include <rocksdb/env.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tree/level0_triggers.h"
#include "tree/tree.h"
#include "tree/whole_page_env.h"
#include "wal/files_env.h"

namespace breccia::facade {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMemtableBytesMin = 128 << 20;  // two segments of the log

/// A family of RocksDB's own, which it opens and creates itself.
constexpr char kStatsFamily[] = "___rocksdb_stats_history___";

/// a * b and a + b, or as much as there can be: sizes near 2^64 mean "no limit".
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~std::uint64_t{0} : product;
}
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? ~std::uint64_t{0} : sum;
}

/// Lowers *bytes to `limit`, where there is one.
void limit_to(std::uint64_t limit, std::uint64_t* bytes) {
  if (limit != 0 && (*bytes == 0 || limit < *bytes)) *bytes = limit;
}

/// Bytes that RocksDB would let wait in memtables; 0: it was left to its default.
std::uint64_t memtable_bytes(const rocksdb::DBOptions& options, const Descriptors& families) {
  const rocksdb::ColumnFamilyOptions usual;
  std::uint64_t bytes = 0;
  bool is_usual = true;
  for (const rocksdb::ColumnFamilyDescriptor& family : families) {
    is_usual = is_usual && family.options.write_buffer_size == usual.write_buffer_size &&
               family.options.max_write_buffer_number == usual.max_write_buffer_number;
    const auto buffers =
        static_cast<std::uint64_t>(std::max(family.options.max_write_buffer_number, 1));
    bytes = plus(bytes, times(family.options.write_buffer_size, buffers));
  }
  if (is_usual) bytes = 0;
  limit_to(options.db_write_buffer_size, &bytes);
  limit_to(options.max_total_wal_size, &bytes);
  if (options.write_buffer_manager != nullptr && options.write_buffer_manager->enabled()) {
    limit_to(options.write_buffer_manager->buffer_size(), &bytes);
  }
  return bytes == 0 ? 0 : std::max(bytes, kMemtableBytesMin);
}

/// The device that `path`, or the nearest folder above it that exists, lies on.
dev_t device_of(fs::path path) {
  struct stat info {};
  std::error_code ignored;
  path = fs::absolute(path, ignored);
  while (::stat(path.c_str(), &info) != 0 && path.has_relative_path()) path = path.parent_path();
  return info.st_dev;
}

/// One spelling for each folder.
fs::path folder_of(const std::string& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored) / "";
}

Status check_paths(const std::vector<rocksdb::DbPath>& paths, const std::string& name) {
  for (const rocksdb::DbPath& path : paths) {
    if (device_of(path.path) != device_of(name)) {
      return Status::NotSupported(
          "db_paths and cf_paths on another file system than the database: " + path.path,
          "a flush moves its files there by hard links");
    }
  }
  return Status::OK();
}

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

Options engine_options(const rocksdb::DBOptions& options, const std::string& name,
                       const Descriptors& families) {
  Options engine;
  static_cast<rocksdb::DBOptions&>(engine.rocksdb) = options;
  engine.create_if_missing = options.create_if_missing;
  engine.error_if_exists = options.error_if_exists;
  engine.memtable_bytes = memtable_bytes(options, families);
  engine.log_keep_bytes = times(options.WAL_size_limit_MB, 1 << 20);
  if (!options.wal_dir.empty() && folder_of(options.wal_dir) != folder_of(name)) {
    engine.wal_dir = options.wal_dir + "/" + kLogFolder;
  }
  set_families(families, &engine);
  return engine;
}

void set_families(const Descriptors& families, Options* options) {
  options->families.clear();
  for (const rocksdb::ColumnFamilyDescriptor& family : families) {
    if (family.name == rocksdb::kDefaultColumnFamilyName) {
      static_cast<rocksdb::ColumnFamilyOptions&>(options->rocksdb) = family.options;
    } else {
      options->families.emplace_back(family.name, family.options);
    }
  }
}

Status check_family(const std::string& name, const rocksdb::ColumnFamilyOptions& options) {
  if (tree::is_reserved(name)) {
    return Status::InvalidArgument(name, "the name of this column family is breccia's");
  }
  if (options.comparator != rocksdb::BytewiseComparator()) {
    return Status::InvalidArgument(
        "column family " + name + " has the comparator " + options.comparator->Name(),
        "keys are ordered by their bytes; use the default comparator");
  }
  const rocksdb::TableFactory* const tables = options.table_factory.get();
  if (tables != nullptr && (tables->IsInstanceOf(rocksdb::TableFactory::kPlainTableName()) ||
                            tables->IsInstanceOf(rocksdb::TableFactory::kCuckooTableName()))) {
    return Status::NotSupported(
        "column family " + name + " has the table factory " + tables->Name(),
        "RocksDB cannot ingest such files, which is how a flush adds them; use block-based tables");
  }
  return Status::OK();
}

Status check_options(const Options& options, const std::string& name) {
  if (!tree::is_system_env(options.rocksdb.env) && wal::files_of(options.rocksdb.env) == nullptr) {
    return Status::NotSupported("an Env other than Env::Default()",
                                "breccia's log is written to files of the operating system, so an "
                                "Env that encrypts or keeps data elsewhere would not see it");
  }
  if (options.rocksdb.wal_filter != nullptr) {
    return Status::NotSupported("a WalFilter", "breccia's log is replayed as it is");
  }
  if (options.hot_tier.has_value()) {
    return Status::NotSupported("hot_tier", "only breccia::Store::Open puts one before a store");
  }
  BRECCIA_TRY(check_paths(options.rocksdb.db_paths, name));
  BRECCIA_TRY(check_paths(options.rocksdb.cf_paths, name));
  BRECCIA_TRY(check_family(rocksdb::kDefaultColumnFamilyName, options.rocksdb));
  for (const auto& [family, family_options] : options.families) {
    BRECCIA_TRY(check_paths(family_options.cf_paths, name));
    BRECCIA_TRY(check_family(family, family_options));
  }
  return Status::OK();
}

Status check_families(const Options& options, const std::string& name,
                      const Descriptors& families) {
  std::set<std::string> wanted;
  for (const rocksdb::ColumnFamilyDescriptor& family : families) wanted.insert(family.name);
  if (!wanted.contains(rocksdb::kDefaultColumnFamilyName)) {
    return Status::InvalidArgument("Default column family not specified");
  }
  std::vector<std::string> there = {rocksdb::kDefaultColumnFamilyName};
  const Status current = options.rocksdb.env->FileExists(name + "/CURRENT");
  // What else may be wrong with the database, opening it says.
  if (current.IsNotFound() && !options.create_if_missing) return Status::OK();
  if (current.ok() && !list_families(options.rocksdb, name, &there).ok()) return Status::OK();
  std::vector<std::string> not_named;
  for (const std::string& family : there) {
    if (wanted.erase(family) == 0 && family != kStatsFamily) not_named.push_back(family);
  }
  if (!not_named.empty()) {
    return Status::InvalidArgument("Column families not opened: " + joined(not_named));
  }
  if (!wanted.empty() && !options.rocksdb.create_missing_column_families) {
    return Status::InvalidArgument("Column family not found", *wanted.begin());
  }
  return Status::OK();
}

Status list_families(const rocksdb::DBOptions& options, const std::string& name,
                     std::vector<std::string>* families) {
  BRECCIA_TRY(rocksdb::DB::ListColumnFamilies(options, name, families));
  std::erase_if(*families, tree::is_reserved);
  return Status::OK();
}

bool is_store(const rocksdb::DBOptions& options, const std::string& name) {
  std::vector<std::string> families;
  rocksdb::DB::ListColumnFamilies(options, name, &families).PermitUncheckedError();
  return std::find(families.begin(), families.end(), tree::kHiddenFamily) != families.end();
}

void restore_given(Descriptors* families) {
  int flush_parts = 1;
  for (const auto& family : *families) {
    if (family.name == tree::kHiddenFamily) flush_parts = tree::flush_parts_of(family.options);
  }
  std::erase_if(*families, [](const auto& family) { return tree::is_reserved(family.name); });
  for (auto& family : *families) family.options = tree::given_triggers(family.options, flush_parts);
}

}  // namespace breccia::facade
