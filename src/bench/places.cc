#include "bench/places.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace breccia::bench {

namespace {

namespace fs = std::filesystem;

// RocksDB leaves files alone whose names it does not know.
constexpr const char* kMark = "BRECCIA_BENCH";

Status failed(const std::string& what, const std::string& folder, const std::error_code& error) {
  return Status::IOError(fmt::format("{} {}: {}", what, folder, error.message()));
}

Status remove_folder(const std::string& folder) {
  std::error_code error;
  if (folder.empty() || !fs::exists(folder, error)) return Status();
  if (!fs::exists(fs::path(folder) / kMark, error)) {
    if (fs::is_directory(folder, error) && fs::is_empty(folder, error)) return Status();
    return Status::InvalidArgument(
        fmt::format("{} was not made by a benchmark and will not be removed", folder));
  }
  fs::remove_all(folder, error);
  return error ? failed("remove", folder, error) : Status();
}

Status make_folder(const std::string& folder) {
  if (folder.empty()) return Status();
  BRECCIA_TRY(remove_folder(folder));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return failed("create", folder, error);
  std::ofstream mark(fs::path(folder) / kMark);
  mark << "A benchmark's database. `breccia bench` removes this folder when it needs a new one.\n";
  mark.close();
  return mark ? Status() : Status::IOError("cannot write into " + folder);
}

}  // namespace

Status make_fresh(const Place& place) {
  BRECCIA_TRY(make_folder(place.db));
  return make_folder(place.wal_dir);
}

Status remove_marked(const Place& place) {
  BRECCIA_TRY(remove_folder(place.db));
  return remove_folder(place.wal_dir);
}

Place nested(const Place& place, const std::string& name) {
  return {(fs::path(place.db) / name).string(),
          place.wal_dir.empty() ? "" : (fs::path(place.wal_dir) / name).string()};
}

std::string default_folder() {
  return (fs::temp_directory_path() / fmt::format("breccia-bench-{}", getuid())).string();
}

}  // namespace breccia::bench
