#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <vector>

namespace breccia::cli {

/// A subcommand of the program and what it does; `run` returns an ExitCode.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

// Each adds its subcommand to `parent`. The flags live as long as the returned command.
Command add_import(CLI::App* parent);
Command add_get(CLI::App* parent);
Command add_multiget(CLI::App* parent);
Command add_put(CLI::App* parent);
Command add_delete(CLI::App* parent);
Command add_detach(CLI::App* parent);
Command add_doctor(CLI::App* parent);
Command add_bench(CLI::App* parent);
Command add_db(CLI::App* parent);
/// `parent` is the app of add_db.
std::vector<Command> add_db_commands(CLI::App* parent);
/// `parent` is the app of add_bench.
Command add_bench_ycsb(CLI::App* parent);
Command add_bench_recovery(CLI::App* parent);

}  // namespace breccia::cli
