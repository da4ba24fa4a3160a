#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include "base/huge_pages.h"
#include "cli/doctor_checks.h"
#include "support/folder.h"
#include "support/small_options.h"
#include "wal/real_files.h"

namespace breccia::cli {

// Goal: doctor says which filters files get, and warns of a database whose files get none.
// Method: a folder without a database, a store that chose nothing, a RocksDB that chose nothing.
// Mutation: not looking at the OPTIONS file says the same of all three.
TEST(Doctor, SaysWhichFiltersThereAre) {
  const testing::Folder folder{testing::Place::kMemory};
  const Finding nothing = check_filters(folder / "nothing");
  EXPECT_EQ(nothing.verdict, Finding::Verdict::kOk);
  EXPECT_NE(nothing.found.find("10 bits"), std::string::npos);

  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(testing::small_options(), folder / "store", &store).ok());
  store.reset();
  const Finding with_filters = check_filters(folder / "store");
  EXPECT_EQ(with_filters.verdict, Finding::Verdict::kOk);
  EXPECT_NE(with_filters.found.find("default in " + (folder / "store") + ": bloomfilter:10:false"),
            std::string::npos)
      << with_filters.found;

  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder / "rocksdb", &db).ok());
  delete db;
  const Finding without = check_filters(folder / "rocksdb");
  EXPECT_EQ(without.verdict, Finding::Verdict::kWarn);
  EXPECT_FALSE(without.fix.empty());
}

// Goal: doctor says whether a tmpfs gives the log huge pages, and what is missing elsewhere.
// Method: the memory's file system, beside what a file of the log gets there.
// Mutation: saying the other, or advice where nothing is missing.
TEST(Doctor, SaysWhichPagesATmpfsGives) {
  if (wal::medium_of("/dev/shm") != wal::Medium::kTmpfs) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const bool huge = base::gives_huge_pages("/dev/shm");
  const Finding finding = check_file_system("db", "/dev/shm/nothing");
  EXPECT_EQ(finding.found.find("small pages") == std::string::npos, huge) << finding.found;
  EXPECT_EQ(finding.fix.find("huge pages") == std::string::npos, huge) << finding.fix;
}

}  // namespace breccia::cli
