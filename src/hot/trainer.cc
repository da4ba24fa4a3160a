#include "hot/trainer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace breccia::hot {

namespace {

/// So many times as many candidates as hot keys: who is hot next is among them.
constexpr std::uint64_t kCandidatesOfKey = 4;
/// So that a counter has seen few keys but one, whatever is hot.
constexpr std::uint64_t kCountersOfKey = 4;
constexpr std::uint64_t kSamplesOfCounter = 2;

std::uint64_t counters_for(const TrainerOptions& options) {
  return std::bit_ceil(std::max(kCountersOfKey * options.keys_max,
                                options.samples_of_window / kSamplesOfCounter + 1));
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options)
    : options_(options),
      sketch_(counters_for(options)),
      seen_min_(options.samples_min),
      window_(options.samples_of_first == 0 ? options.samples_of_window
                                            : options.samples_of_first) {
  BRECCIA_ASSERT(options.keys_max > 0 && options.samples_min > 0);
  candidates_.reserve(kCandidatesOfKey * options.keys_max + 1);
}

void Trainer::add(std::span<const std::uint64_t> hashes, const Model* now) {
  samples_ += hashes.size();
  for (const std::uint64_t hash : hashes) {
    if (shadow_ != nullptr && shadow_->is_hot(hash)) ++hot_in_shadow_;
    if (now != nullptr && now->is_hot(hash)) ++hot_now_;
    const std::uint32_t seen = sketch_.add(hash);
    if (seen < seen_min_) continue;
    candidates_[hash] = seen;
    if (candidates_.size() > kCandidatesOfKey * options_.keys_max) {
      keep_most_seen(kCandidatesOfKey / 2 * options_.keys_max);
    }
  }
}

/// Whoever was seen less often than the last of them does not come in any more.
void Trainer::keep_most_seen(std::uint64_t count) {
  BRECCIA_ASSERT(count > 0 && count < candidates_.size());
  std::vector<std::uint32_t> seen;
  seen.reserve(candidates_.size());
  for (const auto& [hash, times] : candidates_) seen.push_back(times);
  const auto last = seen.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(seen.begin(), last, seen.end(), std::greater<>());
  seen_min_ = *last + 1;
  std::erase_if(candidates_, [&](const auto& one) { return one.second < seen_min_; });
}

Proposal Trainer::end_window() {
  const auto share_of = [&](std::uint64_t hot) {
    return static_cast<double>(hot) / static_cast<double>(std::max<std::uint64_t>(samples_, 1));
  };
  Proposal proposal{std::move(shadow_), share_of(hot_in_shadow_), share_of(hot_now_)};
  shadow_ = make_shadow();
  age();
  return proposal;
}

ModelPtr Trainer::make_shadow() const {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> most;  // seen, hash
  most.reserve(candidates_.size());
  for (const auto& [hash, seen] : candidates_) most.emplace_back(seen, hash);
  const std::size_t count = std::min<std::size_t>(most.size(), options_.keys_max);
  const auto end = most.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(most.begin(), end, most.end(), std::greater<>());
  std::vector<std::uint64_t> hashes(count);
  std::transform(most.begin(), end, hashes.begin(), [](const auto& one) { return one.second; });
  return std::make_shared<const HotKeys>(hashes);
}

/// Begins a window, and counts what was so far half as much.
void Trainer::age() {
  samples_ = hot_in_shadow_ = hot_now_ = 0;
  window_ = std::min(2 * window_, options_.samples_of_window);
  sketch_.halve();
  for (auto& [hash, seen] : candidates_) seen /= 2;
  seen_min_ = std::max(options_.samples_min, seen_min_ / 2);
  std::erase_if(candidates_, [&](const auto& one) { return one.second < seen_min_; });
}

}  // namespace breccia::hot
