#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
  // Some lie in a block's first line, some in two, and some are longer than what is read for a key.
  constexpr std::array<std::size_t, 3> kDots = {0, 50, 200};
  return "k" + std::to_string(i) + std::string(kDots.at(i % kDots.size()), '.');
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

inline bool says_did_not_happen(const Status& status) {
  return status.IsMemoryLimit() || status.IsTimedOut();
}

/// Lookups of some keys at once, some of them of one key.
inline void get_many_at_random(const Clock& clock, Client* client, base::Random* random,
                               TimeUs called, TimeUs until, History* history) {
  std::vector<std::string> keys(1 + random->below(2 * kKeys)), values(keys.size());
  std::vector<Lookup> lookups;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = key_of(random->below(kKeys));
    lookups.push_back({.key = keys[i], .value = &values[i]});
  }
  const Status status = client->get(lookups, until);
  ASSERT_TRUE(status.ok() || until < called + kLong) << status.ToString();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Status one = lookups[i].status();
    ASSERT_FALSE(one.IsCorruption()) << one.ToString();
    if (!one.ok() && !one.IsNotFound()) continue;
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = called, .returned = clock()};
    if (one.ok()) op.value = values[i];
    (*history)[keys[i]].push_back(op);
  }
}

/// Writes of some keys at once, each of them once, as a history knows no order of those that are
/// under way together.
inline void write_many_at_random(const Clock& clock, Client* client, base::Random* random,
                                 const std::string& prefix, TimeUs until, History* history) {
  std::vector<std::string> keys, values(kKeys);
  std::vector<Change> changes;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    if (random->one_in(2)) keys.push_back(key_of(i));
  }
  const TimeUs called = clock();
  std::vector<std::size_t> number;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    values[i] = prefix + "." + std::to_string(i) + std::string(random->below(100), '.');
    KeyOp op{.what = KeyOp::What::kWrite, .value = {}, .called = called, .returned = KeyOp::kNever};
    changes.push_back({.key = keys[i], .value = {}});
    if (!random->one_in(4)) {
      changes.back().value = values[i];
      op.value = values[i];
    }
    number.push_back((*history)[keys[i]].size());
    (*history)[keys[i]].push_back(op);
  }
  const Status status = client->write(changes, until);
  const auto is_done = [](const Change& one) { return one.is_done; };
  ASSERT_FALSE(status.IsCorruption()) << status.ToString();
  ASSERT_TRUE(std::all_of(changes.begin(), changes.end(), is_done) || !status.ok());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    TimeUs* const returned = &(*history)[keys[i]][number[i]].returned;
    if (is_done(changes[i])) *returned = clock();
    if (!is_done(changes[i]) && says_did_not_happen(status)) *returned = kDidNotHappen;
  }
}

/// Some operations on few keys, written down; writes before they are begun, as whoever asks may not
/// live to see their end.
inline void ask_at_random(const Clock& clock, Client* client, std::uint64_t seed, int turns,
                          TimeUs wait, History* history) {
  base::Random random(seed);
  for (int turn = 0; turn < turns; ++turn) {
    const std::string key = key_of(random.below(kKeys));
    const TimeUs called = clock();
    // Some are in a hurry.
    const TimeUs own_wait = random.one_in(8) ? random.below(std::min<TimeUs>(wait, 20'000)) : wait;
    const TimeUs until = called + own_wait;
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = called, .returned = 0};
    Status status;
    if (random.one_in(8)) {
      scan_at_random(clock, client, &random, called, until, history);
      continue;
    }
    if (random.one_in(8)) {
      get_many_at_random(clock, client, &random, called, until, history);
      continue;
    }
    if (random.one_in(8)) {
      const std::string prefix = std::to_string(seed) + "." + std::to_string(turn);
      write_many_at_random(clock, client, &random, prefix, until, history);
      continue;
    }
    if (random.one_in(2)) {
      std::string found;
      status = client->get(key, &found, until);
      if (status.ok()) op.value = found;
      const bool has_found_out = status.ok() || status.IsNotFound();
      ASSERT_TRUE(has_found_out || own_wait < kLong) << status.ToString();
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
      if (says_did_not_happen(status)) *returned = kDidNotHappen;
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
