#include <breccia/hash_options.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "bench/commands.h"
#include "bench/places.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"

/// `breccia bench recovery`: fills a store, closes it, and times how its log comes back.

namespace breccia::bench {

namespace {

struct RecoveryFlags {
  std::string db = default_folder();
  std::string wal_dir;
  std::string engine = "breccia";
  std::string backend = "auto";
  std::uint64_t num = 10'000'000;
  std::uint32_t key_size = 8;
  std::uint32_t value_size = 8;
  std::uint32_t batch_size = 1 << 20;
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  bool json = false;
};

void set_options(const RecoveryFlags& flags, StoreOptions* options) {
  options->create_if_missing = true;
  options->backend = console::backend_choice(flags.backend);
  options->wal_dir = flags.wal_dir;
  options->log_segment_bytes = 256ULL << 20;
}

Status open(const RecoveryFlags& flags, std::unique_ptr<Store>* store) {
  store->reset();
  if (flags.engine == "hash") {
    HashOptions options;
    set_options(flags, &options);
    options.keys_expected = flags.num;
    return Store::Open(options, flags.db, store);
  }
  Options options;
  set_options(flags, &options);
  // Twice what is written stays in the log: a flush would leave nothing to recover.
  const std::uint64_t record = 16 + flags.key_size + flags.value_size + 8;
  options.memtable_bytes = 4 * flags.num * record + (1ULL << 30);
  return Store::Open(options, flags.db, store);
}

Status fill(const RecoveryFlags& flags, Store* store) {
  Batch batch = store->NewBatch();
  std::string key(flags.key_size, '0');
  std::string value(flags.value_size, 'v');
  for (std::uint64_t i = 0; i < flags.num;) {
    batch.Clear();
    for (std::uint32_t in_batch = 0; in_batch < flags.batch_size && i < flags.num; ++in_batch) {
      const std::uint64_t word = base::mix64(flags.seed * flags.num + i++);
      std::memcpy(key.data(), &word, std::min<std::size_t>(key.size(), sizeof word));
      std::memcpy(value.data(), &word, std::min<std::size_t>(value.size(), sizeof word));
      const Status status = batch.Put(key, value);
      if (!status.ok()) return status;
    }
    const Status status = store->Submit({}, &batch);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

/// Looks up one key in 1,000; Corruption if one is not what was written.
Status check(const RecoveryFlags& flags, Store* store) {
  std::string key(flags.key_size, '0');
  std::string value;
  for (std::uint64_t i = 0; i < flags.num; i += 1000) {
    const std::uint64_t word = base::mix64(flags.seed * flags.num + i);
    std::memcpy(key.data(), &word, std::min<std::size_t>(key.size(), sizeof word));
    const Status status = store->Get(key, &value);
    if (!status.ok()) return status;
    const std::size_t compared = std::min<std::size_t>(flags.value_size, sizeof word);
    if (value.size() != flags.value_size || std::memcmp(value.data(), &word, compared) != 0) {
      return Status::Corruption(fmt::format("entry {} came back changed", i));
    }
  }
  return Status::OK();
}

Status run_round(const RecoveryFlags& flags) {
  const Place place{flags.db, flags.wal_dir};
  Status status = make_fresh(place);
  std::unique_ptr<Store> store;
  if (status.ok()) status = open(flags, &store);
  if (status.ok()) status = fill(flags, store.get());
  if (!status.ok()) return status;
  status = open(flags, &store);
  if (!status.ok()) return status;
  const RecoveryReport report = store->recovery();
  status = check(flags, store.get());
  if (!status.ok()) return status;
  std::string backend;
  (void)store->GetProperty("breccia.backend", &backend);
  const double rate = static_cast<double>(report.entries) / report.seconds;
  if (flags.json) {
    const nlohmann::json line = {{"benchmark", "recovery"},
                                 {"engine", flags.engine},
                                 {"backend", backend},
                                 {"ops", report.entries},
                                 {"seconds", report.seconds},
                                 {"ops_per_sec", rate},
                                 {"key_size", flags.key_size},
                                 {"value_size", flags.value_size},
                                 {"batch_size", flags.batch_size},
                                 {"seed", flags.seed}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("recovery of {}: {} entries of {} B / {} B in {:.3f} s, {:.1f} M/s; {}\n",
               flags.engine, report.entries, flags.key_size, flags.value_size, report.seconds,
               rate / 1e6, backend);
  }
  store.reset();
  return remove_marked(place);
}

int run_recovery(RecoveryFlags flags) {
  for (std::uint32_t round = 0; round < flags.rounds; ++round, ++flags.seed) {
    const Status status = run_round(flags);
    if (!status.ok()) {
      console::say("error: " + status.ToString() + "; database: " + flags.db);
      return console::kExitFailed;
    }
  }
  return console::kExitOk;
}

}  // namespace

console::Command add_bench_recovery(console::App* parent) {
  auto flags = std::make_shared<RecoveryFlags>();
  console::App* app = parent->add_subcommand(
      "recovery", "Fill a store, close it, and time how its log is read back");
  app->add_option("--db", flags->db, "Folder of the database")->capture_default_str();
  app->add_option("--wal_dir", flags->wal_dir, "Folder of the log");
  app->add_option("--engine", flags->engine,
                  "breccia, the ordered engine, whose log comes back into runs; or hash, whose "
                  "log fills its table")
      ->one_of({"breccia", "hash"})
      ->capture_default_str();
  app->add_option("--backend", flags->backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--num", flags->num, "Entries")->capture_default_str();
  app->add_option("--key_size", flags->key_size, "Bytes of a key, 8 at least")
      ->range(8, 1024)
      ->capture_default_str();
  app->add_option("--value_size", flags->value_size, "Bytes of a value")->capture_default_str();
  app->add_option("--batch_size", flags->batch_size, "Entries of a batch")
      ->range(1, 1U << 28)
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often")->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--json", flags->json, "Print one JSON object a round");
  return {app, [flags] { return run_recovery(*flags); }};
}

}  // namespace breccia::bench
