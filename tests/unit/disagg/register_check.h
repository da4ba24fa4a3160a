#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace breccia::disagg::testing {

/// An operation on one key.
struct KeyOp {
  enum class What : std::uint8_t { kRead, kWrite };  // a deletion writes none
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  What what;
  std::optional<std::string> value;  // written, or found
  std::uint64_t called;
  std::uint64_t returned;  // kNever: nobody knows whether it happened, or will
};

/// Whether some order of one key's operations explains what they found, none of which was called
/// behind another one's return and stands before it.
/// Source  Wing and Gong 1993, with what was seen kept (Lowe 2017).
inline bool is_linearizable(const std::vector<KeyOp>& ops) {
  std::set<std::pair<std::vector<bool>, std::optional<std::string>>> seen;
  std::vector<bool> done(ops.size());
  const auto search = [&](const auto& self, const std::optional<std::string>& value) -> bool {
    std::uint64_t first_return = KeyOp::kNever;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!done[i]) first_return = std::min(first_return, ops[i].returned);
    }
    if (first_return == KeyOp::kNever) return true;  // what is left need not have happened
    if (!seen.emplace(done, value).second) return false;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (done[i] || ops[i].called > first_return) continue;
      const bool reads = ops[i].what == KeyOp::What::kRead;
      if (reads && ops[i].value != value) continue;
      done[i] = true;
      if (self(self, reads ? value : ops[i].value)) return true;
      done[i] = false;
    }
    return false;
  };
  return search(search, std::nullopt);
}

}  // namespace breccia::disagg::testing
