#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
    std::map<std::uint64_t, std::uint64_t> needs;  // bytes of files for which there was no room
    std::uint64_t version = 0;                     // RocksDB's, of the files that were published
    std::uint64_t changes = 0;                     // FamilyView::tree_changes then
    bool is_whole = false;                         // all that could be loaded was
    Time look_again = Time::max();                 // whether there is room now
  };
  /// Files of a family's tree at one time.
  struct Listed {
    std::vector<residency::ListedLevel> levels;
    std::uint64_t version = 0;
    std::uint64_t changes = 0;
  };
  enum class Read { kDone, kNoRoom, kOver };
  using Files = std::vector<residency::ListedFile*>;

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
  static void take_kept(Listed* listed, Family* family);
  /// The last of `older`, which has the oldest first; others may go for it.
  [[nodiscard]] Read load_newest(FamilyId id, const Files& older, const Listed& listed,
                                 Family* family);
  [[nodiscard]] Read read(residency::ListedFile* file, Family* family);
  [[nodiscard]] bool could_fit(std::uint64_t needed, const Files& older) const;
  static void let_go(std::uint64_t bytes, const Files& older, Family* family);
  [[nodiscard]] bool publish(FamilyId id, const Listed& listed, bool* is_refused);
  [[nodiscard]] std::uint64_t bytes_kept() const;
  [[nodiscard]] bool device_is_full(std::uint64_t needed) const;

  const StoreParts parts_;
  Publisher* publisher_;
  std::map<FamilyId, Family> families_;
  std::unique_ptr<residency::FileReader> reader_;
  Time rests_until_;
  bool has_warned_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace breccia::ordered
