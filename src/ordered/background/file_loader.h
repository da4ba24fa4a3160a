#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "ordered/parts.h"
#include "ordered/resident_files.h"
#include "ordered/write/publisher.h"

namespace breccia::ordered {

/// Gives the keys of the tree's files to the device in the background, and publishes views that
/// know them: behind flushes, compactions, and what else changes files. Where there is no room for
/// all, the newest levels have it.
///
/// Threads start() and stop() by one.
class FileLoader {
 public:
  FileLoader(const StoreParts& parts, Publisher* publisher);
  ~FileLoader();

  void start();
  /// Ends what is being loaded at its next piece.
  void stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// What there is of a family's files, by number; null: a file that is not read here.
  struct Family {
    std::map<std::uint64_t, residency::ResidentFilePtr> kept;
    std::set<std::uint64_t> published;  // of those, in the view's set
    /// Of these what a compaction took away, which may serve until what replaces it is read; goes
    /// when another set is published.
    std::vector<residency::ResidentFilePtr> replaced;
    std::map<std::uint64_t, std::uint64_t> needs;  // bytes of files for which there was no room
    std::uint64_t version = 0;                     // RocksDB's, of the files that were published
    std::uint64_t changes = 0;                     // FamilyView::tree_changes then
    bool is_whole = false;                         // all that could be loaded was
    bool is_served = false;                        // and is in the view's set, without a gap
    int gaps = 0;  // how often files went before they were read, one time behind the other
    bool has_let_go = false;        // of files for others, this time
    bool looks_soon = false;        // whether there is room now, as some was freed
    Time look_again = Time::max();  // whether there is room now
  };
  /// Files of a family's tree at one time.
  struct Listed {
    std::vector<residency::ListedLevel> levels;
    std::uint64_t version = 0;
    std::uint64_t changes = 0;
  };
  /// kGone: a compaction took it away.
  enum class Read { kDone, kNoRoom, kGone, kOver };
  /// Files, newest first.
  using Files = std::span<residency::ListedFile* const>;
  /// A file that is read, and what came of it.
  struct Attempt {
    residency::ListedFile* file = nullptr;
    Files older;                     // it and those behind it
    std::uint64_t bytes_needed = 0;  // by its properties, once it is open
    Status why = Status::MemoryLimit();
    residency::ResidentFilePtr resident;
  };

  void run();
  void step();
  void forget_all();
  void look(FamilyId id);
  [[nodiscard]] bool is_known(FamilyId id, const Family& family) const;
  [[nodiscard]] std::uint64_t version_of(const FamilyView& view) const;
  /// None: not now.
  [[nodiscard]] std::optional<Listed> list(FamilyId id) const;
  /// Reads what is not kept yet, and publishes. Ends early where files have changed meanwhile, or
  /// the store closes.
  void load(FamilyId id, Listed* listed, Family* family);
  /// Of what is kept what is still listed; the others are replaced.
  static void take_kept(Listed* listed, Family* family);
  /// Whether the tree says what it said when its files were listed.
  [[nodiscard]] bool says_the_same(FamilyId id, const Listed& listed) const;
  /// Whether files of before a flush serve below its clean run.
  [[nodiscard]] bool older_serve(FamilyId id) const;
  [[nodiscard]] bool are_too_many(const std::vector<residency::ResidentFilePtr>& replaced,
                                  const Family& family) const;
  void give_up_older(FamilyId id);
  /// Files that are not kept, from *next on, as many as are read at once; *next is moved behind
  /// them. *lacks_room: some were left out.
  [[nodiscard]] std::vector<Attempt> begin_next(Files files, std::size_t* next,
                                                const Family& family, bool* lacks_room) const;
  void read_together(std::span<Attempt> attempts);
  void read(residency::FileReader* reader, std::atomic<std::uint64_t>* taken, Attempt* attempt);
  [[nodiscard]] Read keep(Attempt* attempt, Family* family);
  /// Whether a file for which there was no room would have some if all older ones went.
  [[nodiscard]] bool can_make_room(const Attempt& attempt, const Family& family) const;
  /// Reads such a file again, when older ones went for it.
  [[nodiscard]] Read read_instead(FamilyId id, const Listed& listed, Attempt* attempt,
                                  Family* family);
  [[nodiscard]] bool could_fit(std::uint64_t needed, Files older, const Family& family) const;
  static void let_go(std::uint64_t bytes, Files older, Family* family);
  /// What is listed and kept; what was replaced is forgotten.
  [[nodiscard]] bool publish(FamilyId id, const Listed& listed, bool* is_refused, Family* family);
  [[nodiscard]] std::uint64_t bytes_kept() const;
  /// True if the device would ask others for memory, when so much of what is there went.
  [[nodiscard]] bool device_is_full(std::uint64_t needed, std::uint64_t could_go) const;

  const StoreParts parts_;
  Publisher* publisher_;
  std::shared_ptr<residency::Unmapper> unmapper_;  // from when there are readers
  std::map<FamilyId, Family> families_;
  std::vector<std::unique_ptr<residency::FileReader>> readers_;  // one a thread
  Time rests_until_;
  bool has_warned_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace breccia::ordered
