#include "wal/sim/sim_files.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/random.h"
#include "wal/sim/sim_names.h"

/// A simulated disk. Memory holds what processes see; each file (Inode) keeps the blocks that were
/// written since their last sync, and of each name whether its folder was synced. Every call that
/// changes something is a step that can be made to fail, before or after its effect, or to be the
/// power's last: power_cut() then chooses, block by block and name by name, what of the unsynced is
/// left, at a seed's will.

namespace breccia::wal {
namespace {

constexpr std::uint64_t kBlockBytes = 512;
constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kPageBytes = 4096;

using Block = std::array<std::byte, kBlockBytes>;

/// Anonymous zeroed memory.
class Memory {
 public:
  Memory(std::uint64_t bytes, bool is_medium) : bytes_(bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BRECCIA_ASSERT(at != MAP_FAILED);
    at_ = static_cast<std::byte*>(at);
    // Recovery reads the whole of a medium; huge zero pages make that cheap. Of other images it
    // reads what was written, and a huge page would be cleared for a few bytes.
    if (is_medium) ::madvise(at_, bytes_, MADV_HUGEPAGE);
  }
  ~Memory() { ::munmap(at_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* at() const { return at_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  const std::uint64_t bytes_;
  std::byte* at_;
};

bool is_zero(const std::byte* at, std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes > 0);
  // Overlapping compare: each byte equals its successor, and the first is zero.
  return at[0] == std::byte{0} && std::memcmp(at, at + 1, bytes - 1) == 0;
}

/// A file's contents: blocks that were never written are zero.
struct Inode {
  explicit Inode(std::uint64_t size) : bytes(size), durable_bytes(size) {}

  std::uint64_t bytes;  // more than durable_bytes: a growing file, since its last sync
  std::uint64_t durable_bytes;
  std::map<std::uint64_t, Block> durable;
  std::map<std::uint64_t, std::vector<Block>> pending;  // written since, oldest first
  /// What processes see of blocks whose sync failed; they are not pending.
  std::map<std::uint64_t, Block> lost;
  std::shared_ptr<Memory> mapped;  // kMapped: the volatile content

  [[nodiscard]] Block durable_block(std::uint64_t index) const {
    const auto found = durable.find(index);
    return found == durable.end() ? Block{} : found->second;
  }
  [[nodiscard]] Block newest_block(std::uint64_t index) const {
    if (const auto found = pending.find(index); found != pending.end()) {
      BRECCIA_ASSERT(!found->second.empty());
      return found->second.back();
    }
    const auto found = lost.find(index);
    return found == lost.end() ? durable_block(index) : found->second;
  }

  /// Behind the last block that was ever written; kBuffered.
  [[nodiscard]] std::uint64_t written_end() const {
    std::uint64_t blocks = 0;
    if (!durable.empty()) blocks = durable.rbegin()->first + 1;
    if (!pending.empty()) blocks = std::max(blocks, pending.rbegin()->first + 1);
    if (!lost.empty()) blocks = std::max(blocks, lost.rbegin()->first + 1);
    BRECCIA_ASSERT(blocks * kBlockBytes < bytes + kBlockBytes);
    return blocks * kBlockBytes;
  }

  void write(const std::byte* from, std::uint64_t offset, std::uint64_t count) {
    BRECCIA_ASSERT(mapped == nullptr && offset <= bytes);
    const std::uint64_t end = offset + count;
    for (std::uint64_t at = offset; at < end;) {
      const std::uint64_t index = at / kBlockBytes;
      const std::uint64_t to = std::min(end, (index + 1) * kBlockBytes);
      const Block old = newest_block(index);
      Block block = old;
      std::memcpy(block.data() + at % kBlockBytes, from + (at - offset), to - at);
      // Bytes that are there already count as written, too, where a failed sync has left them.
      const bool was_lost = lost.erase(index) > 0;
      if (was_lost || block != old) pending[index].push_back(block);
      at = to;
    }
  }

  void sync_blocks(std::uint64_t offset, std::uint64_t count) {
    BRECCIA_ASSERT(mapped == nullptr && offset + count <= bytes);
    const auto begin = pending.lower_bound(offset / kBlockBytes);
    const auto end = pending.lower_bound((offset + count + kBlockBytes - 1) / kBlockBytes);
    for (auto at = begin; at != end; ++at) durable[at->first] = at->second.back();
    pending.erase(begin, end);
  }

  /// Of every block one of its contents is on the medium; none is pending any more.
  void fail_sync(base::Random* random) {
    BRECCIA_ASSERT(mapped == nullptr);
    for (const auto& [index, versions] : pending) {
      const std::uint64_t choice = random->below(versions.size() + 1);
      if (choice > 0) durable[index] = versions[choice - 1];
      if (choice < versions.size()) lost[index] = versions.back();
    }
    pending.clear();
  }

  /// True if any block of the page at `page` was ever synced.
  [[nodiscard]] bool has_durable(std::uint64_t page) const {
    BRECCIA_ASSERT(page % kPageBytes == 0);
    const auto found = durable.lower_bound(page / kBlockBytes);
    return found != durable.end() && found->first < (page + kPageBytes) / kBlockBytes;
  }

  void sync_lines(std::uint64_t offset, std::uint64_t count) {
    BRECCIA_ASSERT(mapped != nullptr && offset + count <= bytes);
    const std::uint64_t end = (offset + count + kLineBytes - 1) / kLineBytes * kLineBytes;
    for (std::uint64_t at = offset / kLineBytes * kLineBytes; at < end; at += kLineBytes) {
      const bool skip = at % kPageBytes == 0 && end - at >= kPageBytes &&
                        is_zero(mapped->at() + at, kPageBytes) && !has_durable(at);
      if (skip) {
        at += kPageBytes - kLineBytes;
        continue;
      }
      Block& block = durable.try_emplace(at / kBlockBytes).first->second;
      std::memcpy(block.data() + at % kBlockBytes, mapped->at() + at, kLineBytes);
    }
  }

  void append(const Slice& data) {
    BRECCIA_ASSERT(durable_bytes <= bytes);
    write(reinterpret_cast<const std::byte*>(data.data()), bytes, data.size());
    bytes += data.size();
  }
  std::size_t read(std::uint64_t offset, std::size_t count, char* to) const {
    const std::uint64_t end = std::min(bytes, offset + count);
    for (std::uint64_t at = offset; at < end;) {
      const Block block = newest_block(at / kBlockBytes);
      const std::uint64_t next = std::min(end, (at / kBlockBytes + 1) * kBlockBytes);
      std::memcpy(to + (at - offset), block.data() + at % kBlockBytes, next - at);
      at = next;
    }
    return end > offset ? end - offset : 0;
  }

  void cut_blocks(base::Random* random, Survives survives) {
    BRECCIA_ASSERT(mapped == nullptr && durable_bytes <= bytes);
    const std::uint64_t grown = bytes - durable_bytes;
    const std::uint64_t length = durable_bytes + random->below(grown + 1);
    const bool loses_tail = survives == Survives::kTails && grown > 0;
    if (survives == Survives::kTails)
      survives = grown > 0 ? Survives::kEverything : Survives::kSome;
    // Often the whole file or nothing of it: by single blocks one in many would hardly ever be
    // written long before the others.
    if (survives == Survives::kSome) {
      const std::uint64_t choice = random->below(4);
      if (choice == 0) survives = Survives::kNothing;
      if (choice == 1) survives = Survives::kEverything;
    }
    for (const auto& [index, versions] : pending) {
      std::uint64_t choice = survives == Survives::kNothing ? 0 : versions.size();
      if (survives == Survives::kSome) choice = random->below(versions.size() + 1);
      if (choice > 0) durable[index] = versions[choice - 1];
    }
    pending.clear();
    lost.clear();
    if (survives == Survives::kNothing) cut_to(durable_bytes);
    if (survives == Survives::kSome || loses_tail) cut_to(length);
    durable_bytes = bytes;
  }
  void cut_blocks(const SimDisk::Choose& choose) {
    BRECCIA_ASSERT(mapped == nullptr && durable_bytes <= bytes);
    const std::uint64_t grown = bytes - durable_bytes;
    const std::uint64_t length = grown == 0 ? bytes : durable_bytes + grown * choose(3) / 2;
    for (const auto& [index, versions] : pending) {
      if (index * kBlockBytes >= length) continue;
      const std::uint64_t choice = choose(versions.size() + 1);
      BRECCIA_ASSERT(choice <= versions.size());
      if (choice > 0) durable[index] = versions[choice - 1];
    }
    pending.clear();
    lost.clear();
    cut_to(length);
    durable_bytes = bytes;
  }
  void cut_to(std::uint64_t size) {
    BRECCIA_ASSERT(size <= bytes && pending.empty() && lost.empty());
    bytes = size;
    if (size % kBlockBytes == 0) {
      durable.erase(durable.lower_bound(size / kBlockBytes), durable.end());
      return;
    }
    durable.erase(durable.upper_bound(size / kBlockBytes), durable.end());
    const auto last = durable.find(size / kBlockBytes);
    if (last == durable.end()) return;
    std::fill(last->second.begin() + size % kBlockBytes, last->second.end(), std::byte{0});
  }

  /// A checksum of what processes see; blocks of zeros do not count.
  [[nodiscard]] std::uint64_t digest() const {
    BRECCIA_ASSERT(mapped == nullptr);
    std::uint64_t sum = base::mix64(bytes);
    const auto add = [&](std::uint64_t index) {
      const Block block = newest_block(index);
      if (is_zero(block.data(), kBlockBytes)) return;
      // In no order, as a block is in one map or another.
      sum += base::mix64(base::Checksum64::of(block.data(), kBlockBytes) ^ base::mix64(index));
    };
    for (const auto& [index, versions] : pending) add(index);
    for (const auto& [index, block] : lost) {
      if (!pending.contains(index)) add(index);
    }
    for (const auto& [index, block] : durable) {
      if (!pending.contains(index) && !lost.contains(index)) add(index);
    }
    return sum;
  }

  void cut_lines(base::Random* random) {
    BRECCIA_ASSERT(mapped != nullptr && pending.empty());
    for (std::uint64_t page = 0; page < bytes; page += kPageBytes) {
      if (!has_durable(page) && is_zero(mapped->at() + page, kPageBytes)) continue;
      for (std::uint64_t at = page; at < page + kPageBytes; at += kBlockBytes) {
        cut_block_lines(at / kBlockBytes, random);
      }
    }
  }

  void cut_block_lines(std::uint64_t index, base::Random* random) {
    std::byte* const now = mapped->at() + index * kBlockBytes;
    const Block then = durable_block(index);
    if (std::memcmp(now, then.data(), kBlockBytes) == 0) return;
    for (std::uint64_t at = 0; at < kBlockBytes; at += kLineBytes) {
      if (random->one_in(2)) std::memcpy(now + at, then.data() + at, kLineBytes);
    }
    std::memcpy(durable[index].data(), now, kBlockBytes);
  }
};

/// What a step does: nothing; its work; what it does where it fails alone (fail_once()).
enum class Reach { kNone, kWhole, kPart };

}  // namespace

struct SimDisk::State {
  explicit State(SimKind sim_kind) : kind(sim_kind) {}

  const SimKind kind;
  mutable std::mutex mutex;  // of all below
  SimNames<Inode> names;
  std::set<std::string> locked;  // folders
  std::uint64_t steps = 0;
  std::uint64_t fail_step = 0;
  bool power_fails = false;  // in fail_step; else it fails alone
  Reach reach = Reach::kNone;
  bool failed = false;
  base::Random random{0};  // of what a failed call leaves
  std::function<void(SyncSeen)> watcher;
  std::function<void(std::unique_ptr<SimDisk>)> step_watcher;
  std::function<bool(const std::string&)> lies;

  /// Counts a step and calls effect(reach) unless the power is off.
  template <class Effect>
  Status step(const Effect& effect) {
    const std::lock_guard lock(mutex);
    return locked_step(effect);
  }
  /// The same of a sync.
  template <class Effect>
  Status sync_step(const Inode* inode, const std::string& folder, const Effect& effect) {
    const std::lock_guard lock(mutex);
    BRECCIA_ASSERT((inode == nullptr) != folder.empty());
    if (!watcher && !lies) return locked_step(effect);
    const std::string path = inode == nullptr ? folder : names.path_of(inode);
    if (lies && lies(path)) return locked_step([](Reach) {});
    if (!watcher) return locked_step(effect);
    auto before = copy();
    const Status status = locked_step(effect);
    watcher({path, std::move(before), copy()});
    return status;
  }
  [[nodiscard]] std::unique_ptr<SimDisk> copy() const {
    BRECCIA_ASSERT(kind == SimKind::kBuffered);  // mapped contents are not copied
    auto made = std::make_unique<SimDisk>(kind);
    made->state_->names = names.clone();
    return made;
  }

 private:
  template <class Effect>
  Status locked_step(const Effect& effect) {
    if (failed) return off();
    if (step_watcher) step_watcher(copy());
    if (++steps != fail_step) {
      effect(Reach::kWhole);
      return Status::OK();
    }
    BRECCIA_ASSERT(power_fails || reach != Reach::kNone);
    failed = power_fails;
    if (reach != Reach::kNone) effect(reach);
    return power_fails ? off() : Status::IOError("simulated failure");
  }

 public:
  static Status off() { return Status::IOError("simulated power failure"); }
  void power_on() {
    failed = false;
    fail_step = 0;
  }
};

namespace {

class SimFile final : public SegmentFile {
 public:
  SimFile(std::shared_ptr<SimDisk::State> disk, std::shared_ptr<Inode> inode, bool awake)
      : disk_(std::move(disk)),
        inode_(std::move(inode)),
        memory_(inode_->mapped ? inode_->mapped
                               : std::make_shared<Memory>(inode_->bytes, /*is_medium=*/false)),
        awake_(awake) {
    BRECCIA_ASSERT(memory_->bytes() == inode_->bytes);
  }

  [[nodiscard]] std::byte* image() override { return memory_->at(); }
  [[nodiscard]] std::uint64_t size() const override { return inode_->bytes; }
  [[nodiscard]] bool mapped() const override { return inode_->mapped != nullptr; }

  void rest() override { awake_ = false; }
  [[nodiscard]] Status wake(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->failed) return SimDisk::State::off();
    if (!awake_ && disk_->names.find(path) != inode_)
      return Status::IOError(path, "not this file's name");
    awake_ = true;
    return Status::OK();
  }

  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    BRECCIA_ASSERT(awake_);
    return disk_->step([&](Reach reach) {
      if (mapped()) return;
      const bool all = reach == Reach::kWhole;
      inode_->write(image() + offset, offset, all ? bytes : disk_->random.below(bytes + 1));
    });
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    BRECCIA_ASSERT(awake_);
    return disk_->sync_step(inode_.get(), "", [&](Reach reach) {
      if (reach != Reach::kWhole) {
        if (!mapped()) inode_->fail_sync(&disk_->random);
      } else if (mapped()) {
        inode_->sync_lines(offset, bytes);
      } else {
        inode_->sync_blocks(offset, bytes);
      }
    });
  }
  [[nodiscard]] Status renew(const std::string& path) override {
    BRECCIA_ASSERT(!awake_);
    if (mapped()) return Status::NotSupported(path);
    auto inode = std::make_shared<Inode>(size());
    Status refused;
    BRECCIA_TRY(disk_->step([&](Reach reach) {
      if (disk_->names.find(path) != nullptr) {
        refused = Status::IOError(path, "exists");
      } else if (reach == Reach::kWhole) {
        disk_->names.add(path, inode);
      }
    }));
    BRECCIA_TRY(refused);
    inode_ = std::move(inode);
    awake_ = true;
    return Status::OK();
  }
  [[nodiscard]] Result<std::uint64_t> load() override {
    BRECCIA_ASSERT(!awake_);
    const std::lock_guard lock(disk_->mutex);
    if (disk_->failed) return SimDisk::State::off();
    if (mapped()) return size();
    for (const auto& [index, block] : inode_->durable) read(index);
    for (const auto& [index, block] : inode_->lost) read(index);
    for (const auto& [index, versions] : inode_->pending) read(index);
    return inode_->written_end();
  }
  /// What open() reads.
  void read_header() {
    const std::uint64_t bytes = mapped() ? 0 : std::min(kOpenedBytes, size());
    for (std::uint64_t at = 0; at < bytes; at += kBlockBytes) read(at / kBlockBytes);
  }

 private:
  void read(std::uint64_t index) {
    BRECCIA_ASSERT(!mapped() && index * kBlockBytes < size());
    const Block block = inode_->newest_block(index);
    std::memcpy(image() + index * kBlockBytes, block.data(), kBlockBytes);
  }

  const std::shared_ptr<SimDisk::State> disk_;
  std::shared_ptr<Inode> inode_;
  const std::shared_ptr<Memory> memory_;
  bool awake_;
};

class GrowingFile final : public SimGrowing {
 public:
  GrowingFile(std::shared_ptr<SimDisk::State> disk, std::shared_ptr<Inode> inode)
      : disk_(std::move(disk)), inode_(std::move(inode)) {
    BRECCIA_ASSERT(disk_->kind == SimKind::kBuffered && inode_->mapped == nullptr);
  }

  [[nodiscard]] std::uint64_t size() const override {
    const std::lock_guard lock(disk_->mutex);
    return inode_->bytes;
  }
  [[nodiscard]] std::size_t read(std::uint64_t offset, std::size_t bytes, char* to) const override {
    const std::lock_guard lock(disk_->mutex);
    return inode_->read(offset, bytes, to);
  }
  [[nodiscard]] Status append(const Slice& bytes) override {
    return disk_->step([&](Reach reach) {
      const bool all = reach == Reach::kWhole;
      inode_->append({bytes.data(), all ? bytes.size() : disk_->random.below(bytes.size() + 1)});
    });
  }
  [[nodiscard]] Status sync() override {
    return disk_->sync_step(inode_.get(), "", [&](Reach reach) {
      if (reach != Reach::kWhole) {
        inode_->fail_sync(&disk_->random);
      } else {
        inode_->sync_blocks(0, inode_->bytes);
        inode_->durable_bytes = inode_->bytes;
      }
    });
  }

 private:
  const std::shared_ptr<SimDisk::State> disk_;
  const std::shared_ptr<Inode> inode_;
};

class SimLock final : public FolderLock {
 public:
  SimLock(std::shared_ptr<SimDisk::State> disk, std::string dir)
      : disk_(std::move(disk)), dir_(std::move(dir)) {}
  ~SimLock() override {
    const std::lock_guard lock(disk_->mutex);
    const std::size_t removed = disk_->locked.erase(dir_);
    BRECCIA_ASSERT(removed == 1);
  }

 private:
  const std::shared_ptr<SimDisk::State> disk_;
  const std::string dir_;
};

class SimFiles final : public Files {
 public:
  explicit SimFiles(std::shared_ptr<SimDisk::State> disk) : disk_(std::move(disk)) {}

  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    {
      const std::lock_guard lock(disk_->mutex);
      if (disk_->failed) return SimDisk::State::off();
      if (disk_->names.has_folder(dir)) return false;
      if (!disk_->names.has_folder(folder_above(dir))) return Status::NotFound(dir);
    }
    BRECCIA_TRY(disk_->step([&](Reach reach) {
      if (reach == Reach::kWhole) disk_->names.add_folder(dir);
    }));
    return true;
  }
  [[nodiscard]] Result<std::unique_ptr<FolderLock>> lock(const std::string& dir) override {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->failed) return SimDisk::State::off();
    if (!disk_->locked.insert(dir).second) return folder_in_use(dir);
    return std::unique_ptr<FolderLock>(std::make_unique<SimLock>(disk_, dir));
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->failed) return SimDisk::State::off();
    std::vector<std::string> names;
    for (const auto& [path, inode] : disk_->names.files()) {
      if (folder_above(path) == dir) names.push_back(path.substr(dir.size() + 1));
    }
    return names;
  }
  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                            std::uint64_t bytes) override {
    BRECCIA_ASSERT(bytes > 0);
    const auto inode = std::make_shared<Inode>(bytes);
    if (disk_->kind == SimKind::kMapped) {
      inode->mapped = std::make_shared<Memory>(bytes, /*is_medium=*/true);
    }
    Status refused;
    BRECCIA_TRY(disk_->step([&](Reach reach) {
      if (reach != Reach::kWhole) return;
      if (disk_->names.find(path) != nullptr) {
        refused = Status::IOError(path, "exists");
      } else if (!disk_->names.has_folder(folder_above(path))) {
        refused = Status::IOError(path, "no such folder");
      } else {
        disk_->names.add(path, inode);
      }
    }));
    BRECCIA_TRY(refused);
    return std::unique_ptr<SegmentFile>(std::make_unique<SimFile>(disk_, inode, /*awake=*/true));
  }
  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->failed) return SimDisk::State::off();
    const auto inode = disk_->names.find(path);
    if (inode == nullptr) return Status::IOError(path, "no such file");
    auto file = std::make_unique<SimFile>(disk_, inode, /*awake=*/false);
    file->read_header();
    return std::unique_ptr<SegmentFile>(std::move(file));
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    Status refused;
    BRECCIA_TRY(disk_->step([&](Reach reach) {
      if (disk_->names.find(from) == nullptr) {
        refused = Status::IOError(from, "no such file");
      } else if (reach == Reach::kWhole) {
        disk_->names.rename(from, to);
      }
    }));
    return refused;
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    return disk_->step([&](Reach reach) {
      if (reach == Reach::kWhole) disk_->names.remove(path);
    });
  }
  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    return disk_->sync_step(nullptr, dir, [&](Reach reach) {
      if (reach == Reach::kWhole) disk_->names.sync(dir);
    });
  }
  [[nodiscard]] std::shared_ptr<Files> for_looking() override {
    return std::make_shared<SimFiles>(disk_);
  }

 private:
  const std::shared_ptr<SimDisk::State> disk_;
};

}  // namespace

SimDisk::SimDisk(SimKind kind) : state_(std::make_shared<State>(kind)) {}
SimDisk::~SimDisk() = default;

std::unique_ptr<SimDisk> SimDisk::clone() const {
  const std::lock_guard lock(state_->mutex);
  return state_->copy();
}

std::shared_ptr<Files> SimDisk::files() { return std::make_shared<SimFiles>(state_); }

Result<std::unique_ptr<SimGrowing>> SimDisk::create(const std::string& path) {
  const auto inode = std::make_shared<Inode>(0);
  Status refused;
  BRECCIA_TRY(state_->step([&](Reach reach) {
    if (reach != Reach::kWhole) return;
    if (!state_->names.has_folder(folder_above(path))) {
      refused = Status::NotFound(path, "no such folder");
    } else {
      state_->names.add(path, inode);
    }
  }));
  BRECCIA_TRY(refused);
  return std::unique_ptr<SimGrowing>(std::make_unique<GrowingFile>(state_, inode));
}

Result<std::unique_ptr<SimGrowing>> SimDisk::open(const std::string& path) {
  const std::lock_guard lock(state_->mutex);
  if (state_->failed) return State::off();
  const auto inode = state_->names.find(path);
  if (inode == nullptr) return Status::NotFound(path, "no such file");
  return std::unique_ptr<SimGrowing>(std::make_unique<GrowingFile>(state_, inode));
}

Status SimDisk::link(const std::string& from, const std::string& to) {
  Status refused;
  BRECCIA_TRY(state_->step([&](Reach reach) {
    const auto inode = state_->names.find(from);
    if (inode == nullptr) {
      refused = Status::NotFound(from, "no such file");
    } else if (state_->names.find(to) != nullptr) {
      refused = Status::IOError(to, "exists");
    } else if (reach == Reach::kWhole) {
      state_->names.add(to, inode);
    }
  }));
  return refused;
}

bool SimDisk::has_folder(const std::string& path) const {
  const std::lock_guard lock(state_->mutex);
  return state_->names.has_folder(path);
}

std::vector<std::string> SimDisk::children(const std::string& folder) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  const auto add = [&](const std::string& path) {
    if (path.size() > folder.size() && folder_above(path) == folder) {
      names.push_back(path.substr(folder.size() + 1));
    }
  };
  for (const auto& [path, inode] : state_->names.files()) add(path);
  for (const std::string& path : state_->names.folders()) add(path);
  return names;
}

void SimDisk::watch_syncs(std::function<void(SyncSeen)> watcher) {
  const std::lock_guard lock(state_->mutex);
  state_->watcher = std::move(watcher);
}

void SimDisk::watch_steps(std::function<void(std::unique_ptr<SimDisk>)> watcher) {
  const std::lock_guard lock(state_->mutex);
  state_->step_watcher = std::move(watcher);
}

void SimDisk::ignore_syncs(std::function<bool(const std::string& path)> lies) {
  const std::lock_guard lock(state_->mutex);
  state_->lies = std::move(lies);
}

std::uint64_t SimDisk::steps() const {
  const std::lock_guard lock(state_->mutex);
  return state_->steps;
}
bool SimDisk::failed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed;
}

void SimDisk::fail_at(std::uint64_t step, std::uint64_t seed) {
  const std::lock_guard lock(state_->mutex);
  BRECCIA_ASSERT(step > state_->steps);
  state_->fail_step = step;
  state_->power_fails = true;
  state_->reach = base::Random(seed).one_in(2) ? Reach::kWhole : Reach::kNone;
}

void SimDisk::fail_once(std::uint64_t step, bool after, std::uint64_t seed) {
  const std::lock_guard lock(state_->mutex);
  BRECCIA_ASSERT(step > state_->steps);
  state_->fail_step = step;
  state_->power_fails = false;
  state_->reach = after ? Reach::kWhole : Reach::kPart;
  state_->random = base::Random(seed);
}

void SimDisk::kill() {
  const std::lock_guard lock(state_->mutex);
  state_->power_on();
}

void SimDisk::power_cut(std::uint64_t seed, Survives survives) {
  BRECCIA_ASSERT(survives == Survives::kSome || state_->kind == SimKind::kBuffered);
  const std::lock_guard lock(state_->mutex);
  base::Random random(seed);
  state_->names.power_cut(&random, survives);
  for (const auto& [path, inode] : state_->names.files()) {
    state_->kind == SimKind::kMapped ? inode->cut_lines(&random)
                                     : inode->cut_blocks(&random, survives);
  }
  state_->power_on();
}

void SimDisk::power_cut(const Choose& choose) {
  BRECCIA_ASSERT(state_->kind == SimKind::kBuffered);
  const std::lock_guard lock(state_->mutex);
  state_->names.power_cut(choose);
  for (const auto& [path, inode] : state_->names.files()) inode->cut_blocks(choose);
  state_->power_on();
}

void SimDisk::damage(const std::string& path, std::uint64_t offset, std::uint8_t mask) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->names.find(path);
  BRECCIA_ASSERT(found != nullptr && offset < found->bytes);
  Inode& inode = *found;
  if (inode.mapped) {
    inode.mapped->at()[offset] ^= std::byte{mask};
    inode.sync_lines(offset, 1);
    return;
  }
  Block block = inode.newest_block(offset / kBlockBytes);
  block[offset % kBlockBytes] ^= std::byte{mask};
  inode.pending.erase(offset / kBlockBytes);
  inode.lost.erase(offset / kBlockBytes);
  inode.durable[offset / kBlockBytes] = block;
}

std::vector<std::string> SimDisk::names() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  for (const auto& [path, inode] : state_->names.files()) names.push_back(path);
  return names;
}

std::uint64_t SimDisk::digest() const {
  const std::lock_guard lock(state_->mutex);
  std::uint64_t sum = 0;
  const auto add = [&](const std::string& path, std::uint64_t contents) {
    sum = base::mix64(sum ^ base::Checksum64::of(path.data(), path.size())) ^ contents;
  };
  for (const std::string& path : state_->names.folders()) add(path, 0);
  for (const auto& [path, inode] : state_->names.files()) add(path, inode->digest());
  return base::mix64(sum);
}

bool SimDisk::is_durable(const std::string& path) const {
  const std::lock_guard lock(state_->mutex);
  return state_->names.is_durable(path);
}

}  // namespace breccia::wal
