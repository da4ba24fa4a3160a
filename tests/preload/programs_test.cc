#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "preload/settings.h"
#include "program.h"

namespace breccia::testing {

namespace {

/// True if a command says that there is no GPU, where none is to be seen.
bool misses_gpu(Library library, const Folder& folder, const std::string& command,
                const std::string& environment) {
  const Ran ran =
      run(library, folder, command, "BRECCIA_BACKEND=auto CUDA_VISIBLE_DEVICES= " + environment);
  EXPECT_EQ(ran.code, 0) << command << '\n' << ran.err;
  return ran.err.find("no GPU in use") != std::string::npos;
}

}  // namespace

// Goal: ldb does under the preload what it does with RocksDB.
// Method: one script of commands on each; all that it says is compared.
// Mutation: showing the hidden family, or losing it when ldb writes to a database that it opened
// for reading (create_column_family), fails.
TEST(PreloadPrograms, Ldb) {
  const std::vector<std::string> script = {
      "put --create_if_missing hello world",
      "get hello",
      "put --try_load_options again world2",
      "get --try_load_options again",
      "delete hello",
      "get hello",
      "batchput a 1 b 2 c 3",
      "scan --from=a --to=c",
      "create_column_family one",
      "--column_family=one put x y",
      "--column_family=one get x",
      "list_column_families",
      "--column_family=one --try_load_options put z y",
      "--column_family=one scan",
      "deleterange a b",
      "scan",
      "compact",
      "dump",
      "dump --count_only",
      "idump --count_only --from=a --to=z",
      "drop_column_family one",
      "list_column_families",
      "checkpoint --checkpoint_dir=copy",
      "backup --backup_dir=backup",
      "restore --backup_dir=backup",
      "get b",
      "put more 1",
      "get more",
      "checkconsistency",
      "put --create_if_missing --merge_operator=nonsense x",
  };
  std::map<Library, std::string> transcripts;
  for (const Library library : {Library::kRocksDb, Library::kBreccia}) {
    const Folder folder(Place::kMemory);
    for (const std::string& command : script) {
      if (command.starts_with("restore")) std::filesystem::remove_all(folder / "db");
      const Ran ran = run(library, folder, "ldb --db=db " + command, "BRECCIA_QUIET=1");
      transcripts[library] +=
          "$ " + command + "\n" + std::to_string(ran.code) + "\n" + ran.out + ran.err;
    }
    expect_consistent(folder);
    EXPECT_EQ(has_family(folder, "breccia.watermark"), library == Library::kBreccia);
    const Ran copy = run(library, folder, "ldb --db=copy scan", "BRECCIA_QUIET=1");
    transcripts[library] += copy.out + copy.err;
  }
  EXPECT_EQ(transcripts[Library::kRocksDb], transcripts[Library::kBreccia]);
}

// Goal: a program that opens no database is left alone.
// Method: sst_dump on a file, with and without.
// Mutation: a line on standard output fails.
TEST(PreloadPrograms, SstDump) {
  const Folder folder(Place::kMemory);
  db_bench(Library::kBreccia, folder, "--benchmarks=fillseq", "");
  constexpr char kDump[] = "sst_dump --file=db --command=scan --read_num=50";
  const Ran with = run(Library::kBreccia, folder, kDump, "");
  const Ran without = run(Library::kRocksDb, folder, kDump, "");
  EXPECT_EQ(with.code, 0);
  // The first line holds an address.
  EXPECT_TRUE(with.out.substr(with.out.find('\n')) == without.out.substr(without.out.find('\n')));
  EXPECT_EQ(with.err, without.err);
  EXPECT_GT(with.out.size(), 1000U);
}

// Goal: what cannot run on breccia says so and harms nothing.
// Method: an Env of the program's, a wrong variable; BlobDB, RocksDB's optimistic transactions, TTL
//          and repair on a store and on none.
// Mutation: letting RocksDB's transactions open a store loses its log's writes.
TEST(PreloadPrograms, WhatIsRefused) {
  const Folder folder(Place::kMemory);
  constexpr char kFill[] = "db_bench --db=db --num=100 --benchmarks=fillseq ";
  const auto expect_error = [&](const std::string& command, const std::string& environment,
                                const std::string& words) {
    const Ran ran = run(Library::kBreccia, folder, command, environment);
    EXPECT_NE(ran.code, 0) << command;
    EXPECT_NE(ran.err.find(words), std::string::npos) << command << '\n' << ran.err << ran.out;
  };
  expect_error(std::string(kFill) + "--report_file_operations", "", "Env::Default()");
  expect_error(std::string(kFill) + "--use_plain_table --mmap_read", "", "block-based tables");
  expect_error(std::string(kFill) + "--user_timestamp_size=8", "", "the default comparator");
  expect_error(kFill, "BRECCIA_BACKEND=fpga", "BRECCIA_BACKEND is `fpga`");
  EXPECT_FALSE(std::filesystem::exists(folder / "db/CURRENT"));

  const Ran theirs = run(Library::kBreccia, folder, std::string(kFill) + "--use_blob_db", "");
  EXPECT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_NE(theirs.err.find("RocksDB alone serves db"), std::string::npos) << theirs.err;
  EXPECT_FALSE(has_family(folder, "breccia.watermark"));

  db_bench(Library::kBreccia, folder, "--num=100 --benchmarks=fillseq", "BRECCIA_FLUSH_AT_CLOSE=0");
  constexpr char kAgain[] = "db_bench --db=db --num=100 --benchmarks=overwrite --use_existing_db ";
  expect_error(std::string(kAgain) + "--optimistic_transaction_db", "", "is a store of breccia's");
  expect_error(std::string(kAgain) + "--use_blob_db", "", "is a store of breccia's");
  expect_error("ldb --db=db --ttl scan", "", "is a store of breccia's");
  expect_error("ldb --db=db repair", "", "restore a backup");
  db_bench(Library::kBreccia, folder, "--num=100 --benchmarks=readrandom --use_existing_db", "");
  EXPECT_EQ(contents(folder).size(), 100U);
}

// Goal: BRECCIA_PRELOAD=0 is RocksDB, and BRECCIA_QUIET=1 is silent.
// Method: what the runs say and leave.
// Mutation: reading neither variable fails.
TEST(PreloadPrograms, OffAndQuiet) {
  const Folder folder(Place::kMemory);
  const Ran off = db_bench(Library::kBreccia, folder, "--benchmarks=fillseq", "BRECCIA_PRELOAD=0");
  EXPECT_EQ(off.err.find("breccia"), std::string::npos) << off.err;
  EXPECT_FALSE(has_family(folder, "breccia.watermark"));
  constexpr char kNotice[] = "grep -c 'breccia serves' db/LOG";
  EXPECT_EQ(run(Library::kRocksDb, folder, kNotice, "").out, "0\n");
  const Ran quiet = db_bench(Library::kBreccia, folder, "--benchmarks=fillseq", "BRECCIA_QUIET=1");
  EXPECT_EQ(run(Library::kRocksDb, folder, kNotice, "").out, "1\n");
  EXPECT_EQ(quiet.err.find("breccia"), std::string::npos) << quiet.err;
  EXPECT_TRUE(has_family(folder, "breccia.watermark"));
}

// Goal: the library says what it always says from BRECCIA_LOG_LEVEL on, from `warning` on without
//       it.
// Method: a run that misses a GPU, which is said with level `info`; with `info` and without.
// Mutation: raising the level whatever was asked for fails.
TEST(PreloadPrograms, LogLevel) {
  const Folder folder(Place::kMemory);
  const auto says_info = [&](const std::string& level) {
    return misses_gpu(Library::kBreccia, folder,
                      "db_bench --db=db --num=5000 --batch_size=5000 --benchmarks=fillseq", level);
  };
  EXPECT_TRUE(says_info("BRECCIA_LOG_LEVEL=info"));
  EXPECT_FALSE(says_info("BRECCIA_LOG_LEVEL=warning"));
  EXPECT_FALSE(says_info("env -u BRECCIA_LOG_LEVEL"));
}

// Goal: that there is no GPU is said where one would be used, and nowhere else.
// Method: db_bench and the program, with single requests and with batches.
// Mutation: saying it when a database opens fails those with single requests.
TEST(PreloadPrograms, MissesAGpuWhereItWouldUseOne) {
  const Folder folder(Place::kMemory);
  const auto db_bench_misses = [&](const std::string& flags) {
    return misses_gpu(Library::kBreccia, folder,
                      "db_bench --db=db --num=5000 --benchmarks=fillseq " + flags,
                      "BRECCIA_LOG_LEVEL=info");
  };
  EXPECT_FALSE(db_bench_misses(""));
  EXPECT_TRUE(db_bench_misses("--batch_size=5000"));
  const auto program_misses = [&](const std::string& words) {
    return misses_gpu(Library::kRocksDb, folder, BRECCIA_PROGRAM " " + words,
                      "BRECCIA_LOG_LEVEL=info");
  };
  std::ofstream records(folder / "records.tsv");
  for (int i = 0; i < 5000; ++i) records << i << "\t1\n";
  records.close();
  const std::string import = "import --db=store --format=tsv records.tsv --batch-size=";
  EXPECT_FALSE(program_misses(import + "10"));
  EXPECT_TRUE(program_misses(import + "5000"));
  EXPECT_FALSE(program_misses("get --db=store 17"));
  EXPECT_FALSE(program_misses("put --backend=auto --db=store a 1"));
  EXPECT_FALSE(program_misses("detach --db=store"));
}

// Goal: the library stands before the functions that docs/preload.md names, and nothing else.
// Method: its dynamic symbols.
// Mutation: a missing `local: *` in exports.map fails.
TEST(PreloadPrograms, Symbols) {
  const Folder folder(Place::kMemory);
  const Ran ran = run(Library::kRocksDb, folder,
                      "sh -c 'set -- " BRECCIA_PRELOAD_LIBRARY
                      "; shift $(($# - 1)); nm -D --defined-only -C $1'",
                      "");
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::set<std::string> names;
  for (const std::string& symbol : matches(ran.out, " [A-Z] [^(\n]*")) {
    names.insert(symbol.substr(3));
  }
  EXPECT_EQ(
      names,
      (std::set<std::string>{
          "rocksdb::DB::ListColumnFamilies", "rocksdb::DB::Open", "rocksdb::DB::OpenAndTrimHistory",
          "rocksdb::DB::OpenForReadOnly", "rocksdb::DBWithTTL::Open", "rocksdb::DestroyDB",
          "rocksdb::LoadOptionsFromFile", "rocksdb::OptimisticTransactionDB::Open",
          "rocksdb::RepairDB", "rocksdb::TransactionDB::Open", "rocksdb::TransactionDB::WrapDB",
          "rocksdb::TransactionDB::WrapStackableDB", "rocksdb::blob_db::BlobDB::Open"}));
}

namespace {

Result<preload::Settings> settings_from(const std::map<std::string, std::string>& variables) {
  return preload::read_settings([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

}  // namespace

// Goal: every variable reaches its option, and a wrong value is an error.
// Method: all of them at once, then values at the edges of what a number may be.
// Mutation: a unit off by one power, or an overflow that wraps, fails.
TEST(PreloadSettings, Variables) {
  const auto all = settings_from({{"BRECCIA_BACKEND", "cuda"},
                                  {"BRECCIA_FLUSH_AT_CLOSE", "0"},
                                  {"BRECCIA_DEVICE", "1"},
                                  {"BRECCIA_DEVICE_REQUESTS_MIN", "77"},
                                  {"BRECCIA_DEVICE_BYTES", "3G"},
                                  {"BRECCIA_MEMTABLE_BYTES", "512M"},
                                  {"BRECCIA_CLEAN_BYTES", "0"},
                                  {"BRECCIA_LOG_PREALLOCATE", "64K"},
                                  {"BRECCIA_FLUSH_THREADS", "3"},
                                  {"BRECCIA_LOG_DIR", "/logs"}});
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  Options options;
  preload::apply(all.value(), "/data/db", &options);
  EXPECT_EQ(options.backend, BackendChoice::kCuda);
  EXPECT_FALSE(options.flush_at_close);
  EXPECT_EQ(options.device, 1);
  EXPECT_EQ(options.device_requests_min, 77U);
  EXPECT_EQ(options.device_bytes_max, 3ULL << 30);
  EXPECT_EQ(options.memtable_bytes, 512ULL << 20);
  EXPECT_EQ(options.clean_bytes, 0U);
  EXPECT_EQ(options.log_preallocate_bytes, 64ULL << 10);
  EXPECT_EQ(options.flush_threads, 3);
  EXPECT_TRUE(options.wal_dir.starts_with("/logs/db-"));
  Options other;
  preload::apply(all.value(), "/data2/db", &other);
  EXPECT_NE(other.wal_dir, options.wal_dir);
  preload::apply(all.value(), "/data2/../data/./db/", &other);
  EXPECT_EQ(other.wal_dir, options.wal_dir);

  const auto none = settings_from({});
  ASSERT_TRUE(none.ok());
  options = Options();
  options.memtable_bytes = 5;
  preload::apply(none.value(), "/data/db", &options);
  EXPECT_TRUE(options.flush_at_close);
  EXPECT_EQ(options.memtable_bytes, 5U);
  EXPECT_FALSE(options.clean_bytes.has_value());
  EXPECT_EQ(options.wal_dir, "");

  for (const char* const value : {"", "x", "-1", "1.5", "64MB", "M", "99999999999999999999",
                                  "18014398509481984K", "0x10", " 1"}) {
    EXPECT_TRUE(settings_from({{"BRECCIA_MEMTABLE_BYTES", value}}).status().IsInvalidArgument())
        << value;
  }
  EXPECT_TRUE(settings_from({{"BRECCIA_MEMTABLE_BYTES", "18014398509481983K"}}).ok());
  EXPECT_TRUE(
      settings_from({{"BRECCIA_FLUSH_THREADS", "2147483648"}}).status().IsInvalidArgument());
  EXPECT_TRUE(settings_from({{"BRECCIA_PRELOAD", "off"}}).status().IsInvalidArgument());
}

}  // namespace breccia::testing
