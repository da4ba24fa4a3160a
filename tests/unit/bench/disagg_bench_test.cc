#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/disagg/flags.h"
#include "console/exit_codes.h"

namespace breccia::bench::disagg {
namespace {

/// Rows by indexes and name of a short run that is to end well.
using Rows = std::map<std::pair<std::string, std::string>, nlohmann::json>;
Rows rows_of(DisaggFlags flags) {
  flags.keys = 3000;
  flags.seconds = 0.1;
  flags.rounds = 1;
  flags.requests = 2000;
  flags.json = true;
  ::testing::internal::CaptureStdout();
  const int code = run_disagg(flags);
  std::istringstream lines(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(code, console::kExitOk);
  Rows rows;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    rows[{row["indexes"], row["benchmark"]}] = row;
    EXPECT_TRUE(!row.contains("operations") || row["operations"] > 0) << line;
    EXPECT_TRUE(!row.contains("operations") || row["r_units"] >= 0) << line;
  }
  return rows;
}

double number_in(const Rows& rows, const char* indexes, const std::string& name,
                 const char* field) {
  return rows.at({indexes, name}).at(field).get<double>();
}

// Goal: each figure is of what its name says: a lookup is two reads and none of the hash server's
//   work, one where the value was, and a range some more than its keys.
// Method: a short run of two clients.
// Mutation: a client that remembers nothing, or both of them; lookups behind a lost hash index that
//   are done by the hash index count.
TEST(DisaggBench, CountsReads) {
  DisaggFlags flags;
  flags.clients = "2";
  const Rows rows = rows_of(flags);
  const auto reads_of = [&](const char* name) {
    return number_in(rows, "both", name, "reads_per_op");
  };
  EXPECT_EQ(reads_of("fabric_read64"), 1);
  EXPECT_GE(reads_of("fabric_get"), 2);
  EXPECT_LT(reads_of("fabric_get"), 2.3);
  EXPECT_GE(reads_of("fabric_get_cached"), 1);
  EXPECT_LT(reads_of("fabric_get_cached"), 1.4);  // some keys share a place
  EXPECT_GE(reads_of("fabric_miss"), 2);
  EXPECT_GT(reads_of("fabric_scan100"), 50);
  const auto cpu_of = [&](const char* name) {
    return number_in(rows, "both", name, "hash_server_cpu_us_per_op");
  };
  EXPECT_LT(cpu_of("fabric_get"), cpu_of("fabric_put") / 4);
  EXPECT_GT(number_in(rows, "both", "fabric_fill", "keys_per_sec"), 0);
  for (const char* const name : {"fabric_rebuild_hash", "fabric_rebuild_ordered"}) {
    EXPECT_GT(number_in(rows, "both", name, "keys_per_sec"), 0);
    EXPECT_GT(number_in(rows, "both", name, "writes"), 0);
  }
  for (const char* const name : {"fabric_put_no_hash", "fabric_scan100_no_hash",
                                 "fabric_put_no_ordered", "fabric_get_no_ordered"}) {
    EXPECT_TRUE(rows.contains({"both", name})) << name;
  }
  // An index of so few keys may be whole before anybody looks.
  if (!rows.contains({"both", "fabric_get_no_hash"})) return;
  // Without an ordered index lookups are as ever, but too few for a median on a busy computer.
  EXPECT_GT(number_in(rows, "both", "fabric_get_no_hash", "p10_us"),
            2 * number_in(rows, "both", "fabric_get", "p50_us"));
}

// Goal: figures of batches are of each key: as many reads as of one alone, and less of the servers'
//   work; also where keys are divided.
// Method: a short run of two clients, of one shard and of three.
// Mutation: figures of whole batches; a client that remembers nothing; shards that are one.
TEST(DisaggBench, CountsEachKeyOfABatch) {
  for (const std::uint32_t shards : {1U, 3U}) {
    DisaggFlags flags;
    flags.clients = "2";
    flags.shards = shards;
    flags.workloads = "basic,batches";
    const Rows rows = rows_of(flags);
    for (const std::string size : {"32", "256"}) {
      const auto number_of = [&](const std::string& name, const char* field) {
        return number_in(rows, "both", "fabric_" + name, field);
      };
      EXPECT_EQ(number_of("multiget" + size, "batch"), std::stoi(size));
      EXPECT_EQ(number_of("multiget" + size, "shards"), shards);
      EXPECT_GE(number_of("multiget" + size, "reads_per_op"), 2);
      EXPECT_LT(number_of("multiget" + size, "reads_per_op"), 2.3);
      EXPECT_GE(number_of("multiget" + size + "_cached", "reads_per_op"), 1);
      EXPECT_LT(number_of("multiget" + size + "_cached", "reads_per_op"), 1.4);
      EXPECT_LT(number_of("multiput" + size, "hash_server_cpu_us_per_op"),
                number_of("put", "hash_server_cpu_us_per_op") / 2);
      EXPECT_LT(number_of("multiput" + size, "r_units"), number_of("put", "r_units"));
    }
    // A range of 100 keys waits for a watermark of each shard.
    const double reads = number_in(rows, "both", "fabric_scan100", "reads_per_op");
    EXPECT_GT(reads, 50 + shards);
  }
}

// Goal: the same over a network, which the rows name, and R is a read over it.
// Method: TCP of this computer; a reading of its memory takes more than ten times as long as one of
//   shared memory.
// Mutation: ports that are opened by shared memory nevertheless.
TEST(DisaggBench, IsOverTheNetworkThatIsNamed) {
  DisaggFlags flags;
  flags.workloads = "basic";
  const Rows shared = rows_of(flags);
  flags.network.transport = "libfabric";
  flags.network.provider = "tcp;ofi_rxm";
  flags.network.node = "127.0.0.1";
  const Rows rows = rows_of(flags);
  EXPECT_EQ(rows.at({"both", "fabric_get"}).at("network"), "libfabric: tcp;ofi_rxm (software)");
  EXPECT_GE(number_in(rows, "both", "fabric_get", "reads_per_op"), 2);
  EXPECT_GT(number_in(rows, "both", "fabric_read64", "p50_us"),
            10 * number_in(shared, "both", "fabric_read64", "p50_us"));
}

// Goal: each index alone does what it is there for: lookups of a hash index are two reads, of an
//   ordered one that is asked one, and of one that is read one for each level, or one of those by a
//   client that remembers the inner ones; who has no part in it does no work.
// Method: a short run of each, with the store itself before.
// Mutation: a hash index that ships its writes; an ordered one that is read instead of asked; a
//   client that remembers no nodes.
TEST(DisaggBench, ComparesIndexes) {
  DisaggFlags flags;
  flags.indexes = "both,sync,hash,ordered_rpc,ordered_reads";
  flags.workloads = "basic";
  const Rows rows = rows_of(flags);
  const auto reads_of = [&](const char* indexes, const char* name) {
    return number_in(rows, indexes, name, "reads_per_op");
  };
  for (const char* const indexes : {"both", "sync", "hash"}) {
    EXPECT_GE(reads_of(indexes, "fabric_get"), 2);
    EXPECT_LT(reads_of(indexes, "fabric_get"), 2.3);
  }
  EXPECT_EQ(reads_of("ordered_rpc", "fabric_get"), 1);
  EXPECT_EQ(reads_of("ordered_rpc", "fabric_miss"), 0);
  EXPECT_GE(reads_of("ordered_reads", "fabric_get"), 3);
  EXPECT_GE(reads_of("ordered_reads", "fabric_get_cached"), 2);
  EXPECT_LT(reads_of("ordered_reads", "fabric_get_cached"), 2.1);
  EXPECT_FALSE(rows.contains({"hash", "fabric_scan100"}));
  EXPECT_FALSE(rows.contains({"ordered_rpc", "fabric_get_cached"}));
  EXPECT_GT(reads_of("ordered_reads", "fabric_scan100"), reads_of("ordered_rpc", "fabric_scan100"));
  const auto cpu_of = [&](const char* indexes, const char* name, const char* server) {
    return number_in(rows, indexes, name, server);
  };
  constexpr const char *kHash = "hash_server_cpu_us_per_op",
                       *kOrdered = "ordered_server_cpu_us_per_op";
  EXPECT_EQ(cpu_of("hash", "fabric_put", kOrdered), 0);
  EXPECT_EQ(cpu_of("ordered_rpc", "fabric_put", kHash), 0);
  EXPECT_GT(cpu_of("ordered_rpc", "fabric_get", kOrdered),
            4 * cpu_of("ordered_reads", "fabric_get", kOrdered));
  for (const auto& [of, row] : rows) {
    if (of.second == "fabric_fill") continue;
    EXPECT_EQ(row.contains("both_times"), of.first != "both") << of.first << " " << of.second;
  }
  EXPECT_GT(number_in(rows, "ordered_rpc", "fabric_get", "both_times"), 1.5);
}

// Goal: YCSB's workloads run to their ends on all indexes that have what they want, one behind the
//   other, and have their parts and shares; what is inserted is gone behind them.
// Method: a short run of two clients; behind it the keys are counted that a new index has.
// Mutation: inserted records that stay; updates in C.
TEST(DisaggBench, RunsYcsb) {
  DisaggFlags flags;
  flags.clients = "2";
  flags.indexes = "both,hash,ordered_rpc,ordered_reads";
  flags.workloads = "a,b,c,f,d,e,rebuild";
  const Rows rows = rows_of(flags);
  using Shares = std::map<std::string, double>;
  const std::map<std::string, Shares> parts = {{"a", {{"read", 0.5}, {"update", 0.5}}},
                                               {"b", {{"read", 0.95}, {"update", 0.05}}},
                                               {"c", {}},
                                               {"d", {{"read", 0.95}, {"insert", 0.05}}},
                                               {"e", {{"scan", 0.95}, {"insert", 0.05}}},
                                               {"f", {{"read", 0.5}, {"read_modify_write", 0.5}}}};
  for (const char* const indexes : {"both", "hash", "ordered_rpc", "ordered_reads"}) {
    for (const auto& [letter, of] : parts) {
      const bool has_it = letter != "e" || std::string(indexes) != "hash";
      const bool remembers = has_it && std::string(indexes) != "ordered_rpc";
      EXPECT_EQ(rows.contains({indexes, "fabric_ycsb_" + letter}), has_it) << indexes << letter;
      EXPECT_EQ(rows.contains({indexes, "fabric_ycsb_" + letter + "_cached"}), remembers);
      for (const auto& [named, row] : rows) {
        const std::string begin = "fabric_ycsb_" + letter + "_";
        if (named.first != indexes || !named.second.starts_with(begin)) continue;
        const std::string part = named.second.substr(begin.size());
        EXPECT_TRUE(part.starts_with("cached") || of.contains(part)) << part;
      }
      if (!has_it || of.empty()) continue;
      const double all = number_in(rows, indexes, "fabric_ycsb_" + letter, "operations");
      double sum = 0;
      for (const auto& [part, share] : of) {
        const std::string name = "fabric_ycsb_" + letter + "_" + part;
        // Where there were few requests none may be of this one.
        const bool is_there = rows.contains({indexes, name});
        const double some = is_there ? number_in(rows, indexes, name, "operations") : 0;
        if (all > 500) {
          EXPECT_NEAR(some / all, share, 0.1) << name;
        }
        sum += some;
      }
      EXPECT_EQ(sum, all);
    }
  }
}

// Goal: phases of all operations are there, and together all of them.
TEST(DisaggBench, SaysWhereTimeGoes) {
  DisaggFlags flags;
  flags.clients = "2";
  flags.workloads = "phases";
  const Rows rows = rows_of(flags);
  const std::map<std::string, std::vector<std::string>> phases = {
      {"get", {"bucket", "block", "rest"}},
      {"put", {"value", "rpc", "queue", "commit", "log", "mark", "apply", "rest"}},
      {"scan100", {"index", "values", "watermark", "rest"}}};
  for (const auto& [operation, of] : phases) {
    double share = 0;
    for (const std::string& phase : of) {
      share += number_in(rows, "both", "fabric_" + operation + "_phase_" + phase, "share_percent");
    }
    EXPECT_NEAR(share, 100, 0.001);
    const std::string whole = "fabric_" + operation + "_phase";
    const double known = number_in(rows, "both", whole + "_" + of.front(), "operations");
    // Clients remember what they did of some 65,000 lookups each.
    constexpr double kRemembered = 100'000;
    const double all = number_in(rows, "both", whole, "operations");
    EXPECT_GT(known, 0.9 * std::min(all, kRemembered));
  }
}

TEST(DisaggBench, SaysWhatIsWrong) {
  DisaggFlags flags;
  flags.value_sizes = "8";
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.clients = "0";
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.seconds = 0;
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.indexes = "both,none";
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.workloads = "g";
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);
  flags = DisaggFlags();
  flags.shards = 2;
  EXPECT_EQ(run_disagg(flags), console::kExitUsage);  // rebuilds are of one
}

}  // namespace
}  // namespace breccia::bench::disagg
