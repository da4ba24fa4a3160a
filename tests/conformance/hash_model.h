#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "hash/algo/rows_ref.cuh"
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

/// Tests number their keys. A key of another size than 8 bytes has its number at an offset that
/// the table's secret chooses, in 8 bytes or as many as it has; the rest of it is the same in all
/// keys, so who does not look at all of a key takes two for one.
inline std::uint64_t number_bytes(const TableOptions& options) {
  return std::min<std::uint64_t>(options.key_bytes, sizeof(std::uint64_t));
}
inline std::uint64_t number_at(const TableOptions& options) {
  return options.secret.add % (options.key_bytes - number_bytes(options) + 1);
}
inline void put_key(const TableOptions& options, std::uint64_t number, char* key) {
  std::memset(key, 0xa5, options.key_bytes);
  std::memcpy(key + number_at(options), &number, number_bytes(options));
}
inline std::uint64_t number_of(const TableOptions& options, const char* key) {
  std::uint64_t number = 0;
  std::memcpy(&number, key + number_at(options), number_bytes(options));
  return number;
}
inline std::uint64_t random_key(const TableOptions& options, base::Random& random) {
  return random.next() >> (64 - 8 * number_bytes(options));
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

/// Keys of numbers, one behind the other, at some address.
class KeyColumn {
 public:
  KeyColumn(const TableOptions& options, const RequestsRef& requests)
      : bytes_(kOffsets + requests.count * options.key_bytes), offset_(requests.count % kOffsets) {
    for (std::uint64_t i = 0; i < requests.count; ++i) {
      put_key(options, requests.key[i], bytes_.data() + offset_ + i * options.key_bytes);
    }
  }
  [[nodiscard]] const char* data() const { return bytes_.data() + offset_; }

 private:
  static constexpr std::uint64_t kOffsets = 16;
  std::vector<char> bytes_;
  std::uint64_t offset_;
};

/// Runs columns whose keys and values are single words, whatever the table has.
inline Status run_columns(Backend& backend, Table& table, const RequestsRef& requests) {
  if (!table.options().has_rows()) return backend.run(table, requests);
  const std::uint64_t words = table.options().value_bytes / 8;
  std::vector<std::uint64_t> value(requests.count * words), found(requests.count * words);
  for (std::uint64_t i = 0; i < requests.count && requests.value != nullptr; ++i) {
    fill_row(requests.value[i], words, value.data() + i * words);
  }
  const KeyColumn keys(table.options(), requests);
  ValueRequestsRef all{.requests = requests};
  all.requests.value = nullptr;
  all.requests.found = nullptr;
  if (table.options().keys_in_rows()) {
    all.requests.key = nullptr;
    all.key = keys.data();
  }
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

/// What a pair in a bucket stands for, and where it may lie.
struct Entry {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  algo::Place place;
};

/// Where a key in a row may lie; the row has it as it was given.
inline algo::Place place_of_row(const TableRef& table, const TableOptions& options,
                                const algo::RowShape& shape, const char* row) {
  std::vector<std::uint64_t> key(shape.key_words), expected(shape.key_words);
  std::memcpy(key.data(), row, 8 * key.size());
  put_key(options, number_of(options, row), reinterpret_cast<char*>(expected.data()));
  EXPECT_EQ(key, expected) << "a torn key";
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) hash = algo::folded(hash, word, options.secret);
  return algo::place_of_word(table, algo::word_of_hash(hash & options.hash_mask));
}

inline Entry entry_of(const TableRef& table, const TableOptions& options, const TableImage& image,
                      std::uint64_t bucket, const Pair& pair) {
  const auto shape =
      algo::RowShape::of(options.keys_in_rows() ? options.key_bytes : 0, options.value_bytes);
  const char* const row =
      options.has_rows() ? image.rows.data() + pair.second * shape.bytes() : nullptr;
  Entry entry;
  if (options.keys_in_rows()) {
    entry.key = number_of(options, row);
    entry.place = place_of_row(table, options, shape, row);
  } else {
    const exec::Unpermute back(table.secret.add, table.secret.factor);
    entry.key = algo::key_of(table, back, bucket, pair.first);
    entry.place = algo::place_of(table, entry.key);
  }
  const auto* const words = reinterpret_cast<const std::uint64_t*>(row);
  entry.value =
      options.has_rows() ? value_of_row(words + shape.key_words, shape.value_words) : pair.second;
  return entry;
}

/// Looks at one part of a table: every key where it may lie, with the model's value. Adds to *keys
/// those that lie in buckets from `begin` on.
inline void expect_part(const TableRef& table, std::size_t slots, std::uint64_t begin,
                        const TableImage& image, const TableOptions& options, const Model& model,
                        std::unordered_map<std::uint64_t, int>* keys) {
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
    const auto [key, value, place] = entry_of(table, options, image, bucket, pair);
    ASSERT_EQ(place.word, pair.first);
    ASSERT_TRUE(bucket == place.first || bucket == place.second) << slot;
    if (bucket != place.first) {
      ASSERT_TRUE((table.was_full[place.first / 32] >> place.first % 32 & 1U) != 0) << slot;
    }
    const auto expected = model.find(key);
    ASSERT_TRUE(expected != model.end()) << "key " << key << " in slot " << slot;
    ASSERT_EQ(expected->second, value) << "key " << key;
    ASSERT_EQ(++(*keys)[key], 1) << "key " << key << " is there twice";
  }
}

/// Every key once, and nothing else.
inline void expect_is(Backend& backend, const Table& table, const Model& model) {
  TableImage image;
  ASSERT_TRUE(backend.read(table, &image).ok());
  std::unordered_map<std::uint64_t, int> keys;
  const TableOptions& options = table.options();
  expect_part(image.tables.table, image.pairs.size(), 0, image, options, model, &keys);
  if (::testing::Test::HasFatalFailure()) return;
  expect_part(image.tables.old, image.old_pairs.size(), image.tables.moved, image, options, model,
              &keys);
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(keys.size(), model.size()) << "a key is lost";
  ASSERT_EQ(table.rows_free(), options.has_rows() ? options.rows - keys.size() : 0)
      << "a row is lost, or given twice";
}

inline Secret random_secret(base::Random& random) {
  return {.add = random.next(), .factor = random.next() | 1, .second_factor = random.next() | 1};
}

/// Keys that a table has no words for, where keys are in slots, and ordinary ones.
inline std::vector<std::uint64_t> some_keys(const Table& table, std::size_t count,
                                            base::Random& random) {
  const exec::Unpermute back(table.options().secret.add, table.options().secret.factor);
  std::vector<std::uint64_t> keys;
  if (!table.options().keys_in_rows()) {
    for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2},
                                     std::uint64_t{3}, exec::kBusyWord}) {
      keys.push_back(back(word));
    }
  }
  while (keys.size() < count) keys.push_back(random_key(table.options(), random));
  keys.resize(count);
  return keys;
}

/// Bytes of a value: in the slot, or in rows of words of either width.
inline std::uint64_t some_value_bytes(base::Random& random) {
  const std::uint64_t bytes[] = {8, 8, 16, 24, 128};
  return bytes[random.below(5)];
}

/// Bytes of a key: in the slot, or in rows.
inline std::uint64_t some_key_bytes(base::Random& random) {
  const std::uint64_t bytes[] = {8, 8, 8, 8, 4, 12, 24, 32, 33, 64};
  return bytes[random.below(10)];
}
/// So many that random keys are different ones.
inline std::uint64_t some_long_key_bytes(base::Random& random) {
  const std::uint64_t bytes[] = {8, 8, 12, 32, 64};
  return bytes[random.below(5)];
}
/// All bits of a hash, or so few, from the top, that many keys in rows share one.
inline std::uint64_t some_hash_mask(int few, base::Random& random) {
  return random.one_in(3) ? ~std::uint64_t{0} : ~std::uint64_t{0} << (64 - few);
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

/// The same for a table with keys in rows and values of 8 bytes, with columns in the backend's
/// memory of which that of the keys begins at `offset`.
inline std::map<std::uint64_t, Content> contents_here(Backend& backend, Table& table,
                                                      const std::vector<std::uint64_t>& keys,
                                                      std::uint64_t offset) {
  const TableOptions& options = table.options();
  std::vector<char> column(offset + keys.size() * options.key_bytes);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    put_key(options, keys[i], column.data() + offset + i * options.key_bytes);
  }
  exec::Pool& pool = backend.tenant().pool();
  auto there = exec::Array<char>::make(pool, column.size()).take();
  auto found_there = exec::Array<std::uint64_t>::make(pool, keys.size()).take();
  auto code_there = exec::Array<Code>::make(pool, keys.size()).take();
  std::vector<std::uint64_t> found(keys.size());
  std::vector<Code> code(keys.size());
  EXPECT_TRUE(backend.copy_in(there.data(), column.data(), column.size()).ok());
  // Of keys that are nowhere nothing is written.
  EXPECT_TRUE(backend
                  .copy_in(reinterpret_cast<char*>(found_there.data()),
                           reinterpret_cast<const char*>(found.data()), found_there.bytes())
                  .ok());
  EXPECT_TRUE(backend
                  .run_values_here(table, {.requests = {.all = Operation::kFind,
                                                        .code = code_there.data(),
                                                        .count = keys.size()},
                                           .found = reinterpret_cast<char*>(found_there.data()),
                                           .key = there.data() + offset})
                  .ok());
  const auto copy_out = [&](auto* to, const auto& from) {
    EXPECT_TRUE(backend
                    .copy_out(reinterpret_cast<char*>(to),
                              reinterpret_cast<const char*>(from.data()), from.bytes())
                    .ok());
  };
  copy_out(found.data(), found_there);
  copy_out(code.data(), code_there);
  std::map<std::uint64_t, Content> result;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    result[keys[i]] = code[i] == Code::kPresent ? Content{true, found[i]} : Content{};
  }
  return result;
}

/// Sends a request for each of some keys, which are different ones, and does the same to a model.
/// Returns how many found no room.
inline std::size_t send_each(Backend& backend, Table& table, Operation operation,
                             std::span<const std::uint64_t> keys, Model* model) {
  std::vector<Request> batch;
  for (const std::uint64_t key : keys) {
    batch.push_back({.operation = operation, .key = key, .value = key * 7 + batch.size()});
  }
  EXPECT_TRUE(run_batch(backend, table, &batch).ok());
  std::size_t without_room = 0;
  for (const Request& request : batch) {
    const auto at = model->find(request.key);
    Content content = at == model->end() ? Content{} : Content{true, at->second};
    without_room += request.code == Code::kNoRoom ? 1 : 0;
    if (request.code == Code::kNoRoom) continue;
    EXPECT_TRUE(applies(request, &content)) << "key " << request.key;
    if (content.is_there) (*model)[request.key] = content.value;
    if (!content.is_there) model->erase(request.key);
  }
  expect_is(backend, table, *model);
  return without_room;
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
