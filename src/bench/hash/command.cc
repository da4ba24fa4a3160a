#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/commands.h"
#include "bench/hash/flags.h"
#include "bench/hash/run.h"
#include "bench/hash/workloads.h"
#include "bench/lists.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "exec/choose.h"
#include "hash/backend.h"

/// `breccia bench hash`: a table is filled with random keys of one size and asked for them. Keys,
/// values and results lie in the backend's memory; the clock covers the calls, each of which waits
/// for its batch. Every answer is compared with what it must be, outside the clock.

namespace breccia::bench::tables {

namespace {

constexpr const char* kFooter =
    "Keys, values and results lie in the backend's memory. The clock covers the calls, each of\n"
    "which waits for its batch; columns are filled before it. Behind it every answer is compared\n"
    "with what it must be, and a wrong one ends the benchmark. p50, p99 and the longest are of\n"
    "single calls; of workload f and of dlrm, whose batches are two calls, of both together.\n"
    "Tables have no keys of more than 64 bytes: `breccia bench --engine=hash` has.";

constexpr std::array kWorkloads = {"micro", "load", "a",        "b",    "c",    "d",
                                   "f",     "fill", "max_load", "grow", "dlrm", "pagerank"};
const std::set<std::string> kYcsb = {"load", "a", "b", "c", "d", "f"};

/// What the flags' lists say.
struct Lists {
  std::set<std::string> workloads;
  std::vector<std::uint32_t> batches;
  std::vector<Shape> shapes;
  std::vector<double> skews;
};

bool are_above_zero(const std::vector<std::uint32_t>& numbers) {
  return !numbers.empty() && std::find(numbers.begin(), numbers.end(), 0U) == numbers.end();
}

/// What a workload's keys are drawn by: one choice for each theta. `usual` is its own.
/// Shape   the flag's thetas are numbers.
std::vector<Choice> choices_of(const HashFlags& flags, const std::vector<double>& skews,
                               const std::string& usual) {
  const std::string& own = flags.distribution == "auto" ? usual : flags.distribution;
  if (own != "zipf") return {{own, 0}};
  std::vector<Choice> choices;
  for (const double skew : skews) choices.push_back({own, skew});
  return choices;
}

/// None: they are no numbers that a theta may be.
std::vector<double> skews_of(const HashFlags& flags) {
  constexpr double kSkewMax = 10;
  std::vector<double> skews;
  for (const std::string& word : words_of(flags.skews)) {
    double skew = 0;
    const char* const end = word.data() + word.size();
    const auto [behind, error] = std::from_chars(word.data(), end, skew);
    if (error != std::errc() || behind != end || !(skew >= 0 && skew <= kSkewMax)) return {};
    skews.push_back(skew);
  }
  return skews;
}

/// Whose table the flags ask for.
Whose whose_of(const HashFlags& flags) {
  if (flags.slabs) return Whose::kSlabs;
  return flags.table_shapes.empty() ? Whose::kBreccia : Whose::kShaped;
}

std::vector<std::uint32_t> lanes_of(Whose whose) {
  switch (whose) {
    case Whose::kSlabs:
      return {4, 8, 16};
    case Whose::kShaped:
      return {4, 8, 16, 32};
    default:
      return {1, 4, 8};
  }
}

/// Errors  what is wrong with the flags, for the user.
std::optional<std::string> buckets_of(const HashFlags& flags,
                                      std::vector<hash::shapes::Shape>* buckets) {
  for (const std::string& word : words_of(flags.table_shapes)) {
    const auto shape = hash::shapes::Shape::of_name(word);
    if (!shape.has_value()) {
      return "--table_shapes wants names as 2L-2H-8S: 1, 2 or 4 levels, 1, 2 or 4 locations, 1 to "
             "32 slots, 32 in all at most; not " +
             word;
    }
    buckets->push_back(*shape);
  }
  return std::nullopt;
}

/// Of a shape that was read once for each of the buckets; lanes that cannot look at all of their
/// slots at once are passed over.
std::optional<std::string> with_buckets(const HashFlags& flags, std::vector<Shape>* shapes) {
  if (flags.table_shapes.empty()) return std::nullopt;
  std::vector<hash::shapes::Shape> buckets;
  if (auto wrong = buckets_of(flags, &buckets)) return wrong;
  std::vector<Shape> all;
  for (const auto& of : buckets) {
    const auto before = all.size();
    for (Shape shape : *shapes) {
      if (hash::shapes::share_of(of, shape.lanes) == 0) continue;
      shape.buckets = of;
      all.push_back(shape);
    }
    if (all.size() == before) {
      return fmt::format(
          "--lanes: none of them can look at all slots of {} at once: {} slots, 1 "
          "to 8 a lane, those of a lane in one bucket",
          of.name(), of.candidates());
    }
  }
  *shapes = std::move(all);
  return std::nullopt;
}

/// Errors  what is wrong with the flags, for the user.
std::optional<std::string> shapes_of(const HashFlags& flags, std::vector<Shape>* shapes) {
  const auto loads = numbers_of(flags.load_percents, 99);
  const Whose whose = whose_of(flags);
  const std::vector<std::uint32_t> widths = lanes_of(whose);
  const auto lanes = numbers_of(flags.lanes, widths.back());
  const auto key_sizes = numbers_of(flags.key_sizes, 1U << 30);
  const auto sizes = numbers_of(flags.value_sizes, 4096);
  const auto none_of = [](const auto& numbers, const auto& is_wrong) {
    return are_above_zero(numbers) && std::none_of(numbers.begin(), numbers.end(), is_wrong);
  };
  if (!are_above_zero(loads)) return "--load_percents wants numbers from 1 to 99";
  const auto is_no_width = [&](std::uint32_t of) {
    return std::find(widths.begin(), widths.end(), of) == widths.end();
  };
  if (!none_of(lanes, is_no_width)) {
    return fmt::format("--lanes wants numbers among {}", fmt::join(widths, ", "));
  }
  if (whose != Whose::kBreccia && (key_sizes != std::vector{8U} || sizes != std::vector{8U})) {
    return "--key_size, --value_sizes: slabs, and --table_shapes, have keys and values of 8 bytes";
  }
  if (!none_of(key_sizes, [](std::uint32_t of) { return of < 4; })) {
    return "--key_size wants numbers from 4 to 64";
  }
  if (!none_of(key_sizes, [](std::uint32_t of) { return of > 64; })) {
    return "--key_size: tables have no keys of more than 64 bytes; the store of the hash engine "
           "has (`breccia bench --engine=hash --key_size=128`), as its table holds hashes alone";
  }
  if (!none_of(sizes, [](std::uint32_t of) { return of % 8 != 0; })) {
    return "--value_sizes wants 8, 16, ... 4096";
  }
  for (const std::uint32_t load : loads) {
    for (const std::uint32_t width : lanes) {
      for (const std::uint32_t key_size : key_sizes) {
        for (const std::uint32_t size : sizes) {
          shapes->push_back({load, static_cast<int>(width), key_size, size});
        }
      }
    }
  }
  return with_buckets(flags, shapes);
}

/// Whether a table has a workload.
bool has_workload(Whose whose, const std::string& workload) {
  if (workload == "micro") return true;
  if (whose == Whose::kShaped) return workload == "fill" || workload == "max_load";
  return kYcsb.contains(workload);
}

std::optional<std::string> lists_of(const HashFlags& flags, Lists* lists) {
  if (auto wrong = shapes_of(flags, &lists->shapes)) return wrong;
  const std::vector<std::string> workloads = words_of(flags.workloads);
  for (const std::string& workload : workloads) {
    if (std::find(kWorkloads.begin(), kWorkloads.end(), workload) == kWorkloads.end()) {
      return "--workloads has no " + workload + ", but " +
             fmt::format("{}", fmt::join(kWorkloads, " "));
    }
  }
  lists->workloads = {workloads.begin(), workloads.end()};
  const Whose whose = whose_of(flags);
  for (const std::string& workload : workloads) {
    if (whose == Whose::kBreccia || has_workload(whose, workload)) continue;
    return "--workloads: slabs have micro and YCSB's, --table_shapes micro, fill and max_load, and "
           "no " +
           workload;
  }
  lists->batches = numbers_of(flags.batch_sizes, 1U << 30);
  if (!are_above_zero(lists->batches)) return "--batch_sizes wants numbers above zero";
  lists->skews = skews_of(flags);
  if (lists->skews.empty()) return "--skew wants numbers from 0 to 10, as 0.99 or 1.2";
  return std::nullopt;
}

Result<std::shared_ptr<hash::Backend>> open_backend(const HashFlags& flags) {
  StoreOptions options;
  options.backend = console::backend_choice(flags.backend);
  std::string why_none;
  BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options, &why_none));
  return hash::make_backend(device, {.name = "hash"});
}

/// Runs all workloads on tables of one shape. Those that choose the load themselves run but once.
Status run_shape(const HashFlags& flags, hash::Backend& backend, Whose whose, const Shape& shape,
                 std::uint64_t seed, const Lists& lists) {
  Run run(flags, backend, whose, shape, seed);
  BRECCIA_TRY(run.make_columns());
  const auto& asked = lists.workloads;
  if (asked.contains("micro")) {
    BRECCIA_TRY(run_micro(run, lists.batches, choices_of(flags, lists.skews, "uniform")));
  }
  const bool has_ycsb = std::any_of(kYcsb.begin(), kYcsb.end(),
                                    [&](const std::string& one) { return asked.contains(one); });
  if (has_ycsb) {
    BRECCIA_TRY(run_ycsb(run, asked, lists.batches, choices_of(flags, lists.skews, "zipf")));
  }
  if (asked.contains("dlrm")) {
    BRECCIA_TRY(run_dlrm(run, lists.batches, choices_of(flags, lists.skews, "zipf")));
  }
  if (asked.contains("pagerank")) BRECCIA_TRY(run_pagerank(run, lists.batches));
  const bool is_first_load = shape.load_percent == lists.shapes.front().load_percent;
  if (!is_first_load || whose == Whose::kCpu) return Status::OK();
  if (asked.contains("fill")) BRECCIA_TRY(run_fill(run, lists.batches));
  if (asked.contains("max_load")) BRECCIA_TRY(run_max_load(run, lists.batches));
  if (asked.contains("grow")) BRECCIA_TRY(run_grow(run, lists.batches));
  return Status::OK();
}

Status run_rounds(const HashFlags& flags, const Lists& lists) {
  BRECCIA_TAKE(const auto backend, open_backend(flags));
  if (flags.peers == "cpu") {  // a build that has none is told at once
    const Room least{.slots = 64, .keys = 64, .batch = 64};
    BRECCIA_TRY(make_cpu_table(*backend, lists.shapes.front(), least).status());
  }
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    for (const Shape& shape : lists.shapes) {
      const Shape& first = lists.shapes.front();
      const std::uint64_t seed = flags.seed + round;
      BRECCIA_TRY(run_shape(flags, *backend, whose_of(flags), shape, seed, lists));
      // The peer has no lanes.
      const bool is_first = shape.lanes == first.lanes && shape.buckets == first.buckets;
      if (flags.peers != "cpu" || !is_first) continue;
      BRECCIA_TRY(run_shape(flags, *backend, Whose::kCpu, shape, seed, lists));
    }
  }
  return Status::OK();
}

}  // namespace

int run_hash(const HashFlags& flags) {
  Lists lists;
  if (const auto wrong = lists_of(flags, &lists)) {
    console::say("error: " + *wrong + "; several with commas");
    return console::kExitUsage;
  }
  const Status status = run_rounds(flags, lists);
  if (status.ok()) return console::kExitOk;
  console::say_error("the benchmark did not end", status, "fewer --entries need less memory");
  return console::kExitFailed;
}

HashFlags HashFlags::of_slabs() {
  HashFlags flags;
  flags.slabs = true;
  flags.lanes = "4";
  flags.load_percents = "65";
  return flags;
}

void HashFlags::add_to(console::App* app) {
  app->footer(kFooter);
  app->add_option("--backend", backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--entries", entries, "Keys in the table")
      ->range(64, 1ULL << 31)
      ->capture_default_str();
  app->add_option("--requests", requests,
                  "Requests of each figure that draws keys; 0: as many as --entries")
      ->range(0, 1ULL << 40)
      ->capture_default_str();
  app->add_option(
         "--workloads", workloads,
         "What is measured, several with commas. micro: insertions, finds, misses, updates, both "
         "by turns, deletions. load, a, b, c, d, f: YCSB's; f looks a batch up and then updates "
         "half of it. fill: tables filled to the brim, a row for each twentieth. max_load: tables "
         "filled until a key finds no room. grow: the calls "
         "in which a table grows to twice its size. dlrm: lookups, then updates, of embeddings in "
         "26 "
         "tables of Criteo's sizes, scaled to --entries. pagerank: ranks of an R-MAT graph of as "
         "many vertices as the largest power of two in --entries, looked up edge by edge")
      ->capture_default_str();
  app->add_option(
         "--peers", peers,
         "none, or cpu: beside each table one of the host's that serves the device, "
         "boost::concurrent_flat_map, made as large as it will be, by all cores, its finds and "
         "updates sixteen at a time, prefetched; requests are copied to pinned memory and results "
         "back within the clock, unless they lie in the host's memory already. All workloads but "
         "fill and grow")
      ->one_of({"none", "cpu"})
      ->capture_default_str();
  app->add_option("--bag_ids", bag_ids, "dlrm: ids that a sample asks each table for")
      ->range(1, 1000)
      ->capture_default_str();
  app->add_option("--edges", edges, "pagerank: edges for each vertex")
      ->range(1, 1000)
      ->capture_default_str();
  app->add_option("--iterations", iterations, "pagerank: how often all edges are gone through")
      ->range(1, 1000)
      ->capture_default_str();
  app->add_option("--distribution", distribution,
                  "How keys are drawn: uniform, each once in micro; zipf, popular ones anywhere; "
                  "auto: uniform in micro, zipf in others. Workload d always reads what is latest")
      ->one_of({"auto", "uniform", "zipf"})
      ->capture_default_str();
  app->add_option("--skew", skews, "zipf: theta, 0 or more; several with commas")
      ->capture_default_str();
  add_shapes_to(app);
  app->add_option("--rounds", rounds, "How often, each with new keys")->capture_default_str();
  app->add_option("--seed", seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--json", json, "Print one JSON object a line");
}

/// What tables are made of, and asked with.
void HashFlags::add_shapes_to(console::App* app) {
  if (slabs) {
    app->add_option("--table_mib", table_mib,
                    "MiB that the table may take of the backend's memory; what is more lies in the "
                    "host's, but for what is hot of it; 0: no bound")
        ->range(0, 1ULL << 20)
        ->capture_default_str();
    app->add_option("--requests_of_head", requests_of_head,
                    "Requests for each of the table's heads, behind which those that are hot come "
                    "out of the host's memory; 0: none does")
        ->range(0, 1ULL << 20)
        ->capture_default_str();
  }
  app->add_option("--load_percents", load_percents,
                  slabs
                      ? "Keys of a hundred places of a bucket's first slab, when the table splits "
                        "buckets; several with commas"
                      : "Keys of a hundred slots, when it is full; several with commas")
      ->capture_default_str();
  app->add_option("--batch_sizes", batch_sizes,
                  "Requests of a batch; several with commas, each with a table that it fills")
      ->capture_default_str();
  app->add_option("--lanes", lanes,
                  slabs ? "Lanes a request: 4, 8 or 16; several with commas"
                        : "Lanes a request: 1, 4 or 8, of --table_shapes 4, 8, 16 or 32; several "
                          "with commas")
      ->capture_default_str();
  if (!slabs) {
    app->add_option(
        "--table_shapes", table_shapes,
        "In the place of Breccia's table such of GPHash's shapes, as 2L-2H-8S: levels, hash "
        "locations, slots of a bucket, all of which a request looks at at once; several with "
        "commas. They have insertions and lookups alone, and keys may find no room");
  }
  app->add_option("--key_size", key_sizes,
                  "Bytes of a key, 4 to 64; other than 8: in rows; several with commas")
      ->capture_default_str();
  app->add_option("--value_sizes", value_sizes,
                  "Bytes of a value, a multiple of 8; other than 8: in rows; several with commas")
      ->capture_default_str();
}

}  // namespace breccia::bench::tables

namespace breccia::bench {

namespace {

console::Command add(console::App* parent, const char* name, const char* what,
                     const tables::HashFlags& usual) {
  auto flags = std::make_shared<tables::HashFlags>(usual);
  console::App* app = parent->add_subcommand(name, what);
  flags->add_to(app);
  return {app, [flags] { return tables::run_hash(*flags); }};
}

}  // namespace

console::Command add_bench_hash(console::App* parent) {
  return add(parent, "hash", "Measure a hash table by itself: operations and workloads", {});
}

console::Command add_bench_slab(console::App* parent) {
  return add(parent, "slab", "Measure a volatile table of chained slabs in the same way",
             tables::HashFlags::of_slabs());
}

}  // namespace breccia::bench
