#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "disagg/client/client.h"
#include "unit/disagg/register_check.h"

/// What clients do at random, written down, to be judged by each key's order.

namespace breccia::disagg::testing {

using fabric::TimeUs;

constexpr TimeUs kLong = 10'000'000;

/// What clients did to each key.
using History = std::map<std::string, std::vector<KeyOp>>;

using Clock = std::function<TimeUs()>;

constexpr std::uint64_t kKeys = 6;

inline std::string key_of(std::uint64_t i) {
  // One in three is longer than what is read of a block for its key.
  return "k" + std::to_string(i) + std::string(i % 3 == 2 ? 200 : 0, '.');
}

/// A scan is a lookup of each key of its range.
inline void scan_at_random(const Clock& clock, Client* client, base::Random* random, TimeUs called,
                           TimeUs until, History* history) {
  // Numbers of one digit, as their order is that of bytes.
  const std::uint64_t begin = random->below(kKeys), end = begin + random->below(5);
  std::vector<std::pair<std::string, std::string>> found;
  const Status status = client->scan(key_of(begin), key_of(end), 100, &found, until);
  ASSERT_FALSE(status.IsCorruption()) << status.ToString();
  ASSERT_TRUE(status.ok() || until < called + kLong) << status.ToString();
  if (!status.ok()) return;
  ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
  std::map<std::string, std::string> by_key(found.begin(), found.end());
  for (std::uint64_t i = begin; i < std::min(end, kKeys); ++i) {
    const auto one = by_key.find(key_of(i));
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = called, .returned = 0};
    if (one != by_key.end()) op.value = one->second;
    op.returned = clock();
    (*history)[key_of(i)].push_back(op);
  }
  for (const auto& [key, value] : found) ASSERT_TRUE(key >= key_of(begin) && key < key_of(end));
}

/// Of a write that did not happen.
constexpr TimeUs kDidNotHappen = 0;

/// Some operations on few keys, written down; writes before they are begun, as whoever asks may not
/// live to see their end.
inline void ask_at_random(const Clock& clock, Client* client, std::uint64_t seed, int turns,
                          TimeUs wait, History* history) {
  base::Random random(seed);
  for (int turn = 0; turn < turns; ++turn) {
    const std::string key = key_of(random.below(kKeys));
    const TimeUs called = clock();
    const TimeUs until = called + wait;
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = called, .returned = 0};
    Status status;
    if (random.one_in(8)) {
      scan_at_random(clock, client, &random, called, until, history);
      continue;
    }
    if (random.one_in(2)) {
      std::string found;
      status = client->get(key, &found, until);
      if (status.ok()) op.value = found;
      const bool has_found_out = status.ok() || status.IsNotFound();
      ASSERT_TRUE(has_found_out || wait < kLong) << status.ToString();
      if (!has_found_out) continue;
    } else {
      op.what = KeyOp::What::kWrite;
      const std::string value =
          std::to_string(seed) + "." + std::to_string(turn) + std::string(random.below(100), '.');
      const bool deletes = random.one_in(4);
      if (!deletes) op.value = value;
      op.returned = KeyOp::kNever;
      const std::size_t number = (*history)[key].size();
      (*history)[key].push_back(op);
      status = deletes ? client->erase(key, until) : client->put(key, value, until);
      TimeUs* const returned = &(*history)[key][number].returned;
      if (status.ok()) *returned = clock();
      if (status.IsMemoryLimit()) *returned = kDidNotHappen;
      ASSERT_FALSE(status.IsCorruption()) << status.ToString();
      continue;
    }
    ASSERT_FALSE(status.IsCorruption()) << status.ToString();
    op.returned = clock();
    (*history)[key].push_back(op);
  }
}

inline void expect_linearizable(const History& history) {
  for (auto [key, ops] : history) {
    std::erase_if(ops, [](const KeyOp& op) { return op.returned == kDidNotHappen; });
    EXPECT_TRUE(testing::is_linearizable(ops)) << key;
  }
}

}  // namespace breccia::disagg::testing
