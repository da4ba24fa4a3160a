#pragma once

#include <functional>
#include <vector>

#include "console/app.h"

namespace breccia::console {

/// A subcommand of the program and what it does; `run` returns an ExitCode.
struct Command {
  App* app;
  std::function<int()> run;
};

}  // namespace breccia::console
