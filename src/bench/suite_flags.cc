#include "bench/suite_flags.h"

#include <algorithm>

#include "base/machine.h"
#include "bench/engines/engine.h"
#include "bench/places.h"
#include "bench/report.h"
#include "bench/rows.h"
#include "console/console.h"
#include "console/rocksdb_assertions.h"
#include "console/store_flags.h"

namespace breccia::bench {

namespace {

// The hRocks paper's tuning: six memtables of 512 MiB and a block cache of 4 GiB. Neither may take
// more than a quarter of the memory.
constexpr std::uint64_t kMemtableBytes = 6 * (512ULL << 20);
constexpr std::uint64_t kCacheBytes = 4ULL << 30;

std::uint64_t within_memory(std::uint64_t bytes) {
  return std::min(bytes, base::usable_memory_bytes() / 4);
}

}  // namespace

void SuiteFlags::add_to(console::App* app) {
  app->add_option("--db", db, "Folder of the database; default: one in the temporary folder");
  app->add_option("--wal_dir", wal_dir, "Folder of the log");
  app->add_flag("--use_existing_db", use_existing_db, "Run on the database that is there");
  app->add_option(
         "--engine", engine,
         "breccia, hash (breccia with the hash engine), slab or slab_in_place (with the slab "
         "engine, the latter of keys and values of 8 bytes), rocksdb, flatmap: a hash table in "
         "memory, of keys and values of 8 bytes; or disagg: a cluster of servers, which has to be "
         "without keys")
      ->one_of({std::begin(kEngines), std::end(kEngines)})
      ->capture_default_str();
  app->add_option("--config", cluster, "The file of the cluster that --engine=disagg measures");
  app->add_option("--backend", backend, "Where Breccia's batches run: auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--device", device, "Which GPU, by CUDA's number")->capture_default_str();
  app->add_option("--compare", compare, "Engines to run in turn, as breccia,rocksdb")
      ->delimiter(',')
      ->one_of({std::begin(kEngines), std::end(kEngines)});
  app->add_option("--rounds", rounds, "Times that --compare runs each engine")
      ->range(1, 1000)
      ->capture_default_str();
  app->add_flag("--rocksdb_plain", rocksdb_plain,
                "In --compare, use RocksDB as db_bench does, not as a short probe finds best");
  app->add_flag("--sync", sync, "Writes reach the medium before they are acknowledged");
  app->add_flag("--disable_wal", disable_wal, "Writes are not logged");
  app->add_option("--memtable_bytes", memtable_bytes,
                  "Memory for writes; RocksDB gets six memtables of a sixth; default: 3 GiB, at "
                  "most a quarter of the memory");
  app->add_option("--log_segment_bytes", log_segment_bytes, "Size of Breccia's log segments");
  app->add_option("--log_preallocate_bytes", log_preallocate_bytes,
                  "Log that Breccia makes ready before the clock starts");
  app->add_option("--clean_bytes", clean_bytes,
                  "Log whose entries Breccia keeps in memory behind a flush; -1: as much as "
                  "--memtable_bytes; none in the states of the tree")
      ->capture_default_str();
  app->add_option("--entry_cache_bytes", entry_cache_bytes,
                  "Memory of Breccia's for entries of the tree; -1: the store's default")
      ->capture_default_str();
  app->add_option("--residency_bytes", residency_bytes,
                  "Device memory of Breccia's for keys of the tree's files; 0: none")
      ->capture_default_str();
  app->add_option("--hot_keys", hot_keys,
                  "Keys that Breccia's tier of hot keys holds at most; 0: there is none")
      ->capture_default_str();
  app->add_option("--cache_size", cache_size, "Block cache; default: 4 GiB, at most a quarter");
  app->add_option("--bloom_bits", bloom_bits,
                  "Bits per key of Bloom filters; -1: ten for Breccia and for RocksDB at its best, "
                  "else none")
      ->capture_default_str();
  app->add_flag("--disable_auto_compactions", no_compactions,
                "Files overlap as they were flushed, until `compact`");
  app->add_option("--rocksdb_options", rocksdb_options,
                  "More options of RocksDB, as the engine or below Breccia, as it reads them: "
                  "\"level0_file_num_compaction_trigger=8;max_bytes_for_level_base=1073741824\"");
  app->add_option("--compression_type", compression, "none, snappy, lz4 or zstd")
      ->one_of({"none", "snappy", "lz4", "zstd"})
      ->capture_default_str();
  app->add_option(
         "--state", state,
         "Where data lie when a benchmark that reads begins: memtable, as written; clean, "
         "flushed; tree-warm, flushed, opened again and looked through once; tree-cold, "
         "opened again without what the system has cached of the files. A benchmark's own, "
         "as readrandom@clean, wins")
      ->one_of({"memtable", "clean", "tree-warm", "tree-cold"})
      ->capture_default_str();
  add_running_to(app);
}

// How a step runs, and how what came of it is told.
void SuiteFlags::add_running_to(console::App* app) {
  app->add_option("--threads", threads, "Threads")->range(1, 1024)->capture_default_str();
  app->add_option("--batch_size", batch_size, "Requests per batch; 1: single requests")
      ->range(1, 1U << 28)
      ->capture_default_str();
  app->add_flag("--prebuilt", prebuilt, "Build all batches before the clock starts");
  app->add_flag("--ready", ready,
                "Make all requests before the clock starts, in arrays, as of a client that has "
                "its data; batches are filled within it");
  app->add_flag("--in_place", in_place,
                "Values of 64 bytes and more that Breccia's batches find are left in its memory, "
                "and read there");
  app->add_flag("--columns", columns,
                "Breccia's batches take columns, which stay in place, and their lookups fill one");
  app->add_flag("--registered", registered,
                "Their keys lie in memory that Breccia's device reads where it lies; with --ready");
  app->add_flag("--verify", verify, "Check every result, not one in 61");
  app->add_flag("--histogram", histogram, "Print latencies by percentile");
  app->add_flag("--json", json, "Print JSON objects in place of text");
  app->add_option("--json-out-file", json_file, "Append one JSON object per run to this file");
  app->add_flag("--no_machine", no_machine,
                "Leave out the machine's limits, which rows of JSON begin with");
  app->add_flag("-s,--progress", progress, "Report once a second, even if not to a terminal");
  app->add_option("--seed", seed, "Seed of keys and values")->capture_default_str();
}

std::string SuiteFlags::fill(SuiteConfig* suite) const {
  if (sync && disable_wal) return "--sync and --disable_wal exclude each other";
  if (!compare.empty() && use_existing_db)
    return "--compare makes new databases; leave out "
           "--use_existing_db";
  if (prebuilt && batch_size == 1) return "--prebuilt needs a --batch_size of 2 or more";
  if (columns && batch_size == 1) return "--columns needs a --batch_size of 2 or more";
  if (use_existing_db && db.empty() && engine != "disagg") return "--use_existing_db needs --db";
  const bool has_disagg =
      engine == "disagg" || std::find(compare.begin(), compare.end(), "disagg") != compare.end();
  if (has_disagg == cluster.empty()) return "--engine=disagg and --config need one another";
  if (registered && !(columns && ready)) return "--registered needs --columns and --ready";
  suite->place = {db.empty() ? default_folder() : db, wal_dir};
  suite->use_existing_db = use_existing_db;
  suite->compare = compare;
  suite->rounds = rounds;
  suite->rocksdb_best =
      !rocksdb_plain && std::find(compare.begin(), compare.end(), "rocksdb") != compare.end();
  suite->live = progress || console::stderr_is_terminal();
  suite->json = json;
  suite->histogram = histogram;
  suite->json_file = json_file;
  suite->skip_machine = no_machine;
  suite->seed = seed;
  suite->engine.engine = engine;
  suite->engine.backend = console::backend_choice(backend);
  suite->engine.device = device;
  suite->engine.cluster = cluster;
  suite->engine.threads = threads;
  suite->engine.columns = columns;
  suite->engine.registered = registered;
  suite->engine.in_place = in_place;
  if (disable_wal) suite->engine.durability = Durability::kNone;
  if (sync) suite->engine.durability = Durability::kSync;
  suite->engine.memtable_bytes =
      memtable_bytes > 0 ? memtable_bytes : within_memory(kMemtableBytes);
  suite->engine.log_segment_bytes = log_segment_bytes;
  suite->engine.log_preallocate_bytes = log_preallocate_bytes;
  if (clean_bytes >= 0) suite->engine.clean_bytes = static_cast<std::uint64_t>(clean_bytes);
  if (entry_cache_bytes >= 0) {
    suite->engine.entry_cache_bytes = static_cast<std::uint64_t>(entry_cache_bytes);
  }
  suite->engine.residency_bytes = residency_bytes;
  suite->engine.hot_keys = hot_keys;
  suite->engine.cache_bytes = cache_size > 0 ? cache_size : within_memory(kCacheBytes);
  suite->engine.bloom_bits = bloom_bits;
  suite->engine.compression = compression;
  suite->engine.no_compactions = no_compactions;
  suite->engine.rocksdb_options = rocksdb_options;
  rocksdb::Options parsed;
  const Status status = add_options(rocksdb_options, &parsed);
  return status.ok() ? "" : "--rocksdb_options: " + status.ToString();
}

DriverConfig SuiteFlags::driver(std::uint64_t requests_per_thread) const {
  DriverConfig config;
  config.threads = threads;
  config.requests_per_thread = requests_per_thread;
  config.batch_size = batch_size;
  config.prebuilt = prebuilt;
  config.ready = ready;
  config.sample_every = sample_every();
  return config;
}

void report_step(const SuiteConfig& suite, const Step& step, const StepResult& result,
                 const DriverOutcome& outcome) {
  if (keeps_rows(suite)) keep_row(suite, to_json(suite, step, result));
  // A comparison ends with a table of all runs.
  if (suite.json || !suite.compare.empty()) return;
  print_step(suite, step, result);
  if (suite.histogram) print_histogram(outcome.latency);
}

Status report_machine(const SuiteConfig& suite) {
  if (!keeps_rows(suite) || suite.skip_machine) return Status();
  BRECCIA_TAKE(const MachineLimits limits, measure_machine(suite.place.db, suite.engine));
  keep_row(suite, to_json(limits));
  return Status();
}

void warn_of_environment() {
  const std::string warning = console::assertions_warning(console::rocksdb_build());
  if (!warning.empty()) console::say("warning: " + warning);
}

}  // namespace breccia::bench
