#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bench/contents.h"
#include "bench/key_choice.h"
#include "bench/key_set.h"
#include "bench/stream.h"

namespace breccia::bench {

/// How a stream chooses keys.
enum class Order {
  kSequence,  // one after the other
  kEachOnce,  // each once, in an order that has none
  kRandom,    // any, again and again
};

/// db_bench's requests: all of one kind on the keys of a set.
///
/// Choices by Zipf's law cost more than a request may, so they are made when the stream is, eight
/// bytes each; behind the last one the first comes again.
class KeyStream final : public Stream {
 public:
  struct Config {
    Kind kind = Kind::kGet;
    bool every_second_reads = false;  // requests of even numbers are lookups
    std::uint32_t scan_entries = 0;
    Order order = Order::kRandom;
    // kSequence, kEachOnce: the places in that order that this stream takes; behind the last one
    // the first comes again.
    std::uint64_t first = 0;
    std::uint64_t count = 0;  // 0: all
    // kSequence: so many neighbours are one place, and a hash says which of them is taken.
    std::uint64_t one_in = 1;
    // kRandom: only keys whose number has the remainder `part` when divided by `parts`.
    std::uint64_t parts = 1;
    std::uint64_t part = 0;
    double skew = 0;                 // kRandom: theta of Zipf's law; 0: uniform
    std::uint64_t skew_choices = 0;  // kept, at most
    double misses = 0;               // share of lookups for keys that are nowhere
    std::uint64_t seed = 0;
    std::uint64_t shuffle_seed = 0;  // of kEachOnce, and of which keys are popular
    std::uint64_t generation = 0;
    std::optional<KeySet> keys;
    std::shared_ptr<const ValueSource> values;
    Contents contents;  // what lookups may find
  };

  explicit KeyStream(Config config);

  void fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const override;
  [[nodiscard]] std::size_t key_size_max() const override { return config_.keys->size_max(); }
  [[nodiscard]] bool allows(std::uint64_t number, Status::Code code,
                            const Slice& value) const override;
  [[nodiscard]] bool allows_scan(std::uint64_t number, Status::Code code,
                                 std::uint64_t entries) const override;

 private:
  [[nodiscard]] std::uint64_t key_number(std::uint64_t request) const;
  [[nodiscard]] Kind kind_of(std::uint64_t request) const;
  [[nodiscard]] bool is_miss(std::uint64_t request) const;

  const Config config_;
  const Permutation shuffle_;
  std::uint64_t misses_below_ = 0;  // a request is a miss if its mix lies below
  std::vector<std::uint64_t> skewed_;
};

}  // namespace breccia::bench
