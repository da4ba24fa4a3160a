#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace breccia::bench::disagg {

/// Which versions of a record a client may see. A version says who wrote it, and as which one of
/// its writes; 0 is the one that was loaded.
/// Threads one owner; begun() anybody.
class Versions {
 public:
  /// Of so many records at first; 0: nobody wants to know what it may see.
  Versions(std::uint32_t writer, std::uint64_t records) : writer_(writer), last_(records, 0) {}

  static constexpr std::uint32_t kNobody = ~0U;
  [[nodiscard]] static std::uint32_t writer_of(std::uint64_t version) {
    return version == 0 ? kNobody : static_cast<std::uint32_t>(version >> kCountBits) - 1;
  }
  [[nodiscard]] static std::uint64_t count_of(std::uint64_t version) {
    return version & ((std::uint64_t{1} << kCountBits) - 1);
  }

  /// The version of the write of a record that begins now.
  std::uint64_t begin_write(std::uint64_t record) {
    const std::uint64_t count = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(count, std::memory_order_release);
    if (!last_.empty()) {
      if (record >= last_.size()) last_.resize(record + 1, 0);
      last_[record] = count;
    }
    return std::uint64_t{writer_ + 1} << kCountBits | count;
  }
  /// Whether this client, behind what it has written itself, may find a record so: not what was
  /// before its own last write, and nothing that nobody has begun to write.
  [[nodiscard]] bool may_see(std::uint64_t record, std::uint64_t version,
                             const std::vector<const Versions*>& all) const {
    const std::uint64_t own = record < last_.size() ? last_[record] : 0;
    const std::uint32_t writer = writer_of(version);
    if (writer == kNobody) return own == 0;
    if (writer == writer_) return count_of(version) == own;
    return writer < all.size() && count_of(version) <= all[writer]->begun();
  }
  [[nodiscard]] std::uint64_t begun() const { return begun_.load(std::memory_order_acquire); }

 private:
  static constexpr int kCountBits = 40;

  const std::uint32_t writer_;
  std::vector<std::uint64_t> last_;  // of its own writes, by record; 0: it has not written it
  std::atomic<std::uint64_t> begun_{0};
};

}  // namespace breccia::bench::disagg
