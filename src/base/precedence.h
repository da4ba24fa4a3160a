#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace breccia::base {

/// Which writes go first where a disk has too many: those that somebody waits for. A flush that
/// shares the disk with two dozen threads of a compaction takes several times as long as by itself,
/// and writers wait for it when memory is full. The kernel does not tell them apart: priorities of
/// buffered writes are kept by one scheduler of several.
///
/// Threads any.
class Precedence {
 public:
  using Clock = std::chrono::steady_clock;
  /// What the others write in all beside those that go first, bytes a second: little enough for
  /// these to have most of a disk, and so much that nobody waits for ever.
  static constexpr std::uint64_t kBesideBytesPerSecond = 200'000'000;

  /// That of the disk on which the files of a folder lie, for this process; it never ends. Null:
  /// they lie in memory, or the folder is not there.
  [[nodiscard]] static Precedence* of_disk(const std::string& folder);
  /// The same of the folder that a file lies in.
  [[nodiscard]] static Precedence* of_file(const std::string& path);

  /// While there is one, its writes go first. To be held for writes alone: who waits for others
  /// with it keeps them waiting.
  class First {
   public:
    /// Null: nobody is kept waiting.
    explicit First(Precedence* precedence);
    ~First();
    First(const First&) = delete;
    First& operator=(const First&) = delete;

   private:
    Precedence* const precedence_;
  };

  /// Whether somebody goes first now.
  [[nodiscard]] bool has_first();
  /// Before a write of `bytes` that nobody waits for: returns at once, or, if others go first, when
  /// it may go beside them.
  void give_way(std::uint64_t bytes);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int first_ = 0;           // who goes first
  Clock::time_point next_;  // when the next of the others may go beside them
};

}  // namespace breccia::base
