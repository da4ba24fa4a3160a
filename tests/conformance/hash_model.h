#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "hash/algo/words.cuh"
#include "hash/backend.h"
#include "support/seeds.h"

/// A hash table beside a model: batches, what may come of them, and what a table must hold.

namespace breccia::hash::conformance {

struct Executor {
  const char* name;
  std::shared_ptr<Backend> (*make)(std::uint64_t seed);
  /// Percent of the seeds of a generated test.
  std::uint64_t share;
};

inline std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "hash"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}
inline std::shared_ptr<Backend> backend_of_kind(exec::DeviceKind kind) {
  auto device = exec::open_device(kind, 0);
  BRECCIA_ASSERT(device.ok());
  return backend_on(device.value());
}

/// One request and what came of it.
struct Request {
  Operation operation = Operation::kFind;
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  Code code = Code::kAbsent;
  std::uint64_t found = 0;
};

/// The words of a value that lies in a row: all of them follow from the first.
inline void fill_row(std::uint64_t value, std::uint64_t words, std::uint64_t* row) {
  for (std::uint64_t i = 0; i < words; ++i) row[i] = value * (2 * i + 1);
}
/// What a row is filled with. A row that is torn, or written again, is none of them.
inline std::uint64_t value_of_row(const std::uint64_t* row, std::uint64_t words) {
  for (std::uint64_t i = 0; i < words; ++i) EXPECT_EQ(row[i], row[0] * (2 * i + 1)) << "a torn row";
  return row[0];
}

/// Runs columns whose values are single words, whatever the table has.
inline Status run_columns(Backend& backend, Table& table, const RequestsRef& requests) {
  const std::uint64_t words = table.options().value_bytes / 8;
  if (words == 1) return backend.run(table, requests);
  std::vector<std::uint64_t> value(requests.count * words), found(requests.count * words);
  for (std::uint64_t i = 0; i < requests.count && requests.value != nullptr; ++i) {
    fill_row(requests.value[i], words, value.data() + i * words);
  }
  ValueRequestsRef all{requests, nullptr, nullptr};
  all.requests.value = nullptr;
  all.requests.found = nullptr;
  if (requests.value != nullptr) all.value = reinterpret_cast<const char*>(value.data());
  if (requests.found != nullptr) all.found = reinterpret_cast<char*>(found.data());
  BRECCIA_TRY(backend.run_values(table, all));
  for (std::uint64_t i = 0; i < requests.count && requests.found != nullptr; ++i) {
    requests.found[i] = value_of_row(found.data() + i * words, words);
  }
  return Status::OK();
}

/// Operations of one kind are told as such.
inline Status run_batch(Backend& backend, Table& table, std::vector<Request>* batch) {
  const std::size_t n = batch->size();
  if (n == 0) return Status::OK();
  std::vector<Operation> operation(n);
  std::vector<std::uint64_t> key(n), value(n), found(n);
  std::vector<Code> code(n);
  for (std::size_t i = 0; i < n; ++i) {
    operation[i] = (*batch)[i].operation;
    key[i] = (*batch)[i].key;
    value[i] = (*batch)[i].value;
  }
  const bool is_one = std::count(operation.begin(), operation.end(), operation.front()) ==
                      static_cast<std::ptrdiff_t>(n);
  BRECCIA_TRY(run_columns(backend, table,
                          {.operation = is_one ? nullptr : operation.data(),
                           .all = is_one ? operation.front() : Operation::kFind,
                           .key = key.data(),
                           .value = value.data(),
                           .found = found.data(),
                           .code = code.data(),
                           .count = n}));
  for (std::size_t i = 0; i < n; ++i) {
    (*batch)[i].code = code[i];
    (*batch)[i].found = found[i];
  }
  return Status::OK();
}

/// What one key has.
struct Content {
  bool is_there = false;
  std::uint64_t value = 0;  // 0 if it is not
  friend bool operator==(const Content&, const Content&) = default;
};

/// What a request does to a key, and whether it then answers as this one did.
inline bool applies(const Request& request, Content* content) {
  const bool was_there = content->is_there;
  if ((request.code == Code::kPresent) != was_there) return false;
  if (was_there && request.found != content->value) return false;
  const Content written{true, request.value};
  switch (request.operation) {
    case Operation::kFind:
      break;
    case Operation::kInsert:
      if (!was_there) *content = written;
      break;
    case Operation::kUpsert:
      *content = written;
      break;
    case Operation::kUpdate:
      if (was_there) *content = written;
      break;
    case Operation::kRaise:
      if (!was_there || content->value < request.value) *content = written;
      break;
    case Operation::kDrop:
      if (was_there && content->value == request.value) *content = {};
      break;
    case Operation::kDelete:
      *content = {};
      break;
  }
  return true;
}

/// Whether some order of a few requests on one key explains their answers and what is there after.
inline bool is_explained(std::vector<Request> requests, const Content& before,
                         const Content& after) {
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Content content = before;
    const bool fits = std::all_of(order.begin(), order.end(),
                                  [&](std::size_t i) { return applies(requests[i], &content); });
    if (fits && content == after) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

using Model = std::unordered_map<std::uint64_t, std::uint64_t>;

/// Looks at one part of a table: every key where it may lie, with the model's value. Adds to *keys
/// those that lie in buckets from `begin` on.
inline void expect_part(const TableRef& table, std::size_t slots, std::uint64_t begin,
                        const TableImage& image, std::uint64_t words, const Model& model,
                        std::size_t* keys) {
  const auto* const rows = reinterpret_cast<const std::uint64_t*>(image.rows.data());
  const algo::Unpermute back(table.secret.add, table.secret.factor);
  for (std::size_t slot = begin * kBucketPairs; slot < slots; ++slot) {
    const Pair pair = table.pairs[slot];
    const std::uint64_t bucket = slot / kBucketPairs;
    if (slot % kBucketPairs == kBucketPairs - 1) {
      const bool is_marked = (table.is_full[bucket / 32] >> bucket % 32 & 1U) != 0;
      ASSERT_EQ(is_marked, pair.first != kEmpty) << "the map of full buckets, at " << bucket;
    }
    if (pair.first == kEmpty || pair.first == kDeleted) continue;
    if (slot % kBucketPairs > 0) {
      ASSERT_NE(table.pairs[slot - 1].first, kEmpty) << "lookups end before slot " << slot;
    }
    const std::uint64_t key = algo::key_of(table, back, bucket, pair.first);
    const algo::Place place = algo::place_of(table, key);
    ASSERT_EQ(place.word, pair.first);
    ASSERT_TRUE(bucket == place.first || bucket == place.second) << slot;
    if (bucket != place.first) {
      ASSERT_TRUE((table.was_full[place.first / 32] >> place.first % 32 & 1U) != 0) << slot;
    }
    const auto expected = model.find(key);
    ASSERT_TRUE(expected != model.end()) << "key " << key << " in slot " << slot;
    const std::uint64_t value =
        words == 1 ? pair.second : value_of_row(rows + pair.second * words, words);
    ASSERT_EQ(expected->second, value) << "key " << key;
    ++*keys;
  }
}

/// Every key once, and nothing else.
inline void expect_is(Backend& backend, const Table& table, const Model& model) {
  TableImage image;
  ASSERT_TRUE(backend.read(table, &image).ok());
  std::size_t keys = 0;
  const std::uint64_t words = table.options().value_bytes / 8;
  expect_part(image.tables.table, image.pairs.size(), 0, image, words, model, &keys);
  if (::testing::Test::HasFatalFailure()) return;
  expect_part(image.tables.old, image.old_pairs.size(), image.tables.moved, image, words, model,
              &keys);
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(keys, model.size()) << "a key is lost, or there twice";
  ASSERT_EQ(table.rows_free(), words == 1 ? 0 : table.options().rows - keys)
      << "a row is lost, or given twice";
}

inline Secret random_secret(base::Random& random) {
  return {.add = random.next(), .factor = random.next() | 1, .second_factor = random.next() | 1};
}

/// Keys that a table has no words for, and ordinary ones.
inline std::vector<std::uint64_t> some_keys(const Table& table, std::size_t count,
                                            base::Random& random) {
  const algo::Unpermute back(table.options().secret.add, table.options().secret.factor);
  std::vector<std::uint64_t> keys;
  for (const std::uint64_t word :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, exec::kBusyWord}) {
    keys.push_back(back(word));
  }
  while (keys.size() < count) keys.push_back(random.next());
  keys.resize(count);
  return keys;
}

/// Bytes of a value: in the slot, or in rows of words of either width.
inline std::uint64_t some_value_bytes(base::Random& random) {
  const std::uint64_t bytes[] = {8, 8, 16, 24, 128};
  return bytes[random.below(5)];
}

/// The content of each key now, by a batch that only looks.
inline std::map<std::uint64_t, Content> contents(Backend& backend, Table& table,
                                                 const std::vector<std::uint64_t>& keys) {
  std::vector<std::uint64_t> found(keys.size());
  std::vector<Code> code(keys.size());
  EXPECT_TRUE(run_columns(backend, table,
                          {.all = Operation::kFind,
                           .key = keys.data(),
                           .found = found.data(),
                           .code = code.data(),
                           .count = keys.size()})
                  .ok());
  std::map<std::uint64_t, Content> result;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    result[keys[i]] = code[i] == Code::kPresent ? Content{true, found[i]} : Content{};
  }
  return result;
}

/// `compares`: also operations that look at values, which are numbers then, and few, so that some
/// are equal.
inline Request random_request(const std::vector<std::uint64_t>& keys, base::Random& random,
                              bool compares = false) {
  Request request;
  request.operation = static_cast<Operation>(random.below(compares ? 7 : 5));
  request.key = keys[random.below(keys.size())];
  request.value = compares ? random.below(8) : random.next();
  return request;
}

/// Adds what an answer says: each value that was written is what one later request found, or what
/// is there at the end, so for each key written and gone values are the same ones.
struct Ledger {
  std::map<std::uint64_t, std::map<std::uint64_t, int>> open;  // per key: value, written less gone

  void note(const Request& request) {
    const bool is_present = request.code == Code::kPresent;
    const Operation operation = request.operation;
    const bool writes = operation == Operation::kUpsert ||
                        (operation == Operation::kInsert && !is_present) ||
                        (operation == Operation::kUpdate && is_present);
    const bool takes =
        is_present && (operation == Operation::kUpsert || operation == Operation::kUpdate ||
                       operation == Operation::kDelete);
    if (request.code == Code::kNoRoom) return;
    if (writes) ++open[request.key][request.value];
    if (takes) --open[request.key][request.found];
  }
};

/// The ledger comes out even with what is there, and the table holds that.
inline void expect_even(Backend& backend, Table& table, const std::vector<std::uint64_t>& keys,
                        Ledger* ledger) {
  Model model;
  for (const auto& [key, content] : contents(backend, table, keys)) {
    if (!content.is_there) continue;
    model[key] = content.value;
    --ledger->open[key][content.value];
  }
  for (const auto& [key, values] : ledger->open) {
    for (const auto& [value, count] : values) ASSERT_EQ(count, 0) << key << ", " << value;
  }
  expect_is(backend, table, model);
}

}  // namespace breccia::hash::conformance
