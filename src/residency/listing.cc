#include "residency/listing.h"

#include <rocksdb/db.h>
#include <rocksdb/metadata.h>

#include <utility>

namespace breccia::residency {

namespace {

std::vector<ListedFile> files_of(const rocksdb::LevelMetaData& level) {
  std::vector<ListedFile> files;
  files.reserve(level.files.size());
  for (const rocksdb::SstFileMetaData& file : level.files) {
    files.push_back({file.file_number, file.directory + "/" + file.relative_filename,
                     file.smallestkey, file.largestkey, /*resident=*/nullptr});
  }
  return files;
}

}  // namespace

std::vector<ListedLevel> list_files(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ColumnFamilyMetaData tree;
  db->GetColumnFamilyMetaData(family, &tree);
  std::vector<ListedLevel> levels;
  for (const rocksdb::LevelMetaData& level : tree.levels) {
    if (level.level == 0) {
      levels = levels_of_overlapping(files_of(level));  // RocksDB has the newest first
    } else if (!level.files.empty()) {
      levels.push_back(files_of(level));
    }
  }
  return levels;
}

}  // namespace breccia::residency
