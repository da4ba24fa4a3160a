#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "pmem/disk.h"

/// A disk in memory for tests of file regions: it stops, fails and loses power on demand.
///
/// The model. Every file has a content that processes see (the page cache) and one on the medium.
/// A write goes to the cache; its 512-byte sectors reach the medium each on its own, in any order,
/// at any time, whole; sync() waits for all of a file's. Creations and renames likewise:
/// sync_folder_of() waits for all. A failed sync leaves the cache as it is and forgets that it
/// differs from the medium, as Linux does.

namespace breccia::pmem {

class SimDisk final : public Disk {
 public:
  static constexpr std::uint64_t kSectorBytes = 512;
  static constexpr std::uint64_t kNever = ~0ULL;
  enum class Failure { kNone, kIo, kNoSpace };

  /// Calls that changed something or tried to.
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }
  /// From operation `number` (the first is 0) on, nothing happens any more, as if the process
  /// that calls had been killed before it.
  void stop_before(std::uint64_t number) { stop_before_ = number; }
  /// Lets a new process use what the caches hold.
  void restart() {
    stop_before_ = kNever;
    fail_at_ = kNever;
  }
  /// Operation `number` fails once. A write that fails has written half of its sectors, or its
  /// only one; later operations work.
  void fail_at(std::uint64_t number, Failure failure) {
    fail_at_ = number;
    failure_ = failure;
  }

  /// Changes one byte of a file, on the medium and in the cache.
  void rot(const std::string& path, std::uint64_t offset) {
    Inode& inode = *names_.at(path);
    inode.cache.at(offset) ^= std::byte{0x40};
    inode.medium.at(offset) ^= std::byte{0x40};
  }
  void remove(const std::string& path) {
    names_.erase(path);
    medium_names_.erase(path);
  }

  /// Shows disks that a power cut now could leave: all if they are at most `exhaustive_max`, else
  /// the oldest, the newest, each with one choice changed, and `samples` random ones.
  void for_each_crash(std::uint64_t seed, std::uint64_t exhaustive_max, std::uint64_t samples,
                      const std::function<void(const std::shared_ptr<SimDisk>&)>& visit) const;

  Result<std::unique_ptr<DiskFile>> open(const std::string& path) override;
  Result<std::unique_ptr<DiskFile>> create(const std::string& path, std::uint64_t bytes) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_folder_of(const std::string& path) override;

 private:
  using Bytes = std::vector<std::byte>;
  using Sector = std::array<std::byte, kSectorBytes>;
  struct Inode {
    Bytes cache;
    Bytes medium;
    /// Contents that a sector went through since the last sync, oldest first.
    std::map<std::uint64_t, std::vector<Sector>> pending;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  class File;
  struct NameChange {
    std::string removed;  // empty for a creation
    std::string added;
    std::shared_ptr<Inode> inode;
    void apply(Names& names) const {
      names.erase(removed);
      names[added] = inode;
    }
  };

  /// One thing that a power cut decides: `options` outcomes, 0 is "as it was on the medium".
  struct Choice {
    std::uint64_t options;
    const Inode* inode;    // null: a name change
    std::uint64_t number;  // of the sector or the name change
  };

  /// Counts an operation and says whether it may go on.
  Status begin(bool is_sync);
  [[nodiscard]] std::vector<Choice> choices() const;
  [[nodiscard]] std::shared_ptr<SimDisk> crashed(const std::vector<Choice>& choices,
                                                 const std::vector<std::uint64_t>& picks) const;
  static Sector sector_of(const Bytes& content, std::uint64_t sector);
  static void write_cache(Inode& inode, std::uint64_t offset, std::span<const std::byte> from);
  static void put_sector(Bytes& content, std::uint64_t sector, const Sector& value);

  Names names_;
  Names medium_names_;
  std::vector<NameChange> pending_names_;
  std::uint64_t operations_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t stop_before_ = kNever;
  std::uint64_t fail_at_ = kNever;
  Failure failure_ = Failure::kNone;
};

class SimDisk::File final : public DiskFile {
 public:
  File(SimDisk* disk, std::shared_ptr<Inode> inode) : disk_(disk), inode_(std::move(inode)) {}

  Result<std::uint64_t> size() override { return std::uint64_t{inode_->cache.size()}; }

  Status read(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset + into.size() > inode_->cache.size()) return Status::IOError("file ends early");
    std::copy_n(inode_->cache.begin() + static_cast<std::ptrdiff_t>(offset), into.size(),
                into.begin());
    return Status::OK();
  }

  Status write(std::uint64_t offset, std::span<const std::byte> from) override {
    const Status status = disk_->begin(/*is_sync=*/false);
    if (disk_->operations_ > disk_->stop_before_) return status;
    const std::uint64_t half = base::round_up(from.size() / 2, kSectorBytes);
    const std::uint64_t done = status.ok() ? from.size() : std::min(half, from.size());
    write_cache(*inode_, offset, from.first(done));
    return status;
  }

  Status sync() override {
    const Status status = disk_->begin(/*is_sync=*/true);
    if (disk_->operations_ > disk_->stop_before_) return status;
    if (status.ok()) {
      inode_->medium.resize(inode_->cache.size());
      for (const auto& [sector, values] : inode_->pending) {
        put_sector(inode_->medium, sector, values.back());
      }
    }
    inode_->pending.clear();
    return status;
  }

 private:
  SimDisk* disk_;
  std::shared_ptr<Inode> inode_;
};

inline Status SimDisk::begin(bool is_sync) {
  const std::uint64_t number = operations_++;
  if (number >= stop_before_) return Status::IOError("stopped");
  syncs_ += is_sync ? 1 : 0;
  if (number != fail_at_) return Status::OK();
  return failure_ == Failure::kNoSpace ? Status::NoSpace("injected") : Status::IOError("injected");
}

inline SimDisk::Sector SimDisk::sector_of(const Bytes& content, std::uint64_t sector) {
  Sector value{};
  const std::uint64_t begin = sector * kSectorBytes;
  if (begin < content.size()) {
    std::memcpy(value.data(), content.data() + begin,
                std::min<std::uint64_t>(kSectorBytes, content.size() - begin));
  }
  return value;
}

inline void SimDisk::put_sector(Bytes& content, std::uint64_t sector, const Sector& value) {
  const std::uint64_t begin = sector * kSectorBytes;
  std::memcpy(content.data() + begin, value.data(),
              std::min<std::uint64_t>(kSectorBytes, content.size() - begin));
}

inline void SimDisk::write_cache(Inode& inode, std::uint64_t offset,
                                 std::span<const std::byte> from) {
  if (from.empty()) return;
  const std::uint64_t end = offset + from.size();
  if (end > inode.cache.size()) inode.cache.resize(end);
  std::copy(from.begin(), from.end(), inode.cache.begin() + static_cast<std::ptrdiff_t>(offset));
  for (std::uint64_t sector = offset / kSectorBytes; sector * kSectorBytes < end; ++sector) {
    const Sector now = sector_of(inode.cache, sector);
    auto& values = inode.pending[sector];
    const Sector before = values.empty() ? sector_of(inode.medium, sector) : values.back();
    if (before != now) values.push_back(now);
    if (values.empty()) inode.pending.erase(sector);
  }
}

inline Result<std::unique_ptr<DiskFile>> SimDisk::open(const std::string& path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return Status::NotFound(path);
  return std::unique_ptr<DiskFile>(std::make_unique<File>(this, found->second));
}

inline Result<std::unique_ptr<DiskFile>> SimDisk::create(const std::string& path,
                                                         std::uint64_t bytes) {
  const Status status = begin(/*is_sync=*/false);
  if (!status.ok()) return status;
  auto inode = std::make_shared<Inode>();
  inode->cache.resize(bytes);  // The medium has no byte of it before the first sync.
  pending_names_.push_back({"", path, inode});
  pending_names_.back().apply(names_);
  return std::unique_ptr<DiskFile>(std::make_unique<File>(this, std::move(inode)));
}

inline Status SimDisk::rename(const std::string& from, const std::string& to) {
  const Status status = begin(/*is_sync=*/false);
  if (!status.ok()) return status;
  pending_names_.push_back({from, to, names_.at(from)});
  pending_names_.back().apply(names_);
  return Status::OK();
}

inline Status SimDisk::sync_folder_of(const std::string&) {
  const Status status = begin(/*is_sync=*/true);
  if (!status.ok()) return status;
  medium_names_ = names_;
  pending_names_.clear();
  return Status::OK();
}

inline std::vector<SimDisk::Choice> SimDisk::choices() const {
  std::vector<Choice> all;
  // In the order of names, so that a seed picks the same sectors in every run.
  std::vector<const Inode*> inodes;
  const auto add = [&](const std::shared_ptr<Inode>& inode) {
    const bool known = std::find(inodes.begin(), inodes.end(), inode.get()) != inodes.end();
    if (!known) inodes.push_back(inode.get());
  };
  for (const auto& [name, inode] : medium_names_) add(inode);
  for (std::uint64_t i = 0; i < pending_names_.size(); ++i) {
    all.push_back({2, nullptr, i});
    add(pending_names_[i].inode);
  }
  for (const Inode* inode : inodes) {
    for (const auto& [sector, values] : inode->pending) {
      all.push_back({values.size() + 1, inode, sector});
    }
  }
  return all;
}

inline std::shared_ptr<SimDisk> SimDisk::crashed(const std::vector<Choice>& choices,
                                                 const std::vector<std::uint64_t>& picks) const {
  auto disk = std::make_shared<SimDisk>();
  Names names = medium_names_;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const bool kept_name_change = choices[i].inode == nullptr && picks[i] == 1;
    if (kept_name_change) pending_names_[choices[i].number].apply(names);
  }
  std::map<const Inode*, std::shared_ptr<Inode>> copies;
  for (const auto& [name, inode] : names) {
    auto& copy = copies[inode.get()];
    if (copy == nullptr) copy = std::make_shared<Inode>(Inode{inode->medium, {}, {}});
    disk->names_[name] = copy;
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto copy = copies.find(choices[i].inode);
    if (picks[i] == 0 || copy == copies.end()) continue;
    const auto& values = choices[i].inode->pending.at(choices[i].number);
    Bytes& content = copy->second->cache;
    // A sector behind the end that the medium knows brings the file's length with it.
    const std::uint64_t end = std::min<std::uint64_t>((choices[i].number + 1) * kSectorBytes,
                                                      choices[i].inode->cache.size());
    if (content.size() < end) content.resize(end);
    put_sector(content, choices[i].number, values[picks[i] - 1]);
  }
  for (auto& [inode, copy] : copies) copy->medium = copy->cache;
  disk->medium_names_ = disk->names_;
  return disk;
}

inline void SimDisk::for_each_crash(
    std::uint64_t seed, std::uint64_t exhaustive_max, std::uint64_t samples,
    const std::function<void(const std::shared_ptr<SimDisk>&)>& visit) const {
  const std::vector<Choice> all = choices();
  std::uint64_t count = 1;
  for (const Choice& choice : all) count = std::min(count * choice.options, exhaustive_max + 1);
  std::vector<std::uint64_t> picks(all.size(), 0);
  if (count <= exhaustive_max) {
    for (;;) {
      visit(crashed(all, picks));
      std::size_t digit = 0;
      while (digit < all.size() && ++picks[digit] == all[digit].options) picks[digit++] = 0;
      if (digit == all.size()) return;
    }
  }
  std::vector<std::uint64_t> newest(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) newest[i] = all[i].options - 1;
  visit(crashed(all, picks));
  visit(crashed(all, newest));
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::uint64_t> one = picks;
    one[i] = newest[i];
    visit(crashed(all, one));
    one = newest;
    one[i] = 0;
    visit(crashed(all, one));
  }
  base::Random random(seed);
  for (std::uint64_t i = 0; i < samples; ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) picks[j] = random.below(all[j].options);
    visit(crashed(all, picks));
  }
}

}  // namespace breccia::pmem
