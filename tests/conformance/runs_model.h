#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/host_vector.h"
#include "runs/backend.h"

/// The dumb side of the conformance suites of exec: keys as strings, runs as sorted vectors.
namespace breccia::runs::model {

/// Seeds 1 to `count`, a share of them where BRECCIA_TEST_SHARE says so, or BRECCIA_SEED alone.
inline std::vector<std::uint64_t> seeds_to_run(std::uint64_t count) {
  if (const char* const one = std::getenv("BRECCIA_SEED")) {
    return {std::strtoull(one, nullptr, 10)};
  }
  const char* const share = std::getenv("BRECCIA_TEST_SHARE");
  const std::uint64_t percent = share == nullptr ? 100 : std::strtoull(share, nullptr, 10);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t i = 1; i <= std::max<std::uint64_t>(1, count * percent / 100); ++i) {
    seeds.push_back(i);
  }
  return seeds;
}

/// The command that runs a failed test again, with this seed only.
inline std::string replay(std::uint64_t seed) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  return "replay: BRECCIA_SEED=" + std::to_string(seed) +
         " <this program> --gtest_filter=" + test.test_suite_name() + "." + test.name();
}

/// The sizes at which batched code breaks.
inline const std::vector<std::uint64_t>& edge_sizes() {
  static const std::vector<std::uint64_t> sizes{0,  1,   31,  32,   33,   63,   64,
                                                65, 255, 257, 4095, 4096, 4097, 100'000};
  return sizes;
}

enum class KeyShape {
  kUniform8,
  kUniform16,
  kUniform3,
  kUniform21,
  kPrefixed,
  kLongPrefixed,
  kNasty,
  kShapes
};

/// A random key of a shape. Few long-prefixed keys share any number of bytes. Nasty keys are empty,
/// end in zero bytes, share long prefixes, repeat.
inline std::string random_key(base::Random& random, KeyShape shape, std::uint64_t distinct) {
  const std::uint64_t id = base::mix64(random.below(distinct));
  std::string raw(reinterpret_cast<const char*>(&id), 8);
  switch (shape) {
    case KeyShape::kUniform8:
      return raw;
    case KeyShape::kUniform3:
      return raw.substr(0, 3);
    case KeyShape::kUniform16:
      return std::string("same8byt") + raw;
    case KeyShape::kUniform21:
      return raw.substr(0, 1) + "in the middle" + raw.substr(1);
    case KeyShape::kPrefixed:
      return "user" + std::to_string(id % 1000 * 1000);
    case KeyShape::kLongPrefixed: {
      std::string key("of all of them");
      for (int bit = 0; bit < 12; ++bit) key += (id >> bit & 1) != 0 ? "b" : "a";
      return key + raw.substr(0, id % 9);
    }
    default:
      break;
  }
  switch (random.below(7)) {
    case 0:
      return "";
    case 1:
      return std::string(random.below(20), '\0');
    case 2:
      return raw.substr(0, random.below(8)) + std::string(random.below(10), '\0');
    case 3:
      return std::string(random.below(40), 'a');
    case 4:
      return std::string(17, 'p') + raw.substr(0, random.below(3));
    case 5:
      return std::string(random.below(9), '\xff');
    default:
      return raw;
  }
}

inline std::vector<std::string> random_keys(base::Random& random, KeyShape shape,
                                            std::uint64_t count) {
  const std::uint64_t distinct = 1 + random.below(2 * count + 1);
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < count; ++i) keys.push_back(random_key(random, shape, distinct));
  return keys;
}

inline KeyShape random_shape(base::Random& random) {
  return static_cast<KeyShape>(random.below(static_cast<std::uint64_t>(KeyShape::kShapes)));
}

/// Keys as columns in some host memory.
class Columns {
 public:
  Columns(exec::HostMemory& memory, const std::vector<std::string>& keys, bool allow_uniform)
      : head_(memory), meta_(memory), tail_(memory) {
    bool uniform = allow_uniform;
    for (const std::string& key : keys) uniform = uniform && key.size() == keys[0].size();
    ref_.uniform_bytes = record::kVariableBytes;
    if (uniform) ref_.uniform_bytes = keys.empty() ? 0 : static_cast<std::uint32_t>(keys[0].size());
    for (const std::string& key : keys) append(key);
    ref_.head = head_.data();
    ref_.meta = uniform ? nullptr : meta_.data();
    ref_.tail = tail_.data();
    ref_.count = keys.size();
    ref_.tail_count = tail_.size();
  }
  [[nodiscard]] const record::KeyColumnsRef& ref() const { return ref_; }

 private:
  static std::uint64_t word_of(const std::string& key, std::size_t at) {
    std::uint64_t word = 0;
    for (std::size_t i = at; i < at + 8; ++i) {
      word = word << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0);
    }
    return word;
  }
  static void push(exec::HostVector<std::uint64_t>& column, std::uint64_t word) {
    ASSERT_TRUE(column.reserve(column.size() + 1));
    column.push(word);
  }
  void append(const std::string& key) {
    push(head_, word_of(key, 0));
    push(meta_, tail_.size() << record::kMetaLengthBits | key.size());
    for (std::size_t at = 8; at < key.size(); at += 8) push(tail_, word_of(key, at));
  }

  exec::HostVector<std::uint64_t> head_, meta_, tail_;
  record::KeyColumnsRef ref_;
};

/// The key that columns hold at `i`; zero bytes where they have none are lost words, and show.
inline std::string key_at(const record::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key;
  const auto append = [&](std::uint64_t word) {
    for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(word >> shift));
  };
  const std::uint64_t bytes = keys.bytes_at(i);
  append(record::first_word(keys, i));
  for (std::uint64_t word = 0; word < record::tail_words(bytes); ++word) {
    append(keys.tail[keys.tail_at(i) + word]);
  }
  key.resize(bytes);
  return key;
}

struct Entry {
  std::string key;
  std::uint64_t payload;
  bool operator==(const Entry&) const = default;
};

/// A run as it should be.
using Entries = std::vector<Entry>;

inline void sort_entries(Entries* entries) {
  std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.payload > b.payload;
  });
}

/// True for payloads of merge operands, of puts, and of single deletions.
inline bool is_operand(std::uint64_t payload) { return (payload & 7) == 2; }
inline bool is_put(std::uint64_t payload) { return (payload & 7) == 0; }
inline bool is_single_deletion(std::uint64_t payload) { return (payload & 7) == 3; }
/// The value of 8 bytes that an entry has, where entries have such.
inline std::uint64_t value_of(std::uint64_t payload) { return base::mix64(payload); }

inline constexpr Keep kEveryKeep[] = {Keep::kAll, Keep::kNewest, Keep::kStacks, Keep::kPuts};

inline Entries merged(const std::vector<Entries>& runs, Keep keep) {
  Entries all;
  for (const Entries& run : runs) all.insert(all.end(), run.begin(), run.end());
  sort_entries(&all);
  if (keep == Keep::kAll) return all;
  Entries kept;
  bool on_operands = false;  // all of the key's versions so far are operands
  bool below_newest = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool newest = i == 0 || all[i - 1].key != all[i].key;
    const bool told = !newest && below_newest && is_single_deletion(all[i].payload);
    const bool stays = keep == Keep::kPuts
                           ? newest && is_put(all[i].payload)
                           : newest || told || (on_operands && keep == Keep::kStacks);
    if (stays) kept.push_back(all[i]);
    on_operands = (newest || on_operands) && is_operand(all[i].payload);
    below_newest = newest;
  }
  return kept;
}

/// What a search in these runs should find.
inline std::uint64_t newest(const Entries& all_sorted, const std::string& key,
                            std::uint64_t bound) {
  auto at =
      std::lower_bound(all_sorted.begin(), all_sorted.end(), key,
                       [](const Entry& entry, const std::string& k) { return entry.key < k; });
  for (; at != all_sorted.end() && at->key == key; ++at) {
    if (at->payload < bound) return at->payload;
  }
  return kNotFound;
}

/// What a range from `begin` to below `end` should find in these runs: the newest version below
/// `bound` of each key, up to `room` of them.
/// `only_puts`: keys that are there.
inline Entries range(const Entries& all_sorted, const std::string& begin, const std::string& end,
                     std::uint64_t bound, std::uint64_t room, bool only_puts) {
  Entries found;
  const std::string* last = nullptr;
  auto at =
      std::lower_bound(all_sorted.begin(), all_sorted.end(), begin,
                       [](const Entry& entry, const std::string& k) { return entry.key < k; });
  for (; at != all_sorted.end() && at->key < end && found.size() < room; ++at) {
    if (at->payload >= bound || (last != nullptr && *last == at->key)) continue;
    last = &at->key;
    if (!only_puts || is_put(at->payload)) found.push_back(*at);
  }
  return found;
}

/// A bound for a search of `key`: any, or one at or just above a version of that key.
inline std::uint64_t random_bound(base::Random& random, const Entries& all_sorted,
                                  const std::string& key, std::uint64_t limit) {
  const std::uint64_t version = newest(all_sorted, key, random.below(limit) + 1);
  if (version == kNotFound || random.one_in(2)) return random.below(limit);
  return version + random.below(2);
}

/// Payload offsets as a log gives them: ascending, multiples of 8 with an operation in the low
/// bits. In some lists most are merge operands.
inline std::vector<std::uint64_t> random_offsets(base::Random& random, std::uint64_t count) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t at = 0;
  const bool many_operands = random.one_in(2);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool operand = many_operands && !random.one_in(4);
    offsets.push_back(at | (operand ? 2 : random.below(8)));
    at += 8 * (1 + random.below(10));
  }
  return offsets;
}

/// A batch, and the run that it should become.
struct Batch {
  std::vector<std::string> keys;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> values;
  std::uint64_t base = 0;
  bool sorted = false;

  /// As a backend takes it, with its keys as columns.
  [[nodiscard]] record::EntriesRef ref(const record::KeyColumnsRef& columns,
                                       bool with_values) const {
    return {columns, offsets.data(), base, with_values ? values.data() : nullptr, sorted};
  }
  [[nodiscard]] Entries entries() const {
    Entries result;
    for (std::size_t i = 0; i < keys.size(); ++i) result.push_back({keys[i], base + offsets[i]});
    sort_entries(&result);
    return result;
  }
};

/// Operations on numbers, in arrival order; `base` is the same for all of a key.
struct Updates {
  std::vector<std::string> keys;
  std::vector<std::uint64_t> operations, operands, base;
  std::vector<std::uint8_t> has_base;

  Updates(base::Random& random, KeyShape shape, std::uint64_t count, std::uint64_t distinct) {
    std::map<std::string, std::optional<std::uint64_t>> before;
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      keys.push_back(random_key(random, shape, distinct));
      const auto [entry, is_new] = before.try_emplace(keys[i]);
      if (is_new && random.one_in(2)) entry->second = random_number(random);
      has_base.push_back(entry->second.has_value() ? 1 : 0);
      base.push_back(entry->second.value_or(0));
      at += 8 * (1 + random.below(10));
      operations.push_back(at | (random.one_in(3) ? random.below(4) : 2));
      operands.push_back(random_number(random));
    }
  }

  /// What the newest version of some of their keys is: a payload, and a number.
  using Newer = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;

  /// Versions of a run for some of their keys, and of others, in the order of their positions; no
  /// merge operands, but in one of `with_operands` calls. They go into *newer.
  Batch newer_batch(base::Random& random, KeyShape shape, std::uint64_t count,
                    std::uint64_t position, std::uint64_t with_operands, Newer* newer) const {
    Batch batch;
    batch.base = position;
    for (std::uint64_t i = 0; i < count; ++i) {
      const bool is_own = !keys.empty() && random.one_in(2);
      batch.keys.push_back(is_own ? keys[random.below(keys.size())]
                                  : random_key(random, shape, 2 * count));
      std::uint64_t op = random.one_in(3) ? 1 : 0;
      if (random.below(count * with_operands) == 0) op = 2;
      batch.offsets.push_back(8 * i | op);
      batch.values.push_back(random_number(random));
      (*newer)[batch.keys.back()] = {position + batch.offsets.back(), batch.values.back()};
    }
    return batch;
  }
  /// Whether such an operand is a key's newest version.
  [[nodiscard]] bool meets_operand(const Newer& newer) const {
    return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
      const auto found = newer.find(key);
      return found != newer.end() && is_operand(found->second.first);
    });
  }

  /// What each operation leaves its key with; of deletions, anything.
  [[nodiscard]] std::vector<std::uint64_t> results(NumberOp op, const Newer& newer) const {
    std::map<std::string, std::optional<std::uint64_t>> now;
    std::vector<std::uint64_t> left;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [entry, is_new] = now.try_emplace(keys[i]);
      std::optional<std::uint64_t>& value = entry->second;
      if (is_new && has_base[i] != 0) value = base[i];
      const auto found = is_new ? newer.find(keys[i]) : newer.end();
      if (found != newer.end()) {
        value = std::nullopt;
        if ((found->second.first & 7) == 0) value = found->second.second;
      }
      if (is_operand(operations[i])) {
        value = value.has_value() ? combined(op, *value, operands[i]) : operands[i];
      } else if ((operations[i] & 7) == 0) {
        value = operands[i];
      } else {
        value = std::nullopt;
      }
      left.push_back(value.value_or(0));
    }
    return left;
  }

 private:
  static std::uint64_t random_number(base::Random& random) {
    return random.one_in(3) ? random.below(3) << 8 * random.below(8) : random.next();
  }
  static std::uint64_t combined(NumberOp op, std::uint64_t left, std::uint64_t right) {
    if (op == NumberOp::kAdd) return left + right;
    if (op == NumberOp::kPut) return right;
    const int order = std::memcmp(&left, &right, sizeof left);
    return (order < 0) == (op == NumberOp::kMax) ? right : left;
  }
};

/// A random batch whose payloads begin at `base`, and sometimes comes in run order.
inline Batch random_batch(base::Random& random, KeyShape shape, std::uint64_t count,
                          std::uint64_t base) {
  Batch batch;
  batch.keys = random_keys(random, shape, count);
  batch.offsets = random_offsets(random, count);
  batch.base = base;
  for (const std::uint64_t offset : batch.offsets) batch.values.push_back(value_of(base + offset));
  if (random.one_in(4)) {
    // Ascending payloads in run order: then no key may have two versions.
    std::sort(batch.keys.begin(), batch.keys.end());
    batch.sorted = std::adjacent_find(batch.keys.begin(), batch.keys.end()) == batch.keys.end();
  }
  return batch;
}

}  // namespace breccia::runs::model
