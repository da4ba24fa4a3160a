#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/hash/keys.h"
#include "bench/hash/trace.h"

namespace breccia::bench::tables {

/// What each key of a table must have, and whether answers agree with it.
///
/// All writes of one step leave the same version in a key, one that no step before had. So behind
/// each step it is known what a key has, in whatever order its requests took effect. Within it, a
/// request met what was there before or what the step leaves, and of those that write a key
/// exactly one met the former.
/// Threads one owner; it uses all cores itself.
class Ledger {
 public:
  /// Of keys [0, count), all absent. Others are never there.
  Ledger(const Keys& keys, std::uint64_t count);

  /// The version that step `s` of the next trace writes.
  [[nodiscard]] std::uint32_t version_of(std::uint64_t s) const {
    return step_ + static_cast<std::uint32_t>(s) + 1;
  }
  [[nodiscard]] bool has(std::uint64_t key) const {
    return key < versions_.size() && versions_[key] != kAbsent;
  }

  /// Looks at all answers of the next trace, of which no step writes in two ways. Keys that
  /// `may_refuse`, and were absent, may have been told that there is no room: counted in *refused.
  /// Errors  Corruption: what was wrong first; the ledger is of no use then.
  Status check(const std::string& what, const Trace& trace, const Answers& answers, bool may_refuse,
               std::uint64_t* refused);

 private:
  static constexpr std::uint32_t kAbsent = 0;

  struct Look;  // at one step

  [[nodiscard]] std::uint32_t version(std::uint64_t key) const {
    return key < versions_.size() ? versions_[key] : kAbsent;
  }
  [[nodiscard]] static bool changes(hash::Operation operation, std::uint32_t version);
  [[nodiscard]] bool fits(const Look& look, std::uint64_t i, std::uint32_t version) const;
  void announce(const Look& look, std::uint64_t i);
  void judge(Look& look, std::uint64_t i);
  void settle(Look& look, std::uint64_t i);

  const Keys& keys_;
  std::vector<std::uint32_t> versions_;
  std::vector<std::uint32_t> written_;  // in which step last
  std::vector<std::uint32_t> changed_;  // in which step a request met what was there before
  std::uint32_t step_ = 0;
};

}  // namespace breccia::bench::tables
