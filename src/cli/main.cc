#include <fmt/format.h>

#include <exception>
#include <string>
#include <vector>

#include "bench/commands.h"
#include "cli/commands.h"
#include "console/console.h"
#include "console/exit_codes.h"

namespace {

using breccia::console::App;
using breccia::console::Command;

constexpr const char* kFooter =
    "Data goes to standard output, words to standard error.\n"
    "Exit codes: 0 done; 1 no such key; 2 wrong usage; 3 engines gave different results;\n"
    "            4 a store or a file failed; 5 bad input, what came before it is kept.";

// YCSB writes long options with one dash.
std::vector<std::string> with_two_dashes(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word == "-threads" || word == "-target") word = "-" + word;
  }
  return words;
}

int run(int argc, char** argv) {
  App app("Breccia: batches of key-value requests on every processor, over RocksDB");
  app.footer(kFooter);
  app.require_subcommand();
  std::vector<Command> commands = {
      breccia::cli::add_import(&app),   breccia::cli::add_get(&app),
      breccia::cli::add_multiget(&app), breccia::cli::add_put(&app),
      breccia::cli::add_delete(&app),   breccia::cli::add_detach(&app),
      breccia::cli::add_compact(&app),  breccia::cli::add_doctor(&app),
      breccia::cli::add_fabric(&app),   breccia::cli::add_db(&app),
      breccia::cli::add_sst(&app),      breccia::bench::add_bench(&app),
  };
  // A command inside another goes before it: the first that was named runs.
  App* const bench = commands.back().app;
  App* const sst = commands[commands.size() - 2].app;
  App* const db = commands[commands.size() - 3].app;
  App* const fabric = commands[commands.size() - 4].app;
  commands.insert(
      commands.begin(),
      {breccia::bench::add_bench_ycsb(bench), breccia::bench::add_bench_recovery(bench),
       breccia::bench::add_bench_compaction(bench), breccia::bench::add_bench_hash(bench),
       breccia::bench::add_bench_slab(bench), breccia::bench::add_bench_hot(bench),
       breccia::bench::add_bench_rows(bench), breccia::bench::add_bench_disagg(bench)});
  const auto in_db = breccia::cli::add_db_commands(db);
  commands.insert(commands.begin(), in_db.begin(), in_db.end());
  const auto in_fabric = breccia::cli::add_fabric_commands(fabric);
  commands.insert(commands.begin(), in_fabric.begin(), in_fabric.end());
  const auto in_sst = breccia::cli::add_sst_commands(sst);
  commands.insert(commands.begin(), in_sst.begin(), in_sst.end());
  if (const auto helped = app.parse(with_two_dashes({argv + 1, argv + argc}))) {
    return *helped ? breccia::console::kExitOk : breccia::console::kExitUsage;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return breccia::console::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    // Memory, or a library's file system call: nothing here throws by itself.
    breccia::console::say(fmt::format("error: {}", error.what()));
    return breccia::console::kExitFailed;
  }
}
