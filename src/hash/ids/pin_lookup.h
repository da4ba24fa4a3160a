#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "hash/algo/pinned.cuh"
#include "hash/ids/ids.h"
#include "hash/ids/row_cache.h"
#include "hash/ids/row_lookup.h"
#include "hash/rows.h"

namespace breccia::hash {

/// Pins in a backend's cache, which lasts as long.
class PoolPins final : public Pins {
 public:
  explicit PoolPins(std::shared_ptr<PoolCache> cache) : cache_(std::move(cache)), own_(1) {}
  ~PoolPins() override {
    if (may_have_set_bits_) cache_->give_pins(std::move(own_));
  }

  /// Called before bits are asked for.
  /// Errors  MemoryLimit.
  Status make_bits() {
    return own_.front().bits.data() == nullptr ? cache_->make_bits(&own_.front()) : Status::OK();
  }
  /// Launches what clears them, the first time.
  template <class X>
  Status clear_bits(X& x) {
    if (may_have_set_bits_) return Status::OK();
    const auto& bits = own_.front().bits;
    BRECCIA_TRY(exec::clear(x, bits.data(), bits.count()));
    may_have_set_bits_ = true;
    return Status::OK();
  }

  [[nodiscard]] std::uint64_t rows() const override { return own_.front().count; }
  [[nodiscard]] std::uint64_t refused() const override { return refused_; }
  [[nodiscard]] PoolCache& cache() const { return *cache_; }
  [[nodiscard]] algo::PinBits* bits() const { return own_.front().bits.data(); }
  void note(std::uint64_t pinned, std::uint64_t refused) {
    own_.front().count += pinned;
    refused_ += refused;
    cache_->note_pinned(pinned);
  }

 private:
  const std::shared_ptr<PoolCache> cache_;
  std::list<PoolCache::Pins> own_;  // one, which needs no memory to be given back
  bool may_have_set_bits_ = false;
  std::uint64_t refused_ = 0;
};

/// Looks rows up as a large lookup does, and pins them: they come to work space, and from there
/// into the cache, if they are not in it.
template <class Tenant>
class PinLookup final : public PoolRowLookup<Tenant> {
  using Base = PoolRowLookup<Tenant>;

 public:
  PinLookup(Tenant& tenant, PoolPins& pins, const IdsRef& ids)
      : Base(tenant, &pins.cache(), {.ids = ids, .row_bytes = pins.cache().row_bytes()}),
        tenant_(tenant),
        pins_(pins) {}

  Status look(Table& table) override {
    // What an earlier try may have left: there is not much memory then.
    rows_ = {};
    found_ = {};
    is_pinned_ = {};
    counts_ = {};
    BRECCIA_TRY(pins_.make_bits());
    {
      BRECCIA_TAKE(auto x, tenant_.executor());
      BRECCIA_TAKE(rows_, exec::make_array<char>(*x, this->count() * this->shape().bytes()));
      for (exec::Array<std::uint8_t>* const column : {&found_, &is_pinned_}) {
        BRECCIA_TAKE(*column, exec::make_array<std::uint8_t>(*x, this->count()));
      }
      BRECCIA_TAKE(counts_, exec::make_array<algo::PinCounts>(*x, 1));
    }
    this->put_rows_to(rows_.data(), found_.data());
    return Base::look(table);
  }

  Status bring(const Gather& gather) override {
    BRECCIA_TAKE(auto x, tenant_.executor());
    BRECCIA_TRY(this->bring_missing(*x, gather));
    PoolCache& cache = pins_.cache();
    const Section section = cache.section_to_pin();
    const CacheRef ref = cache.ref();
    if (ref.set_count == 0) {
      pins_.note(0, this->count() - refused_);
      refused_ = this->count();
      return Status::OK();
    }
    algo::PinCounts counts;
    const exec::Finish finish(*x);
    BRECCIA_TRY(cache.let_go(*x));
    BRECCIA_TRY(pins_.clear_bits(*x));
    BRECCIA_TRY(exec::clear(*x, is_pinned_.data(), this->count()));
    BRECCIA_TRY(exec::clear(*x, counts_.data(), 1));
    BRECCIA_TRY(launch(*x, ref));
    BRECCIA_TRY(x->copy_out(&counts, counts_.data(), 1));
    BRECCIA_TRY(x->finish());
    BRECCIA_ASSERT(counts.left[algo::kPinLaunches - 1] == 0);
    BRECCIA_ASSERT(counts.pinned + counts.refused <= this->count());
    // If this is not the first time, of what is refused now.
    pins_.note(counts.pinned, counts.refused - refused_);
    refused_ = counts.refused;
    return Status::OK();
  }

 private:
  template <class X>
  Status launch(X& x, const CacheRef& cache) {
    return with_row_words(this->shape(), {rows_.data()},
                          [&]<class Word>(const Word*, std::uint32_t words) {
                            algo::Pin<Word> pin{.cache = cache,
                                                .id = this->ids(),
                                                .payload = this->search().payload(),
                                                .count = this->count(),
                                                .row = reinterpret_cast<const Word*>(rows_.data()),
                                                .found = found_.data(),
                                                .is_pinned = is_pinned_.data(),
                                                .bits = pins_.bits(),
                                                .counts = counts_.data(),
                                                .words = words};
                            for (int launch = 0; launch < algo::kPinLaunches; ++launch) {
                              pin.launch = launch;
                              BRECCIA_TRY(x.template launch<32>(this->count(), pin));
                            }
                            return Status::OK();
                          });
  }

  Tenant& tenant_;
  PoolPins& pins_;
  exec::Array<char> rows_;
  exec::Array<std::uint8_t> found_, is_pinned_;
  exec::Array<algo::PinCounts> counts_;
  std::uint64_t refused_ = 0;  // when bring() was called last
};

}  // namespace breccia::hash
