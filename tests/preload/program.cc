#include "program.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/options_util.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>

#include "tree/tree.h"

namespace breccia::testing {

namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

Ran run(Library library, const Folder& folder, const std::string& command,
        const std::string& environment) {
  std::string line = "cd " + folder.path() + " && env ASAN_OPTIONS=detect_leaks=0 ";
  if (library == Library::kBreccia) {
    line += "BRECCIA_BACKEND=host LD_PRELOAD='" BRECCIA_PRELOAD_LIBRARY "' ";
  }
  line += environment + " " + command + " >out 2>err </dev/null";
  const int status = std::system(line.c_str());
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ran.out = text_of(folder / "out");
  ran.err = text_of(folder / "err");
  return ran;
}

Ran db_bench(Library library, const Folder& folder, const std::string& flags,
             const std::string& environment) {
  const std::string command =
      "db_bench --db=db --num=2000 --seed=7 --compression_type=none --stats_interval=1000000 " +
      flags;
  const Ran ran = run(library, folder, command, environment);
  EXPECT_EQ(ran.code, 0) << command << '\n' << ran.out << ran.err;
  const auto said = matches(ran.err, "[^\r\n]*([Ee]rror|ERROR|[Ff]ailed)[^\r\n]*");
  EXPECT_TRUE(said.empty()) << command << '\n' << said.front();
  return ran;
}

std::vector<std::string> contents(const Folder& folder) {
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  std::vector<std::string> lines;
  rocksdb::Status status = rocksdb::LoadLatestOptions({}, folder / "db", &options, &families);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  if (status.ok()) {
    status = rocksdb::DB::OpenForReadOnly(options, folder / "db", families, &handles, &opened);
  }
  EXPECT_TRUE(status.ok()) << status.ToString();
  const std::unique_ptr<rocksdb::DB> db(opened);
  for (rocksdb::ColumnFamilyHandle* const handle : handles) {
    const std::string family = handle->GetName();
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, handle));
    for (at->SeekToFirst(); at->Valid() && family != tree::kHiddenFamily; at->Next()) {
      lines.push_back(family + '/' + at->key().ToString(true) + '=' + at->value().ToString(true));
    }
    EXPECT_TRUE(at->status().ok()) << at->status().ToString();
  }
  for (rocksdb::ColumnFamilyHandle* const handle : handles) {
    EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  return lines;
}

std::vector<std::string> keys_of(std::vector<std::string> lines) {
  for (std::string& line : lines) line.resize(line.find('='));
  return lines;
}

bool has_family(const Folder& folder, const std::string& name) {
  std::vector<std::string> families;
  const rocksdb::Status status =
      rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), folder / "db", &families);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::find(families.begin(), families.end(), name) != families.end();
}

void expect_consistent(const Folder& folder) {
  const Ran ran = run(Library::kRocksDb, folder, "ldb --db=db checkconsistency", "");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.out, "OK\n") << ran.err;
}

std::vector<std::string> matches(const std::string& text, const std::string& expression) {
  const std::regex regex(expression);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    found.push_back(at->str());
  }
  return found;
}

}  // namespace breccia::testing
