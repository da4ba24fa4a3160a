#pragma once

namespace breccia::console {

/// What the program returns to the shell. `breccia --help` lists them (main.cc).
enum ExitCode : int {
  kExitOk = 0,
  kExitNotFound = 1,
  kExitUsage = 2,
  kExitMismatch = 3,
  kExitFailed = 4,
  kExitBadInput = 5,
};

}  // namespace breccia::console
