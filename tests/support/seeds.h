#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace breccia::testing {

/// `count`, or the share of it that BRECCIA_TEST_SHARE asks for, in percent; at least 1.
[[nodiscard]] std::uint64_t share_of(std::uint64_t count);

/// The one seed that BRECCIA_SEED asks for.
[[nodiscard]] std::optional<std::uint64_t> only_seed();

/// The seeds that a generated test runs: only_seed(), or share_of(count) seeds that follow
/// BRECCIA_TEST_SEED (0 if it is not set).
[[nodiscard]] std::vector<std::uint64_t> seeds_to_run(std::uint64_t count);

/// The command that runs the current test with one seed.
[[nodiscard]] std::string replay_command(std::uint64_t seed);

}  // namespace breccia::testing
