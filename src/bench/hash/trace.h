#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "hash/refs.h"

namespace breccia::bench::tables {

/// Requests of a trace that are one call.
struct Step {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  hash::Operation all = hash::Operation::kFind;
  bool is_mixed = false;   // each does its own operation
  bool is_behind = false;  // the second call of a batch: both are one in figures of calls
};

/// Requests in their order.
struct Trace {
  std::vector<std::uint64_t> order;         // the number of each one's key
  std::vector<hash::Operation> operations;  // of each one, where a step is mixed
  std::vector<Step> steps;

  [[nodiscard]] std::uint64_t size() const { return order.size(); }
  [[nodiscard]] hash::Operation operation(const Step& step, std::uint64_t i) const {
    return step.is_mixed ? operations[i] : step.all;
  }
  /// Makes steps of requests [begin, end).
  void cut(std::uint64_t begin, std::uint64_t end, std::uint64_t batch, hash::Operation all) {
    BRECCIA_ASSERT(batch > 0 && end <= size());
    for (std::uint64_t at = begin; at < end; at += batch) {
      steps.push_back({.begin = at, .end = std::min(at + batch, end), .all = all});
    }
  }
  /// The same where each does its own operation.
  void cut_mixed(std::uint64_t batch) {
    BRECCIA_ASSERT(operations.size() == size());
    cut(0, size(), batch, hash::Operation::kFind);
    for (Step& step : steps) step.is_mixed = true;
  }
};

/// Requests of one kind, in batches.
inline Trace trace_of(std::vector<std::uint64_t> order, std::uint64_t batch, hash::Operation all) {
  Trace trace;
  trace.order = std::move(order);
  trace.cut(0, trace.size(), batch, all);
  return trace;
}

/// What requests met, in their order.
struct Answers {
  std::vector<hash::Code> codes;
  std::vector<std::uint64_t> found;  // words of values
};

}  // namespace breccia::bench::tables
