#pragma once

#include <functional>
#include <vector>

#include "cli/app.h"

namespace breccia::cli {

/// A subcommand of the program and what it does; `run` returns an ExitCode.
struct Command {
  App* app;
  std::function<int()> run;
};

// Each adds its subcommand to `parent`. The flags live as long as the returned command.
Command add_import(App* parent);
Command add_get(App* parent);
Command add_multiget(App* parent);
Command add_put(App* parent);
Command add_delete(App* parent);
Command add_detach(App* parent);
Command add_doctor(App* parent);
Command add_bench(App* parent);
Command add_db(App* parent);
/// `parent` is the app of add_db.
std::vector<Command> add_db_commands(App* parent);
/// `parent` is the app of add_bench.
Command add_bench_ycsb(App* parent);
Command add_bench_recovery(App* parent);

}  // namespace breccia::cli
