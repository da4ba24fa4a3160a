#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "exec/host_vector.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/find_row.cuh"
#include "hash/algo/rows_ref.cuh"
#include "hash/call.h"
#include "hash/ids/ids.h"
#include "hash/ids/row_cache.h"
#include "hash/pool_table.h"

namespace breccia::hash {

/// An array of the host where kernels read it: as it lies, where the executor can, or a copy.
template <class X, class T>
class Within {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  static Result<Within> of(X& x, exec::HostVector<T>& array) {
    Within within;
    within.data_ = x.reach(array.data());
    if (within.data_ != nullptr) return Result<Within>(std::move(within));
    BRECCIA_TAKE(auto copy, x.import(array.data(), array.size()));
    within.copy_.emplace(std::move(copy));
    within.data_ = within.copy_->data();
    return Result<Within>(std::move(within));
  }
  [[nodiscard]] const T* data() const { return data_; }

 private:
  using Import =
      std::decay_t<decltype(std::declval<X&>().import(static_cast<const T*>(nullptr), 0).take())>;
  const T* data_ = nullptr;
  std::optional<Import> copy_;
};

/// An array of the host where kernels write it: as it lies, or one that is copied there.
template <class X, class T>
class Outward {
 public:
  /// Errors  MemoryLimit.
  static Result<Outward> of(X& x, exec::HostVector<T>& array) {
    Outward outward;
    outward.data_ = x.reach(array.data());
    if (outward.data_ == nullptr) {
      BRECCIA_TAKE(outward.there_, exec::make_array<T>(x, array.size()));
      outward.data_ = outward.there_.data();
    }
    return Result<Outward>(std::move(outward));
  }
  [[nodiscard]] T* data() const { return data_; }
  /// Makes it what the host's is, which is cleared.
  Status clear(X& x) const { return exec::clear(x, there_.data(), there_.count()); }
  Status bring(X& x, exec::HostVector<T>& array) const {
    return there_.data() == nullptr ? Status::OK()
                                    : x.copy_out(array.data(), there_.data(), there_.count());
  }

 private:
  T* data_ = nullptr;
  exec::Array<T> there_;
};

/// Looks few rows up, where what counts is how often the host waits and what it asks the driver
/// for: one kernel brings what is in the cache, or in what it reads of the log, and says in memory
/// of the host what is not; two bring that from there.
template <class Tenant>
class SmallRowLookup final : public RowLookup {
 public:
  /// `cache` may be null.
  SmallRowLookup(Tenant& tenant, PoolCache* cache, const algo::LoggedRow& logged,
                 const RowsOutRef& out)
      : tenant_(tenant),
        cache_(cache),
        logged_(logged),
        out_(out),
        state_(host_memory()),
        payloads_(host_memory()),
        payload_(host_memory()),
        request_(host_memory()),
        rows_(host_memory()),
        there_(host_memory()) {}

  Status look(Table& table) override {
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_TRY(own.fault());
    BRECCIA_TAKE(auto x, tenant_.executor());
    for (auto* const vector : {&payloads_, &payload_}) vector->clear();
    state_.clear();
    request_.clear();
    const std::uint64_t rounded = base::round_up(count(), kStatesAtOnce);
    if (!state_.reserve(rounded) || !payloads_.reserve(count()) || !payload_.reserve(count()) ||
        !request_.reserve(count())) {
      return no_memory();
    }
    std::fill_n(state_.extend(rounded), rounded, algo::RowState::kDone);
    (void)payloads_.extend(count());
    BRECCIA_TRY(find(*x, own));
    read_ = count_states(algo::RowState::kRead);
    list(algo::RowState::kMissing);
    missing_ = request_.size();
    if (cache_ != nullptr) cache_->note(count(), count() - missing_ - read_);
    return Status::OK();
  }

  Status bring(const Gather& gather) override {
    rows_.clear();
    there_.clear();
    if (missing_ > 0) {
      if (!rows_.reserve(missing_ * out_.row_bytes) || !there_.reserve(missing_)) {
        return no_memory();
      }
      gather({payload_.data(), missing_}, rows_.extend(missing_ * out_.row_bytes),
             there_.extend(missing_));
    }
    if (read_ > 0 && offers()) list(algo::RowState::kRead);
    if (request_.size() == 0) return Status::OK();
    BRECCIA_TAKE(auto x, tenant_.executor());
    return with_words(
        [&]<class Word>(const Word*, std::uint32_t words) { return put<Word>(*x, words); });
  }

 private:
  /// So many rows that have no copy a device reads sooner than cores bring them: 25 ns each, where
  /// those take 60 us to begin with.
  static constexpr std::uint64_t kReadsMax = 2048;
  /// So seldom a cache that has most is offered what was read: that takes a launch and a wait, and
  /// rows that are looked up often come again.
  static constexpr std::uint64_t kOfferEvery = 8;

  /// States that are looked at as one word.
  static constexpr std::uint64_t kStatesAtOnce = sizeof(std::uint64_t);
  static constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101;
  static_assert(static_cast<int>(algo::RowState::kDone) == 0 &&
                static_cast<int>(algo::RowState::kRead) == 1 &&
                static_cast<int>(algo::RowState::kMissing) == 2);

  [[nodiscard]] exec::HostMemory& host_memory() { return tenant_.device().host_memory(); }
  [[nodiscard]] std::uint64_t count() const { return out_.ids.count; }
  static Status no_memory() { return Status::MemoryLimit("no memory for what a batch looks up"); }
  /// Whether kernels are to read rows of the log: over a bus, as long as they are few.
  [[nodiscard]] bool reads_log() const {
    if (tenant_.device().host_reads()) return true;
    const double share = cache_ == nullptr ? 1 : cache_->missing_share();
    return share * static_cast<double>(count()) <= kReadsMax;
  }
  /// Whether the cache is to have what was read and is not in it: always while that is much, and it
  /// has room.
  [[nodiscard]] bool offers() const {
    if (!has_cache_) return false;
    const std::uint64_t much = count() / (cache_->is_filling() ? 8 : 4);
    return missing_ > 0 || read_ > much || cache_->turn() % kOfferEvery == 0;
  }
  /// call(words of the type that rows are copied by, how many a row has).
  template <class F>
  Status with_words(const F& call) const {
    return with_row_words(algo::RowShape::of(0, out_.row_bytes), {out_.row}, call);
  }

  /// What the ids' rows are, as one moment has it.
  template <class X>
  Status find(X& x, PoolTable& table) {
    BRECCIA_TAKE(const auto state, (Outward<X, algo::RowState>::of(x, state_)));
    BRECCIA_TAKE(const auto payloads, (Outward<X, std::uint64_t>::of(x, payloads_)));
    BRECCIA_TRY(x.follow(out_.ids.stream));
    // The cache's comes first, as in a large lookup: who waits for a section keeps others out.
    std::shared_lock<base::SectionMutex> cache_lock;
    CacheRef cache;
    if (cache_ != nullptr) {
      cache_lock = std::shared_lock(cache_->mutex());
      cache = cache_->ref();
    }
    has_cache_ = cache.set_count > 0;
    const std::shared_lock table_lock(table.mutex());
    const exec::Finish finish(x);
    BRECCIA_TRY(state.clear(x));
    BRECCIA_TRY(with_words([&]<class Word>(const Word*, std::uint32_t words) {
      const auto launch = [&]<bool kGrows>() {
        return launch_groups(x, table, count(),
                             algo::FindRow<kGrows, Word>{
                                 table.ref(), cache, reads_log() ? logged_ : algo::LoggedRow(),
                                 out_.ids.id, reinterpret_cast<Word*>(out_.row), out_.found,
                                 state.data(), payloads.data(), words});
      };
      return table.grows() ? launch.template operator()<true>()
                           : launch.template operator()<false>();
    }));
    BRECCIA_TRY(state.bring(x, state_));
    BRECCIA_TRY(payloads.bring(x, payloads_));
    return x.finish();
  }

  /// Which of the states from `begin` on are this one: a bit in each byte.
  [[nodiscard]] std::uint64_t states_at(std::uint64_t begin, algo::RowState is) const {
    std::uint64_t states = 0;
    std::memcpy(&states, state_.data() + begin, sizeof states);
    const std::uint64_t high = states >> 1;
    return (is == algo::RowState::kRead ? states & ~high : high & ~states) & kOnes;
  }
  [[nodiscard]] std::uint64_t count_states(algo::RowState is) const {
    std::uint64_t found = 0;
    for (std::uint64_t begin = 0; begin < state_.size(); begin += kStatesAtOnce) {
      found += static_cast<std::uint64_t>(std::popcount(states_at(begin, is)));
    }
    return found;
  }
  /// Lists payloads and requests whose row is in this state. Without jumps that nobody foresees:
  /// some of those that follow each other are, and most are not.
  void list(algo::RowState is) {
    for (std::uint64_t begin = 0; begin < state_.size(); begin += kStatesAtOnce) {
      for (std::uint64_t left = states_at(begin, is); left != 0; left &= left - 1) {
        const std::uint64_t i = begin + static_cast<std::uint64_t>(std::countr_zero(left)) / 8;
        payload_.push(payloads_[i]);
        request_.push(static_cast<std::uint32_t>(i));
      }
    }
  }

  /// Brings what was gathered, and offers the cache what it has not.
  template <class Word, class X>
  Status put(X& x, std::uint32_t words) {
    const std::uint64_t n = payload_.size();
    auto* const row = reinterpret_cast<Word*>(out_.row);
    BRECCIA_TAKE(const auto request, (Within<X, std::uint32_t>::of(x, request_)));
    BRECCIA_TAKE(const auto brought, (Within<X, char>::of(x, rows_)));
    BRECCIA_TAKE(const auto there, (Within<X, std::uint8_t>::of(x, there_)));
    BRECCIA_TAKE(const auto payload, (Within<X, std::uint64_t>::of(x, payload_)));
    const exec::Finish finish(x);
    BRECCIA_TRY(x.template launch<32>(
        missing_ * words,
        algo::PutFound<Word>{reinterpret_cast<const Word*>(brought.data()), there.data(),
                             request.data(), missing_, row, out_.found, words}));
    const std::optional<Section> section = has_cache_ ? cache_->section_to_admit() : std::nullopt;
    if (!section.has_value()) return x.finish();
    const exec::Finish in_section(x);
    const CacheRef cache = cache_->ref();
    if (cache.set_count > 0) {
      BRECCIA_TRY(cache_->let_go(x));
      cache_->note_offered(n);
      BRECCIA_TRY(
          x.template launch<32>(n, algo::Admit<Word>{cache, out_.ids.id, payload.data(),
                                                     request.data(), n, row, out_.found, words}));
    }
    return x.finish();
  }

  Tenant& tenant_;
  PoolCache* const cache_;
  bool has_cache_ = false;  // and it has not given its memory back
  const algo::LoggedRow logged_;
  const RowsOutRef out_;
  exec::HostVector<algo::RowState> state_;    // of each id, as FindRow says it
  exec::HostVector<std::uint64_t> payloads_;  // likewise
  std::uint64_t read_ = 0;                    // so many were read
  exec::HostVector<std::uint64_t> payload_;   // of those that were not, then of those that were
  exec::HostVector<std::uint32_t> request_;   // whose they are
  std::uint64_t missing_ = 0;                 // so many were not
  exec::HostVector<char> rows_;
  exec::HostVector<std::uint8_t> there_;
};

}  // namespace breccia::hash
