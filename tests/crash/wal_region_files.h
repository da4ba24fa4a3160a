#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "pmem/page_memory.h"
#include "pmem/sim_region.h"
#include "wal/files.h"

/// Segment files on one simulated persistent region, so that one crash image shows all of them.
///
/// A segment takes 64 MiB and more of positions, but a short script touches only the first KiB of
/// it and the last: these two have a place in the region, the rest is zero for ever. Images are
/// memory of their own; what is stored there goes to the region whenever something looks at it,
/// which is as good, since the region knows the order of stores at its notes only.

namespace breccia::wal::testing {

inline constexpr std::uint64_t kHeadBytes = 1024;
inline constexpr std::uint64_t kTailBytes = 1024;
inline constexpr std::uint64_t kSlotBytes = kHeadBytes + kTailBytes;
/// Files that a medium may see in its life: a removed one's place is not used again.
inline constexpr std::uint64_t kSlots = 6;

/// A file's part of the region, and its length.
struct Slot {
  std::uint64_t at;
  std::uint64_t bytes;
};
/// What a folder holds, by path.
using Directory = std::map<std::string, Slot>;

/// Calls visit(offset in the file, offset in the region, bytes) for both parts of a file.
template <class Visit>
void for_each_part(const Slot& slot, const Visit& visit) {
  visit(std::uint64_t{0}, slot.at, kHeadBytes);
  visit(slot.bytes - kTailBytes, slot.at + kHeadBytes, kTailBytes);
}

/// Copies a file out of a crash image into `to`, where its other bytes are zero.
inline void load_file(const std::vector<std::byte>& image, const Slot& slot, std::byte* to) {
  for_each_part(slot, [&](std::uint64_t offset, std::uint64_t at, std::uint64_t bytes) {
    std::memcpy(to + offset, image.data() + at, bytes);
  });
}

/// The medium and its folder, whose changes are durable at once and all or nothing: what a power
/// cut may do to names is sim_files' business.
/// Threads one.
class RegionMedium {
 public:
  using OnCrashPoint = pmem::SimRegion::OnCrashPoint;

  RegionMedium() : state_(std::make_shared<State>(kSlots * kSlotBytes)) {}
  /// The medium as a power cut left it.
  RegionMedium(const std::vector<std::byte>& image, const Directory& directory)
      : state_(std::make_shared<State>(image)) {
    for (const auto& [path, slot] : directory) {
      const auto file = std::make_shared<Inode>(slot);
      load_file(image, slot, file->memory.data());
      state_->files.emplace(path, file);
      state_->used = std::max(state_->used, slot.at + kSlotBytes);
    }
  }

  [[nodiscard]] std::shared_ptr<Files> files();
  [[nodiscard]] Directory directory() const {
    Directory found;
    for (const auto& [path, file] : state_->files) found.emplace(path, file->slot);
    return found;
  }
  /// Calls `callback` at each crash_point(), persist and change of the folder; none if empty.
  void on_crash_point(OnCrashPoint callback) { state_->on_crash_point = std::move(callback); }
  /// The stores so far come before those to come; a power cut may come here.
  void crash_point() { state_->crash_point(); }

 private:
  struct Inode {
    explicit Inode(const Slot& place) : slot(place), memory(allocate(place.bytes)) {}
    static pmem::PageMemory allocate(std::uint64_t bytes) {
      auto memory = pmem::PageMemory::allocate(bytes);
      BRECCIA_ASSERT(memory.ok());
      return memory.take();
    }
    const Slot slot;
    pmem::PageMemory memory;
  };

  struct State {
    template <class From>
    explicit State(const From& from) : region(from) {}

    /// Stores into the region what the images hold.
    void mirror() {
      for (const auto& [path, file] : files) {
        for_each_part(file->slot, [&](std::uint64_t offset, std::uint64_t at, std::uint64_t bytes) {
          std::memcpy(region.data() + at, file->memory.data() + offset, bytes);
        });
      }
    }
    void crash_point() {
      mirror();
      region.note_stores();
      if (on_crash_point) on_crash_point(region.crash_images());
    }
    Status persist(const Slot& slot, std::uint64_t offset, std::uint64_t bytes) {
      crash_point();
      const std::uint64_t end = offset + bytes;
      const bool is_in_part = end <= kHeadBytes || offset >= slot.bytes - kTailBytes;
      BRECCIA_ASSERT(end <= slot.bytes && is_in_part);
      Status status;
      for_each_part(slot, [&](std::uint64_t part, std::uint64_t at, std::uint64_t part_bytes) {
        const std::uint64_t from = std::max(offset, part);
        const std::uint64_t to = std::min(end, part + part_bytes);
        if (from >= to || !status.ok()) return;
        status = region.persist(at + (from - part), to - from);
      });
      return status;
    }

    pmem::SimRegion region;
    std::map<std::string, std::shared_ptr<Inode>> files;
    std::uint64_t used = 0;  // of the region, by files present and past
    OnCrashPoint on_crash_point;
  };

  class File final : public SegmentFile {
   public:
    File(std::shared_ptr<State> state, std::shared_ptr<Inode> inode)
        : state_(std::move(state)), inode_(std::move(inode)) {}
    [[nodiscard]] std::byte* image() override { return inode_->memory.data(); }
    [[nodiscard]] std::uint64_t size() const override { return inode_->slot.bytes; }
    [[nodiscard]] bool mapped() const override { return true; }
    void rest() override {}
    [[nodiscard]] Status wake(const std::string&) override { return Status::OK(); }
    [[nodiscard]] Status write(std::uint64_t, std::uint64_t) override {
      state_->crash_point();
      return Status::OK();
    }
    [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
      return state_->persist(inode_->slot, offset, bytes);
    }
    [[nodiscard]] Result<std::uint64_t> load() override { return size(); }

   private:
    const std::shared_ptr<State> state_;
    const std::shared_ptr<Inode> inode_;
  };

  class Folder final : public Files {
   public:
    explicit Folder(std::shared_ptr<State> state) : state_(std::move(state)) {}
    [[nodiscard]] Result<bool> create_dir(const std::string&) override { return false; }
    /// One script, one log: there is nobody to keep out.
    [[nodiscard]] Result<std::unique_ptr<FolderLock>> lock(const std::string&) override {
      return std::make_unique<FolderLock>();
    }
    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
      std::vector<std::string> names;
      for (const auto& [path, file] : state_->files) names.push_back(path.substr(dir.size() + 1));
      return names;
    }
    [[nodiscard]] Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                              std::uint64_t bytes) override {
      state_->crash_point();
      BRECCIA_ASSERT(state_->used + kSlotBytes <= state_->region.size());
      const Slot slot{std::exchange(state_->used, state_->used + kSlotBytes), bytes};
      BRECCIA_ASSERT(state_->files.emplace(path, std::make_shared<Inode>(slot)).second);
      return open(path);
    }
    [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open(const std::string& path) override {
      const auto found = state_->files.find(path);
      if (found == state_->files.end()) return Status::IOError(path, "no such file");
      return std::unique_ptr<SegmentFile>(std::make_unique<File>(state_, found->second));
    }
    [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
      state_->crash_point();
      if (!state_->files.contains(from)) return Status::IOError(from, "no such file");
      if (from == to) return Status::OK();
      auto node = state_->files.extract(from);
      state_->files[to] = std::move(node.mapped());
      return Status::OK();
    }
    [[nodiscard]] Status remove(const std::string& path) override {
      state_->crash_point();
      if (state_->files.erase(path) == 0) return Status::IOError(path, "no such file");
      return Status::OK();
    }
    [[nodiscard]] Status sync_dir(const std::string&) override {
      state_->crash_point();
      return Status::OK();
    }
    [[nodiscard]] std::shared_ptr<Files> for_looking() override {
      return std::make_shared<Folder>(state_);
    }

   private:
    const std::shared_ptr<State> state_;
  };

  const std::shared_ptr<State> state_;
};

inline std::shared_ptr<Files> RegionMedium::files() { return std::make_shared<Folder>(state_); }

}  // namespace breccia::wal::testing
