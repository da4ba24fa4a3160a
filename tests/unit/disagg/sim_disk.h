#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "disagg/memory/medium.h"
#include "fabric/sim/net.h"
#include "pmem/region.h"

namespace breccia::disagg::testing {

/// What a power cut leaves of a memory server: of what it has not persisted a line may be there as
/// it was, as it is, or any of its words may be of either. So it is each time that its region goes.
class SimDisk final : public MediumPlace {
 public:
  /// `longest_us`: of a persist, by the net's clock; 0: it takes no time.
  SimDisk(fabric::sim::Net* net, fabric::TimeUs longest_us)
      : net_(net), random_(&net->random()), longest_us_(longest_us) {}

  Result<std::unique_ptr<pmem::Region>> open(std::span<std::byte> memory) override {
    if (is_open_) return Status::Busy("somebody who is killed has it yet");
    const bool is_new = bytes_.empty();
    bytes_.resize(memory.size());
    is_open_ = true;
    return std::unique_ptr<pmem::Region>(new Open(this, memory, !is_new && random_->one_in(2)));
  }
  Status remove() override {
    bytes_.clear();
    ++removed_;
    return Status::OK();
  }
  std::unique_ptr<MediumWorker> make_worker() override { return std::make_unique<Slow>(this); }
  /// So many persists go well, and those behind them fail, until it is opened again.
  void fail_behind(std::uint64_t persists) { left_ = persists; }
  /// Nothing that nobody waits for is over before it goes on.
  void stand_still(bool stands) { stands_still_ = stands; }
  [[nodiscard]] bool has_failed() const { return left_ == 0; }
  [[nodiscard]] std::uint64_t removed() const { return removed_; }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  class Open final : public pmem::Region {
   public:
    /// `is_over`: the program's memory is the region's, as a file's is; else it is another one's.
    Open(SimDisk* disk, std::span<std::byte> memory, bool is_over)
        : disk_(disk), memory_(memory), own_(is_over ? 0 : memory.size()) {
      std::memcpy(data(), disk_->bytes_.data(), memory_.size());
    }
    ~Open() override { disk_->cut_power(memory_); }

    [[nodiscard]] pmem::RegionKind kind() const override { return pmem::RegionKind::kSim; }
    [[nodiscard]] std::byte* data() override { return own_.empty() ? memory_.data() : own_.data(); }
    [[nodiscard]] std::uint64_t size() const override { return memory_.size(); }
    [[nodiscard]] Status persist(std::span<const pmem::Range> ranges) override {
      if (disk_->left_ == 0) return Status::IOError("the disk is broken");
      if (disk_->left_ != kNever) --disk_->left_;
      for (const pmem::Range& one : ranges) {
        std::memcpy(disk_->bytes_.data() + one.offset, data() + one.offset, one.bytes);
      }
      return Status::OK();
    }

   private:
    SimDisk* const disk_;
    const std::span<std::byte> memory_;
    std::vector<std::byte> own_;
  };

  /// What is to be done happens all at once when its time is over, or somebody waits.
  class Slow final : public MediumWorker {
   public:
    explicit Slow(SimDisk* disk) : disk_(disk) {}
    void begin(std::function<Status()> work) override {
      work_ = std::move(work);
      due_ = disk_->net_->now_us();
      if (disk_->longest_us_ > 0) due_ += disk_->random_->below(disk_->longest_us_);
    }
    std::optional<Status> outcome(bool waits) override {
      const bool is_early = disk_->net_->now_us() < due_ || disk_->stands_still_;
      if (!waits && is_early) return std::nullopt;
      return std::exchange(work_, nullptr)();
    }

   private:
    SimDisk* const disk_;
    std::function<Status()> work_;
    fabric::TimeUs due_ = 0;
  };

  /// All lines are as they are, or as they were, or it is another draw for each.
  void cut_power(std::span<const std::byte> memory) {
    constexpr std::uint64_t kLine = 64, kWord = 8;
    is_open_ = false;
    left_ = kNever;
    const std::uint64_t how = random_->below(3);
    if (how == 0 || bytes_.empty()) return;
    for (std::uint64_t at = 0; at < memory.size(); at += kLine) {
      if (std::memcmp(bytes_.data() + at, memory.data() + at, kLine) == 0) continue;
      const std::uint64_t line = how == 1 ? 1 : random_->below(3);
      for (std::uint64_t word = at; word < at + kLine; word += kWord) {
        const bool is_taken = line == 1 || (line == 2 && random_->one_in(2));
        if (is_taken) std::memcpy(bytes_.data() + word, memory.data() + word, kWord);
      }
    }
  }

  fabric::sim::Net* const net_;
  base::Random* const random_;
  const fabric::TimeUs longest_us_;
  std::vector<std::byte> bytes_;
  bool is_open_ = false;
  bool stands_still_ = false;
  std::uint64_t left_ = kNever;
  std::uint64_t removed_ = 0;
};

}  // namespace breccia::disagg::testing
