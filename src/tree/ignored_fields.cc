#include "tree/ignored_fields.h"

#include <fmt/format.h>
#include <rocksdb/write_buffer_manager.h>

#include <filesystem>

namespace breccia::tree {

bool is_same_folder(const std::string& a, const std::string& b) {
  const auto plain = [](const std::string& folder) {
    std::error_code ignored;  // What cannot be looked up is empty, and reported when it is opened.
    return std::filesystem::weakly_canonical(std::filesystem::path(folder) / "", ignored);
  };
  return !plain(a).empty() && plain(a) == plain(b);
}

std::vector<std::string> ignored_fields(const Options& options, const std::string& path) {
  const rocksdb::Options& given = options.rocksdb;
  const rocksdb::Options usual;
  const bool has_buffers = given.write_buffer_size != usual.write_buffer_size ||
                           given.max_write_buffer_number != usual.max_write_buffer_number;
  struct Field {
    const char* name;
    const char* own;  // what to set in its place
    bool is_ignored;
  };
  const Field fields[] = {
      {"create_if_missing", "create_if_missing",
       given.create_if_missing && !options.create_if_missing},
      {"error_if_exists", "error_if_exists", given.error_if_exists && !options.error_if_exists},
      {"wal_dir", "wal_dir",
       !given.wal_dir.empty() && options.wal_dir.empty() && !is_same_folder(given.wal_dir, path)},
      {"write_buffer_size and max_write_buffer_number", "memtable_bytes",
       has_buffers && options.memtable_bytes == 0},
      {"db_write_buffer_size", "memtable_bytes",
       given.db_write_buffer_size != 0 && options.memtable_bytes == 0},
      {"write_buffer_manager", "memtable_bytes",
       given.write_buffer_manager != nullptr && given.write_buffer_manager->enabled() &&
           options.memtable_bytes == 0},
      {"max_total_wal_size", "memtable_bytes",
       given.max_total_wal_size != 0 && options.memtable_bytes == 0},
      {"WAL_size_limit_MB", "log_keep_bytes",
       given.WAL_size_limit_MB != 0 && options.log_keep_bytes == 0},
  };
  std::vector<std::string> sentences;
  for (const Field& field : fields) {
    if (!field.is_ignored) continue;
    sentences.push_back(fmt::format("Options::rocksdb.{} has no effect here: set Options::{}",
                                    field.name, field.own));
  }
  return sentences;
}

}  // namespace breccia::tree
