#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>

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

// Goal: doctor says how much memory the keys of a database's tables would take.
// Method: a folder without tables; a store with one, and a file that is none.
// Mutation: a broken file that ends the check, or counts.
TEST(Doctor, SaysWhatResidentKeysWant) {
  const testing::Folder folder{testing::Place::kMemory};
  EXPECT_NE(check_residency(folder / "nothing").found.find("no tables"), std::string::npos);
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(testing::small_options(), folder / "store", &store).ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(store->Put({}, "key " + std::to_string(100'000 + i), "value").ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  store.reset();
  std::ofstream(folder / "store/999999.sst") << "no table";
  const Finding finding = check_residency(folder / "store");
  EXPECT_EQ(finding.verdict, Finding::Verdict::kOk);
  // The store has some entries of its own.
  std::uint64_t kept = 0, tables = 0, keys = 0;
  ASSERT_EQ(std::sscanf(finding.found.c_str(),
                        "%" SCNu64 " of %" SCNu64 " tables can be resident: %" SCNu64 " keys",
                        &kept, &tables, &keys),
            3)
      << finding.found;
  EXPECT_GE(kept, 1U);
  EXPECT_EQ(tables, kept + 1);
  EXPECT_GE(keys, 1000U);
  EXPECT_LT(keys, 1100U);
  // A head, a place and a word of tail each.
  EXPECT_NE(finding.found.find("keys in 2"), std::string::npos) << finding.found;
  EXPECT_NE(finding.found.find("100 % of these"), std::string::npos) << finding.found;
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
