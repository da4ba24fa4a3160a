#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "support/resident_loads.h"

/// What lookups in resident files must say on each device.

namespace breccia::residency::conformance {

/// Where keys lie.
struct Executor {
  const char* name;
  std::shared_ptr<Backend> (*make)(std::uint64_t seed);
  std::uint64_t seeds;
  std::uint64_t idle_bytes_max = 0;  // of the tenant's memory that its executors keep
};

class ResidencyConformance : public ::testing::TestWithParam<std::tuple<Executor, Config>> {};

inline std::string test_name(const ::testing::TestParamInfo<std::tuple<Executor, Config>>& info) {
  const auto& [executor, config] = info.param;
  std::string name = fmt::format("{}_{}", executor.name, config.name);
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

// Goal: what files say of keys is what RocksDB says of them: values, deletions, keys that are
//       nowhere; of keys with operands and in deleted ranges, and where a file is not resident,
//       RocksDB is asked, and of no others.
// Method: databases of several levels with versions that snapshots kept, and pieces of some blocks;
//         all keys, present or not, are looked up in all files and in some, one by one and many;
//         entries from each of them on, some and all.
// Mutation: levels oldest first; level 0 as one level though files overlap; a part chosen by its
//           first key; the last version of a key; a stub that is passed over; places of values by
//           addresses of the host's; a scan that shows deletions, older versions, or goes on where
//           a file begins that is not resident; an operand that is passed over; deleted ranges
//           below their own file's level, or where its keys alone are.
TEST_P(ResidencyConformance, SaysWhatRocksDbSays) {
  const auto& [executor, config] = GetParam();
  for (const std::uint64_t seed : testing::seeds_to_run(executor.seeds)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Database database(config, seed);
    database.fill();
    const auto backend = executor.make(seed);
    const bool says_all = !config.deletes_ranges && !config.merges;
    {
      auto levels = database.files();
      const auto all = [] { return true; };
      ASSERT_TRUE(read_files(backend.get(), &levels, all, 1 + seed % 8 * 1000).ok());
      const FileSetPtr set = set_of(backend, std::move(levels));
      ASSERT_NE(set, nullptr);
      const std::uint64_t asked = compare(*set, database, /*has_all=*/true);
      EXPECT_TRUE(!says_all || asked == 0) << asked;
      compare_many(*set, database, asked);
      compare_scans(*set, database, 1 + seed % 40, /*has_all=*/true);
      compare_scans(*set, database, ~std::uint64_t{0}, /*has_all=*/true, /*step=*/100);
      const FileSet::Figures figures = set->figures();
      EXPECT_EQ(figures.resident_files, figures.files);
      // Levels of a table take some, too.
      EXPECT_LE(figures.bytes, backend->tenant().used());
    }
    EXPECT_LE(backend->tenant().used(), executor.idle_bytes_max);
    const FileSetPtr none = set_of(backend, {});
    ASSERT_NE(none, nullptr);
    look_into_nothing(*none, database);
    base::Random random(seed);
    auto levels = database.files();
    ASSERT_TRUE(read_files(backend.get(), &levels, [&] { return random.below(2) == 0; }).ok());
    const FileSetPtr some = set_of(backend, std::move(levels));
    ASSERT_NE(some, nullptr);
    compare_many(*some, database, compare(*some, database));
    compare_scans(*some, database, 1 + seed % 40, /*has_all=*/false);
    if (HasFailure()) return;
  }
}

}  // namespace breccia::residency::conformance
