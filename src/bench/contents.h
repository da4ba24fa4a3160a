#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <vector>

#include "bench/stream.h"

namespace breccia::bench {

/// What the keys of a benchmark may hold, from the steps that wrote them.
///
/// A step writes all keys or some, each with the one value that key and step have. So behind a
/// step that wrote all of them a lookup has one right answer, and behind others as many as there
/// were steps since.
/// Threads any number may call const members.
class Contents {
 public:
  /// Nothing is known: a database that was there before.
  static Contents unknown() {
    Contents contents;
    contents.known_ = false;
    return contents;
  }

  /// Every key was written in `generation`.
  void write_all(std::uint64_t generation) {
    known_ = true;
    may_be_absent_ = false;
    generations_ = {generation};
  }
  /// Some were, and nobody says which.
  void write_some(std::uint64_t generation) { generations_.push_back(generation); }
  void delete_some() { may_be_absent_ = true; }
  /// Values became what no generator made.
  void forget() { known_ = false; }

  /// Whether key `number` may have this outcome.
  [[nodiscard]] bool allows(const ValueSource& values, std::uint64_t number, Status::Code code,
                            const Slice& value) const {
    if (code == Status::kNotFound) return may_be_absent_ || !known_;
    if (code != Status::kOk) return false;
    if (!known_) return true;
    for (const std::uint64_t generation : generations_) {
      if (value == values.at(number, generation)) return true;
    }
    return false;
  }

 private:
  bool known_ = true;
  bool may_be_absent_ = true;
  std::vector<std::uint64_t> generations_;
};

}  // namespace breccia::bench
