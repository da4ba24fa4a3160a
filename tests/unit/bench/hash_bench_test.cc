#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/commands.h"
#include "bench/hash/chooser.h"
#include "bench/hash/flags.h"
#include "bench/hash/ledger.h"
#include "bench/hash/rmat.h"
#include "bench/hash/run.h"
#include "bench/hash/workloads.h"
#include "bench/hash/zipf.h"
#include "console/app.h"
#include "console/exit_codes.h"
#include "exec/fake/fake_device.h"
#include "hash/backend.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::bench::tables {
namespace {

using hash::Code;
using hash::Operation;
using Rows = std::vector<nlohmann::json>;

HashFlags small() {
  HashFlags flags;
  flags.backend = "host";
  flags.entries = 3000;
  flags.load_percents = "70";
  flags.batch_sizes = "256,5000";
  flags.rounds = 1;
  flags.json = true;
  return flags;
}

Rows rows_of(const HashFlags& flags) {
  ::testing::internal::CaptureStdout();
  const int code = run_hash(flags);
  std::istringstream lines(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(code, console::kExitOk);
  Rows rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

std::map<std::string, int> counts_of(const Rows& rows) {
  std::map<std::string, int> counts;
  for (const auto& row : rows) ++counts[row["benchmark"]];
  return counts;
}

// Goal: ranks have Zipf's frequencies for all thetas, 1 and more among them.
// Method: of 200,000 draws, each of the first ranks and ranges of the others, within five
//         standard deviations, and ten for what is rare, of what the sum says; many items and few.
// Mutation: an integral in the place of the sum (ycsb_generators.h), or a hat without rejection,
//           fails at the third rank.
TEST(ExactZipf, Frequencies) {
  constexpr int kDraws = 200'000;
  for (const std::uint64_t seed : ::breccia::testing::seeds_to_run(3)) {
    for (const double theta : {0.0, 0.5, 0.99, 1.0, 1.2, 2.0}) {
      for (const std::uint64_t items : {1ULL, 2ULL, 3ULL, 100'000ULL}) {
        SCOPED_TRACE(::testing::Message() << seed << " " << theta << " " << items);
        base::Random random(base::mix64(seed) + items);
        const ExactZipf zipf(items, theta);
        std::vector<double> drawn(items);
        for (int i = 0; i < kDraws; ++i) {
          const std::uint64_t rank = zipf.next(&random);
          ASSERT_LT(rank, items);
          ++drawn[rank];
        }
        const double total = zeta(0, items, theta);
        for (std::uint64_t from = 0, to = 1; from < items;
             from = to, to = std::min(items, to < 16 ? to + 1 : to * 2)) {
          const double share = zeta(from, to, theta) / total;
          const double count = std::accumulate(drawn.begin() + static_cast<long>(from),
                                               drawn.begin() + static_cast<long>(to), 0.0);
          EXPECT_NEAR(count, kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share)) + 10)
              << from;
        }
      }
    }
  }
}

// Goal: popular keys lie anywhere, and each key is one of the table's.
// Method: the ten most popular of a thousand are not the first ten, and differ between seeds.
// Mutation: ranks taken for keys fail.
TEST(HashChooser, PopularKeysLieAnywhere) {
  std::array<std::uint64_t, 2> favourite{};
  for (const std::uint64_t seed : {1U, 2U}) {
    Chooser chooser({"zipf", 1.2}, 1000, seed);
    std::map<std::uint64_t, int> counts;
    for (const std::uint64_t key : chooser.draw(100'000)) ++counts[key];
    EXPECT_LT(counts.rbegin()->first, 1000U);
    for (const auto& [key, count] : counts) {
      if (count > counts[favourite[seed - 1]]) favourite[seed - 1] = key;
    }
    EXPECT_GT(counts[favourite[seed - 1]], 100'000 / 6);
  }
  EXPECT_NE(favourite[0], favourite[1]);
  Chooser chooser({"uniform", 0}, 1000, 1);
  const auto once = chooser.once(1000);
  EXPECT_EQ(std::set<std::uint64_t>(once.begin(), once.end()).size(), 1000U);
  EXPECT_NE(once, chooser.once(1000));
}

// A ledger of ten keys of 8 + 16 bytes, and answers as a table would give them.
class LedgerTest : public ::testing::Test {
 protected:
  // All requests in one step.
  Trace trace(std::vector<std::uint64_t> order, Operation all) {
    return trace_of(std::move(order), 100, all);
  }
  void answer(Answers* answers, std::uint64_t key, std::uint32_t version) const {
    answers->codes.push_back(version == 0 ? Code::kAbsent : Code::kPresent);
    for (std::uint64_t w = 0; w < 2; ++w) {
      answers->found.push_back(version == 0 ? 0 : Keys::word(keys_.first_word(key, version), w));
    }
  }
  Answers answers(const Trace& trace, const std::vector<std::uint32_t>& versions) const {
    Answers all;
    for (std::size_t i = 0; i < versions.size(); ++i) answer(&all, trace.order[i], versions[i]);
    return all;
  }
  // Keys 0 and 1 of version 1.
  Ledger ledger() {
    Ledger ledger(keys_, 10);
    const Trace both = trace({0, 1}, Operation::kInsert);
    EXPECT_EQ(ledger.version_of(0), 1U);
    EXPECT_TRUE(ledger.check("", both, answers(both, {0, 0}), false, &refused_).ok());
    return ledger;
  }
  bool agrees(Ledger ledger, const Trace& trace, const std::vector<std::uint32_t>& versions) {
    return ledger.check("", trace, answers(trace, versions), false, &refused_).ok();
  }

  const Keys keys_{7, 8, 16};
  std::uint64_t refused_ = 0;
};

// Goal: answers that no order of requests explains are found, and all others pass.
// Method: each way to be wrong, beside one that is right.
// Mutation: leaving out one of the looks accepts its example.
TEST_F(LedgerTest, FindsWhatCannotBe) {
  const Trace finds = trace({0, 5, 12}, Operation::kFind);
  EXPECT_TRUE(agrees(ledger(), finds, {1, 0, 0}));
  EXPECT_FALSE(agrees(ledger(), finds, {0, 0, 0}));
  EXPECT_FALSE(agrees(ledger(), finds, {2, 0, 0}));
  EXPECT_FALSE(agrees(ledger(), finds, {1, 1, 0}));
  EXPECT_FALSE(agrees(ledger(), finds, {1, 0, 1}));
  const Trace updates = trace({0, 0, 5}, Operation::kUpdate);
  EXPECT_TRUE(agrees(ledger(), updates, {1, 2, 0}));
  EXPECT_TRUE(agrees(ledger(), updates, {2, 1, 0}));
  EXPECT_FALSE(agrees(ledger(), updates, {1, 1, 0}));  // both changed it
  EXPECT_FALSE(agrees(ledger(), updates, {2, 2, 0}));  // nobody did
  EXPECT_FALSE(agrees(ledger(), updates, {1, 2, 2}));
  const Trace deletions = trace({1, 1}, Operation::kDelete);
  EXPECT_TRUE(agrees(ledger(), deletions, {0, 1}));
  EXPECT_FALSE(agrees(ledger(), deletions, {0, 0}));
  EXPECT_FALSE(agrees(ledger(), deletions, {1, 1}));
  const Trace insertions = trace({0, 5, 5}, Operation::kInsert);
  EXPECT_TRUE(agrees(ledger(), insertions, {1, 0, 2}));
  EXPECT_FALSE(agrees(ledger(), insertions, {2, 0, 2}));
  EXPECT_FALSE(agrees(ledger(), insertions, {1, 0, 0}));
  Trace mixed;
  mixed.order = {0, 0, 0};
  mixed.operations = {Operation::kFind, Operation::kUpdate, Operation::kFind};
  mixed.cut_mixed(100);
  EXPECT_TRUE(agrees(ledger(), mixed, {1, 1, 2}));
  EXPECT_FALSE(agrees(ledger(), mixed, {3, 1, 2}));
  EXPECT_FALSE(agrees(ledger(), mixed, {1, 2, 2}));
}

// Goal: a step is looked at as behind the one before, every word, and refusals where they may be.
// Method: an update in each of two steps; the second word of a value; a key without room.
// Mutation: versions that are not kept, a look at first words alone, a refused key taken for
//           present, fail.
TEST_F(LedgerTest, KeepsWhatStepsLeave) {
  Trace two = trace_of({0, 0}, 1, Operation::kUpdate);
  EXPECT_TRUE(agrees(ledger(), two, {1, 2}));
  EXPECT_FALSE(agrees(ledger(), two, {1, 1}));
  EXPECT_FALSE(agrees(ledger(), two, {2, 1}));
  Ledger one = ledger();
  const Trace find = trace({0}, Operation::kFind);
  Answers wrong = answers(find, {1});
  ++wrong.found[1];
  EXPECT_FALSE(one.check("", find, wrong, false, &refused_).ok());
  const Trace insert = trace({3}, Operation::kInsert);
  Answers full = answers(insert, {0});
  full.codes[0] = Code::kNoRoom;
  EXPECT_FALSE(ledger().check("", insert, full, false, &refused_).ok());
  Ledger other = ledger();
  EXPECT_TRUE(other.check("", insert, full, true, &refused_).ok());
  EXPECT_EQ(refused_, 1U);
  EXPECT_TRUE(other.has(0));
  EXPECT_FALSE(other.has(3));
}

// Goal: operations are measured for all sizes, distributions and batches, and all rows say of what.
// Method: the rows of small tables; more requests than columns have room for.
// Mutation: a row that is left out, of another batch, or without its percentiles fails.
TEST(HashBench, Operations) {
  for (const char* const key_size : {"8", "4", "32"}) {
    for (const char* const value_size : {"8", "24"}) {
      HashFlags flags = small();
      flags.key_sizes = key_size;
      flags.value_sizes = value_size;
      flags.distribution = "zipf";
      flags.skews = "0.5,1.2";
      flags.requests = 7000;
      const Rows rows = rows_of(flags);
      const auto counts = counts_of(rows);
      EXPECT_EQ(counts.at("hash_insert"), 2);
      for (const char* const name : {"find", "update", "mixed", "miss", "delete"}) {
        EXPECT_EQ(counts.at(std::string("hash_") + name), 4) << name;
      }
      for (const auto& row : rows) {
        EXPECT_EQ(row["engine"], "breccia");
        EXPECT_EQ(std::to_string(row["key_size"].get<int>()), key_size);
        EXPECT_EQ(std::to_string(row["value_size"].get<int>()), value_size);
        EXPECT_NEAR(row["load_factor"], 0.7, 0.01);
        EXPECT_LE(row["p50_us"].get<double>(), row["p99_us"].get<double>());
        EXPECT_LE(row["p99_us"].get<double>(), row["max_us"].get<double>());
        if (row["benchmark"] != "hash_find") continue;
        EXPECT_EQ(row["requests"], 7000);
        EXPECT_EQ(row["calls"], row["batch_size"] == 256 ? 28 : 3);  // columns end at 3000
        EXPECT_TRUE(row["batch_size"] == 256 || row["batch_size"] == 3000);
        EXPECT_TRUE(row["skew"] == 0.5 || row["skew"] == 1.2);
      }
    }
  }
}

// Goal: no answer is unlooked at.
// Method: a key is changed, and another one deleted, behind the ledger's back.
// Mutation: a run that does not ask the ledger, or not with what was found, passes.
TEST(HashBench, WrongAnswersAreErrors) {
  const auto backend = hash::make_host_backend();
  HashFlags flags = small();
  for (const std::uint32_t value_bytes : {8U, 24U}) {
    for (const Operation wrong : {Operation::kUpdate, Operation::kDelete}) {
      tables::Run run(flags, *backend, Whose::kBreccia, {70, 4, 8, value_bytes}, 1);
      ASSERT_TRUE(run.make_columns().ok());
      ASSERT_TRUE(fill(run, 0, 256).ok());
      const Trace find = trace_of({1, 2, 5, 4}, 256, Operation::kFind);
      Timing timing;
      ASSERT_TRUE(run.run("find", find, &timing).ok());
      ASSERT_TRUE(run.put(trace_of({5}, 1, wrong), [](std::uint64_t) { return 77; }).ok());
      ASSERT_TRUE(run.send(trace_of({5}, 1, wrong), &timing, nullptr).ok());
      const Status status = run.run("find", find, &timing);
      EXPECT_TRUE(status.IsCorruption()) << status.ToString();
      EXPECT_NE(status.ToString().find("request 2"), std::string::npos) << status.ToString();
    }
  }
}

// Goal: YCSB's workloads have their shares of requests, on one table, and leave it as it was.
// Method: rows for keys and values in slots and in rows, in batches that end within a slab, and in
//         one that is larger; each answer is looked at by the ledger.
// Mutation: a read-modify-write that counts twice or always writes, keys of D that stay, finds of
//           what is not there yet, fail.
TEST(HashBench, Ycsb) {
  for (const char* const key_size : {"8", "24"}) {
    HashFlags flags = small();
    flags.workloads = "d,f,a,load,b,c";
    flags.key_sizes = key_size;
    flags.requests = 7010;
    flags.skews = "0.99,1.2";
    const Rows rows = rows_of(flags);
    const auto counts = counts_of(rows);
    EXPECT_EQ(counts.at("hash_ycsb_load"), 2);
    double load = 0;
    for (const auto& row : rows) {
      const std::string name = row["benchmark"];
      const bool is_d = name == "hash_ycsb_d";
      if (name == "hash_ycsb_load") load = row["load_factor"];
      EXPECT_EQ(row["distribution"], name == "hash_ycsb_load" ? "uniform"
                                     : is_d                   ? "latest"
                                                              : "zipf");
      EXPECT_EQ(row["requests"], name == "hash_ycsb_load" ? 3000 : 7010);
      if (is_d) {
        EXPECT_GT(row["load_factor"].get<double>(), 1.1 * load);
      } else {
        EXPECT_EQ(row["load_factor"], load);
      }
      if (name != "hash_ycsb_load") {
        const std::map<char, double> updates = {
            {'a', .5}, {'b', .05}, {'c', 0}, {'d', 0}, {'f', .5}};
        EXPECT_NEAR(row["updates"].get<double>() / 7010, updates.at(name.back()), 0.03) << name;
        EXPECT_NEAR(row["inserts"].get<double>(), is_d ? 7010 / 20 : 0, is_d ? 2 : 0) << name;
      }
      if (name == "hash_ycsb_f") {
        EXPECT_TRUE(row["batch_size"] == 256 || row["batch_size"] == 1500);  // and as many updates
        EXPECT_EQ(row["calls"], row["batch_size"] == 256 ? 4 * 6 + 4 : 5);
      }
    }
    for (const char* const letter : {"a", "b", "c", "d", "f"}) {
      EXPECT_EQ(counts.at(std::string("hash_ycsb_") + letter), 4) << letter;
    }
  }
}

// Goal: a table is filled to the brim by twentieths, and keys that find no room are counted.
// Method: rows of two batch sizes; the sum of what was refused is what the load lacks.
// Mutation: refused keys that count as there fail.
TEST(HashBench, Fill) {
  HashFlags flags = small();
  flags.workloads = "fill";
  flags.load_percents = "50,90";  // says nothing to it, so it runs once
  const Rows rows = rows_of(flags);
  ASSERT_EQ(rows.size(), 40U);
  double refused = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    refused += rows[i]["refused"].get<double>();
    const auto asked = static_cast<double>(i + 1) * 150;
    EXPECT_NEAR(rows[i]["load_factor"].get<double>(), (asked - refused) / 3008, 1e-3) << i;
    EXPECT_EQ(rows[i]["requests"], 150);
    EXPECT_TRUE(i >= 18 || refused == 0) << i;
  }
}

// Goal: the calls in which a table grows are told from the others.
// Method: small batches, and such as are larger than a table that grows may have.
// Mutation: a call that only begins to grow, or only moves, taken for another one fails.
TEST(HashBench, Grow) {
  for (const char* const value_size : {"8", "16"}) {
    HashFlags flags = small();
    flags.workloads = "grow";
    flags.value_sizes = value_size;
    flags.entries = 100'000;
    flags.batch_sizes = "512,200000";
    const Rows rows = rows_of(flags);
    ASSERT_EQ(rows.size(), 2U);
    for (const auto& row : rows) {
      EXPECT_EQ(row["benchmark"], "hash_grow");
      EXPECT_EQ(row["growths"], 1);
      EXPECT_NEAR(row["slots_after"].get<double>() / row["slots_before"].get<double>(), 2, 0.01);
      EXPECT_EQ(row["calls"].get<int>() + row["other_calls"].get<int>(),
                row["batch_size"] == 512 ? 196 : 16);
    }
    // 8,334 buckets, 4,096 at least a call that writes.
    EXPECT_EQ(rows[0]["calls"], 3);
    EXPECT_TRUE(rows[0]["has_ended"]);
    EXPECT_NEAR(rows[0]["keys_before"].get<double>(), 65'000, 2000);
  }
}

// Goal: the host's table runs beside, on the same requests, and its answers are looked at as ours.
// Method: all workloads that it has, keys and values of all kinds, in the host's memory.
// Mutation: bulk visits matched by place in place of key, rows that are not given back, fail.
TEST(HashBench, Peers) {
  if (!has_cpu_table()) GTEST_SKIP() << "built without boost";
  for (const char* const key_size : {"4", "8", "12", "32", "64"}) {
    for (const char* const value_size : {"8", "40"}) {
      HashFlags flags = small();
      flags.workloads = "micro,load,a,c,d,f,fill";
      flags.key_sizes = key_size;
      flags.value_sizes = value_size;
      flags.lanes = "4,8";
      flags.distribution = "zipf";
      flags.peers = "cpu";
      std::map<std::string, Rows> by_engine;
      for (const auto& row : rows_of(flags)) by_engine[row["engine"]].push_back(row);
      const auto peer = counts_of(by_engine["boost::concurrent_flat_map"]);
      EXPECT_EQ(peer.count("hash_fill"), 0U);
      for (const auto& [name, count] : counts_of(by_engine["breccia"])) {
        if (name == "hash_fill") continue;
        ASSERT_EQ(peer.count(name), 1U) << name;
        EXPECT_EQ(count, 2 * peer.at(name)) << name;
      }
      for (const auto& row : by_engine["boost::concurrent_flat_map"]) {
        EXPECT_EQ(row["values_in"], value_size == std::string("8") ? "slots" : "rows");
        EXPECT_EQ(row.count("lanes"), 0U);
        EXPECT_EQ(row["copy_seconds"], 0);
      }
    }
  }
}

// Goal: slabs answer the same requests, and rows call these by the names of their paper.
// Method: all workloads that they have, in few and in many lanes, in buckets of few and many keys.
// Mutation: a put that keeps the old value fails, as every answer is compared.
TEST(HashBench, Slabs) {
  HashFlags flags = HashFlags::of_slabs();
  flags.backend = "host";
  flags.entries = 3000;
  flags.batch_sizes = "256,5000";
  flags.workloads = "micro,load,a,c,d,f";
  flags.load_percents = "30,90";
  flags.lanes = "4,16";
  flags.rounds = 1;
  flags.json = true;
  const auto counts = counts_of(rows_of(flags));
  for (const char* const name :
       {"slab_get", "slab_put", "slab_put_new", "slab_mixed", "slab_miss"}) {
    ASSERT_EQ(counts.count(name), 1U) << name;
    EXPECT_GE(counts.at(name), 8) << name;
  }
  for (const auto& [name, count] : counts) EXPECT_EQ(name.rfind("slab_", 0), 0U) << name;
}

// Goal: where requests lie in a device's memory, the peer brings them to the host, results back.
// Method: its operations on a fake device, whose memory a host cannot read, by both of its kinds of
//         batches; the row says so.
// Mutation: operations, values or codes that are not copied fail.
TEST(HashBench, PeerCopies) {
  exec::FakeFaults faults;
  const auto backend =
      hash::make_backend(exec::fake::make_fake_device(&faults), {.name = "test"}).take();
  HashFlags flags = small();
  for (const std::uint32_t value_bytes : {8U, 24U}) {
    tables::Run run(flags, *backend, Whose::kCpu, {70, 4, 8, value_bytes}, 1);
    ASSERT_TRUE(run.make_columns().ok());
    ::testing::internal::CaptureStdout();
    const Status status =
        run_micro(run, std::vector<std::uint32_t>{256, 5000}, std::vector<Choice>{{"zipf", 0.99}});
    const std::string rows = ::testing::internal::GetCapturedStdout();
    if (status.IsNotSupported()) GTEST_SKIP() << status.ToString();
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::istringstream lines(rows);
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      EXPECT_NE(row["backend"].get<std::string>().find("copied"), std::string::npos);
      EXPECT_GT(row["copy_seconds"].get<double>(), 0);
      EXPECT_LT(row["copy_seconds"].get<double>(), row["seconds"].get<double>());
    }
  }
}

// Goal: a graph has the edges and the skew of an R-MAT one, and is the same for a seed.
// Method: degrees add up; the most popular source has many times the mean; ranks add up to 1, and
//         agree with ranks pushed along the edges, one after the other.
// Mutation: quarters of equal probability, a lost edge, ranks that loose vertices lose, fail.
TEST(Rmat, GraphAndRanks) {
  const Graph graph = make_rmat(10, 16, 3);
  ASSERT_EQ(graph.vertices(), 1024U);
  ASSERT_EQ(graph.edges(), 16 * 1024U);
  EXPECT_EQ(std::accumulate(graph.degrees.begin(), graph.degrees.end(), 0U), graph.edges());
  EXPECT_GT(*std::max_element(graph.degrees.begin(), graph.degrees.end()), 16 * 16U);
  EXPECT_GT(std::count(graph.degrees.begin(), graph.degrees.end(), 0U), 10);
  EXPECT_EQ(graph.begin.back(), graph.edges());
  EXPECT_EQ(make_rmat(10, 16, 3).sources, graph.sources);
  EXPECT_NE(make_rmat(10, 16, 4).sources, graph.sources);
  std::vector<double> ranks(1024, 1.0 / 1024);
  for (int i = 0; i < 3; ++i) {
    std::vector<double> next(1024, 0.15 / 1024);
    for (std::uint64_t v = 0; v < 1024; ++v) {
      for (std::uint64_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
        next[v] += 0.85 * ranks[graph.sources[e]] / graph.degrees[graph.sources[e]];
      }
      if (graph.degrees[v] > 0) continue;
      for (double& rank : next) rank += 0.85 * ranks[v] / 1024;
    }
    ranks = next;
  }
  const std::vector<double> found = page_rank(graph, 3);
  EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), 1, 1e-12);
  for (std::uint64_t v = 0; v < 1024; ++v) ASSERT_NEAR(found[v], ranks[v], 1e-12) << v;
}

// Goal: both real-world workloads run to their ends on both engines, and say what they did.
// Method: batches that the columns hold several of, and such as are larger; values in rows and not.
// Mutation: a sample's lookups that are cut, edges left out at the end of a slab, fail.
TEST(HashBench, RealWorld) {
  for (const char* const value_size : {"8", "128"}) {
    HashFlags flags = small();
    flags.workloads = "dlrm,pagerank";
    flags.value_sizes = value_size;
    flags.bag_ids = 2;
    flags.requests = 10'000;
    flags.peers = has_cpu_table() ? "cpu" : "none";
    const Rows rows = rows_of(flags);
    ASSERT_EQ(rows.size(), has_cpu_table() ? 8U : 4U);
    for (const auto& row : rows) {
      const std::uint64_t lookups = row["lookups"], updates = row["updates"];
      EXPECT_EQ(row["requests"], lookups + updates);
      EXPECT_LT(row["lookup_seconds"].get<double>(), row["seconds"].get<double>());
      if (row["benchmark"] == "hash_dlrm") {
        EXPECT_EQ(row["samples"].get<std::uint64_t>() * 52, lookups);
        EXPECT_GE(lookups, 10'000U);
        EXPECT_LT(lookups, 10'000U + 1500);
        EXPECT_LT(updates, lookups);
        EXPECT_GT(updates, lookups / 20);
        EXPECT_EQ(row["distribution"], "zipf");
      } else {
        EXPECT_EQ(row["benchmark"], "hash_pagerank");
        EXPECT_EQ(row["vertices"], 2048);
        EXPECT_EQ(updates, 3 * 2048U);
        EXPECT_GT(lookups, 3 * 16 * 2048U);  // and vertices without an edge out
        EXPECT_LT(lookups, 3 * 17 * 2048U);
        EXPECT_NEAR(row["rank_sum"].get<double>(), 1, 1e-9);
      }
    }
  }
}

// Goal: recovery is timed of the hash engine, too.
// Method: the command itself, a few thousand keys.
// Mutation: a row that names another engine, or counts no entries, fails.
TEST(HashBench, Recovery) {
  const ::breccia::testing::Folder folder(::breccia::testing::Place::kMemory);
  console::App app("breccia");
  const console::Command command = add_bench_recovery(&app);
  const auto done =
      app.parse({"recovery", "--engine", "hash", "--num", "5000", "--key_size", "24", "--rounds",
                 "1", "--backend", "host", "--json", "--db", folder / "db"});
  ASSERT_FALSE(done.has_value());
  ::testing::internal::CaptureStdout();
  const int code = command.run();
  const auto row = nlohmann::json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(code, console::kExitOk);
  EXPECT_EQ(row["engine"], "hash");
  EXPECT_EQ(row["ops"], 5000);
}

// Goal: lists that are none are refused, keys that tables do not have by name.
// Method: one example each.
// Mutation: leaving out a check accepts its example.
TEST(HashBench, RefusesWrongFlags) {
  const auto refuses = [](std::string HashFlags::*list, const char* words) {
    HashFlags flags = small();
    flags.distribution = "zipf";
    flags.*list = words;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = run_hash(flags);
    const std::string said =
        ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, console::kExitUsage) << words;
    return said;
  };
  for (const char* const words : {"", "x", "8,", "3", "128"}) refuses(&HashFlags::key_sizes, words);
  EXPECT_NE(refuses(&HashFlags::key_sizes, "128").find("64 bytes"), std::string::npos);
  for (const char* const words : {"", "x", "-1", "nan", "11", "0.9,"}) {
    refuses(&HashFlags::skews, words);
  }
  for (const char* const words : {"0", "100", "x"}) refuses(&HashFlags::load_percents, words);
  for (const char* const words : {"2", "16"}) refuses(&HashFlags::lanes, words);
  for (const char* const words : {"4", "4104"}) refuses(&HashFlags::value_sizes, words);
  refuses(&HashFlags::batch_sizes, "0");
  for (const char* const words : {"", "e", "a,"}) refuses(&HashFlags::workloads, words);
}

}  // namespace
}  // namespace breccia::bench::tables
