#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace breccia::residency {

/// Sees whether bytes of mapped files that a thread reads come from their medium, and asks for them
/// before: who only reads waits for one page after the other, the system for many at once.
/// Threads one owner, all of whose calls are by the same thread from look_anew() on.
class ColdPages {
 public:
  /// Values, of about so many bytes each, that are asked for before they are read.
  static constexpr std::size_t ahead(std::uint64_t bytes) {
    constexpr std::size_t kValues = 256;
    constexpr std::uint64_t kBytes = 4 << 20;
    return std::clamp<std::size_t>(kBytes / std::max<std::uint64_t>(bytes, 1), 4, kValues);
  }

  /// Before the first read of a thread. `was_cold`: what others saw last.
  void look_anew(bool was_cold);

  /// True if pages are to be asked for.
  [[nodiscard]] bool is_cold() const { return is_cold_; }
  /// Asks for the pages of bytes[count], which are mapped.
  void ask(const char* bytes, std::uint64_t count);
  /// Behind each read.
  void note_read() {
    ++reads_;
    // Early ones see it when a few have waited.
    const bool looks =
        reads_ < kReadsALook ? std::has_single_bit(reads_) : reads_ % kReadsALook == 0;
    if (looks) look();
  }

 private:
  static constexpr std::uint64_t kReadsALook = 512;
  /// Of these that had to wait for the medium there are some where files are not cached.
  static constexpr std::int64_t kFaultsMin = 4;
  /// One in so many pages that are asked for is looked at whether it was there already.
  static constexpr std::uint64_t kAsksALook = 16;
  static constexpr std::uint64_t kLooksMin = 64;

  void look();

  bool is_cold_ = false;
  std::int64_t faults_ = 0;  // of the thread, when it was looked at last
  std::uint64_t reads_ = 0;
  std::uint64_t asks_ = 0;
  std::uint64_t looks_ = 0;   // at pages that were asked for
  std::uint64_t absent_ = 0;  // of these
};

}  // namespace breccia::residency
