#include "tree/layout.h"

#include <fmt/format.h>

#include <cstring>

namespace breccia::tree {

bool is_staged(const std::string& path) {
  static const std::string folder = fmt::format("/{}/", kStagingFolder);
  return path.find(folder) != std::string::npos;
}

bool is_own_staged(const std::string& path) {
  static const std::string begin = fmt::format("/{}/{}", kStagingFolder, kOwnStaged);
  return path.find(begin) != std::string::npos;
}

void without_memtables(rocksdb::DBOptions* db) { db->persist_stats_to_disk = false; }

void without_memtables(rocksdb::ColumnFamilyOptions* family) {
  family->inplace_update_support = false;
}

Result<Watermark> read_watermark(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* hidden) {
  Watermark watermark;
  std::string value;
  const Status status = db->Get(rocksdb::ReadOptions(), hidden, kWatermarkKey, &value);
  if (status.IsNotFound()) return watermark;
  BRECCIA_TRY(status);
  if (value.size() != sizeof watermark) {
    return Status::Corruption("watermark has " + std::to_string(value.size()) + " bytes, not 16");
  }
  std::memcpy(&watermark, value.data(), sizeof watermark);
  return watermark;
}

std::string log_folder(const Options& options, const std::string& path) {
  return options.wal_dir.empty() ? path + "/log" : options.wal_dir;
}

}  // namespace breccia::tree
