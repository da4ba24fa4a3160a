#include "support/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace breccia::testing {

namespace {

std::optional<std::uint64_t> number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

std::uint64_t share_of(std::uint64_t count) {
  const std::uint64_t percent = number_in_environment("BRECCIA_TEST_SHARE").value_or(100);
  return std::max<std::uint64_t>(1, count * percent / 100);
}

std::optional<std::uint64_t> only_seed() { return number_in_environment("BRECCIA_SEED"); }

std::vector<std::uint64_t> seeds_to_run(std::uint64_t count) {
  if (const auto one = only_seed()) return {*one};
  const std::uint64_t base = number_in_environment("BRECCIA_TEST_SEED").value_or(0);
  std::vector<std::uint64_t> seeds(share_of(count));
  for (std::uint64_t i = 0; i < seeds.size(); ++i) seeds[i] = base + 1 + i;
  return seeds;
}

std::string replay_command(std::uint64_t seed) {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const bool sometimes = number_in_environment("BRECCIA_SOMETIMES").value_or(0) != 0;
  return std::string("replay: ") + (sometimes ? "BRECCIA_SOMETIMES=1 " : "") +
         "BRECCIA_SEED=" + std::to_string(seed) +
         " <this program> --gtest_filter=" + test->test_suite_name() + "." + test->name();
}

}  // namespace breccia::testing
