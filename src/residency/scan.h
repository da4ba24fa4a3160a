#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "residency/file_set.h"
#include "sst/block.h"

namespace breccia::residency {

/// Live entries of a set of files in order, from a key on: a device says where the entries of each
/// level begin (FileSet::seek), and from there on they are read where they lie in their files,
/// pages ahead asked for where that goes on.
///
/// Owner   the files live longer.
/// Threads one owner.
class Scan {
 public:
  explicit Scan(const FileSet& files);

  /// Goes to the first entry that is not below `begin`, which is key `i` of `starts`.
  /// Owner   `begin` is looked at now; `end`, if any, lives as long as the scan is not begun again.
  void begin(const FileSet::Starts& starts, std::uint64_t i, const Slice& begin,
             std::optional<Slice> end);
  /// Asks for what begin() and so many entries read, some ranges before it, and again when that has
  /// come.
  void fetch_block(const FileSet::Starts& starts, std::uint64_t i, std::uint64_t entries) const;
  void fetch_entry(const FileSet::Starts& starts, std::uint64_t i) const;

  /// False: behind the last entry before the end, or not knows().
  [[nodiscard]] bool valid() const { return least_ != nullptr && !is_lost_; }
  /// False: what comes next is not known here, and RocksDB is to be asked, for all of the range.
  [[nodiscard]] bool knows() const { return !is_lost_; }
  /// Shape   valid(). Until next() or begin().
  [[nodiscard]] Slice key() const { return least_->key(); }
  [[nodiscard]] Slice value() const { return least_->value(); }
  void next();
  /// Goes on over entries whose keys and values have 8 bytes each, as far as nothing else comes
  /// between, to the last of them; returns how many, maybe none where there are some.
  /// Shape   valid(); pairs[2 * limit]: key and value of each.
  std::uint32_t take_pairs(std::uint32_t limit, std::uint64_t* pairs);

 private:
  /// fetch(part, offset) for each level's start in blocks that are not compressed.
  template <class Fetch>
  void each_plain(const FileSet::Starts& starts, std::uint64_t i, const Fetch& fetch) const;
  /// Entries of one level.
  class Level {
   public:
    Level(const FileSet& files, std::size_t part_end) : files_(&files), part_end_(part_end) {}

    void begin(std::uint64_t place, std::uint32_t part);
    void next();
    [[nodiscard]] bool valid() const { return state_ != State::kEnd; }
    /// What the level has of key(), or from it on, is RocksDB's to say.
    [[nodiscard]] bool is_unknown() const { return valid() && state_ != State::kEntry; }
    /// False: the end, or a part of which nothing is known.
    [[nodiscard]] bool is_entry() const { return valid() && state_ != State::kUnknown; }
    [[nodiscard]] bool is_deletion() const { return is_deletion_; }
    /// The user's.
    [[nodiscard]] Slice key() const { return key_; }
    [[nodiscard]] Slice value() const { return entries_.value(); }
    void ask_ahead(std::uint64_t bytes) const;
    /// As BlockEntries::take_pairs.
    std::uint32_t take_pairs(std::uint64_t end_head, std::uint32_t limit, std::uint64_t* pairs);

   private:
    /// kOther: an entry that is neither a value nor a deletion.
    enum class State { kEnd, kEntry, kOther, kUnknown };
    void open_part(std::size_t part);
    [[nodiscard]] bool open_block(std::size_t block);
    void take_entry();
    /// RocksDB knows what comes in this part.
    void lose();

    const FileSet* files_;
    std::size_t part_end_;
    State state_ = State::kEnd;
    bool is_deletion_ = false;
    std::size_t part_ = 0;
    std::size_t block_ = 0;
    FileSet::Unpacked unpacked_;
    sst::BlockEntries entries_{Slice(), sst::BlockEntries::Kind::kValues};
    Slice key_;
  };

  /// The level with the least key before the end, the newest of those that have it, and up to
  /// where it is the only one.
  void find_least();
  [[nodiscard]] bool is_behind(const Slice& key) const;
  /// Whether the least level's entry is live, and no other level has one before, or its key.
  [[nodiscard]] bool is_alone() const;
  /// Goes behind all versions of the least key, as far as they are known. True: no other level had
  /// it, and so the rival is the rival still.
  bool pass_least();
  /// The same in a level that has it.
  void pass(Level* level);
  /// Leaves deletions out, and sees what is not known.
  void settle();

  /// A scan that came so far goes on, and asks for the next pages; of what the system has cached
  /// that costs a call.
  static constexpr std::uint64_t kGoesOnBytes = 32 << 10;
  static constexpr std::uint64_t kAskedBytes = 1 << 20;
  void note_read(std::uint64_t bytes) {
    read_bytes_ += bytes;
    if (read_bytes_ >= asks_at_) ask_ahead();
  }
  void ask_ahead();

  const FileSet& files_;
  std::vector<Level> levels_;  // newest first
  Level* least_ = nullptr;
  const Level* rival_ = nullptr;  // the one that comes next, if any
  std::optional<Slice> end_;
  std::uint64_t end_head_ = 0;  // the first 8 bytes of it
  std::string passed_;          // a key, and room behind it
  bool is_lost_ = false;
  std::uint64_t read_bytes_ = 0;  // since the begin
  std::uint64_t asks_at_ = 0;     // for pages ahead, when so many were
};

}  // namespace breccia::residency
