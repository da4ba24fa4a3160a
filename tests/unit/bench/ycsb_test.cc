#include "bench/ycsb/ycsb.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "bench/ycsb/generators.h"

namespace breccia::bench {
namespace {

constexpr int kDraws = 400'000;

// Within five standard deviations of a binomial count.
void expect_share(std::uint64_t count, double share) {
  const double mean = kDraws * share;
  EXPECT_NEAR(static_cast<double>(count), mean, 5 * std::sqrt(mean));
}

/// The keys of a step's first requests.
std::vector<std::string> keys_of(const Step& step) {
  constexpr std::uint32_t kRequests = 64;
  const auto stream = step.streams.counted(0);
  Chunk chunk(stream->key_size_max());
  stream->fill(0, kRequests, &chunk);
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < kRequests; ++i) keys.push_back(chunk.key[i].ToString());
  return keys;
}

// Goal: record numbers hash as in YCSB, so keys are those of its loads.
// Method: keys that YCSB's own loads begin with.
// Mutation: FNV-1 in place of FNV-1a, or a hash without the absolute value, fails.
TEST(Ycsb, HashVectors) {
  EXPECT_EQ(ycsb_hash(0), 6284781860667377211ULL);
  EXPECT_EQ(ycsb_hash(1), 8517097267634966620ULL);
  EXPECT_EQ(ycsb_hash(2), 1820151046732198393ULL);
  YcsbWorkload workload;
  char key[64];
  EXPECT_EQ(std::string(key, write_ycsb_key(workload, 0, key)), "user6284781860667377211");
  workload.hashed_keys = false;
  workload.zero_padding = 5;
  EXPECT_EQ(std::string(key, write_ycsb_key(workload, 42, key)), "user00042");
}

// Goal: ranks have Zipf's frequencies.
// Method: the two ranks that the generator treats apart, by formula, for n = 1000.
// Mutation: theta of 1 - 0.99, or an eta of another n, fails.
TEST(Ycsb, ZipfianFrequencies) {
  constexpr std::uint64_t kItems = 1000;
  const double total = zeta(0, kItems, kYcsbTheta);
  EXPECT_NEAR(total, 7.72895, 1e-4);
  ZipfianGenerator generator(kItems);
  base::Random random(1);
  std::vector<std::uint64_t> count(kItems);
  for (int i = 0; i < kDraws; ++i) ++count.at(generator.next(kItems, &random));
  expect_share(count[0], 1 / total);
  expect_share(count[1], std::pow(0.5, kYcsbTheta) / total);
  // The rest follows a continuous curve: the first hundred together are near the sum.
  std::uint64_t hundred = 0;
  for (int i = 0; i < 100; ++i) hundred += count[i];
  EXPECT_NEAR(static_cast<double>(hundred) / kDraws, zeta(0, 100, kYcsbTheta) / total, 0.02);
}

// Goal: growing item by item ends where starting with all of them does.
// Method: the same random numbers after both.
// Mutation: an eta that is not set again after growth fails.
TEST(Ycsb, ZipfianGrows) {
  ZipfianGenerator grown(10);
  base::Random random(2);
  for (std::uint64_t items = 10; items < 500; ++items) ASSERT_LT(grown.next(items, &random), items);
  ZipfianGenerator whole(500);
  base::Random one(3);
  base::Random other(3);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(grown.next(500, &one), whole.next(500, &other));
}

// Goal: the scrambled generator's favourite is the hash of rank 0, with YCSB's frequency.
// Method: zeta of ten billion items is YCSB's constant.
// Mutation: a zeta of the records in place of the constant fails.
TEST(Ycsb, ScrambledZipfianFavourite) {
  constexpr std::uint64_t kRecords = 1000;
  ScrambledZipfianGenerator generator;
  base::Random random(4);
  std::map<std::uint64_t, std::uint64_t> count;
  for (int i = 0; i < kDraws; ++i) ++count[generator.next(kRecords, &random)];
  const auto favourite = ycsb_hash(0) % kRecords;
  // Ranks that hash to the same record add about a thousandth of all draws.
  EXPECT_NEAR(static_cast<double>(count[favourite]) / kDraws, 1 / 26.46902820178302, 0.003);
  for (const auto& [record, times] : count) {
    ASSERT_LT(record, kRecords);
    ASSERT_LE(times, count[favourite]);
  }
}

// Goal: choices keep the proportions, and look up only records that exist by then.
// Method: every distribution, three threads, replayed against a set of records.
// Mutation: counting an insert before its record is handed out fails under `latest`.
TEST(Ycsb, ChoicesLookUpWhatExists) {
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipfian, Distribution::kLatest}) {
    YcsbWorkload workload;
    workload.record_count = 100;
    workload.operation_count = 30'000;
    workload.read = 0.5;
    workload.update = 0.2;
    workload.insert = 0.1;
    workload.read_modify_write = 0.1;
    workload.scan = 0.1;
    workload.scan_length_max = 50;
    workload.zipfian_scan_lengths = distribution == Distribution::kZipfian;
    workload.distribution = distribution;
    std::set<std::uint64_t> inserted_by_all;
    for (std::uint32_t thread = 0; thread < 3; ++thread) {
      const YcsbChoices choices(workload, /*seed=*/5, thread, /*threads=*/3);
      std::array<std::uint64_t, kKinds> kinds{};
      std::set<std::uint64_t> exist;
      std::array<std::uint64_t, 51> lengths{};
      for (std::uint64_t i = 0; i < choices.size(); ++i) {
        ++kinds[static_cast<std::size_t>(choices.kind(i))];
        const std::uint64_t record = choices.record(i);
        if (choices.kind(i) == Kind::kScan) ++lengths.at(choices.scan_entries(i));
        if (choices.kind(i) == Kind::kInsert) {
          ASSERT_TRUE(inserted_by_all.insert(record).second);
          exist.insert(record);
        } else {
          ASSERT_TRUE(record < 100 || exist.count(record) == 1);
        }
      }
      EXPECT_EQ(choices.size(), 10'000U);
      EXPECT_NEAR(static_cast<double>(kinds[0]), 5000, 250);
      EXPECT_NEAR(static_cast<double>(kinds[1]), 2000, 200);
      EXPECT_NEAR(static_cast<double>(kinds[2]), 1000, 150);
      EXPECT_EQ(kinds[3], 0U);
      EXPECT_NEAR(static_cast<double>(kinds[4]), 1000, 150);
      EXPECT_NEAR(static_cast<double>(kinds[6]), 1000, 150);
      EXPECT_EQ(lengths[0], 0U);
      EXPECT_GT(lengths[50], 0U);
      const auto ones = static_cast<double>(lengths[1]);
      EXPECT_NEAR(ones, workload.zipfian_scan_lengths ? 220 : 20, 60);
    }
  }
}

// Goal: property files are read as YCSB's are, and what cannot be run is refused.
// Method: one example per rule.
// Mutation: ignoring a property of scans gives YCSB's defaults.
TEST(Ycsb, Properties) {
  Properties properties;
  ASSERT_TRUE(parse_properties("# words\n! words\n\n recordcount = 10 \r\nreadproportion: 0.25\n"
                               "requestdistribution=latest\nworkload=site.ycsb\n",
                               &properties)
                  .ok());
  auto workload = ycsb_workload(properties);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload.value().record_count, 10U);
  EXPECT_EQ(workload.value().read, 0.25);
  EXPECT_EQ(workload.value().distribution, Distribution::kLatest);
  EXPECT_EQ(workload.value().value_size(), 1000U);
  EXPECT_EQ(workload.value().scan_length_max, 1000U);
  properties["scanproportion"] = "0.1";
  properties["maxscanlength"] = "100";
  properties["scanlengthdistribution"] = "zipfian";
  workload = ycsb_workload(properties);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload.value().scan, 0.1);
  EXPECT_EQ(workload.value().scan_length_max, 100U);
  EXPECT_TRUE(workload.value().zipfian_scan_lengths);
  properties["scanlengthdistribution"] = "normal";
  EXPECT_TRUE(ycsb_workload(properties).status().IsNotSupported());
  properties.erase("scanlengthdistribution");
  for (const char* const wrong : {"0", "65536", "x"}) {
    properties["maxscanlength"] = wrong;
    EXPECT_TRUE(ycsb_workload(properties).status().IsInvalidArgument());
  }
  properties.erase("maxscanlength");
  properties["maxexecutiontime"] = "60";
  properties["insertproportion"] = "0.1";
  EXPECT_TRUE(ycsb_workload(properties).status().IsInvalidArgument());  // it inserts
  properties["insertproportion"] = "0";
  EXPECT_EQ(ycsb_workload(properties).value().seconds, 60);
  properties["updateproportion"] = "-1";
  EXPECT_TRUE(ycsb_workload(properties).status().IsInvalidArgument());
  EXPECT_TRUE(ycsb_workload({}).status().IsInvalidArgument());
  EXPECT_TRUE(parse_properties("a=1\nwords\n", &properties).IsInvalidArgument());
}

// Goal: workloads run one behind the other on the same records, each with requests of its own; what
//   would not be that is refused.
// Method: steps of two; then a run that differs in one thing, for each of them.
// Mutation: one seed for all, or a check left out, fails.
TEST(Ycsb, SeveralRuns) {
  YcsbRun reads{"reads", {}};
  reads.workload.record_count = 1000;
  reads.workload.operation_count = 500;
  YcsbRun inserts{"inserts", reads.workload};
  inserts.workload.insert = 0.05;
  ASSERT_TRUE(check_runs({reads, inserts}).ok());
  SuiteFlags flags;
  flags.threads = 2;
  const std::vector<Step> steps = ycsb_steps(flags, {reads, inserts}, 100);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].name, "load");
  EXPECT_EQ(steps[0].driver.target_per_s, 0);
  EXPECT_EQ(steps[1].name, "reads");
  EXPECT_TRUE(steps[2].name == "inserts" && steps[2].driver.target_per_s == 100);
  const std::vector<Step> twice = ycsb_steps(flags, {reads, reads}, 0);
  EXPECT_EQ(twice[2].name, "reads#2");
  EXPECT_NE(keys_of(twice[1]), keys_of(twice[2]));
  EXPECT_EQ(keys_of(twice[1]), keys_of(steps[1]));
  EXPECT_EQ(ycsb_steps(flags, {reads}, 100).back().driver.target_per_s, 100);

  YcsbRun also_inserts = inserts;
  also_inserts.name = "also";
  EXPECT_TRUE(check_runs({inserts, also_inserts}).IsInvalidArgument());
  for (const auto change :
       {+[](YcsbWorkload* one) { ++one->record_count; },
        +[](YcsbWorkload* one) { ++one->field_length; },
        +[](YcsbWorkload* one) { one->hashed_keys = false; },
        +[](YcsbWorkload* one) { ++one->zero_padding; },
        +[](YcsbWorkload* one) { one->distribution = Distribution::kLatest; }}) {
    YcsbRun other{"other", reads.workload};
    EXPECT_TRUE(check_runs({reads, other}).ok());
    change(&other.workload);
    EXPECT_TRUE(check_runs({reads, other}).IsInvalidArgument());
  }
}

}  // namespace
}  // namespace breccia::bench
