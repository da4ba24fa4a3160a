#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/section_mutex.h"
#include "batch/key_order.h"
#include "exec/host_vector.h"
#include "slab/engine/holder.h"
#include "slab/engine/table_on.h"

namespace breccia::slab {

/// Keys and values of 8 bytes, which lie in the table of chained slabs itself: on the device, and
/// nowhere else.
///
/// Lookups share the table; a batch that writes has it for itself. Its lookups come before all of
/// its writes, or behind them, wherever they stand between: where they do, those that see a write
/// of the batch are known without the table.
///
/// Of a device that is lost nothing is left: each call says so from then on.
class WordHolder final : public Holder {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  static Result<std::unique_ptr<Holder>> make(const SlabOptions& options, exec::DevicePtr device);

  Status check(const batch::Requests& requests) const override;
  Status look(std::span<const Seen> seen, batch::Requests* requests, Found* found) override;
  Status write(std::span<const Seen> seen, batch::Requests* requests, Moment* moment) override;
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_; }
  [[nodiscard]] Figures figures() const override;

 private:
  struct Words;
  struct Change;
  WordHolder(exec::DevicePtr device, TableOn table)
      : device_(std::move(device)), table_(std::move(table)) {}

  [[nodiscard]] exec::HostMemory& memory() const { return device_->host_memory(); }
  Status run(const hash::RequestsRef& requests) const;
  static bool choose(const batch::Writes& writes, const batch::KeyOrder& order, Change* change);
  static void show(const batch::Writes& writes, const batch::KeyOrder& order, Words* words);
  Status find(Words* words) const;
  Status check_seen(std::span<const Seen> seen) const;
  Status change(Change* change);
  Status run_whole(const hash::RequestsRef& part);
  Status undo(Change* change, std::uint64_t count);
  Status note_half_done();

  const exec::DevicePtr device_;
  const TableOn table_;
  mutable base::SectionMutex mutex_;  // of the table
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<bool> is_half_done_{false};  // a batch that could not be taken back
};

}  // namespace breccia::slab
