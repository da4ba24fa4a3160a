#include <breccia/hash_store.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/random.h"
#include "bench/commands.h"
#include "bench/hash/column.h"
#include "bench/lists.h"
#include "bench/rows.h"
#include "bench/ycsb/generators.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "exec/choose.h"

/// `breccia bench rows`: a store of the hash engine is filled with ids and rows that lie in its
/// device's memory, and asked for them there. The clock covers the calls, each of which returns
/// when its rows are there, or durable as it was asked; or HashStore::Open of the store that was
/// filled. Every row is compared, outside the clock.

namespace breccia::bench {

namespace {

/// Sets of a cache hold seven rows: where all rows are to be in it, it needs more room than they.
constexpr std::uint32_t kCachePercentMax = 1000;

const std::map<std::string, RowCachePolicy> kPolicies = {
    {"frequency", RowCachePolicy::kFrequency},
    {"recency", RowCachePolicy::kRecency},
    {"random", RowCachePolicy::kRandom},
};

struct RowsFlags {
  std::string db;
  std::string backend = "auto";
  std::uint64_t entries = 1 << 20;
  std::uint32_t row_bytes = 128;
  std::uint32_t row_alignment = 64;
  std::string batch_sizes = "1048576";
  std::string cache_percents = "0,10";
  std::string cache_policy = "frequency";
  std::string distributions = "uniform,zipf";
  std::uint32_t threads = 1;
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  std::uint64_t log_segment_bytes = 1ULL << 30;
  std::uint64_t log_preallocate_bytes = 0;
  bool cached = false;
  bool pins = false;
  bool trains = false;
  bool sync = false;
  bool json = false;
};

/// One store, filled and asked.
class RowsBench {
 public:
  RowsBench(const RowsFlags& flags, hash::Backend& backend, std::uint64_t seed)
      : flags_(flags), backend_(backend), seed_(seed), step_(golden_step(flags.entries)) {}

  Status run(std::span<const std::uint32_t> batches, std::span<const std::uint32_t> caches,
             std::span<const std::string> distributions) {
    BRECCIA_TRY(make_columns());
    BRECCIA_TRY(fill(batches.front()));
    for (const std::uint32_t cache_percent : caches) {
      BRECCIA_TAKE(const double seconds, open(cache_percent));
      if (cache_percent == caches.front()) say_opening(seconds);
      for (const std::string& distribution : distributions) {
        BRECCIA_TRY(warm(distribution, batches.front()));
        for (const std::uint32_t batch : batches) {
          BRECCIA_TRY(ask("hash_find", distribution, batch));
          if (flags_.cached) BRECCIA_TRY(ask(kOfCache, distribution, batch));
          if (flags_.pins) BRECCIA_TRY(ask(kPinned, distribution, batch));
          if (flags_.trains) BRECCIA_TRY(ask(kTrained, distribution, batch));
        }
      }
    }
    store_.reset();
    std::filesystem::remove_all(flags_.db);
    return Status::OK();
  }

 private:
  static std::uint64_t golden_step(std::uint64_t n) {
    std::uint64_t step = static_cast<std::uint64_t>(0.618 * static_cast<double>(n)) | 1;
    while (std::gcd(step, n) != 1) step += 2;
    return step;
  }
  [[nodiscard]] std::uint64_t words() const { return flags_.row_bytes / sizeof(std::uint64_t); }
  /// Id of the i-th row that is written.
  [[nodiscard]] std::uint64_t id(std::uint64_t i) const {
    return base::mix64(i + base::mix64(seed_));
  }
  /// Word `w` of the row that it has since version_.
  [[nodiscard]] std::uint64_t word(std::uint64_t i, std::uint64_t w) const {
    return (id(i) + version_) * (2 * w + 3);
  }
  /// A rank's row: neighbours by rank do not lie side by side in the log.
  [[nodiscard]] std::uint64_t place(std::uint64_t rank) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(rank) * step_ %
                                      flags_.entries);
  }

  Status make_columns() {
    BRECCIA_TAKE(auto ids, Column<std::uint64_t>::make(backend_, flags_.entries));
    BRECCIA_TAKE(auto rows, Column<std::uint64_t>::make(backend_, flags_.entries * words()));
    BRECCIA_TAKE(auto found, Column<std::uint8_t>::make(backend_, flags_.entries));
    ids_ = std::make_unique<Column<std::uint64_t>>(std::move(ids));
    rows_ = std::make_unique<Column<std::uint64_t>>(std::move(rows));
    found_ = std::make_unique<Column<std::uint8_t>>(std::move(found));
    return Status::OK();
  }

  /// Opens the store, with a cache that has room for so many rows of a hundred; returns seconds.
  Result<double> open(std::uint32_t cache_percent) {
    // Seven rows, their places, and counters (hash/algo/cached.cuh).
    const std::uint64_t set_bytes = 96 + 7 * flags_.row_bytes;
    store_.reset();
    HashOptions options;
    options.backend = console::backend_choice(flags_.backend);
    options.create_if_missing = true;
    options.keys_expected = flags_.entries;
    options.log_segment_bytes = flags_.log_segment_bytes;
    options.log_preallocate_bytes = flags_.log_preallocate_bytes;
    options.row_cache_bytes = flags_.entries * cache_percent / 100 / 7 * set_bytes;
    options.cached_row_bytes = flags_.row_bytes;
    options.row_cache_policy = kPolicies.at(flags_.cache_policy);
    options.row_alignment = flags_.row_alignment;
    cache_percent_ = cache_percent;
    const base::Stopwatch clock;
    BRECCIA_TRY(HashStore::Open(options, flags_.db, &store_));
    return 1e-6 * static_cast<double>(clock.micros());
  }

  /// Calls call(rows) for all of the columns in batches, by the flags' threads; returns seconds.
  template <class Call>
  Result<double> send(std::uint64_t batch, std::vector<double>* micros, const Call& call) {
    const std::uint64_t n = flags_.entries;
    std::vector<Status> statuses(flags_.threads);
    std::vector<std::vector<double>> taken(flags_.threads);
    const auto work = [&](std::uint64_t t) {
      const std::uint64_t end = n * (t + 1) / flags_.threads;
      for (std::uint64_t at = n * t / flags_.threads; at < end && statuses[t].ok(); at += batch) {
        const base::Stopwatch clock;
        statuses[t] = call(IdRows{.ids = ids_->data() + at,
                                  .count = std::min(batch, end - at),
                                  .rows = rows_->data() + at * words(),
                                  .row_bytes = flags_.row_bytes,
                                  .found = found_->data() + at});
        taken[t].push_back(static_cast<double>(clock.micros()));
      }
    };
    const base::Stopwatch clock;
    std::vector<std::thread> threads;
    for (std::uint64_t t = 1; t < flags_.threads; ++t) threads.emplace_back(work, t);
    work(0);
    for (std::thread& thread : threads) thread.join();
    const double seconds = 1e-6 * static_cast<double>(clock.micros());
    for (Status& status : statuses) BRECCIA_TRY(std::move(status));
    for (const auto& of_thread : taken) {
      micros->insert(micros->end(), of_thread.begin(), of_thread.end());
    }
    return seconds;
  }

  Status fill(std::uint32_t batch) {
    std::filesystem::remove_all(flags_.db);
    BRECCIA_TRY(open(0).status());
    order_.resize(flags_.entries);
    std::iota(order_.begin(), order_.end(), std::uint64_t{0});
    BRECCIA_TRY(write("hash_insert", batch));
    // In another order than they came in.
    for (std::uint64_t i = 0; i < order_.size(); ++i) order_[i] = place(i);
    return write("hash_overwrite", batch);
  }
  /// Writes the next version of all rows.
  Status write(const std::string& what, std::uint32_t batch) {
    ++version_;
    BRECCIA_TRY(put_ids());
    std::vector<std::uint64_t> rows(order_.size() * words());
    base::parallel_for(std::uint64_t{0}, order_.size(), [&](std::uint64_t i) {
      for (std::uint64_t w = 0; w < words(); ++w) rows[i * words() + w] = word(order_[i], w);
    });
    BRECCIA_TRY(rows_->put(rows));
    WriteOptions options;
    if (flags_.sync) options.durability = Durability::kSync;
    std::vector<double> micros;
    BRECCIA_TAKE(const double seconds, send(batch, &micros, [&](const IdRows& all) {
                   return store_->PutRows(options, all);
                 }));
    say(what, "uniform", batch, seconds, &micros, 0);
    return Status::OK();
  }
  Status put_ids() {
    std::vector<std::uint64_t> ids(order_.size());
    base::parallel_for(std::uint64_t{0}, ids.size(),
                       [&](std::uint64_t i) { ids[i] = id(order_[i]); });
    return ids_->put(ids);
  }

  /// Other ids than the last ones, of a distribution.
  Status draw(const std::string& distribution) {
    const std::uint64_t n = flags_.entries;
    ++draws_;
    const bool is_zipf = distribution == "zipf";
    const std::uint64_t of = distribution == "hot" ? (n + 15) / 16 : n;
    if (is_zipf && zeta_ == 0) zeta_ = zeta(0, n, kYcsbTheta);
    constexpr std::uint64_t kPiece = 1 << 16;
    base::parallel_for(std::uint64_t{0}, (n + kPiece - 1) / kPiece, [&](std::uint64_t piece) {
      base::Random random(base::mix64(seed_ + draws_) + piece);
      ZipfianGenerator zipf(n, is_zipf ? zeta_ : 1);
      for (std::uint64_t i = piece * kPiece; i < std::min(n, (piece + 1) * kPiece); ++i) {
        order_[i] = is_zipf ? place(zipf.next(n, &random)) : random.below(of);
      }
    });
    return put_ids();
  }

  Result<double> find(std::uint32_t batch, std::vector<double>* micros) {
    return send(batch, micros, [&](const IdRows& all) { return store_->FindRows(all); });
  }
  /// Lookups that nobody waits for but behind the last one.
  Result<double> find_cached(std::uint32_t batch, std::vector<double>* micros) {
    return behind_last(batch, micros,
                       [&](const IdRows& all) { return store_->FindCachedRows(all); });
  }
  /// The same of rows that each call pins before, while they are so.
  Result<double> find_pinned(std::uint32_t batch, std::vector<double>* micros) {
    return behind_last(batch, micros, [&](const IdRows& all) {
      std::unique_ptr<RowPins> pins;
      BRECCIA_TRY(store_->PinRows(all, &pins));
      return store_->FindCachedRows(all);
    });
  }
  /// Lookups, each of which writes the rows that it found, as a step of training does.
  Result<double> train(std::uint32_t batch, std::vector<double>* micros) {
    return send(batch, micros, [&](const IdRows& all) {
      BRECCIA_TRY(store_->FindRows(all));
      return store_->PutRows(WriteOptions(), all);
    });
  }
  Result<double> run(const std::string& what, std::uint32_t batch, std::vector<double>* micros) {
    if (what == kOfCache) return find_cached(batch, micros);
    if (what == kPinned) return find_pinned(batch, micros);
    return what == kTrained ? train(batch, micros) : find(batch, micros);
  }
  /// Sends them, and then a lookup of one id that is done on return, in the same stream.
  template <class Call>
  Result<double> behind_last(std::uint32_t batch, std::vector<double>* micros, const Call& call) {
    const base::Stopwatch clock;
    BRECCIA_TRY(send(batch, micros, call).status());
    BRECCIA_TAKE(const auto id, Column<std::uint64_t>::make(backend_, 1));
    BRECCIA_TAKE(const auto row, Column<std::uint64_t>::make(backend_, words()));
    BRECCIA_TAKE(const auto found, Column<std::uint8_t>::make(backend_, 1));
    BRECCIA_TRY(store_->FindRows({.ids = id.data(),
                                  .count = 1,
                                  .rows = row.data(),
                                  .row_bytes = flags_.row_bytes,
                                  .found = found.data()}));
    return 1e-6 * static_cast<double>(clock.micros());
  }
  /// Lookups that fill the cache.
  Status warm(const std::string& distribution, std::uint32_t batch) {
    for (int turn = 0; turn < (cache_percent_ == 0 ? 1 : kWarmTurns); ++turn) {
      std::vector<double> micros;
      BRECCIA_TRY(draw(distribution));
      BRECCIA_TRY(find(batch, &micros).status());
      // Their first calls make what several at once need.
      if (flags_.cached) BRECCIA_TRY(find_cached(batch, &micros).status());
    }
    return Status::OK();
  }

  Status ask(const std::string& what, const std::string& distribution, std::uint32_t batch) {
    BRECCIA_TRY(draw(distribution));
    BRECCIA_TRY(rows_->put(std::vector<std::uint64_t>(flags_.entries * words())));
    BRECCIA_TRY(found_->put(std::vector<std::uint8_t>(flags_.entries)));
    BRECCIA_TAKE(const std::uint64_t lookups, figure("lookups"));
    BRECCIA_TAKE(const std::uint64_t hits, figure("hits"));
    std::vector<double> micros;
    BRECCIA_TAKE(const double seconds, run(what, batch, &micros));
    BRECCIA_TRY(check(/*may_miss=*/what == kOfCache || what == kPinned));
    BRECCIA_TAKE(const std::uint64_t lookups_after, figure("lookups"));
    BRECCIA_TAKE(const std::uint64_t hits_after, figure("hits"));
    const double looked = std::max<double>(static_cast<double>(lookups_after - lookups), 1);
    say(what, distribution, batch, seconds, &micros,
        static_cast<double>(hits_after - hits) / looked);
    return Status::OK();
  }
  Result<std::uint64_t> figure(const std::string& name) {
    std::string text;
    if (!store_->GetProperty("breccia.hash.row_cache." + name, &text)) {
      return Status::NotFound(name);
    }
    return std::stoull(text);
  }
  Status check(bool may_miss) {
    BRECCIA_TAKE(const auto rows, rows_->get());
    BRECCIA_TAKE(const auto found, found_->get());
    std::atomic<std::uint64_t> wrong = 0;
    base::parallel_for(std::uint64_t{0}, flags_.entries, [&](std::uint64_t i) {
      bool is_right = found[i] == 1;
      for (std::uint64_t w = 0; w < words(); ++w) {
        is_right = is_right && rows[i * words() + w] == word(order_[i], w);
      }
      const bool is_missed = may_miss && found[i] == 0;
      if (!is_right && !is_missed) ++wrong;
    });
    if (wrong == 0) return Status::OK();
    return Status::Corruption("find", std::to_string(wrong) + " rows are not what was written");
  }

  void say(const std::string& benchmark, const std::string& distribution, std::uint64_t batch,
           double seconds, std::vector<double>* micros, double hit_rate) const {
    std::sort(micros->begin(), micros->end());
    const auto percentile = [&](std::size_t of_hundred) {
      return (*micros)[(micros->size() - 1) * of_hundred / 100];
    };
    const double rate = static_cast<double>(flags_.entries) / seconds;
    const std::uint64_t of_batch =
        std::min<std::uint64_t>(batch, (flags_.entries + flags_.threads - 1) / flags_.threads);
    const std::string backend = backend_.device().describe();
    if (!flags_.json) {
      fmt::print(
          "{:<14} {:<8} {:>4} B, cache {:>2} %, {:.3f} of rows there, {} threads, batches of "
          "{:>9}: {:9.3f} M/s, p50 {:.1f} us, p99 {:.1f} us, {}\n",
          benchmark, distribution, flags_.row_bytes, cache_percent_, hit_rate, flags_.threads,
          of_batch, 1e-6 * rate, percentile(50), percentile(99), backend);
    } else {
      const nlohmann::json row = {{"benchmark", benchmark},
                                  {"engine", "breccia"},
                                  {"backend", backend},
                                  {"key_size", 8},
                                  {"value_size", flags_.row_bytes},
                                  {"row_alignment", flags_.row_alignment},
                                  {"values_in", "log"},
                                  {"entries", flags_.entries},
                                  {"distribution", distribution},
                                  {"batch_size", of_batch},
                                  {"cache_percent", cache_percent_},
                                  {"cache_policy", flags_.cache_policy},
                                  {"hit_rate", hit_rate},
                                  {"threads", flags_.threads},
                                  {"durability", flags_.sync ? "sync" : "log"},
                                  {"log_segment_bytes", flags_.log_segment_bytes},
                                  {"log_preallocate_bytes", flags_.log_preallocate_bytes},
                                  {"requests", flags_.entries},
                                  {"seconds", seconds},
                                  {"ops_per_sec", rate},
                                  {"p50_us", percentile(50)},
                                  {"p99_us", percentile(99)},
                                  {"seed", seed_},
                                  {"machine", machine_name()}};
      fmt::print("{}\n", row.dump());
    }
    std::fflush(stdout);
  }

  /// What the opening took, of all records that it found in the log.
  void say_opening(double seconds) const {
    const RecoveryReport found = store_->recovery();
    const double rate = static_cast<double>(found.entries) / seconds;
    const std::string backend = backend_.device().describe();
    if (!flags_.json) {
      fmt::print("{:<14} {:>13} B, {} records in {} batches: {:.3f} s, {:9.3f} M/s, {}\n",
                 "hash_open", flags_.row_bytes, found.entries, found.frames, seconds, 1e-6 * rate,
                 backend);
    } else {
      const nlohmann::json row = {{"benchmark", "hash_open"},
                                  {"engine", "breccia"},
                                  {"backend", backend},
                                  {"key_size", 8},
                                  {"value_size", flags_.row_bytes},
                                  {"row_alignment", flags_.row_alignment},
                                  {"entries", flags_.entries},
                                  {"records", found.entries},
                                  {"record_bytes", found.bytes},
                                  {"batches", found.frames},
                                  {"log_segment_bytes", flags_.log_segment_bytes},
                                  {"log_preallocate_bytes", flags_.log_preallocate_bytes},
                                  {"cache_percent", cache_percent_},
                                  {"seconds", seconds},
                                  {"ops_per_sec", rate},
                                  {"seed", seed_},
                                  {"machine", machine_name()}};
      fmt::print("{}\n", row.dump());
    }
    std::fflush(stdout);
  }

  static constexpr int kWarmTurns = 4;
  static constexpr char kOfCache[] = "hash_find_cached";
  static constexpr char kPinned[] = "hash_pin";
  static constexpr char kTrained[] = "hash_train";

  const RowsFlags& flags_;
  hash::Backend& backend_;
  const std::uint64_t seed_;
  const std::uint64_t step_;
  std::unique_ptr<HashStore> store_;
  std::uint32_t cache_percent_ = 0;
  std::unique_ptr<Column<std::uint64_t>> ids_, rows_;
  std::unique_ptr<Column<std::uint8_t>> found_;
  std::vector<std::uint64_t> order_;
  std::uint64_t draws_ = 0;
  std::uint64_t version_ = 0;
  double zeta_ = 0;
};

Status run_rounds(const RowsFlags& flags, std::span<const std::uint32_t> batches,
                  std::span<const std::uint32_t> caches,
                  std::span<const std::string> distributions) {
  StoreOptions options;
  options.backend = console::backend_choice(flags.backend);
  std::string why_none;
  BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options, &why_none));
  BRECCIA_TAKE(const auto backend, hash::make_backend(device, {.name = "benchmark"}));
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    RowsBench bench(flags, *backend, flags.seed + round);
    BRECCIA_TRY(bench.run(batches, caches, distributions));
  }
  return Status::OK();
}

int run_rows(const RowsFlags& flags) {
  const auto batches = numbers_of(flags.batch_sizes, 1U << 30);
  const auto caches = numbers_of(flags.cache_percents, kCachePercentMax);
  const auto distributions = words_of(flags.distributions);
  const bool are_known = std::all_of(
      distributions.begin(), distributions.end(),
      [](const std::string& one) { return one == "uniform" || one == "zipf" || one == "hot"; });
  if (batches.empty() || std::find(batches.begin(), batches.end(), 0U) != batches.end() ||
      caches.empty() || !are_known || flags.row_bytes % 8 != 0) {
    console::say(
        "error: --batch_sizes wants numbers above zero, --cache_percents numbers to 1000, "
        "--distributions uniform, zipf or hot, --row_bytes a multiple of 8; several with commas");
    return console::kExitUsage;
  }
  const Status status = run_rounds(flags, batches, caches, distributions);
  if (status.ok()) return console::kExitOk;
  console::say_error("the benchmark did not end", status, "fewer --entries need less memory");
  return console::kExitFailed;
}

}  // namespace

console::Command add_bench_rows(console::App* parent) {
  auto flags = std::make_shared<RowsFlags>();
  console::App* app = parent->add_subcommand(
      "rows",
      "Fill a store of the hash engine with ids and rows in its device's memory, and look "
      "them up there");
  app->add_option("--db", flags->db, "Folder of the store, which is removed before and afterwards")
      ->required();
  app->add_option("--backend", flags->backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--entries", flags->entries, "Ids in the store")
      ->range(64, 1ULL << 31)
      ->capture_default_str();
  app->add_option("--row_bytes", flags->row_bytes, "Bytes of a row, a multiple of 8")
      ->range(8, 1ULL << 20)
      ->capture_default_str();
  app->add_option("--row_alignment", flags->row_alignment,
                  "Rows lie at multiples of so many bytes in the log: 64, of rows that gain by it, "
                  "or 8")
      ->capture_default_str();
  app->add_option("--batch_sizes", flags->batch_sizes,
                  "Ids of a call; several with commas: the first one fills the store")
      ->capture_default_str();
  app->add_option("--cache_percents", flags->cache_percents,
                  "Rows of a hundred that the device's cache has room for; several with commas")
      ->capture_default_str();
  app->add_option("--cache_policy", flags->cache_policy,
                  "Which rows the cache keeps: frequency, recency, random")
      ->one_of({"frequency", "recency", "random"})
      ->capture_default_str();
  app->add_option(
         "--distributions", flags->distributions,
         "How ids are chosen: uniform, zipf (0.99), hot (any of a sixteenth); several with "
         "commas")
      ->capture_default_str();
  app->add_option("--threads", flags->threads, "Threads that call")
      ->range(1, 64)
      ->capture_default_str();
  app->add_option("--log_segment_bytes", flags->log_segment_bytes, "Bytes of a file of the log")
      ->capture_default_str();
  app->add_option("--log_preallocate_bytes", flags->log_preallocate_bytes,
                  "Bytes of the log that are made when the store opens")
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often, each with new ids")->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--cached", flags->cached,
                "Lookups of what the cache has, too, which nobody waits for: their latencies are "
                "those of the call");
  app->add_flag("--pins", flags->pins,
                "Lookups of what the cache has, too, of rows that the same call pins before");
  app->add_flag("--train", flags->trains,
                "Lookups, too, of which each call writes the rows that it found");
  app->add_flag("--sync", flags->sync, "Writes survive a power cut when their call returns");
  app->add_flag("--json", flags->json, "Print one JSON object a line");
  return {app, [flags] { return run_rows(*flags); }};
}

}  // namespace breccia::bench
