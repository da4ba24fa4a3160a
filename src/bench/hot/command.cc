#include <breccia/hash_options.h>
#include <breccia/options.h>
#include <breccia/slab_options.h>
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <array>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/commands.h"
#include "bench/hot/batches.h"
#include "bench/hot/clients.h"
#include "bench/lists.h"
#include "bench/places.h"
#include "bench/rows.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"

/// `breccia bench hot`: single requests by Zipf's law to a store, with a tier of hot keys before it
/// and without one. Each request has its own clock; every value that is found is looked at.
/// Source  [kvcg] section 8.

namespace breccia::bench::hot {

namespace {

struct HotFlags {
  std::string db;
  std::string engine = "ordered";
  bool in_place = false;
  std::uint32_t workers = 0;
  std::uint64_t tier_keys = 0;
  std::uint64_t samples_of_window = HotOptions().samples_of_window;
  double gain_min = HotOptions().gain_min;
  std::string backend = "auto";
  std::uint64_t keys = 1'000'000;
  std::string value_sizes = "8";
  std::string skews = "0.99";
  std::string read_percents = "95";
  std::string hot_keys = "0,10000";
  std::uint32_t threads = 2;
  std::uint32_t batch_threads = 0;
  std::uint32_t batch_size = 65536;
  double seconds = 5;
  double warm_seconds = 3;
  double rate = 0;
  double flip_seconds = 0;
  std::uint64_t memtable_bytes = 0;
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  bool json = false;
};

/// What the flags' lists say.
struct Lists {
  std::vector<std::uint32_t> value_sizes, read_percents, hot_keys;
  std::vector<double> skews;
};

std::vector<double> skews_of(const std::string& list) {
  constexpr double kSkewMax = 10;
  std::vector<double> skews;
  for (const std::string& word : words_of(list)) {
    double skew = 0;
    const char* const end = word.data() + word.size();
    const auto [behind, error] = std::from_chars(word.data(), end, skew);
    if (error != std::errc() || behind != end || !(skew >= 0 && skew <= kSkewMax)) return {};
    skews.push_back(skew);
  }
  return skews;
}

/// Returns what is wrong, or nothing.
std::string lists_of(const HotFlags& flags, Lists* lists) {
  constexpr std::uint32_t kValueMin = 8;
  lists->value_sizes = numbers_of(flags.value_sizes, 1U << 20);
  lists->read_percents = numbers_of(flags.read_percents, 100);
  lists->hot_keys = numbers_of(flags.hot_keys, 16U << 20);
  lists->skews = skews_of(flags.skews);
  if (lists->value_sizes.empty()) return "--value_sizes wants numbers from 8 to 1048576";
  for (const std::uint32_t bytes : lists->value_sizes) {
    if (bytes < kValueMin) return "--value_sizes wants numbers from 8 to 1048576";
  }
  if (lists->read_percents.empty()) return "--read_percents wants numbers from 0 to 100";
  if (lists->hot_keys.empty()) return "--hot_keys wants numbers up to 16777216";
  if (lists->skews.empty()) return "--skew wants numbers from 0 to 10, as 0.99 or 1.2";
  return "";
}

/// One store, or the map, filled once and asked in all ways.
class HotBench {
 public:
  HotBench(const HotFlags& flags, const Lists& lists, std::uint32_t value_bytes, std::uint64_t seed)
      : flags_(flags),
        lists_(lists),
        value_bytes_(value_bytes),
        data_(flags.keys, value_bytes, seed),
        seed_(seed),
        place_{flags.db, ""} {}

  Status run() {
    const bool is_map = flags_.engine == "flatmap";
    const bool has_folder = !is_map && flags_.engine != "slab";
    if (has_folder) BRECCIA_TRY(make_fresh(place_));
    if (has_folder || is_map) BRECCIA_TRY(open_and_fill(/*hot_keys=*/0));
    for (const std::uint32_t hot_keys : lists_.hot_keys) {
      for (const double skew : lists_.skews) {
        for (const std::uint32_t read_percent : lists_.read_percents) {
          // The map has no tier; hot keys are then those whose latency is a row of its own.
          if (!is_map) BRECCIA_TRY(has_folder ? open(hot_keys) : open_and_fill(hot_keys));
          BRECCIA_TRY(measure({.keys = flags_.keys,
                               .value_bytes = value_bytes_,
                               .skew = skew,
                               .read_percent = read_percent,
                               .hot_keys = hot_keys,
                               .threads = flags_.threads,
                               .batch_threads = flags_.batch_threads,
                               .batch_size = flags_.batch_size,
                               .seconds = flags_.seconds,
                               .rate = flags_.rate,
                               .flip_seconds = flags_.flip_seconds,
                               .seed = seed_}));
        }
      }
    }
    asked_.reset();
    return has_folder ? remove_marked(place_) : Status::OK();
  }

 private:
  Status open_and_fill(std::uint64_t hot_keys) {
    BRECCIA_TRY(open(hot_keys));
    const bool is_map = flags_.engine == "flatmap";
    BRECCIA_TRY(
        (is_map ? put_all : put_all_in_batches)(asked_.get(), data_, flags_.keys, flags_.threads));
    return flags_.engine == "slab" ? Status::OK() : asked_->settle();
  }
  Status open(std::uint64_t hot_keys) {
    asked_.reset();
    if (flags_.engine == "flatmap") {
      BRECCIA_TAKE(asked_, ask_flat_map(flags_.keys));
      return Status::OK();
    }
    std::unique_ptr<Store> store;
    if (flags_.engine == "hash") {
      HashOptions options;
      options.keys_expected = flags_.keys;
      BRECCIA_TRY(Store::Open(with_tier(std::move(options), hot_keys), place_.db, &store));
    } else if (flags_.engine == "slab") {
      SlabOptions options;
      options.keys_expected = flags_.keys;
      options.in_place = flags_.in_place;
      BRECCIA_TRY(Store::Open(with_tier(std::move(options), hot_keys), &store));
    } else {
      Options options;
      options.rocksdb.compression = rocksdb::kNoCompression;
      if (flags_.memtable_bytes > 0) options.memtable_bytes = flags_.memtable_bytes;
      BRECCIA_TRY(Store::Open(with_tier(std::move(options), hot_keys), place_.db, &store));
    }
    asked_ = ask_store(std::move(store));
    return Status::OK();
  }
  template <class EngineOptions>
  EngineOptions with_tier(EngineOptions options, std::uint64_t hot_keys) const {
    options.create_if_missing = true;
    options.backend = console::backend_choice(flags_.backend);
    if (hot_keys > 0) {
      options.hot_tier = HotOptions{.keys_max = flags_.tier_keys > 0 ? flags_.tier_keys : hot_keys,
                                    .samples_of_window = flags_.samples_of_window,
                                    .gain_min = flags_.gain_min};
    }
    return options;
  }

  Status measure(const Load& load) {
    Load warm = load;
    warm.seconds = flags_.warm_seconds;
    warm.rate = 0;
    warm.flip_seconds = 0;
    warm.seed = base::mix64(load.seed);
    Met before;
    BRECCIA_TRY(ask(asked_.get(), data_, warm, &before));
    const std::uint64_t changes = asked_->figure("breccia.hot.changes");
    const std::uint64_t hits = asked_->figure("breccia.hot.hits");
    const std::uint64_t misses = asked_->figure("breccia.hot.misses");
    const std::uint64_t lookups = asked_->figure("breccia.hot.lookups");
    Met met;
    BRECCIA_TRY(ask(asked_.get(), data_, load, &met));
    const auto since = [&](const char* name, std::uint64_t then) {
      return static_cast<double>(asked_->figure(name) - then);
    };
    const double hit = since("breccia.hot.hits", hits);
    const double hot = hit + since("breccia.hot.misses", misses);
    const double all = since("breccia.hot.lookups", lookups);
    nlohmann::json more = {{"changes", asked_->figure("breccia.hot.changes") - changes},
                           {"change_us_max", asked_->figure("breccia.hot.change-micros-max")},
                           {"hit_rate", hot == 0 ? 0 : hit / hot},
                           {"hot_share", all == 0 ? 0 : hot / all}};
    say("hot_get", load, met, met.hot_get, more);
    say("cold_get", load, met, met.cold_get, more);
    say("hot_put", load, met, met.put, more);
    say("hot_batch", load, met, met.batch, more);
    if (flags_.flip_seconds > 0) {
      more["hit_share_by_second"] = met.hit_share_by_second;
      say("model_change", load, met, met.hot_get, more);
    }
    return Status::OK();
  }

  void say(const char* benchmark, const Load& load, const Met& met, const base::Histogram& of,
           const nlohmann::json& more) const {
    if (of.count() == 0) return;
    const auto us = [&](double percent) {
      return 1e-3 * static_cast<double>(of.percentile(percent));
    };
    const double rate = static_cast<double>(met.requests) / met.seconds;
    if (!flags_.json) {
      fmt::print(
          "{:<12} {:<8} {:>4} B, theta {:.2f}, {:>3} % reads, {:>8} hot keys, {} threads: all "
          "{:8.3f} M/s; these: mean {:.3f} us, p50 {:.3f}, p99 {:.3f}, hot share {:.3f}, hit rate "
          "{:.3f}\n",
          benchmark, flags_.engine, load.value_bytes, load.skew, load.read_percent, load.hot_keys,
          load.threads, 1e-6 * rate, 1e-3 * of.mean(), us(50), us(99),
          more["hot_share"].get<double>(), more["hit_rate"].get<double>());
      std::fflush(stdout);
      return;
    }
    constexpr std::array kPercents = {1.0,  5.0,  10.0, 25.0, 50.0, 75.0,
                                      90.0, 95.0, 99.0, 99.9, 99.99};
    nlohmann::json cdf = nlohmann::json::array();
    for (const double percent : kPercents) cdf.push_back({percent, us(percent)});
    nlohmann::json row = {{"benchmark", benchmark},
                          {"engine", flags_.engine},
                          {"in_place", flags_.in_place},
                          {"workers", flags_.workers},
                          {"tier_keys", flags_.tier_keys},
                          {"backend", flags_.backend},
                          {"key_size", 8},
                          {"value_size", load.value_bytes},
                          {"entries", load.keys},
                          {"skew", load.skew},
                          {"read_percent", load.read_percent},
                          {"hot_keys", load.hot_keys},
                          {"threads", load.threads},
                          {"batch_threads", load.batch_threads},
                          {"batch_size", load.batch_size},
                          {"batched_per_sec", static_cast<double>(met.in_batches) / met.seconds},
                          {"target_rate", load.rate},
                          {"flip_seconds", load.flip_seconds},
                          {"seconds", met.seconds},
                          {"ops_per_sec", rate},
                          {"requests", of.count()},
                          {"mean_us", 1e-3 * of.mean()},
                          {"p50_us", us(50)},
                          {"p99_us", us(99)},
                          {"p999_us", us(99.9)},
                          {"max_us", us(100)},
                          {"cdf_us", cdf},
                          {"seed", seed_},
                          {"machine", machine_name()}};
    row.update(more);
    fmt::print("{}\n", row.dump());
    std::fflush(stdout);
  }

  const HotFlags& flags_;
  const Lists& lists_;
  const std::uint32_t value_bytes_;
  const Data data_;
  const std::uint64_t seed_;
  const Place place_;
  std::unique_ptr<Asked> asked_;
};

int run_hot(const HotFlags& given) {
  HotFlags flags = given;
  if (flags.db.empty()) flags.db = default_folder();
  Lists lists;
  if (const std::string wrong = lists_of(flags, &lists); !wrong.empty()) {
    console::say("error: " + wrong + "; several with commas");
    return console::kExitUsage;
  }
  if (flags.batch_threads > 0 && flags.engine == "flatmap") {
    console::say("error: --engine flatmap takes single requests alone, so no --batch_threads");
    return console::kExitUsage;
  }
  if (flags.in_place && flags.engine != "slab") {
    console::say("error: --in_place is an option of --engine slab");
    return console::kExitUsage;
  }
  std::optional<tbb::global_control> workers;
  if (flags.workers > 0) {
    workers.emplace(tbb::global_control::max_allowed_parallelism, flags.workers + 1);
  }
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    for (const std::uint32_t value_bytes : lists.value_sizes) {
      const Status status = HotBench(flags, lists, value_bytes, flags.seed + round).run();
      if (status.ok()) continue;
      console::say_error("the benchmark did not end", status, "fewer --keys need less room");
      return console::kExitFailed;
    }
  }
  return console::kExitOk;
}

void add_batch_and_tier_flags(console::App* app, HotFlags* flags) {
  app->add_option("--batch_threads", flags->batch_threads,
                  "Clients beside these, which send batches as fast as it goes")
      ->range(0, 1024)
      ->capture_default_str();
  app->add_option("--batch_size", flags->batch_size, "Requests of such a batch")
      ->range(1, 1U << 26)
      ->capture_default_str();
  app->add_option("--workers", flags->workers,
                  "Threads of the process that help clients with batches; 0: one a core")
      ->range(0, 1024)
      ->capture_default_str();
  app->add_option("--tier_keys", flags->tier_keys,
                  "Keys that the tier holds at most in place of --hot_keys; 0: as many")
      ->capture_default_str();
  app->add_option("--samples_of_window", flags->samples_of_window,
                  "Samples behind which the tier looks whether other keys should be hot")
      ->capture_default_str();
  app->add_option("--gain_min", flags->gain_min,
                  "Share of all requests that has to go to hot keys more, for others to be hot")
      ->capture_default_str();
}

void add_flags(console::App* app, HotFlags* flags) {
  app->footer(
      "All keys are put, and flushed. Then for each combination the store is opened (that of the\n"
      "slab engine, which is in memory alone, filled once more), asked for\n"
      "--warm_seconds by the same law with other numbers, and measured. Each request has its own\n"
      "clock, which begins before its key is chosen. hot_get are lookups of the --hot_keys most\n"
      "popular keys, cold_get of all others, hot_put all puts; `all` is the rate of these, and of\n"
      "requests in batches. --batch_threads clients beside send such: each has sixteen, drawn\n"
      "before the clock, and sends them in turn; rates cover filling, waiting, and a look at each\n"
      "value. hot_batch are the times of whole batches, without that look.\n"
      "With --flip_seconds other keys become popular so often, and model_change says which share\n"
      "of the lookups copies answered, by the second.");
  app->add_option("--db", flags->db, "Folder of the store; default: one in the temporary folder");
  app->add_option(
         "--engine", flags->engine,
         "ordered, hash, slab, or flatmap: boost::concurrent_flat_map, made as large as it "
         "will be, alone")
      ->one_of({"ordered", "hash", "slab", "flatmap"})
      ->capture_default_str();
  app->add_flag("--in_place", flags->in_place,
                "slab: keys and values lie in the index itself (SlabOptions::in_place)");
  app->add_option("--backend", flags->backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--keys", flags->keys, "Keys of 8 bytes")
      ->range(16, 1ULL << 32)
      ->capture_default_str();
  app->add_option("--value_sizes", flags->value_sizes, "Bytes of a value; several with commas")
      ->capture_default_str();
  app->add_option("--skew", flags->skews, "Zipf's theta, 0 to 10; several with commas")
      ->capture_default_str();
  app->add_option("--read_percents", flags->read_percents,
                  "Lookups of a hundred requests; several with commas")
      ->capture_default_str();
  app->add_option("--hot_keys", flags->hot_keys,
                  "Keys that the tier holds at most, 0: there is none; several with commas")
      ->capture_default_str();
  app->add_option("--threads", flags->threads, "Clients of single requests")
      ->range(1, 1024)
      ->capture_default_str();
  add_batch_and_tier_flags(app, flags);
  app->add_option("--seconds", flags->seconds, "Seconds of each figure")->capture_default_str();
  app->add_option("--warm_seconds", flags->warm_seconds, "Seconds before each figure")
      ->capture_default_str();
  app->add_option("--rate", flags->rate,
                  "Requests a second of all clients, each with its time, from which its latency "
                  "counts, however late it begins; 0: as fast as it goes")
      ->capture_default_str();
  app->add_option("--flip_seconds", flags->flip_seconds,
                  "So often other keys become popular; 0: never")
      ->capture_default_str();
  app->add_option("--memtable_bytes", flags->memtable_bytes,
                  "Memory for writes of the ordered engine; 0: its default")
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often, each with new keys")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--json", flags->json, "Print one JSON object a line");
}

}  // namespace

}  // namespace breccia::bench::hot

namespace breccia::bench {

console::Command add_bench_hot(console::App* parent) {
  auto flags = std::make_shared<hot::HotFlags>();
  console::App* app =
      parent->add_subcommand("hot", "Measure single requests with and without a tier of hot keys");
  hot::add_flags(app, flags.get());
  return {app, [flags] { return hot::run_hot(*flags); }};
}

}  // namespace breccia::bench
