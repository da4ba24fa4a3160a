#include "wal/sim_files.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/random.h"

namespace breccia::wal {
namespace {

constexpr std::uint64_t kBlockBytes = 512;
constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kPageBytes = 4096;

using Block = std::array<std::byte, kBlockBytes>;

/// Anonymous zeroed memory.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BRECCIA_ASSERT(at != MAP_FAILED);
    at_ = static_cast<std::byte*>(at);
    // Recovery reads whole images; huge zero pages make that cheap.
    ::madvise(at_, bytes_, MADV_HUGEPAGE);
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
  // Overlapping compare: each byte equals its successor, and the first is zero.
  return at[0] == std::byte{0} && std::memcmp(at, at + 1, bytes - 1) == 0;
}

/// A file's contents: blocks that were never written are zero.
struct Inode {
  explicit Inode(std::uint64_t size) : bytes(size) {}

  const std::uint64_t bytes;
  std::map<std::uint64_t, Block> durable;
  std::map<std::uint64_t, std::vector<Block>> pending;  // written since, oldest first
  std::shared_ptr<Memory> mapped;                       // kMapped: the volatile content

  [[nodiscard]] Block durable_block(std::uint64_t index) const {
    const auto found = durable.find(index);
    return found == durable.end() ? Block{} : found->second;
  }
  [[nodiscard]] Block newest_block(std::uint64_t index) const {
    const auto found = pending.find(index);
    return found == pending.end() ? durable_block(index) : found->second.back();
  }

  /// Behind the last block that was ever written; kBuffered.
  [[nodiscard]] std::uint64_t written_end() const {
    std::uint64_t blocks = 0;
    if (!durable.empty()) blocks = durable.rbegin()->first + 1;
    if (!pending.empty()) blocks = std::max(blocks, pending.rbegin()->first + 1);
    return blocks * kBlockBytes;
  }

  void write(const std::byte* image, std::uint64_t offset, std::uint64_t count) {
    const std::uint64_t end = offset + count;
    for (std::uint64_t at = offset; at < end;) {
      const std::uint64_t index = at / kBlockBytes;
      const std::uint64_t to = std::min(end, (index + 1) * kBlockBytes);
      const Block old = newest_block(index);
      Block block = old;
      std::memcpy(block.data() + at % kBlockBytes, image + at, to - at);
      if (block != old) pending[index].push_back(block);
      at = to;
    }
  }

  void sync_blocks(std::uint64_t offset, std::uint64_t count) {
    const auto begin = pending.lower_bound(offset / kBlockBytes);
    const auto end = pending.lower_bound((offset + count + kBlockBytes - 1) / kBlockBytes);
    for (auto at = begin; at != end; ++at) durable[at->first] = at->second.back();
    pending.erase(begin, end);
  }

  /// True if any block of the page at `page` was ever synced.
  [[nodiscard]] bool has_durable(std::uint64_t page) const {
    const auto found = durable.lower_bound(page / kBlockBytes);
    return found != durable.end() && found->first < (page + kPageBytes) / kBlockBytes;
  }

  void sync_lines(std::uint64_t offset, std::uint64_t count) {
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

  void cut_blocks(base::Random* random) {
    for (const auto& [index, versions] : pending) {
      const std::uint64_t choice = random->below(versions.size() + 1);
      if (choice > 0) durable[index] = versions[choice - 1];
    }
    pending.clear();
  }

  void cut_lines(base::Random* random) {
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

using Names = std::map<std::string, std::shared_ptr<Inode>>;

}  // namespace

struct SimDisk::State {
  explicit State(SimKind sim_kind) : kind(sim_kind) {}

  const SimKind kind;
  Names live;
  Names durable;
  struct Change {
    Names after;          // `live` behind the change
    std::string removed;  // the name that it removed, if it did
  };
  std::set<std::string> locked;  // folders
  std::mutex create_mutex;
  std::vector<Change> pending;  // since the last sync_dir
  std::uint64_t steps = 0;
  std::uint64_t fail_step = 0;
  bool failed = false;
  bool last_takes_effect = false;

  /// Counts a step and calls `effect` unless the power is off.
  template <class Effect>
  Status step(const Effect& effect) {
    if (failed) return off();
    ++steps;
    if (steps == fail_step) {
      failed = true;
      if (last_takes_effect) effect();
      return off();
    }
    effect();
    return Status::OK();
  }
  static Status off() { return Status::IOError("simulated power failure"); }
  void changed_names(const std::string& removed) { pending.push_back({live, removed}); }
  void power_on() {
    failed = false;
    fail_step = 0;
  }
};

namespace {

class SimFile final : public SegmentFile {
 public:
  SimFile(std::shared_ptr<SimDisk::State> disk, std::shared_ptr<Inode> inode)
      : disk_(std::move(disk)),
        inode_(std::move(inode)),
        memory_(inode_->mapped ? inode_->mapped : std::make_shared<Memory>(inode_->bytes)) {}

  [[nodiscard]] std::byte* image() override { return memory_->at(); }
  [[nodiscard]] std::uint64_t size() const override { return inode_->bytes; }
  [[nodiscard]] bool mapped() const override { return inode_->mapped != nullptr; }

  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    return disk_->step([&] {
      if (!mapped()) inode_->write(image(), offset, bytes);
    });
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    BRECCIA_ASSERT(offset <= size() && bytes <= size() - offset);
    return disk_->step(
        [&] { mapped() ? inode_->sync_lines(offset, bytes) : inode_->sync_blocks(offset, bytes); });
  }
  [[nodiscard]] Result<std::uint64_t> load() override {
    if (disk_->failed) return SimDisk::State::off();
    if (mapped()) return size();
    const auto copy = [&](std::uint64_t index, const Block& block) {
      std::memcpy(image() + index * kBlockBytes, block.data(), kBlockBytes);
    };
    for (const auto& [index, block] : inode_->durable) copy(index, block);
    for (const auto& [index, versions] : inode_->pending) copy(index, versions.back());
    return inode_->written_end();
  }

 private:
  const std::shared_ptr<SimDisk::State> disk_;
  const std::shared_ptr<Inode> inode_;
  const std::shared_ptr<Memory> memory_;
};

class SimLock final : public FolderLock {
 public:
  SimLock(std::shared_ptr<SimDisk::State> disk, std::string dir)
      : disk_(std::move(disk)), dir_(std::move(dir)) {}
  ~SimLock() override { disk_->locked.erase(dir_); }

 private:
  const std::shared_ptr<SimDisk::State> disk_;
  const std::string dir_;
};

class SimFiles final : public Files {
 public:
  explicit SimFiles(std::shared_ptr<SimDisk::State> disk) : disk_(std::move(disk)) {}

  [[nodiscard]] Status prepare(const std::string&) override {
    return disk_->failed ? SimDisk::State::off() : Status::OK();
  }
  [[nodiscard]] Result<std::unique_ptr<FolderLock>> lock(const std::string& dir) override {
    if (disk_->failed) return SimDisk::State::off();
    if (!disk_->locked.insert(dir).second) return folder_in_use(dir);
    return std::unique_ptr<FolderLock>(std::make_unique<SimLock>(disk_, dir));
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    if (disk_->failed) return SimDisk::State::off();
    std::vector<std::string> names;
    for (const auto& [path, inode] : disk_->live) {
      if (path.starts_with(dir + "/")) names.push_back(path.substr(dir.size() + 1));
    }
    return names;
  }
  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                            std::uint64_t bytes) override {
    const std::lock_guard lock(disk_->create_mutex);
    if (disk_->live.contains(path)) return Status::IOError(path, "exists");
    const auto inode = std::make_shared<Inode>(bytes);
    if (disk_->kind == SimKind::kMapped) inode->mapped = std::make_shared<Memory>(bytes);
    BRECCIA_TRY(disk_->step([&] {
      disk_->live[path] = inode;
      disk_->changed_names("");
    }));
    return std::unique_ptr<SegmentFile>(std::make_unique<SimFile>(disk_, inode));
  }
  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open(const std::string& path) override {
    if (disk_->failed) return SimDisk::State::off();
    const auto found = disk_->live.find(path);
    if (found == disk_->live.end()) return Status::IOError(path, "no such file");
    return std::unique_ptr<SegmentFile>(std::make_unique<SimFile>(disk_, found->second));
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    if (!disk_->live.contains(from)) return Status::IOError(from, "no such file");
    return disk_->step([&] {
      if (from == to) return;
      auto node = disk_->live.extract(from);
      disk_->live[to] = std::move(node.mapped());
      disk_->changed_names("");
    });
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    if (!disk_->live.contains(path)) return Status::IOError(path, "no such file");
    return disk_->step([&] {
      disk_->live.erase(path);
      disk_->changed_names(path);
    });
  }
  [[nodiscard]] Status sync_dir(const std::string&) override {
    return disk_->step([&] {
      disk_->durable = disk_->live;
      disk_->pending.clear();
    });
  }

 private:
  const std::shared_ptr<SimDisk::State> disk_;
};

}  // namespace

SimDisk::SimDisk(SimKind kind) : state_(std::make_shared<State>(kind)) {}
SimDisk::~SimDisk() = default;

std::shared_ptr<Files> SimDisk::files() { return std::make_shared<SimFiles>(state_); }
std::uint64_t SimDisk::steps() const { return state_->steps; }
bool SimDisk::failed() const { return state_->failed; }

void SimDisk::fail_at(std::uint64_t step, std::uint64_t seed) {
  state_->fail_step = step;
  state_->last_takes_effect = base::Random(seed).one_in(2);
}

void SimDisk::kill() { state_->power_on(); }

void SimDisk::power_cut(std::uint64_t seed) {
  base::Random random(seed);
  const std::uint64_t survive = random.below(state_->pending.size() + 1);
  if (survive > 0) state_->durable = state_->pending[survive - 1].after;
  for (std::uint64_t index = survive; index < state_->pending.size(); ++index) {
    if (random.one_in(2)) state_->durable.erase(state_->pending[index].removed);
  }
  state_->pending.clear();
  state_->live = state_->durable;
  for (const auto& [path, inode] : state_->live) {
    state_->kind == SimKind::kMapped ? inode->cut_lines(&random) : inode->cut_blocks(&random);
  }
  state_->power_on();
}

void SimDisk::damage(const std::string& path, std::uint64_t offset, std::uint8_t mask) {
  const auto found = state_->live.find(path);
  BRECCIA_ASSERT(found != state_->live.end());
  Inode& inode = *found->second;
  if (inode.mapped) {
    inode.mapped->at()[offset] ^= std::byte{mask};
    inode.sync_lines(offset, 1);
    return;
  }
  Block block = inode.newest_block(offset / kBlockBytes);
  block[offset % kBlockBytes] ^= std::byte{mask};
  inode.pending.erase(offset / kBlockBytes);
  inode.durable[offset / kBlockBytes] = block;
}

std::vector<std::string> SimDisk::names() const {
  std::vector<std::string> names;
  for (const auto& [path, inode] : state_->live) names.push_back(path);
  return names;
}

}  // namespace breccia::wal
