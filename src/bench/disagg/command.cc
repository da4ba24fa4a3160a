#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/commands.h"
#include "bench/disagg/flags.h"
#include "bench/disagg/round.h"
#include "bench/lists.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "disagg/key_id.h"

/// `breccia bench disagg`: a disaggregated store on this computer, over shared memory or a network
/// by which it reaches itself, asked by one client a thread. Each operation has its own clock;
/// every value that comes is looked at. Figures are in microseconds, and in units of R, a plain
/// read of 64 bytes out of a server's memory in the same run.
/// Source  [hstore] section 5.

namespace breccia::bench::disagg {

namespace {

constexpr std::uint64_t kKeysMin = 100;

constexpr std::array<std::pair<const char*, Indexes>, 5> kIndexes = {
    {{"both", Indexes::kBoth},
     {"sync", Indexes::kInStep},
     {"hash", Indexes::kHash},
     {"ordered_rpc", Indexes::kOrdered},
     {"ordered_reads", Indexes::kOrderedReads}}};

std::optional<Indexes> indexes_of(const std::string& name) {
  for (const auto& [known, indexes] : kIndexes) {
    if (name == known) return indexes;
  }
  return std::nullopt;
}

bool is_workload(const std::string& name) {
  if (name.size() == 1) return Ycsb::is_workload(name[0]);
  return name == "basic" || name == "batches" || name == "phases" || name == "rebuild" ||
         name == "rebuild_reads";
}

/// What is wrong with them; null: nothing is.
const char* error_in(const DisaggFlags& flags) {
  const auto has_less_than = [](const auto& numbers, std::uint32_t least) {
    return numbers.empty() || *std::min_element(numbers.begin(), numbers.end()) < least;
  };
  const auto are_all = [](const std::string& list, const auto& is_one) {
    const std::vector<std::string> words = words_of(list);
    return std::all_of(words.begin(), words.end(), is_one);
  };
  if (has_less_than(numbers_of(flags.clients, 256), 1) ||
      has_less_than(numbers_of(flags.value_sizes, 1U << 16), Data::kValueMin)) {
    return "error: --clients wants numbers from 1 to 256, --value_sizes from 32 to 65536; "
           "several with commas";
  }
  const bool is_of_one = are_all(flags.workloads, [](const auto& name) {
    return name == "basic" || name == "batches" || name.size() == 1;
  });
  if (flags.shards > 1 && (flags.indexes != "both" || !is_of_one)) {
    return "error: several --shards are measured with --indexes both alone, and --workloads "
           "basic,batches,a,b,c,d,e,f";
  }
  if (flags.seconds <= 0) return "error: --seconds wants more than none";
  if (!are_all(flags.indexes, [](const auto& name) { return indexes_of(name).has_value(); })) {
    return "error: --indexes wants some of both,sync,hash,ordered_rpc,ordered_reads";
  }
  if (!are_all(flags.workloads, is_workload)) {
    return "error: --workloads wants some of "
           "basic,batches,phases,a,b,c,d,e,f,rebuild,rebuild_reads";
  }
  return nullptr;
}

/// One whose ports are watched, too, if phases are wanted: of stores whose puts have them all.
Status run_rounds(const DisaggFlags& flags, RoundOptions options, Reference* reference) {
  const std::vector<std::string>& workloads = options.workloads;
  const auto phases = std::find(workloads.begin(), workloads.end(), "phases");
  const bool is_alone = workloads.size() == 1 && phases != workloads.end();
  if (!is_alone) BRECCIA_TRY(Round(flags, options).run(reference));
  options.is_watched = true;
  const bool has_phases = has_hash(options.indexes) && has_order(options.indexes);
  return phases != workloads.end() && has_phases ? Round(flags, options).run(reference)
                                                 : Status::OK();
}

}  // namespace

int run_disagg(const DisaggFlags& flags) {
  if (const char* const error = error_in(flags)) {
    console::say(error);
    return console::kExitUsage;
  }
  auto network = flags.network.network();
  if (!network.ok()) {
    console::say_error("there is no such network", network.status(),
                       "breccia bench disagg --transport local");
    return console::kExitUsage;
  }
  RoundOptions options;
  options.network = network.take();
  options.workloads = words_of(flags.workloads);
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    options.seed = flags.seed + round;
    for (const std::uint32_t value_bytes : numbers_of(flags.value_sizes, 1U << 16)) {
      options.value_bytes = value_bytes;
      for (const std::uint32_t clients : numbers_of(flags.clients, 256)) {
        options.clients = clients;
        // One behind the other, so that they meet the computer in the same state.
        Reference reference;
        for (const std::string& name : words_of(flags.indexes)) {
          options.indexes = *indexes_of(name);
          options.indexes_name = name;
          const Status status = run_rounds(flags, options, &reference);
          if (status.ok()) continue;
          console::say_error("the benchmark did not end", status,
                             status.IsNotSupported()
                                 ? "--allow_software, or --transport local"
                                 : "fewer --keys or --requests need less memory");
          return console::kExitFailed;
        }
      }
    }
  }
  return console::kExitOk;
}

namespace {

void add_flags(console::App* app, DisaggFlags* flags) {
  app->footer(
      "A hash server, an ordered server and memory servers run in this process, a thread each, "
      "and\n"
      "clients beside them, over shared memory and sockets, or the network that --transport names. "
      "fabric_read64\n"
      "is R, a plain read of 64 bytes over the same, before and behind all others. reads are those "
      "of servers' memory, for each operation.\n"
      "\n"
      "Workloads:\n"
      "  basic    fabric_get looks keys up in the index, fabric_get_cached where their values "
      "were;\n"
      "           fabric_put writes values anew; fabric_scan100 reads 100 keys in their order\n"
      "  batches  fabric_multiget32 and 256 look so many keys up at once, fabric_multiput32 and "
      "256 "
      "put\n"
      "           them; r_units are of each key, times of a whole batch\n"
      "  a to f   YCSB's core workloads (fabric_ycsb_a), of clients that remember nothing, and "
      "of those\n"
      "           that do (fabric_ycsb_a_cached)\n"
      "  phases   where the time of an operation goes (fabric_put_phase_log), in a run of its "
      "own\n"
      "  rebuild  fabric_rebuild_hash and fabric_rebuild_ordered build an index anew from the "
      "other one\n"
      "           while clients write; read_keys_per_sec is what a thread reads of blocks\n"
      "  rebuild_reads  the same while clients read: fabric_get_no_hash, and so on\n"
      "\n"
      "Indexes; with both before them rows say how many times as many operations both have "
      "(both_times):\n"
      "  both           the store as it is\n"
      "  sync           the ordered index has a write before it is acknowledged\n"
      "  hash           no ordered server behind, and no ranges\n"
      "  ordered_rpc    an ordered index alone, whose server is asked\n"
      "  ordered_reads  the same, whose nodes are read");
  app->add_option("--keys", flags->keys, "Keys of 16 bytes")
      ->range(kKeysMin, 1ULL << 30)
      ->capture_default_str();
  app->add_option("--value_sizes", flags->value_sizes, "Bytes of a value; several with commas")
      ->capture_default_str();
  app->add_option("--clients", flags->clients, "Clients, a thread each; several with commas")
      ->capture_default_str();
  app->add_option("--indexes", flags->indexes, "Which indexes the store has; several with commas")
      ->capture_default_str();
  app->add_option("--workloads", flags->workloads, "What is measured, with commas")
      ->capture_default_str();
  app->add_option("--memory_servers", flags->memory_servers, "Servers that values lie in")
      ->range(1, 16)
      ->capture_default_str();
  app->add_option("--keep", flags->keep,
                  "A folder: memory servers keep values in files there; without it in none");
  app->add_option("--shards", flags->shards,
                  "That keys are divided into, with two index servers each")
      ->range(1, breccia::disagg::kShardsMax)
      ->capture_default_str();
  app->add_option("--seconds", flags->seconds, "Seconds of each figure")->capture_default_str();
  app->add_option("--requests", flags->requests, "Of each client in a workload of YCSB, at most")
      ->range(1, 1ULL << 32)
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often, each with new keys")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  flags->network.add_to(app);
  app->add_flag("-s,--progress", flags->progress,
                "Say once a second how far it is, even if not to a terminal");
  app->add_flag("--json", flags->json, "Print one JSON object a line");
}

}  // namespace

}  // namespace breccia::bench::disagg

namespace breccia::bench {

console::Command add_bench_disagg(console::App* parent) {
  auto flags = std::make_shared<disagg::DisaggFlags>();
  console::App* app =
      parent->add_subcommand("disagg", "Measure a disaggregated store on this computer");
  disagg::add_flags(app, flags.get());
  return {app, [flags] { return disagg::run_disagg(*flags); }};
}

}  // namespace breccia::bench
