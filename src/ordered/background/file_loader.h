#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "ordered/parts.h"
#include "ordered/resident_files.h"
#include "ordered/write/publisher.h"

namespace breccia::ordered {

/// Gives the keys of the tree's files to the device in the background, and publishes views that
/// know them: behind flushes, compactions, and what else changes files.
///
/// Threads start() and stop() by one.
class FileLoader {
 public:
  FileLoader(const StoreParts& parts, Publisher* publisher);
  ~FileLoader();

  void start();
  /// Ends what is being loaded at its next file.
  void stop();

 private:
  /// A file that was read: none, if it cannot be.
  using Kept = std::map<std::uint64_t, residency::ResidentFilePtr>;
  /// What there is of a family's files.
  struct Family {
    Kept kept;                  // by number
    std::uint64_t version = 0;  // RocksDB's, of the files that were published
    std::uint64_t changes = 0;  // FamilyView::tree_changes then
    bool is_published = false;
  };
  /// Files of a family's tree at one time.
  struct Listed {
    std::vector<residency::ListedLevel> levels;
    std::uint64_t version = 0;
    std::uint64_t changes = 0;
  };

  void run();
  void look(const FamilyView& view);
  /// None: not now.
  [[nodiscard]] std::optional<Listed> list(const FamilyView& view) const;
  /// Reads what is not kept yet. False: files have changed meanwhile, or the store closes.
  bool load(FamilyId id, Listed* listed, Family* family);
  void read(const std::string& path, std::uint64_t number, Kept* kept);
  bool publish(FamilyId id, const Listed& listed, Family* family);
  [[nodiscard]] static std::uint64_t version_of(const StoreParts& parts, const FamilyView& view);

  const StoreParts parts_;
  Publisher* publisher_;
  std::map<FamilyId, Family> families_;
  std::unique_ptr<residency::FileReader> reader_;
  bool is_full_ = false;  // until files are looked at again
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace breccia::ordered
