#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace breccia::residency {

/// Has the system read what it has not cached of bytes[count], which are mapped, meanwhile.
void ask_for_pages(const char* bytes, std::uint64_t count);

/// Sees whether bytes of mapped files that a thread reads come from their medium, and asks for them
/// before: who only reads waits for one page after the other, the system for many at once.
/// Threads one owner, all of whose calls are by the same thread from look_anew() on.
class ColdPages {
 public:
  /// Whether one more is to be asked for where so many values of so many bytes were, and are not
  /// read yet.
  static constexpr bool asks_on(std::size_t values, std::uint64_t bytes) {
    return values < 4 || (values < 256 && bytes < 4 << 20);
  }

  /// Before the first read of a thread. `was_cold`: what others saw last.
  void look_anew(bool was_cold);

  /// True if pages are to be asked for.
  [[nodiscard]] bool is_cold() const { return is_cold_; }
  /// Asks for the pages of bytes[count], which are mapped.
  void ask(const char* bytes, std::uint64_t count);
  /// So many reads a thread goes on before it looks.
  static constexpr std::uint64_t kReadsALook = 512;
  /// Behind each read of who does not count them.
  void note_read() {
    if (++reads_ % kReadsALook == 0) look();
  }
  /// Sees whether reads have waited since somebody looked; behind the last ones of a thread.
  void look();

 private:
  /// Who took less time since it looked has hardly waited, and need not ask the system, which is a
  /// microsecond, and longer beside others who ask.
  static constexpr std::chrono::microseconds kQuick{200};
  /// Of these that had to wait for the medium there are some where files are not cached.
  static constexpr std::int64_t kFaultsMin = 4;
  /// The first pages that are asked for, and one in so many then, are looked at whether they were
  /// there already; so many in a row say that files are cached.
  static constexpr std::uint64_t kFirstLooks = 16;
  static constexpr std::uint64_t kAsksALook = 16;
  static constexpr std::uint64_t kLooksMin = 64;

  bool is_cold_ = false;
  std::int64_t faults_ = 0;  // of the thread, when the system was asked
  bool is_counted_ = false;  // faults_ are those of the last look
  std::chrono::steady_clock::time_point looked_;
  std::uint64_t reads_ = 0;
  std::uint64_t asks_ = 0;
  std::uint64_t looks_ = 0;   // at pages that were asked for
  std::uint64_t absent_ = 0;  // of these
};

}  // namespace breccia::residency
