#include "residency/file_set.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "exec/fake/fake_device.h"
#include "support/resident_loads.h"

/// What lookups say is for the conformance tests; here is what may go wrong.

namespace breccia::residency::conformance {
namespace {

void any_operation_may_fail(const Config& config) {
  Database database(config, /*seed=*/1);
  database.fill();
  exec::FakeFaults faults;
  const auto backend = backend_on(exec::fake::make_fake_device(&faults));
  const auto run = [&]() -> Status {
    auto levels = database.files();
    BRECCIA_TRY(read_files(backend.get(), &levels, [] { return true; }));
    BRECCIA_TAKE(const FileSetPtr set,
                 FileSet::make(backend, std::move(levels), std::make_shared<Usage>()));
    Found found(database.keys());
    BRECCIA_TRY(found.look_up(*set));
    return set->seek(found.columns.ref()).status();
  };
  ASSERT_TRUE(run().ok());
  const std::uint64_t operations = faults.operations();
  std::uint64_t failures = 0;
  constexpr std::uint64_t kStep = 3;
  for (const exec::Fault fault : {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure}) {
    for (std::uint64_t k = 1; k <= operations; k += kStep) {
      faults.fail_after(k, fault);
      const Status status = run();
      EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError());
      failures += status.ok() ? 0 : 1;
      EXPECT_EQ(backend->tenant().used(), 0U);
      faults.fail_after(1ULL << 40, fault);
    }
  }
  EXPECT_GT(failures, 2 * operations / kStep / 2);
  EXPECT_TRUE(run().ok());
}

// Goal: whichever operation of a device fails, it is said, and no memory is kept.
// Method: a small database read, listed and searched, with operation 1, 2, 3, ... failing.
// Mutation: an error that is dropped on the way out.
TEST(FileSet, AnyOperationMayFail) {
  for (const std::size_t config : {3, 9, 10}) {
    SCOPED_TRACE(kConfigs[config].name);
    any_operation_may_fail(kConfigs[config]);
  }
}

// Goal: of a file that is broken anywhere nothing is said that is not so.
// Method: one bit of each byte in turn of a table's file; it is refused, or says what it said.
// Mutation: checksums that are not looked at; handles that may lead out of the file.
TEST(FileSet, BrokenFilesSayNothingWrong) {
  for (const Config* const config : {&kConfigs[0], &kConfigs[5], &kConfigs[9]}) {
    SCOPED_TRACE(config->name);
    Database database(*config, /*seed=*/2);
    database.fill();
    const auto backend = host_backend();
    auto levels = database.files();
    ListedFile file = levels.back().front();
    std::string bytes;
    {
      std::ifstream in(file.path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    Folder folder(Place::kMemory);
    file.path = folder / "broken.sst";
    const std::uint64_t step = 1 + bytes.size() / testing::share_of(4000);
    const auto unmapper = std::make_shared<Unmapper>();
    std::uint64_t refused = 0;
    std::uint64_t tried = 0;
    for (std::uint64_t at = 0; at < bytes.size(); at += step, ++tried) {
      std::string broken = bytes;
      broken[at] = static_cast<char>(broken[at] ^ (1 << at % 8));
      std::ofstream(file.path, std::ios::binary) << broken;
      auto read = FileReader(backend.get(), FileReader::kPieceBytes, unmapper)
                      .read(file.path, [](std::uint64_t) { return Status::OK(); });
      if (!read.ok()) {
        ++refused;
        continue;
      }
      file.resident = read.take();
      std::vector<ListedLevel> changed = database.files();
      changed.back().front() = file;
      const FileSetPtr set = set_of(backend, std::move(changed));
      ASSERT_NE(set, nullptr);
      compare(*set, database);
      compare_scans(*set, database, /*most=*/3, /*has_all=*/false);
      file.resident = nullptr;
      if (::testing::Test::HasFailure()) FAIL() << "byte " << at;
    }
    EXPECT_GT(refused, tried / 2);
  }
}

// Goal: a file that is not wanted is not read, which is asked before any of it is; and none is
//       listed whose ends no store can look for.
// Method: a small database; a file whose last key is longer than keys may be.
// Mutation: a question behind the last piece alone; ends that are cut where lengths are.
TEST(FileSet, HasLimits) {
  Database database(kConfigs[0], /*seed=*/3);
  database.fill();
  const auto backend = host_backend();
  auto levels = database.files();
  const std::string path = levels.back().front().path;
  FileReader reader(backend.get(), FileReader::kPieceBytes, std::make_shared<Unmapper>());
  std::uint64_t needed = 0;
  Status answer = Status::MemoryLimit();
  const auto goes_on = [&](std::uint64_t bytes) {
    needed = bytes;
    return answer;
  };
  EXPECT_TRUE(reader.read(path, goes_on).status().IsMemoryLimit());
  EXPECT_GT(needed, 0U);
  EXPECT_EQ(backend->tenant().used(), 0U);
  answer = Status::OK();
  EXPECT_TRUE(reader.read(path, goes_on).ok());
  levels.back().back().last_key.append(200'000, 'z');
  compare(*set_of(backend, levels), database);  // a stub that ends behind all keys
}

// Goal: spans that have a key in common become one, and cover what they covered; of fewer, they
//       cover that and more.
// Method: random spans of few keys; each key, between them too, is covered before and behind it or
//         not; none that touch are left.
// Mutation: a span within another one that ends it; the order by ends.
TEST(FileSet, JoinedSpansCoverTheSame) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto key = [](std::uint64_t id) { return fmt::format("{:03}", id); };
    std::vector<KeySpan> spans(random.below(20));
    for (KeySpan& span : spans) {
      const std::uint64_t first = random.below(100);
      span = {key(2 * first), key(2 * (first + random.below(12)))};
    }
    const auto covers = [&key](const std::vector<KeySpan>& all, std::uint64_t id) {
      return std::any_of(all.begin(), all.end(), [&](const KeySpan& span) {
        return span.first <= key(id) && key(id) <= span.last;
      });
    };
    const std::vector<KeySpan> before = spans;
    join_spans(&spans, /*most=*/1000);
    for (std::uint64_t id = 0; id < 230; ++id) EXPECT_EQ(covers(spans, id), covers(before, id));
    const std::size_t joined = spans.size();
    const std::size_t most = 1 + random.below(8);
    join_spans(&spans, most);
    EXPECT_EQ(spans.size(), std::min(most, joined));
    for (std::uint64_t id = 0; id < 230; ++id) EXPECT_GE(covers(spans, id), covers(before, id));
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LT(spans[i - 1].last, spans[i].first);
  }
}

// Goal: tables that overlap are levels of their own, in their order, and those that do not share
//       one.
// Method: some files by hand.
// Mutation: a file that goes to a level where a newer one lies that it overlaps, or past it.
TEST(FileSet, OverlappingFilesAreLevels) {
  const auto file = [](std::uint64_t number, const char* first, const char* last) {
    return ListedFile{number, "", first, last, nullptr};
  };
  const auto levels =
      levels_of_overlapping({file(9, "m", "z"), file(8, "a", "l"), file(7, "c", "d"),
                             file(6, "e", "f"), file(5, "f", "g"), file(4, "a", "b")});
  std::vector<std::vector<std::uint64_t>> numbers;
  for (const ListedLevel& level : levels) {
    numbers.emplace_back();
    for (const ListedFile& one : level) numbers.back().push_back(one.number);
  }
  const std::vector<std::vector<std::uint64_t>> expected = {{8, 9}, {7, 6}, {4, 5}};
  EXPECT_EQ(numbers, expected);
}

}  // namespace
}  // namespace breccia::residency::conformance
