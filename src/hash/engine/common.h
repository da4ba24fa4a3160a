#pragma once

#include <cstdint>
#include <optional>

#include "record/record.h"

namespace breccia::hash {

/// The header that all of some puts have, if they have one: it says where in a record the value
/// lies and how long it is, so nobody needs to read it there. What is no put says nothing.
class CommonPut {
 public:
  /// Of puts of which nothing is known.
  static CommonPut several() {
    CommonPut puts;
    puts.state_ = State::kSeveral;
    return puts;
  }

  void add(const record::RecordHeader& header) {
    if (header.op() != record::Op::kPut) return;
    if (state_ == State::kOne && header == header_) return;
    state_ = state_ == State::kNone ? State::kOne : State::kSeveral;
    header_ = header;
  }
  void add(const CommonPut& other) {
    if (other.state_ == State::kOne) add(other.header_);
    if (other.state_ == State::kSeveral) state_ = State::kSeveral;
  }

  /// None: there are several, or no puts.
  [[nodiscard]] std::optional<record::RecordHeader> shared() const {
    return state_ == State::kOne ? std::optional(header_) : std::nullopt;
  }

 private:
  enum class State : std::uint8_t { kNone, kOne, kSeveral };
  State state_ = State::kNone;
  record::RecordHeader header_{};
};

/// What some records have in common.
struct Common {
  bool only_words = true;  // all their keys have 8 bytes
  CommonPut put;

  void add(const record::RecordHeader& header) {
    only_words = only_words && header.key_bytes() == sizeof(std::uint64_t);
    put.add(header);
  }
  void add(const Common& other) {
    only_words = only_words && other.only_words;
    put.add(other.put);
  }
};

}  // namespace breccia::hash
