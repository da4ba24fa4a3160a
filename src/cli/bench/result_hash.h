#pragma once

#include <breccia/status.h>

#include <cstdint>

#include "base/checksum.h"
#include "base/random.h"

namespace breccia::cli::bench {

/// A fingerprint of read results that does not depend on their order, so that engines and threads
/// may finish in any.
/// Threads one owner; merge what others made.
class ResultHash {
 public:
  /// Adds the outcome of request `id`; `value` counts only if the code is kOk.
  void add(std::uint64_t id, Status::Code code, const Slice& value) {
    const bool found = code == Status::kOk;
    const std::uint64_t content = found ? base::Checksum64::of(value.data(), value.size()) : 0;
    sum_ += base::mix64(id ^ base::mix64(content + code));
    ++count_;
    if (found) ++found_;
    if (!found && code != Status::kNotFound) ++failed_;
  }

  void merge(const ResultHash& other) {
    sum_ += other.sum_;
    count_ += other.count_;
    found_ += other.found_;
    failed_ += other.failed_;
  }

  [[nodiscard]] std::uint64_t digest() const { return base::mix64(sum_ ^ count_); }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t found() const { return found_; }
  /// Results that are neither found nor not found.
  [[nodiscard]] std::uint64_t failed() const { return failed_; }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t found_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace breccia::cli::bench
