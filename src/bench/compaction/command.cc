#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <sys/resource.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "bench/commands.h"
#include "bench/lists.h"
#include "bench/places.h"
#include "bench/rows.h"
#include "compaction/backend.h"
#include "compaction/plan.h"
#include "compaction/service.h"
#include "compaction/slice_reader.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "exec/choose.h"
#include "exec/host_vector.h"

/// `breccia bench compaction`: files of a RocksDB database become one level, by RocksDB and by the
/// service in turns, from hard links of the same files; what comes out is compared. Beside that the
/// device's part alone: blocks in host memory in, blocks in host memory out.

namespace breccia::bench {

namespace {

struct CompactionFlags {
  std::string db = default_folder();
  std::string backend = "auto";
  std::string value_sizes = "32,128,1024";
  std::string orderings = "auto";
  std::uint64_t megabytes = 256;
  std::uint32_t inputs = 4;
  std::uint32_t key_size = 16;
  std::uint32_t subcompactions = 0;
  std::uint32_t rounds = 5;
  std::string slice_megabytes = "0";
  std::string slices_at_once = "0";
  std::uint64_t seed = 1;
  bool device_only = false;
  bool json = false;
};

/// How slices are merged.
struct Way {
  std::string ordering;
  std::uint64_t slice_megabytes = 0;
  std::uint32_t slices_at_once = 0;

  void apply_to(compaction::MergeJob* job) const {
    job->ordering = ordering == "sort"    ? compaction::Ordering::kSort
                    : ordering == "merge" ? compaction::Ordering::kMerge
                                          : compaction::Ordering::kAuto;
    job->slice_bytes = slice_megabytes << 20;
    job->slices_at_once = slices_at_once;
  }
};

/// What one way of doing it took.
struct Taken {
  double seconds = 0;
  double cpu_seconds = 0;
  double system_seconds = 0;  // of those, in the kernel
};

/// What this process has taken so far.
Taken processors() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  const double system = seconds(used.ru_stime);
  return {0, seconds(used.ru_utime) + system, system};
}

class Watch {
 public:
  Watch() : begin_(processors()) {}
  [[nodiscard]] Taken taken() const {
    const Taken now = processors();
    return {1e-6 * static_cast<double>(wall_.micros()), now.cpu_seconds - begin_.cpu_seconds,
            now.system_seconds - begin_.system_seconds};
  }

 private:
  const base::Stopwatch wall_;
  const Taken begin_;
};

rocksdb::Options plain_options() {
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = true;
  options.max_compaction_bytes = 1ULL << 50;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

/// The backend that does the merges.
struct Merger {
  std::shared_ptr<compaction::Backend> backend;
  std::string name;

  static Result<Merger> open(const std::string& choice) {
    StoreOptions options;
    options.backend = console::backend_choice(choice);
    std::string why_none;
    BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options, &why_none));
    BRECCIA_TAKE(auto backend,
                 compaction::make_backend(device, {.name = "compaction", .waits_asleep = true}));
    return Merger{std::move(backend), device->describe()};
  }
};

/// One database, and what is asked of it.
class Bench {
 public:
  Bench(const CompactionFlags& flags, const std::vector<Way>& ways, const Merger& merger,
        std::uint32_t value_size, std::uint64_t seed)
      : flags_(flags), ways_(ways), merger_(merger), value_size_(value_size), seed_(seed) {}

  Status run() {
    const Place place{flags_.db, ""};
    BRECCIA_TRY(make_fresh(place));
    BRECCIA_TRY(fill());
    for (const Way& way : ways_) BRECCIA_TRY(measure_device(way));
    if (!flags_.device_only) BRECCIA_TRY(measure_ends());
    return remove_marked(place);
  }

 private:
  [[nodiscard]] std::string folder(const std::string& name) const { return flags_.db + "/" + name; }

  Status fill() {
    rocksdb::Options options = plain_options();
    options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
    options.allow_concurrent_memtable_write = false;
    options.write_buffer_size = 1ULL << 40;
    rocksdb::DB* opened = nullptr;
    BRECCIA_TRY(rocksdb::DB::Open(options, folder("filled"), &opened));
    const std::unique_ptr<rocksdb::DB> db(opened);
    rocksdb::WriteOptions unlogged;
    unlogged.disableWAL = true;
    base::Random random(seed_);
    std::string key(flags_.key_size, '0');
    std::string value(value_size_, '0');
    const std::uint64_t entries =
        (flags_.megabytes << 20) / flags_.inputs / (flags_.key_size + value_size_);
    for (std::uint32_t file = 0; file < flags_.inputs; ++file) {
      for (std::uint64_t i = 0; i < entries; ++i) {
        fill_random(&random, &key);
        fill_random(&random, &value);
        BRECCIA_TRY(db->Put(unlogged, key, value));
      }
      BRECCIA_TRY(db->Flush({}));
    }
    rocksdb::Checkpoint* made = nullptr;
    BRECCIA_TRY(rocksdb::Checkpoint::Create(db.get(), &made));
    checkpoint_.reset(made);
    std::vector<rocksdb::LiveFileMetaData> files;
    db->GetLiveFilesMetaData(&files);
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.largest_seqno > b.largest_seqno; });
    input_bytes_ = 0;
    for (const auto& file : files) {
      input_bytes_ += file.size;
      job_.runs.push_back({{file.db_path + file.name, std::nullopt}});
    }
    std::vector<std::string> names = {"rocksdb", "rocksdb_parallel"};
    for (std::size_t i = 0; i < ways_.size(); ++i) names.push_back("breccia" + std::to_string(i));
    for (const std::string& name : names) {
      BRECCIA_TRY(checkpoint_->CreateCheckpoint(folder(name)));
    }
    checkpoint_.reset();
    return Status::OK();
  }

  static void fill_random(base::Random* random, std::string* bytes) {
    for (std::size_t at = 0; at < bytes->size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random->next();
      std::memcpy(bytes->data() + at, &word, std::min(sizeof word, bytes->size() - at));
    }
  }

  // ---- the device's part alone ----

  /// Files in memory that the device reads at full speed, and slices of them.
  Status measure_device(const Way& way) {
    way.apply_to(&job_);
    job_.rules.is_bottommost = true;
    job_.rules.drops_deletions = true;
    compaction::Inputs inputs;
    BRECCIA_TRY(compaction::Inputs::open(job_, &inputs));
    const exec::Device& device = merger_.backend->device();
    const auto ends =
        compaction::slice_ends(inputs, job_, compaction::slice_bytes_of(job_, device));
    std::vector<std::unique_ptr<compaction::SliceReader>> readers;  // what they read is theirs
    std::vector<compaction::Slice> slices(ends.size() + 1);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      readers.push_back(std::make_unique<compaction::SliceReader>(
          inputs, merger_.backend->device().host_memory()));
      BRECCIA_TRY(readers.back()->read(i == 0 ? std::nullopt : std::optional(ends[i - 1]),
                                       i == ends.size() ? std::nullopt : std::optional(ends[i]),
                                       &slices[i]));
    }
    const std::size_t threads = compaction::slices_at_once_of(job_, merger_.backend->tenant());
    BRECCIA_TRY(merge_slices(slices, threads, 1).status());  // pools are filled
    BRECCIA_TAKE(Taken taken, merge_slices(slices, threads, kPasses));
    taken.seconds /= kPasses;
    taken.cpu_seconds /= kPasses;
    taken.system_seconds /= kPasses;
    say("compaction_device", "breccia", threads, taken, &way);
    return Status::OK();
  }

  /// All slices, several times one behind the other: a single pass lasts milliseconds, and at its
  /// end threads have nothing to do.
  Result<Taken> merge_slices(const std::vector<compaction::Slice>& slices, std::size_t at_once,
                             std::size_t passes) {
    std::atomic<std::size_t> next{0};
    std::atomic<std::uint64_t> entries{0};
    std::vector<Status> statuses(at_once);
    std::vector<std::thread> threads;
    const Watch watch;
    for (std::size_t t = 0; t < at_once; ++t) {
      threads.emplace_back([&, t] {
        compaction::MergedSlice merged(merger_.backend->device().host_memory());
        for (std::size_t i = next++; i < passes * slices.size() && statuses[t].ok(); i = next++) {
          merged.bytes.clear();
          merged.blocks.clear();
          statuses[t] = merger_.backend->merge(slices[i % slices.size()], job_.rules, job_.shape,
                                               {job_.ordering}, &merged);
          entries += merged.entries_read;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const Taken taken = watch.taken();
    for (const Status& status : statuses) BRECCIA_TRY(Status(status));
    const std::uint64_t expected =
        (flags_.megabytes << 20) / flags_.inputs / (flags_.key_size + value_size_) * flags_.inputs;
    if (entries != passes * expected) return Status::Corruption("slices lost entries");
    return taken;
  }

  // ---- from files to files ----

  Status measure_ends() {
    std::uint64_t expected = 0;
    BRECCIA_TRY(measure_one("rocksdb", 1, nullptr, &expected));
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      BRECCIA_TRY(measure_one("breccia" + std::to_string(i), 1, &ways_[i], &hash));
      if (hash != expected) return Status::Corruption("the service's files hold something else");
    }
    if (flags_.subcompactions < 2) return Status::OK();
    return measure_one("rocksdb_parallel", flags_.subcompactions, nullptr, &hash);
  }

  /// `way`: of the service; null: RocksDB does it.
  Status measure_one(const std::string& name, std::uint32_t threads, const Way* way,
                     std::uint64_t* hash) {
    rocksdb::Options options = plain_options();
    options.max_subcompactions = threads;
    options.max_background_jobs = static_cast<int>(std::max(2U, threads));
    std::shared_ptr<compaction::Service> service;
    if (way != nullptr) {
      compaction::ServiceOptions how;
      how.decision.device_bytes_min = 1;  // all of it goes to the merger's backend
      service = std::make_shared<compaction::Service>(
          how, compaction::Engine{[this, way](compaction::MergeJob job, compaction::Place,
                                              compaction::Merged* merged) {
                                    way->apply_to(&job);
                                    return compaction::merge(job, *merger_.backend, merged);
                                  },
                                  [] { return true; }});
      options.compaction_service = service;
      options.listeners.push_back(std::make_shared<compaction::ServiceListener>(service));
    }
    rocksdb::DB* opened = nullptr;
    BRECCIA_TRY(rocksdb::DB::Open(options, folder(name), &opened));
    const std::unique_ptr<rocksdb::DB> db(opened);
    const Watch watch;
    BRECCIA_TRY(db->CompactRange({}, nullptr, nullptr));
    const Taken taken = watch.taken();
    if (service != nullptr && !service->figures().left.empty()) {
      return Status::Aborted("RocksDB did it", service->figures().lines());
    }
    say("compaction_end_to_end", way != nullptr ? "breccia" : "rocksdb", threads, taken, way);
    return hash_of(db.get(), hash);
  }

  static Status hash_of(rocksdb::DB* db, std::uint64_t* hash) {
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
    *hash = 0;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      *hash = XXH3_64bits_withSeed(at->key().data(), at->key().size(), *hash);
      *hash = XXH3_64bits_withSeed(at->value().data(), at->value().size(), *hash);
    }
    return at->status();
  }

  void say(const std::string& benchmark, const std::string& engine, std::size_t threads,
           const Taken& taken, const Way* way) const {
    const double gigabytes = 1e-9 * static_cast<double>(input_bytes_);
    const double rate = gigabytes / taken.seconds;
    const double cpu = taken.cpu_seconds / gigabytes;
    const double system = taken.system_seconds / gigabytes;
    const std::string backend = engine == "breccia" ? merger_.name : "";
    compaction::MergeJob job = job_;
    if (way != nullptr) way->apply_to(&job);
    const exec::Device& device = merger_.backend->device();
    const std::uint64_t slice_megabytes = compaction::slice_bytes_of(job, device) >> 20;
    const std::size_t slices_at_once =
        compaction::slices_at_once_of(job, merger_.backend->tenant());
    if (!flags_.json) {
      fmt::print(
          "{:<22} {:<8} {:>5} B, {:.2f} GB in: {:7.3f} GB/s, {:6.2f} CPU s/GB ({:.2f} of the "
          "kernel's), {} at once {}{}\n",
          benchmark, engine, value_size_, gigabytes, rate, cpu, system, threads, backend,
          way == nullptr ? ""
                         : fmt::format(", {}, slices of {} MiB", way->ordering, slice_megabytes));
      std::fflush(stdout);  // who stops it early has what there is
      return;
    }
    nlohmann::json row = {{"benchmark", benchmark},
                          {"engine", engine},
                          {"backend", backend},
                          {"value_size", value_size_},
                          {"key_size", flags_.key_size},
                          {"inputs", flags_.inputs},
                          {"input_bytes", input_bytes_},
                          {"threads", threads},
                          {"seconds", taken.seconds},
                          {"gb_per_sec", rate},
                          {"cpu_seconds_per_gb", cpu},
                          {"system_seconds_per_gb", system},
                          {"seed", seed_},
                          {"machine", machine_name()}};
    if (way != nullptr) {
      row["ordering"] = way->ordering;
      row["slice_megabytes"] = slice_megabytes;
      row["slices_at_once"] = slices_at_once;
    }
    fmt::print("{}\n", row.dump());
    std::fflush(stdout);
  }

  /// So often all slices are merged, of the device alone.
  static constexpr std::size_t kPasses = 8;

  const CompactionFlags& flags_;
  const std::vector<Way>& ways_;
  const Merger& merger_;
  const std::uint32_t value_size_;
  const std::uint64_t seed_;
  std::unique_ptr<rocksdb::Checkpoint> checkpoint_;
  compaction::MergeJob job_;
  std::uint64_t input_bytes_ = 0;
};

/// Every way that the flags name; none: they name none.
std::vector<Way> ways_of(const CompactionFlags& flags) {
  constexpr std::uint32_t kSliceMegabytesMax = 1024;
  constexpr std::uint32_t kSlicesMax = 64;
  std::vector<Way> ways;
  for (const std::string& ordering : words_of(flags.orderings)) {
    if (ordering != "auto" && ordering != "merge" && ordering != "sort") return {};
    for (const std::uint32_t megabytes : numbers_of(flags.slice_megabytes, kSliceMegabytesMax)) {
      for (const std::uint32_t slices : numbers_of(flags.slices_at_once, kSlicesMax)) {
        ways.push_back({ordering, megabytes, slices});
      }
    }
  }
  return ways;
}

int run_compaction(const CompactionFlags& flags) {
  constexpr std::uint32_t kValueBytesMax = 16 << 20;
  const std::vector<std::uint32_t> value_sizes = numbers_of(flags.value_sizes, kValueBytesMax);
  if (value_sizes.empty()) {
    console::say("error: --value_sizes wants bytes of values, as in 32,128: " + flags.value_sizes);
    return console::kExitUsage;
  }
  const std::vector<Way> ways = ways_of(flags);
  if (ways.empty()) {
    console::say(
        "error: --ordering wants auto, merge or sort, --slice_megabytes and --slices_at_once want "
        "numbers; several with commas");
    return console::kExitUsage;
  }
  auto merger = Merger::open(flags.backend);
  Status status = merger.status();
  for (std::uint32_t round = 0; status.ok() && round < flags.rounds; ++round) {
    for (const std::uint32_t value_size : value_sizes) {
      if (!status.ok()) break;
      status = Bench(flags, ways, merger.value(), value_size, flags.seed + round).run();
    }
  }
  if (status.ok()) return console::kExitOk;
  console::say("error: " + status.ToString() + "; database: " + flags.db);
  return console::kExitFailed;
}

}  // namespace

console::Command add_bench_compaction(console::App* parent) {
  auto flags = std::make_shared<CompactionFlags>();
  console::App* app = parent->add_subcommand(
      "compaction", "Compact the same files with RocksDB and with Breccia, and time both");
  app->add_option("--db", flags->db, "Folder of the databases")->capture_default_str();
  app->add_option("--backend", flags->backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--value_sizes", flags->value_sizes, "Bytes of a value; several with commas")
      ->capture_default_str();
  app->add_option("--ordering", flags->orderings,
                  "auto, merge or sort: how runs become one; several with commas")
      ->capture_default_str();
  app->add_option("--megabytes", flags->megabytes, "MiB of keys and values")->capture_default_str();
  app->add_option("--inputs", flags->inputs, "Files")->range(1, 64)->capture_default_str();
  app->add_option("--key_size", flags->key_size, "Bytes of a key")
      ->range(8, 1024)
      ->capture_default_str();
  app->add_option("--subcompactions", flags->subcompactions,
                  "Also time RocksDB with that many at once; 0: not");
  app->add_option("--slice_megabytes", flags->slice_megabytes,
                  "MiB of a slice; 0: what suits the backend; several with commas")
      ->capture_default_str();
  app->add_option("--slices_at_once", flags->slices_at_once,
                  "Slices at once; 0: what suits the backend; several with commas")
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often")->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--device_only", flags->device_only, "Leave the files out");
  app->add_flag("--json", flags->json, "Print one JSON object a line");
  return {app, [flags] { return run_compaction(*flags); }};
}

}  // namespace breccia::bench
