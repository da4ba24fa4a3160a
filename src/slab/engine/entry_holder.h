#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/section_mutex.h"
#include "batch/key_order.h"
#include "hash/engine/numbering.h"
#include "slab/engine/entries.h"
#include "slab/engine/holder.h"
#include "slab/engine/index.h"

namespace breccia::slab {

/// Keys and values of any size: records in the host's memory, and a table of chained slabs on a
/// device that knows where that of each key is.
///
/// Lookups share the table. A batch that writes has it for itself: its lookups find what was there,
/// its entries come in, at once for all others, and what they replace is freed. Keys that share a
/// number share a list. A table of which is not known what it has is made again from the entries,
/// on the host.
class EntryHolder final : public Holder {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  static Result<std::unique_ptr<Holder>> make(const SlabOptions& options, exec::DevicePtr device,
                                              const hash::Numbering& numbering);

  [[nodiscard]] Status check(const batch::Requests& /*requests*/) const override {
    return Status::OK();
  }
  Status look(std::span<const Seen> seen, batch::Requests* requests, Found* found) override;
  Status write(std::span<const Seen> seen, batch::Requests* requests, Moment* moment) override;
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_; }
  [[nodiscard]] Figures figures() const override;

 private:
  struct Change;

  EntryHolder(const SlabOptions& options, const hash::Numbering& numbering)
      : options_(options), numbering_(numbering) {}
  Status make_entries(const batch::Writes& writes, Change* change);
  static void choose(const batch::Writes& writes, Change* change);
  Status book(Change* change);
  template <class Work>
  Status with_index(const Work& work);
  Status restore();
  Status come_in(Change* change);
  Status put_in(Change* change);
  static std::vector<std::uint8_t> met_others(const Change& change);
  void list(Change* change);
  void settle(Change* change);
  Status find(const record::KeyColumnsRef& keys, std::vector<const Entry*>* entries) const;
  Status check_seen(std::span<const Seen> seen) const;

  const SlabOptions options_;
  const hash::Numbering numbering_;
  /// Lookups share it; a batch that writes has it for itself. Guards all up to `sequence_`.
  mutable base::SectionMutex mutex_;
  std::unique_ptr<Index> index_;  // null: it failed, and is made again by who comes next
  Entries entries_;
  std::atomic<std::uint64_t> sequence_{0};  // of the last batch that wrote
  std::atomic<std::uint64_t> booked_{0};    // bytes of entries, and of those that may come in
};

}  // namespace breccia::slab
