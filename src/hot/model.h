#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace breccia::hot {

/// Which keys are hot, by their hashes. It never changes. A wrong answer costs speed alone.
/// Shape   hashes are spread over all 64 bits.
/// Threads any.
class Model {
 public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] virtual bool is_hot(std::uint64_t hash) const = 0;
  /// How many keys it was made of, or bins.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};
using ModelPtr = std::shared_ptr<const Model>;

/// A list of keys. Of others it takes one in some 5,000 for one of them.
/// Cost    a line of memory; 5 bytes a key.
/// Source  a blocked table of fingerprints, as the Bloom filters of Putze, Sanders and Singler
///         (2007) have blocks of a line.
class HotKeys final : public Model {
 public:
  explicit HotKeys(std::span<const std::uint64_t> hashes);

  [[nodiscard]] bool is_hot(std::uint64_t hash) const override {
    const Line& line = lines_[line_of(hash)];
    const std::uint16_t tag = tag_of(hash);
    std::uint16_t found = 0;
    for (const std::uint16_t one : line.tag) found |= one == tag ? 1 : 0;  // all, without a jump
    return found != 0;
  }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  static constexpr int kTags = 32;
  struct alignas(64) Line {
    std::uint16_t tag[kTags] = {};  // 0: none
  };

  [[nodiscard]] std::uint64_t line_of(std::uint64_t hash) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash) * lines_.size() >> 64);
  }
  /// Of bits from which the line does not follow, unless there are very many.
  static std::uint16_t tag_of(std::uint64_t hash) {
    const auto tag = static_cast<std::uint16_t>(hash);
    return tag == 0 ? 1 : tag;
  }
  bool add(std::uint64_t hash);

  const std::uint64_t size_;
  std::vector<Line> lines_;
};

/// The paper's: the hashes' range in bins, each of which is hot or not with all its keys.
/// Source  [kvcg] section 7 and 8: 10,000 bins. Deviation: of hashes, not of keys.
class HotBins final : public Model {
 public:
  static constexpr std::uint64_t kBins = 10'000;

  /// Shape   hot[kBins]
  explicit HotBins(std::vector<bool> hot);

  static std::uint64_t bin_of(std::uint64_t hash) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash) * kBins >> 64);
  }
  [[nodiscard]] bool is_hot(std::uint64_t hash) const override { return hot_[bin_of(hash)]; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  const std::vector<bool> hot_;
  const std::uint64_t size_;
};

}  // namespace breccia::hot
