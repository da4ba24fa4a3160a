#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "list.h"

/// Runs lists and deals with those that fail: in a process of their own where they end it, shrunk,
/// written to a file.

namespace breccia::metamorphic {

/// check_list() in a process of its own, so that a failed assertion, or a store that hangs, is a
/// failure like others.
[[nodiscard]] std::string check_in_child(const List& list);

using Check = std::function<std::string(const List&)>;

/// Shrinks a list that failed with `error`, writes it beside this program, and returns what to
/// print: the difference, the file, and the command that runs it again.
[[nodiscard]] std::string report(std::uint64_t seed, const List& list, const std::string& error,
                                 const Check& check);

/// Where a list is run from a file: its path, from BRECCIA_METAMORPHIC_FILE; empty if not.
[[nodiscard]] std::string file_to_run();
/// Errors  InvalidArgument, IOError.
[[nodiscard]] Result<List> read_list(const std::string& path);

/// If a signal ends this process, it starts again and runs the seeds that were under way, each in
/// a process of its own; the seeds are then suspects().
class Suspects {
 public:
  /// Says what this thread runs, for as long as it lives.
  explicit Suspects(std::uint64_t seed);
  ~Suspects();
  Suspects(const Suspects&) = delete;
  Suspects& operator=(const Suspects&) = delete;

  static void watch_signals();
  [[nodiscard]] static std::vector<std::uint64_t> from_environment();

 private:
  int slot_;
};

}  // namespace breccia::metamorphic
