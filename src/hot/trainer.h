#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "hot/model.h"
#include "hot/sketch.h"

namespace breccia::hot {

struct TrainerOptions {
  /// Keys that are hot at most.
  std::uint64_t keys_max = 10'000;
  /// Samples behind which it is looked whether another model pays.
  std::uint64_t samples_of_window = 1 << 20;
  /// The same of the first window, each one behind which is twice as long as the one before, up to
  /// that: something is hot soon, and who is hot exactly is learned later. 0: they are all alike.
  std::uint64_t samples_of_first = 0;
  /// Samples of a key, of late, from which on it may be hot.
  std::uint32_t samples_min = 4;
  /// So large a share of all requests has to go to hot keys more than now, or a new model does not
  /// pay for its change.
  double gain_min = 0.02;
};

/// A model that could be, and what it would have been worth: shares of a window's samples, none of
/// which it was made of.
struct Proposal {
  ModelPtr model;  // null: there is none yet
  double share = 0;
  double share_now = 0;  // of the model that there was
};

/// Learns from samples of requests which keys are hot. What was long ago counts less: half as much
/// a window later.
///
/// 1. A sketch counts all keys; those that it has seen often are candidates.
/// 2. When a window is over, the candidates that were seen most often are a shadow model.
/// 3. In the next window it is asked what it would be worth, beside the model that there is: keys
///    that were seen often by chance are not seen again.
///
/// Threads one owner.
/// Source  [kvcg] section 7: a shadow model, trained by sampled requests. Deviations: keys in the
///         place of bins; it has to pay (docs/impl/hot.md).
class Trainer {
 public:
  explicit Trainer(const TrainerOptions& options);

  /// `now`: the model that there is; null: nothing is hot.
  void add(std::span<const std::uint64_t> hashes, const Model* now);
  /// Whether a window is over.
  [[nodiscard]] bool is_due() const { return samples_ >= window_; }
  /// Ends a window.
  [[nodiscard]] Proposal end_window();
  /// Whether a proposal is worth a change.
  [[nodiscard]] bool pays(const Proposal& proposal) const {
    return proposal.model != nullptr && proposal.share - proposal.share_now >= options_.gain_min;
  }
  /// Keys that may be hot.
  [[nodiscard]] std::uint64_t candidates() const { return candidates_.size(); }

 private:
  void keep_most_seen(std::uint64_t count);
  [[nodiscard]] ModelPtr make_shadow() const;
  void age();

  const TrainerOptions options_;
  Sketch sketch_;
  std::unordered_map<std::uint64_t, std::uint32_t> candidates_;  // how often they were seen
  std::uint32_t seen_min_;                                       // of a candidate
  ModelPtr shadow_;
  std::uint64_t window_;
  // Of the window:
  std::uint64_t samples_ = 0;
  std::uint64_t hot_in_shadow_ = 0;
  std::uint64_t hot_now_ = 0;
};

}  // namespace breccia::hot
