#include "console/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace breccia::console {

namespace {

bool terminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

bool stderr_is_terminal() { return terminal(STDERR_FILENO); }

bool stdout_has_color() {
  const char* no_color = std::getenv("NO_COLOR");
  return terminal(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0');
}

void say(std::string_view sentence) { fmt::print(stderr, "breccia: {}\n", sentence); }

void say_error(std::string_view what, const Status& status, std::string_view next) {
  fmt::print(stderr, "breccia: error: {}: {}\n", what, status.ToString());
  if (!next.empty()) fmt::print(stderr, "  next: {}\n", next);
}

std::string with_commas(std::uint64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

ProgressLine::ProgressLine(bool on)
    : on_(on),
      in_place_(stderr_is_terminal()),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds(1)) {}

ProgressLine::~ProgressLine() { clear(); }

bool ProgressLine::due() {
  if (!on_ || std::chrono::steady_clock::now() < next_) return false;
  next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  return true;
}

void ProgressLine::show(std::string_view line) {
  if (!on_) return;
  fmt::print(stderr, "{}{}{}", in_place_ ? "\r\033[K" : "", line, in_place_ ? "" : "\n");
  std::fflush(stderr);
  shown_ = in_place_;
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace breccia::console
