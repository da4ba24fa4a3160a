#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "slab/algo/reserve.cuh"
#include "slab/segments.h"

namespace breccia::slab {

/// What the backend has left when heads first go to the host's memory, too little for a segment:
/// slabs in which the hottest of those lie. It is always full: heads change places in pairs.
/// Threads one owner, while nobody is at the table.
/// Source  [kvcg] 5.2, "hottest slabs moved up" (docs/impl/slab.md).
class Reserve {
 public:
  [[nodiscard]] const ReserveRef& ref() const { return ref_; }
  [[nodiscard]] std::uint64_t slabs() const { return slab_.count(); }
  /// Heads that came up, since the beginning.
  [[nodiscard]] std::uint64_t risen() const { return risen_; }

  /// Behind each growth of `heads`: takes what the backend has left but for notes of twice as many
  /// heads and `spare` bytes, once, and has notes of what is new. Heads without a note stay where
  /// they are, where there is no memory for more.
  /// Shape   heads that are new have nothing in them, and nobody has used one yet.
  /// Errors  IOError: the device.
  template <class X>
  Status cover(X& x, const Segments& heads, std::uint64_t spare, Budget* budget) {
    if (!heads.has_host() || (is_made_ && slabs() == 0)) return Status::OK();
    Status status = is_made_ ? note_more(x, heads, budget) : make(x, heads, spare, budget);
    if (status.IsMemoryLimit()) status = is_made_ ? Status::OK() : leave(x, budget);
    is_made_ = true;
    return status;
  }

  /// Hot heads change places with cold ones, kMovesMax pairs at most; heat is halved. *is_done:
  /// there were fewer, so others need not be looked for soon.
  /// Errors  MemoryLimit: none moved. IOError: the device; nobody knows what was done.
  /// Cost    a kernel over the notes and one over pairs, of 1 KiB over the bus each; three waits.
  template <class X>
  Status move(X& x, const TableRef& table, bool* is_done) {
    *is_done = true;
    BRECCIA_ASSERT(slabs() > 0);
    std::uint64_t hot = 0;
    BRECCIA_TRY(find_hot(x, &hot));
    std::uint64_t* const moving = counts_.data();
    std::uint32_t* const rising = lists_.data();
    std::uint32_t* const falling = rising + moves_max();
    BRECCIA_TRY(exec::clear(x, moving, 2));
    BRECCIA_TRY(
        x.template launch<32>(ref_.count, algo::ListMoving{ref_.note, ref_.count, hot, moves_max(),
                                                           rising, falling, moving, moving + 1}));
    std::uint64_t found[2] = {};
    BRECCIA_TRY(x.copy_out(found, moving, 2));
    BRECCIA_TRY(x.finish());
    const std::uint64_t pairs = std::min({found[0], found[1], moves_max()});
    *is_done = pairs < kMovesMax;
    if (pairs == 0) return Status::OK();
    BRECCIA_TRY(
        begun(x.template launch<32>(pairs * 32, algo::ChangePlaces{table, rising, falling})));
    BRECCIA_TRY(begun(x.finish()));
    risen_ += pairs;
    return Status::OK();
  }

 private:
  /// So many heads tell how hot how many are.
  static constexpr std::uint64_t kSample = std::uint64_t{1} << 16;
  /// What waits for a move waits for some milliseconds at most.
  static constexpr std::uint64_t kMovesMax = std::uint64_t{1} << 17;
  static constexpr std::uint64_t kCounts = 2 * algo::kHeats;

  [[nodiscard]] std::uint64_t moves_max() const { return std::min(slabs(), kMovesMax); }

  /// *hot: the least heat, above zero, such that heads of the host's that have it are no more than
  /// heads in the reserve that have not half of it; if there is none, the greatest that is told
  /// apart.
  template <class X>
  Status find_hot(X& x, std::uint64_t* hot) {
    BRECCIA_TRY(exec::clear(x, counts_.data(), kCounts));
    const std::uint64_t step = std::max<std::uint64_t>(ref_.count / kSample, 1);
    BRECCIA_TRY(x.template launch<32>(ref_.count / step,
                                      algo::CountHeats{ref_.note, ref_.count, step, counts_.data(),
                                                       counts_.data() + algo::kHeats}));
    std::uint64_t bins[kCounts] = {};
    BRECCIA_TRY(x.copy_out(bins, counts_.data(), kCounts));
    BRECCIA_TRY(x.finish());
    const std::uint64_t* const own = bins;
    const std::uint64_t* const up = bins + algo::kHeats;
    std::uint64_t would_rise = 0;  // as many as have *hot
    std::uint64_t may_not_fall =
        std::accumulate(up + algo::kHeats / 2, up + algo::kHeats, std::uint64_t{0});
    *hot = algo::kHeats - 1;
    for (std::uint64_t heat = algo::kHeats - 1; heat > 0; --heat) {
      would_rise += own[heat];
      // Those that fall have (heat + 1) / 2 - 1 at most.
      if (heat % 2 == 0) may_not_fall += up[heat / 2];
      if ((would_rise + may_not_fall) * step > slabs()) break;
      *hot = heat;
    }
    return Status::OK();
  }

  template <class X>
  Status make(X& x, const Segments& heads, std::uint64_t spare, Budget* budget) {
    ref_.first = heads.host_from();
    const std::uint64_t left = budget->bytes_max - std::min(budget->bytes, budget->bytes_max);
    std::uint64_t kept = (2 * heads.count() - ref_.first) * sizeof(std::uint64_t);
    // What takes more than half of it had better lie elsewhere.
    if (spare <= left / 2) kept += spare;
    const std::uint64_t room = (left - std::min(left, kept)) / sizeof(Slab);
    BRECCIA_TRY(take_slabs(x, std::min(room, heads.count() - ref_.first)));
    budget->bytes += slab_.bytes();
    const std::uint64_t count = slabs();
    BRECCIA_TAKE(counts_, exec::make_array<std::uint64_t>(x, kCounts));
    BRECCIA_TAKE(lists_, exec::make_array<std::uint32_t>(x, 2 * moves_max()));
    BRECCIA_TRY(exec::clear(x, reinterpret_cast<std::uint64_t*>(slab_.data()),
                            count * sizeof(Slab) / sizeof(std::uint64_t)));
    BRECCIA_TRY(note_more(x, heads, budget));
    BRECCIA_TRY(x.template launch<32>(count, algo::TakeFirst{note_.data(), count}));
    BRECCIA_TRY(x.finish());
    ref_.slab = slab_.data();
    return Status::OK();
  }

  /// So many, if the pool has them; else half of what it has, as batches want memory, too.
  template <class X>
  Status take_slabs(X& x, std::uint64_t count) {
    std::uint64_t has = count;
    while (has > 0 && !exec::Array<Slab>::make(x.pool(), has).ok()) has /= 2;
    if (has < count) has /= 2;
    if (has == 0) return Status::MemoryLimit("nothing is left for hot heads");
    BRECCIA_TAKE(slab_, exec::make_array<Slab>(x, has));
    return Status::OK();
  }

  /// Notes of all heads of the host's, of which the first ref_.count have one.
  template <class X>
  Status note_more(X& x, const Segments& heads, Budget* budget) {
    const std::uint64_t count = heads.count() - ref_.first;
    const std::uint64_t left = budget->bytes_max - std::min(budget->bytes, budget->bytes_max);
    if ((count - ref_.count) * sizeof(std::uint64_t) > left) {
      return Status::MemoryLimit("no memory for notes of heads");
    }
    BRECCIA_TAKE(auto note, exec::make_array<std::uint64_t>(x, count));
    BRECCIA_TRY(x.copy(note.data(), note_.data(), ref_.count));
    BRECCIA_TRY(exec::clear(x, note.data() + ref_.count, count - ref_.count));
    BRECCIA_TRY(x.finish());
    budget->bytes += (count - ref_.count) * sizeof(std::uint64_t);
    std::swap(note_, note);
    ref_.note = note_.data();
    ref_.count = count;
    return Status::OK();
  }

  /// There is none, as there was no memory for it.
  template <class X>
  Status leave(X& x, Budget* budget) {
    BRECCIA_TRY(x.finish());
    budget->bytes -= slab_.bytes() + note_.bytes();
    slab_ = {};
    note_ = {};
    ref_ = {};
    return Status::OK();
  }

  exec::Array<Slab> slab_;
  exec::Array<std::uint64_t> note_;
  exec::Array<std::uint64_t> counts_;
  exec::Array<std::uint32_t> lists_;
  ReserveRef ref_;
  std::uint64_t risen_ = 0;
  bool is_made_ = false;  // or not, for good
};

}  // namespace breccia::slab
