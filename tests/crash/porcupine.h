#pragma once

#include <string>

namespace breccia::crash {

/// Histories that tools/linearize is to judge, which has porcupine; where the build has it (Go).
/// They stay where they were written, and porcupine's pages of what is wrong beside them.
/// Threads one.
class Porcupine {
 public:
  [[nodiscard]] static bool is_there();

  /// In a folder of that name where the program runs, without those of before.
  explicit Porcupine(const std::string& folder);

  /// One more, in the format of tools/linearize/README.md.
  void add(const std::string& name, const std::string& lines) const;
  /// What it says of those that no order explains, or that it could not decide. Empty: there are
  /// none, or it is not there.
  [[nodiscard]] std::string judge() const;

 private:
  const std::string folder_;
};

}  // namespace breccia::crash
