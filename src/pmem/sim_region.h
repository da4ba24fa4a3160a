#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "pmem/lines.h"
#include "pmem/page_memory.h"
#include "pmem/region.h"

/// A region in memory that knows what a power cut could leave of it.
///
/// The model, that of x86 persistent memory without persistent caches:
///   1. An aligned 8-byte store is atomic. The medium takes a line of 64 bytes whole, at any moment
///      between two stores, unasked (eviction) or because persist() covers it.
///   2. Lines are independent: one may have reached the medium with its latest stores, its
///      neighbour with none.
///   3. The order of stores is known at note_stores() only. Between two notes (persist() is one for
///      the lines that it covers), the changed words of a line may have come in any order, so any
///      subset of them may be on the medium. A program that relies on the order of stores into one
///      line calls note_stores() after each; a program that does not need not call it at all.
/// So a line whose noted contents were S0 (durable), S1, ... Sn (now) may be found as any Si with
/// any subset of the words that differ from S(i+1); and an image is any choice for each line.

namespace breccia::pmem {

/// What a power cut at one moment could leave.
/// Threads one owner. Owner: a snapshot; it outlives the region.
class CrashImages {
 public:
  /// Up to this many images, all of them are visited.
  static constexpr std::uint64_t kExhaustiveMax = 65'536;
  using Visit = std::function<void(const std::vector<std::byte>& image)>;

  /// The lines that may differ from the durable image.
  [[nodiscard]] std::uint64_t dirty_lines() const { return lines_.size(); }
  /// How many choices there are; kCountMax if they are more.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] bool exhaustive() const { return count_ <= kExhaustiveMax; }
  [[nodiscard]] const std::vector<std::byte>& durable() const { return durable_; }

  /// Shows every image if exhaustive(), else sampled().
  /// Owner   the image changes after `visit` returns: copy what is to stay.
  /// Cost    one image copy, then 64 bytes for each line that changes between two images.
  void for_each(std::uint64_t seed, std::uint64_t samples, const Visit& visit) const;

  /// Shows none, all, and up to `samples` each of: random choices per line, all lines new but
  /// one, one line new and no other.
  void sampled(std::uint64_t seed, std::uint64_t samples, const Visit& visit) const;

  static constexpr std::uint64_t kCountMax = ~0ULL;

 private:
  friend class SimRegion;
  struct DirtyLine {
    DirtyLine(std::uint64_t at, const Line& durable, const std::vector<Line>& history);
    /// Choice 0 is the durable content, choices - 1 the latest. A store that brings an old value
    /// back makes two choices alike.
    [[nodiscard]] Line content(std::uint64_t choice) const;

    std::uint64_t offset;
    std::uint64_t choices;
    std::vector<Line> states;
  };
  CrashImages(std::vector<std::byte> durable, std::vector<DirtyLine> lines);
  void put(std::vector<std::byte>& image, const DirtyLine& line, std::uint64_t choice) const;
  void exhaust(const Visit& visit) const;

  std::vector<std::byte> durable_;
  std::vector<DirtyLine> lines_;
  std::uint64_t count_ = 1;
};

/// Threads persist() any number, the callback of on_crash_point() too; the rest one at a time, not
///         beside it; stores elsewhere may go on.
class SimRegion final : public Region {
 public:
  struct PersistEvent {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t lines_changed;
  };
  using OnCrashPoint = std::function<void(const CrashImages& images)>;

  /// A region of `bytes` zero bytes, all durable.
  explicit SimRegion(std::uint64_t bytes);
  /// The region as it is found after a power cut that left `image`.
  explicit SimRegion(const std::vector<std::byte>& image);

  [[nodiscard]] RegionKind kind() const override { return RegionKind::kSim; }
  [[nodiscard]] std::byte* data() override { return memory_.data(); }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  using Region::persist;
  /// Errors  IOError: fail_after() said so.
  [[nodiscard]] Status persist(std::span<const Range> ranges) override;

  /// Remembers the present contents of all lines: stores made before come before those made
  /// later.
  /// Cost    reads the whole region.
  void note_stores();

  /// What a power cut now could leave.
  [[nodiscard]] CrashImages crash_images();
  /// What is certain to be there after a power cut, nothing more.
  [[nodiscard]] const std::vector<std::byte>& durable_image() const { return durable_; }

  /// Calls `callback` at the start of each persist(), before it takes effect.
  void on_crash_point(OnCrashPoint callback) { on_crash_point_ = std::move(callback); }
  [[nodiscard]] const std::vector<PersistEvent>& events() const { return events_; }

  /// Lets `persists` further calls pass; the one after them and all later ones fail, and make
  /// nothing durable.
  void fail_after(std::uint64_t persists) { persists_left_ = persists; }

 private:
  /// Appends the present content of the lines in [begin, end) to their histories if it is new.
  void note_lines(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] Line durable_line(std::uint64_t offset) const;
  void make_durable(const Range& range);

  static constexpr std::uint64_t kNeverFail = ~0ULL;

  std::uint64_t size_;
  PageMemory memory_;
  std::mutex mutex_;  // of what follows, against other callers of persist()
  std::vector<std::byte> durable_;
  /// Noted contents of each line since it was last durable, oldest first, without the durable one.
  std::map<std::uint64_t, std::vector<Line>> history_;
  std::vector<PersistEvent> events_;
  OnCrashPoint on_crash_point_;
  std::uint64_t persists_left_ = kNeverFail;
};

}  // namespace breccia::pmem
