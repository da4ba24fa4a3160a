#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "hash/algo/shaped.cuh"
#include "hash/shapes/shaped_table.h"

namespace breccia::hash::shapes {

/// Makes tables for a tenant of one kind.
class ShapedMaker {
 public:
  ShapedMaker() = default;
  virtual ~ShapedMaker() = default;
  ShapedMaker(const ShapedMaker&) = delete;
  ShapedMaker& operator=(const ShapedMaker&) = delete;

  [[nodiscard]] virtual Result<std::unique_ptr<ShapedTable>> make(const ShapedOptions& options) = 0;
};

/// ShapedTable for a tenant's type.
template <class Tenant>
class ShapedTableOn final : public ShapedTable {
 public:
  static Result<std::unique_ptr<ShapedTable>> make(std::shared_ptr<Tenant> tenant,
                                                   const ShapedOptions& options) {
    auto table = std::unique_ptr<ShapedTableOn>(new ShapedTableOn(std::move(tenant), options));
    BRECCIA_TAKE(table->pairs_,
                 exec::Array<Pair>::make(table->tenant_->pool(), table->ref_.slot_count()));
    table->ref_.pairs = table->pairs_.data();
    BRECCIA_TAKE(auto x, table->tenant_->executor());
    BRECCIA_TRY(exec::clear(*x, table->pairs_.data(), table->pairs_.count()));
    BRECCIA_TRY(x->finish());
    return std::unique_ptr<ShapedTable>(std::move(table));
  }

  std::uint64_t slot_count() const override { return ref_.slot_count(); }

  Status run_here(const RequestsRef& requests) override {
    if (requests.operation != nullptr ||
        (requests.all != Operation::kFind && requests.all != Operation::kInsert)) {
      return Status::InvalidArgument("a request of a shaped table that neither finds nor inserts");
    }
    BRECCIA_TAKE(auto x, tenant_->executor());
    BRECCIA_TRY(requests.all == Operation::kFind ? launch<false>(*x, requests)
                                                 : launch<true>(*x, requests));
    return x->finish();
  }

 private:
  ShapedTableOn(std::shared_ptr<Tenant> tenant, const ShapedOptions& options)
      : tenant_(std::move(tenant)), lanes_(options.lanes) {
    const Shape& shape = options.shape;
    // Buckets of the top level for one of the bottom, and of all levels for it.
    const std::uint64_t top = std::uint64_t{1} << (shape.levels - 1);
    const std::uint64_t all = 2 * top - 1;
    const std::uint64_t slots = all * static_cast<std::uint64_t>(shape.slots);
    const std::uint64_t bottoms = options.slots_min / slots + 1;
    ref_ = {.top_buckets = top * bottoms,
            .shape = shape,
            .secret = options.secret};
    BRECCIA_ASSERT(ref_.slot_count() >= options.slots_min);
  }

  template <bool kInserts, class X>
  Status launch(X& x, const RequestsRef& requests) {
    switch (lanes_) {
      case 4:
        return launch_wide<4, kInserts>(x, requests);
      case 8:
        return launch_wide<8, kInserts>(x, requests);
      case 16:
        return launch_wide<16, kInserts>(x, requests);
      default:
        return launch_wide<32, kInserts>(x, requests);
    }
  }
  template <int W, bool kInserts, class X>
  Status launch_wide(X& x, const RequestsRef& requests) {
    switch (share_of(ref_.shape, W)) {
      case 1:
        return launch_share<W, 1, kInserts>(x, requests);
      case 2:
        return launch_share<W, 2, kInserts>(x, requests);
      case 4:
        return launch_share<W, 4, kInserts>(x, requests);
      default:
        return launch_share<W, 8, kInserts>(x, requests);
    }
  }
  template <int W, int kShare, bool kInserts, class X>
  Status launch_share(X& x, const RequestsRef& requests) {
    if constexpr (W * kShare <= Shape::kCandidatesMax) {
      BRECCIA_ASSERT(W * kShare == ref_.shape.candidates());
      return x.template launch<W>(requests.count * W,
                                  algo::RunShaped<kShare, kInserts>{ref_, requests});
    } else {
      BRECCIA_ASSERT(false);
      return Status::OK();
    }
  }

  const std::shared_ptr<Tenant> tenant_;
  const int lanes_;
  algo::ShapedRef ref_;
  exec::Array<Pair> pairs_;
};

template <class Tenant>
class ShapedMakerOn final : public ShapedMaker {
 public:
  explicit ShapedMakerOn(std::shared_ptr<Tenant> tenant) : tenant_(std::move(tenant)) {}
  Result<std::unique_ptr<ShapedTable>> make(const ShapedOptions& options) override {
    return ShapedTableOn<Tenant>::make(tenant_, options);
  }

 private:
  const std::shared_ptr<Tenant> tenant_;
};

}  // namespace breccia::hash::shapes
