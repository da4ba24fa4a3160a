#pragma once

#include <breccia/status.h>

#include <chrono>
#include <string>
#include <string_view>

/// Words for people on stderr; stdout is left to data.
namespace breccia::console {

/// True if stderr is a terminal that understands cursor movement.
bool stderr_is_terminal();
/// True if stdout is a terminal and colour is wanted: NO_COLOR is empty and TERM is not `dumb`.
bool stdout_has_color();

/// Prints `breccia: ` and the sentence.
void say(std::string_view sentence);
/// Prints `breccia: error: `, what failed and the status, and then what to do next.
void say_error(std::string_view what, const Status& status, std::string_view next);

/// 1234567 as `1,234,567`.
std::string with_commas(std::uint64_t value);
/// 1536 as `1.5 KiB`.
std::string human_bytes(double bytes);
/// 3725 as `1:02:05`.
std::string human_seconds(double seconds);

/// A line about work under way, rewritten in place on a terminal.
/// Threads one owner.
class ProgressLine {
 public:
  /// Off: show does nothing.
  explicit ProgressLine(bool on);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// True once a second while the line is on: time to show the next one.
  [[nodiscard]] bool due();
  void show(std::string_view line);
  /// Removes the line, so that other words can be printed.
  void clear();

 private:
  const bool on_;
  const bool in_place_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace breccia::console
