#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "wal/files.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {

/// The folders of a simulated disk, as processes see them and as the medium has them. `Inode` is
/// what a file is beside its name.
///
/// Each change of a folder is atomic. Of those since its last sync a power cut leaves a prefix, and
/// any removals behind it; folders are independent of each other, and one that is lost takes along
/// what is in it. "." and "/" are always there.
/// Threads one.
template <class Inode>
class SimNames {
 public:
  using InodePtr = std::shared_ptr<Inode>;
  using Files = std::map<std::string, InodePtr>;

  /// Files by their paths, as processes see them.
  [[nodiscard]] const Files& files() const { return live_.files; }
  [[nodiscard]] InodePtr find(const std::string& path) const {
    const auto found = live_.files.find(path);
    return found == live_.files.end() ? nullptr : found->second;
  }
  [[nodiscard]] bool has_folder(const std::string& path) const {
    return live_.folders.contains(path);
  }
  [[nodiscard]] const std::set<std::string>& folders() const { return live_.folders; }
  /// True if a power cut cannot take the file's name away.
  [[nodiscard]] bool is_durable(const std::string& path) const {
    return durable_.files.contains(path);
  }

  /// Gives `inode` the name `path`, perhaps instead of another file.
  void add(const std::string& path, InodePtr inode) {
    BRECCIA_ASSERT(inode != nullptr && has_folder(folder_above(path)));
    change({path, std::move(inode), ""});
  }
  void add_folder(const std::string& path) {
    BRECCIA_ASSERT(has_folder(folder_above(path)));
    change({path, nullptr, ""});
  }
  void rename(const std::string& from, const std::string& to) {
    InodePtr inode = find(from);
    BRECCIA_ASSERT(inode != nullptr && folder_above(from) == folder_above(to));
    if (from != to) change({to, std::move(inode), from});
  }
  void remove(const std::string& path) { change({"", nullptr, path}); }
  /// A path of the file; empty if it has none.
  [[nodiscard]] std::string path_of(const Inode* inode) const {
    for (const auto& [path, one] : live_.files) {
      if (one.get() == inode) return path;
    }
    return "";
  }

  /// Makes the changes of a folder durable.
  void sync(const std::string& folder) {
    const auto changes = pending_.find(folder);
    if (changes == pending_.end()) return;
    for (const Change& one : changes->second) one.apply(&durable_);
    pending_.erase(changes);
  }

  void power_cut(base::Random* random, Survives survives) {
    for (const auto& [folder, changes] : pending_) {
      const bool some = survives == Survives::kSome || survives == Survives::kTails;
      std::uint64_t survive = survives == Survives::kEverything ? changes.size() : 0;
      if (some) survive = random->below(changes.size() + 1);
      for (std::uint64_t index = 0; index < changes.size(); ++index) {
        const bool removes = some && changes[index].added.empty();
        if (index < survive || (removes && random->one_in(2))) changes[index].apply(&durable_);
      }
    }
    leave_durable();
  }

  /// The same, as choose(ways) says: what becomes of each folder's prefix, and of removals behind
  /// it.
  template <class Choose>
  void power_cut(const Choose& choose) {
    for (const auto& [folder, changes] : pending_) {
      const std::uint64_t survive = choose(changes.size() + 1);
      BRECCIA_ASSERT(survive <= changes.size());
      for (std::uint64_t index = 0; index < changes.size(); ++index) {
        const bool survives = index < survive || (changes[index].added.empty() && choose(2) == 1);
        if (survives) changes[index].apply(&durable_);
      }
    }
    leave_durable();
  }

  /// The same with a copy of each inode.
  [[nodiscard]] SimNames clone() const {
    SimNames copy = *this;
    std::map<const Inode*, InodePtr> copies;
    const auto replace = [&](InodePtr* inode) {
      if (*inode == nullptr) return;
      auto& made = copies[inode->get()];
      if (made == nullptr) made = std::make_shared<Inode>(**inode);
      *inode = made;
    };
    for (auto& [path, inode] : copy.live_.files) replace(&inode);
    for (auto& [path, inode] : copy.durable_.files) replace(&inode);
    for (auto& [folder, changes] : copy.pending_) {
      for (Change& one : changes) replace(&one.inode);
    }
    return copy;
  }

 private:
  struct Tree {
    Files files;
    std::set<std::string> folders{".", "/"};

    /// Drops what lies in a folder that is not there.
    void drop_orphans() {
      BRECCIA_ASSERT(folders.contains(".") && folders.contains("/"));
      // Ascending: a folder comes before those in it.
      for (auto folder = folders.begin(); folder != folders.end();) {
        const bool keep = folders.contains(folder_above(*folder));
        folder = keep ? std::next(folder) : folders.erase(folder);
      }
      std::erase_if(files,
                    [&](const auto& file) { return !folders.contains(folder_above(file.first)); });
    }
  };

  struct Change {
    std::string added;    // empty: none
    InodePtr inode;       // of it; null: a folder
    std::string removed;  // empty: none

    void apply(Tree* tree) const {
      BRECCIA_ASSERT(!added.empty() || !removed.empty());
      if (!removed.empty()) tree->files.erase(removed);
      if (added.empty()) return;
      if (inode == nullptr) {
        tree->folders.insert(added);
      } else {
        tree->files[added] = inode;
      }
    }
  };

  void leave_durable() {
    pending_.clear();
    durable_.drop_orphans();
    live_ = durable_;
  }

  void change(Change one) {
    one.apply(&live_);
    const std::string folder = folder_above(one.added.empty() ? one.removed : one.added);
    pending_[folder].push_back(std::move(one));
  }

  Tree live_;
  Tree durable_;
  std::map<std::string, std::vector<Change>> pending_;  // by folder, since its last sync
};

}  // namespace breccia::wal
