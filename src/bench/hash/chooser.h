#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "base/random.h"
#include "bench/hash/flags.h"
#include "bench/hash/zipf.h"
#include "bench/key_choice.h"

namespace breccia::bench::tables {

/// Runs work(random, i) for all i below `count`, with numbers that only `seed` and i's place say.
template <class Work>
void for_random(std::uint64_t count, std::uint64_t seed, const Work& work) {
  constexpr std::uint64_t kPiece = 1 << 14;
  base::parallel_for(std::uint64_t{0}, blocks_of(count, kPiece), [&](std::uint64_t piece) {
    base::Random random(base::mix64(base::mix64(seed) + piece));
    const std::uint64_t end = std::min(count, (piece + 1) * kPiece);
    for (std::uint64_t i = piece * kPiece; i < end; ++i) work(random, i);
  });
}

/// Chooses keys by their numbers.
/// Threads one owner; it uses all cores itself.
class Chooser {
 public:
  /// Among [0, items).
  Chooser(const Choice& choice, std::uint64_t items, std::uint64_t seed)
      : is_zipf_(choice.distribution == "zipf"),
        items_(items),
        seed_(base::mix64(seed)),
        zipf_(items, is_zipf_ ? choice.skew : 0),
        places_(items, seed_) {}

  /// `count` keys of the distribution, with repetitions; popular ones lie anywhere.
  std::vector<std::uint64_t> draw(std::uint64_t count) {
    std::vector<std::uint64_t> order(count);
    for_random(count, next_seed(),
               [&](base::Random& random, std::uint64_t i) { order[i] = one(&random); });
    return order;
  }
  std::uint64_t one(base::Random* random) const {
    return is_zipf_ ? places_.at(zipf_.next(random)) : random->below(items_);
  }
  /// A rank of the distribution: of its most popular one 0.
  std::uint64_t rank(base::Random* random) const {
    return is_zipf_ ? zipf_.next(random) : random->below(items_);
  }

  /// `count` keys, each once, in steps that lead all over them: another order each time.
  /// Shape   count <= items.
  std::vector<std::uint64_t> once(std::uint64_t count) {
    std::uint64_t step = static_cast<std::uint64_t>(0.618 * static_cast<double>(items_)) | 1;
    while (std::gcd(step, items_) != 1) step += 2;
    std::vector<std::uint64_t> order(count);
    std::uint64_t at = next_seed() % items_;
    for (std::uint64_t& key : order) {
      key = at;
      at = (at + step) % items_;
    }
    return order;
  }
  /// Another one at each call.
  std::uint64_t next_seed() { return base::mix64(seed_ + ++draws_); }

 private:
  const bool is_zipf_;
  const std::uint64_t items_;
  const std::uint64_t seed_;
  const ExactZipf zipf_;
  const Permutation places_;
  std::uint64_t draws_ = 0;
};

}  // namespace breccia::bench::tables
