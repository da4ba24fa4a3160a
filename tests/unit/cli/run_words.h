#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "console/command.h"

namespace breccia::cli {

/// What a command returned and printed.
struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

/// Runs the one of `commands`, which are `app`'s, that `words` name.
inline Outcome run_words(console::App* app, const std::vector<console::Command>& commands,
                         const std::vector<std::string>& words) {
  EXPECT_FALSE(app->parse(words));
  Outcome outcome;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  for (const console::Command& command : commands) {
    if (command.app->parsed()) outcome.code = command.run();
  }
  std::fflush(stdout);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace breccia::cli
