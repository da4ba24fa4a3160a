#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "slab/backend.h"
#include "support/seeds.h"

/// A table of slabs beside a model: batches, what may come of them, and what it must hold.

namespace breccia::slab::conformance {

struct Executor {
  const char* name;
  std::shared_ptr<Backend> (*make)(std::uint64_t seed);
  /// Percent of the seeds of a generated test.
  std::uint64_t share;
};

inline std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "slab"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}
inline std::shared_ptr<Backend> backend_of_kind(exec::DeviceKind kind) {
  auto device = exec::open_device(kind, 0);
  BRECCIA_ASSERT(device.ok());
  return backend_on(device.value());
}

inline Secret random_secret(base::Random& random) { return {random.next(), random.next() | 3}; }

/// One request and what came of it.
struct Request {
  Operation operation = Operation::kFind;
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  Code code = Code::kNoRoom;
  std::uint64_t found = ~std::uint64_t{0};
};

/// Operations of one kind are told as such.
inline Status run_batch(Backend& backend, Table& table, std::vector<Request>* batch) {
  const std::size_t n = batch->size();
  std::vector<Operation> operation(n);
  std::vector<std::uint64_t> key(n), value(n), found(n);
  std::vector<Code> code(n);
  for (std::size_t i = 0; i < n; ++i) {
    operation[i] = (*batch)[i].operation;
    key[i] = (*batch)[i].key;
    value[i] = (*batch)[i].value;
  }
  const bool is_one = n > 0 && std::count(operation.begin(), operation.end(), operation.front()) ==
                                   static_cast<std::ptrdiff_t>(n);
  BRECCIA_TRY(backend.run(table, {.operation = is_one ? nullptr : operation.data(),
                                  .all = n == 0 ? Operation::kFind : operation.front(),
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

using Model = std::map<std::uint64_t, std::uint64_t>;

/// What a key has; none: it is not there.
using Content = std::optional<std::uint64_t>;

/// What one request leaves of a key, if it met what it says; none: it cannot have.
inline std::optional<Content> behind(const Request& request, const Content& before) {
  const bool was_there = request.code == Code::kPresent;
  if (was_there != before.has_value() || request.found != before.value_or(0)) return std::nullopt;
  const Content written(request.value);
  const std::uint64_t value = before.value_or(0);
  switch (request.operation) {
    case Operation::kFind:
      break;
    case Operation::kInsert:
      return was_there ? before : written;
    case Operation::kUpsert:
      return written;
    case Operation::kUpdate:
      return was_there ? written : before;
    case Operation::kRaise:
      return was_there && value >= request.value ? before : written;
    case Operation::kDrop:
      return was_there && value == request.value ? Content() : before;
    case Operation::kDelete:
      return Content();
  }
  return before;
}

/// Whether requests on one key had their answers in some order.
inline bool is_explained(std::vector<Request>& requests, const Content& before,
                         const Content& after) {
  if (requests.empty()) return before == after;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto next = behind(requests[i], before);
    if (!next.has_value()) continue;
    std::swap(requests[i], requests.back());
    const Request last = requests.back();
    requests.pop_back();
    const bool is_it = is_explained(requests, *next, after);
    requests.push_back(last);
    std::swap(requests[i], requests.back());
    if (is_it) return true;
  }
  return false;
}

/// All that a table has; each key once.
inline Model contents(Backend& backend, Table& table) {
  auto read = backend.read(table);
  EXPECT_TRUE(read.ok()) << read.status().ToString();
  Model model;
  if (!read.ok()) return model;
  const Contents& all = read.value();
  for (std::size_t i = 0; i < all.key.size(); ++i) {
    EXPECT_TRUE(model.emplace(all.key[i], all.value[i]).second)
        << "key " << all.key[i] << " is there twice";
  }
  EXPECT_EQ(model.size(), table.figures().keys);
  return model;
}

/// Keys, the two among them whose numbers are special.
inline std::vector<std::uint64_t> some_keys(std::uint64_t count, base::Random& random) {
  std::vector<std::uint64_t> keys = {kFree, ~kFree};
  while (keys.size() < count) keys.push_back(random.next());
  return keys;
}

}  // namespace breccia::slab::conformance
