#include "residency/file_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "exec/fake/fake_device.h"
#include "exec/host/host_device.h"
#include "exec/sim/sim_device.h"
#include "record/key_columns.h"
#include "residency/listing.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::residency {
namespace {

using testing::Folder;
using testing::Place;

/// How keys look, and how tables are written.
struct Config {
  const char* name;
  std::string prefix;
  std::uint64_t key_bytes_max = 0;  // behind the prefix; 0: 16 each
  rocksdb::ChecksumType checksum = rocksdb::kXXH3;
  rocksdb::CompressionType compression = rocksdb::kNoCompression;
  bool deletes_ranges = false;
  bool merges = false;
};
const Config kConfigs[] = {
    {"keys of 16 bytes", ""},
    {"a common prefix", "users/of/a/long/name/"},
    {"short keys", "", 3},
    {"keys of any length", "p", 60},
    {"a prefix of zeros", std::string(11, '\0'), 4},
    {"crc32c", "", 0, rocksdb::kCRC32c},
    {"compressed", "", 0, rocksdb::kXXH3, rocksdb::kLZ4Compression},
    {"range deletions", "", 0, rocksdb::kXXH3, rocksdb::kNoCompression, true},
    {"merge operands", "", 0, rocksdb::kXXH3, rocksdb::kNoCompression, false, true},
};

std::string random_key(const Config& config, base::Random& random) {
  std::string key = config.prefix;
  if (config.key_bytes_max == 0) {
    key += fmt::format("{:016}", random.below(600));
  } else {
    const std::uint64_t bytes = random.below(config.key_bytes_max + 1);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      key.push_back(static_cast<char>(random.below(3) * 127));
    }
  }
  return key;
}

/// A database of several levels, and some keys, of which it has a part.
class Database {
 public:
  Database(const Config& config, std::uint64_t seed)
      : config_(config), random_(seed), folder_(Place::kMemory) {
    rocksdb::BlockBasedTableOptions table;
    table.checksum = config.checksum;
    table.block_size = 256 + random_.below(4096);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
    options.compression = config.compression;
    options.disable_auto_compactions = true;
    options.target_file_size_base = 8 << 10;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (config.merges) {
      EXPECT_TRUE(
          rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options.merge_operator)
              .ok());
    }
    rocksdb::DB* opened = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(options, folder_ / "db", &opened).ok());
    db_.reset(opened);
    for (int i = 0; i < 1500; ++i) keys_.push_back(random_key(config, random_));
  }
  ~Database() { release(); }

  /// Flushes and compactions between writes, with snapshots that keep older versions.
  void fill() {
    const std::uint64_t flushes = 1 + random_.below(8);
    for (std::uint64_t flush = 0; flush < flushes; ++flush) {
      write(random_.below(500));
      ASSERT_TRUE(db_->Flush({}).ok());
      if (random_.below(4) > 0) continue;
      ASSERT_TRUE(db_->CompactRange({}, nullptr, nullptr).ok());
    }
    release();
  }
  [[nodiscard]] rocksdb::DB* db() const { return db_.get(); }
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  [[nodiscard]] std::vector<ListedLevel> files() const {
    return list_files(db_.get(), db_->DefaultColumnFamily());
  }

 private:
  void write(std::uint64_t requests) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      const std::string& key = keys_[random_.below(keys_.size() / 2)];
      const std::uint64_t kind = random_.below(50);
      if (kind < 8) {
        ASSERT_TRUE(db_->Delete({}, key).ok());
      } else if (kind == 8 && config_.deletes_ranges) {
        ASSERT_TRUE(db_->DeleteRange({}, db_->DefaultColumnFamily(), key, key + "zz").ok());
      } else if (kind < 12 && config_.merges) {
        ASSERT_TRUE(db_->Merge({}, key, "operand").ok());
      } else {
        const std::string value(random_.below(20) == 0 ? random_.below(5000) : random_.below(60),
                                static_cast<char>(random_.below(256)));
        ASSERT_TRUE(db_->Put({}, key, value).ok());
      }
      if (random_.below(30) == 0) snapshots_.push_back(db_->GetSnapshot());
    }
  }
  void release() {
    for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
  }

  const Config& config_;
  base::Random random_;
  Folder folder_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::string> keys_;
  std::vector<const rocksdb::Snapshot*> snapshots_;
};

std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "residency"});
  EXPECT_TRUE(backend.ok());
  return backend.take();
}
std::shared_ptr<Backend> host_backend() {
  auto device = exec::open_device(exec::DeviceKind::kHost, 0);
  EXPECT_TRUE(device.ok());
  return backend_on(device.value());
}

constexpr std::uint64_t kAmple = 1ULL << 40;

/// Reads the files that `chosen` says; others stay RocksDB's alone.
template <class Chosen>
Status read_files(Backend* backend, std::vector<ListedLevel>* levels, const Chosen& chosen,
                  std::uint64_t piece_bytes = FileReader::kPieceBytes) {
  FileReader reader(backend, piece_bytes);
  for (ListedLevel& level : *levels) {
    for (ListedFile& file : level) {
      if (!chosen()) continue;
      FileReader::Room room{kAmple};
      auto read = reader.read(file.path, &room, [] { return true; });
      if (read.ok()) {
        file.resident = read.take();
        EXPECT_LE(file.resident->memory_bytes(), 2 * room.bytes_needed + 1000);
        EXPECT_GE(2 * file.resident->memory_bytes(), room.bytes_needed);
      } else if (!read.status().IsNotSupported()) {
        return read.status();
      }
    }
  }
  return Status::OK();
}

/// What the set says of keys, as find() does; those alone that are sought, every third is not.
struct Found {
  explicit Found(const std::vector<std::string>& keys) : columns(exec::plain_host_memory()) {
    for (const std::string& key : keys) EXPECT_TRUE(columns.append(key.data(), key.size()));
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      if (i % 3 != 1) which.push_back(i);
    }
    place.resize(which.size());
    part.resize(which.size());
  }
  Status look_up(const FileSet& set) {
    return set.find(columns.ref(), which, {place.data(), part.data()});
  }

  record::KeyColumns columns;
  std::vector<std::uint32_t> which;
  std::vector<std::uint64_t> place;
  std::vector<std::uint32_t> part;
};

/// Compares what the set says with what the database says. Returns how many keys it leaves to
/// RocksDB.
std::uint64_t compare(const FileSet& set, const Database& database) {
  Found found(database.keys());
  EXPECT_TRUE(found.look_up(set).ok());
  std::uint64_t asked = 0;
  for (std::size_t i = 0; i < found.which.size(); ++i) {
    const std::string& key = database.keys()[found.which[i]];
    const std::uint64_t place = found.place[i];
    if (set.host_reads()) {
      record::KeyColumns one(exec::plain_host_memory());
      EXPECT_TRUE(one.append(key.data(), key.size()));
      std::uint32_t part = 0;
      EXPECT_EQ(set.find_one(one.ref(), &part), place);
      EXPECT_TRUE(!is_value(place) || part == found.part[i]);
    }
    if (place == kAsk) {
      ++asked;
      continue;
    }
    std::string value;
    const Status status = database.db()->Get({}, key, &value);
    EXPECT_EQ(status.ok(), is_value(place)) << Slice(key).ToString(true);
    if (status.ok() && is_value(place)) {
      EXPECT_EQ(set.value(place, found.part[i]), Slice(value));
    }
  }
  return asked;
}

FileSetPtr set_of(const std::shared_ptr<Backend>& backend, std::vector<ListedLevel> levels) {
  auto set = FileSet::make(backend, std::move(levels), std::make_shared<Usage>());
  EXPECT_TRUE(set.ok()) << set.status().ToString();
  return set.ok() ? set.take() : nullptr;
}

void test_one(const Config& config, std::uint64_t seed, const exec::DevicePtr& device) {
  SCOPED_TRACE(fmt::format("{}; {}", config.name, testing::replay_command(seed)));
  Database database(config, seed);
  database.fill();
  const auto backend = backend_on(device);
  const bool has_all =
      !config.deletes_ranges && !config.merges && config.compression == rocksdb::kNoCompression;
  {
    auto levels = database.files();
    const auto all = [] { return true; };
    ASSERT_TRUE(read_files(backend.get(), &levels, all, 1 + seed % 8 * 1000).ok());
    const FileSetPtr set = set_of(backend, std::move(levels));
    ASSERT_NE(set, nullptr);
    const std::uint64_t asked = compare(*set, database);
    EXPECT_TRUE(!has_all || asked == 0) << asked;
    const FileSet::Figures figures = set->figures();
    EXPECT_LE(figures.resident_files, figures.files);
    EXPECT_TRUE(!has_all || figures.resident_files == figures.files);
    // Levels of a table take some, too.
    EXPECT_LE(figures.bytes, backend->tenant().used());
  }
  EXPECT_EQ(backend->tenant().used(), 0U);
  base::Random random(seed);
  auto levels = database.files();
  ASSERT_TRUE(read_files(backend.get(), &levels, [&] { return random.below(2) == 0; }).ok());
  const FileSetPtr some = set_of(backend, std::move(levels));
  ASSERT_NE(some, nullptr);
  compare(*some, database);
}

// Goal: what files say of keys is what RocksDB says of them: values, deletions, keys that are
//       nowhere; where something is not read here, or a file is not resident, RocksDB is asked.
// Method: databases of several levels with versions that snapshots kept; all keys, present or not,
//         are looked up in all files and in some.
// Mutation: levels oldest first; level 0 as one level though files overlap; a part chosen by its
//           first key; the last version of a key; a stub that is passed over.
TEST(FileSet, SaysWhatRocksDbSays) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    for (const Config& config : kConfigs) {
      test_one(config, seed, exec::open_device(exec::DeviceKind::kHost, 0).take());
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Goal: the same with groups of lanes in any order, and where device and host have memories of
//       their own.
// Method: as above, on the simulator and on the fake GPU.
// Mutation: places of values by addresses of the host's.
TEST(FileSet, SaysTheSameOnDevices) {
  for (const std::uint64_t seed : testing::seeds_to_run(4)) {
    exec::FakeFaults faults;
    for (const Config& config : kConfigs) {
      test_one(config, seed, exec::sim::make_simulator_device(seed));
      test_one(config, seed, exec::fake::make_fake_device(&faults));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Goal: whichever operation of a device fails, it is said, and no memory is kept.
// Method: a small database read, listed and searched, with operation 1, 2, 3, ... failing.
// Mutation: an error that is dropped on the way out.
TEST(FileSet, AnyOperationMayFail) {
  Database database(kConfigs[3], /*seed=*/1);
  database.fill();
  exec::FakeFaults faults;
  const auto backend = backend_on(exec::fake::make_fake_device(&faults));
  const auto run = [&]() -> Status {
    auto levels = database.files();
    BRECCIA_TRY(read_files(backend.get(), &levels, [] { return true; }));
    BRECCIA_TAKE(const FileSetPtr set,
                 FileSet::make(backend, std::move(levels), std::make_shared<Usage>()));
    Found found(database.keys());
    return found.look_up(*set);
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

// Goal: of a file that is broken anywhere nothing is said that is not so.
// Method: one bit of each byte in turn of a table's file; it is refused, or says what it said.
// Mutation: checksums that are not looked at; handles that may lead out of the file.
TEST(FileSet, BrokenFilesSayNothingWrong) {
  for (const Config* const config : {&kConfigs[0], &kConfigs[5]}) {
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
    std::uint64_t refused = 0;
    std::uint64_t tried = 0;
    for (std::uint64_t at = 0; at < bytes.size(); at += step, ++tried) {
      std::string broken = bytes;
      broken[at] = static_cast<char>(broken[at] ^ (1 << at % 8));
      std::ofstream(file.path, std::ios::binary) << broken;
      FileReader::Room room{kAmple};
      auto read = FileReader(backend.get(), FileReader::kPieceBytes).read(file.path, &room, [] {
        return true;
      });
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
      file.resident = nullptr;
      if (::testing::Test::HasFailure()) FAIL() << "byte " << at;
    }
    EXPECT_GT(refused, tried / 2);
  }
}

// Goal: a file that needs more than there is room for is not read, nor one that is not wanted; and
//       none is listed whose ends no store can look for.
// Method: a small database; a file whose last key is longer than keys may be.
// Mutation: room that is looked at when the file was read; ends that are cut where lengths are.
TEST(FileSet, HasLimits) {
  Database database(kConfigs[0], /*seed=*/3);
  database.fill();
  const auto backend = host_backend();
  auto levels = database.files();
  const std::string path = levels.back().front().path;
  FileReader reader(backend.get(), FileReader::kPieceBytes);
  FileReader::Room room{0};
  const auto goes_on = [] { return true; };
  EXPECT_TRUE(reader.read(path, &room, goes_on).status().IsMemoryLimit());
  ASSERT_GT(room.bytes_needed, 0U);
  room.bytes_max = room.bytes_needed - 1;
  EXPECT_TRUE(reader.read(path, &room, goes_on).status().IsMemoryLimit());
  EXPECT_EQ(backend->tenant().used(), 0U);
  room.bytes_max = room.bytes_needed;
  EXPECT_TRUE(reader.read(path, &room, goes_on).ok());
  EXPECT_TRUE(reader.read(path, &room, [] { return false; }).status().IsShutdownInProgress());
  levels.back().back().last_key.append(200'000, 'z');
  const auto made = FileSet::make(backend, levels, std::make_shared<Usage>());
  EXPECT_TRUE(made.status().IsNotSupported());
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
}  // namespace breccia::residency
