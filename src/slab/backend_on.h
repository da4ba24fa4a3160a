#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/executor.h"
#include "slab/backend.h"
#include "slab/call.h"

namespace breccia::slab {

/// The calls of Backend for a tenant's type.
template <class Tenant>
class BackendOn final : public Backend {
 public:
  explicit BackendOn(const std::shared_ptr<Tenant>& tenant) : Backend(tenant), own_(*tenant) {}

  Result<TablePtr> make_table(const TableOptions& options) override {
    BRECCIA_ASSERT(options.lanes == 4 || options.lanes == 8 || options.lanes == 16);
    BRECCIA_ASSERT(options.secret.factor % 2 == 1 && options.secret.factor != 1);
    BRECCIA_ASSERT(options.keys_of_bucket > 0);
    BRECCIA_TAKE(auto x, own_.executor());
    auto table = std::make_shared<PoolTable>(tenant_ptr(), options);
    BRECCIA_TRY(table->make(*x));
    return TablePtr(std::move(table));
  }

  Status run(Table& table, const RequestsRef& requests) override {
    const std::uint64_t n = requests.count;
    if (n == 0) return Status::OK();
    BRECCIA_TRY(check(requests));
    BRECCIA_TAKE(auto x, base::or_memory_limit([&] { return own_.executor(); }));
    BRECCIA_TAKE(const auto keys, x->import(requests.key, n));
    BRECCIA_TAKE(const auto values, x->import(requests.value, count_of(requests.value, n)));
    BRECCIA_TAKE(const auto operations,
                 x->import(requests.operation, count_of(requests.operation, n)));
    BRECCIA_TAKE(const auto found,
                 exec::make_array<std::uint64_t>(*x, count_of(requests.found, n)));
    BRECCIA_TAKE(const auto codes, exec::make_array<Code>(*x, n));
    RequestsRef here = requests;
    here.key = keys.data();
    if (requests.value != nullptr) here.value = values.data();
    if (requests.operation != nullptr) here.operation = operations.data();
    if (requests.found != nullptr) here.found = found.data();
    here.code = codes.data();
    const exec::Finish finish(*x);
    BRECCIA_TRY(run_on(*x, table, here));
    Status status = bring_back(*x, here, requests);
    // What fails behind a batch that writes was done, and nobody knows what.
    if (status.ok() || only_finds(requests)) return status;
    if (status.IsMemoryLimit()) status = base::io_error("memory ran out behind a batch");
    static_cast<PoolTable&>(table).note_fault(status);
    return status;
  }

  Status run_here(Table& table, const RequestsRef& requests) override {
    if (requests.count == 0) return Status::OK();
    BRECCIA_TRY(check(requests));
    BRECCIA_TAKE(auto x, own_.executor());
    return run_on(*x, table, requests);
  }

  Result<Contents> read(Table& table) override {
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_TAKE(auto x, own_.executor());
    const std::unique_lock section(own.mutex());
    BRECCIA_TRY(own.fault());
    Counters counters;
    BRECCIA_TRY(own.count(*x, &counters));
    const std::uint64_t keys = counters.keys();
    BRECCIA_TAKE(const auto key, exec::make_array<std::uint64_t>(*x, keys));
    BRECCIA_TAKE(const auto value, exec::make_array<std::uint64_t>(*x, keys));
    BRECCIA_TAKE(const auto found, exec::make_array<std::uint64_t>(*x, 1));
    const exec::Finish finish(*x);
    BRECCIA_TRY(exec::clear(*x, found.data(), 1));
    const TableRef ref = own.ref();
    const std::uint64_t heads = ref.bucket_count + 1;
    BRECCIA_TRY(x->template launch<32>(
        heads, algo::Extract{ref, 0, heads, key.data(), value.data(), found.data()}));
    Contents contents;
    BRECCIA_TRY(base::or_memory_limit([&] {
      contents.key.resize(keys);
      contents.value.resize(keys);
      return Status::OK();
    }));
    std::uint64_t count = 0;
    BRECCIA_TRY(x->copy_out(&count, found.data(), 1));
    BRECCIA_TRY(x->copy_out(contents.key.data(), key.data(), keys));
    BRECCIA_TRY(x->copy_out(contents.value.data(), value.data(), keys));
    BRECCIA_TRY(x->finish());
    BRECCIA_ASSERT(count == keys);
    return contents;
  }

 private:
  /// Numbers of requests have 32 bits.
  static constexpr std::uint64_t kRequestsMax = std::uint64_t{1} << 32;

  static Status check(const RequestsRef& requests) {
    if (requests.count < kRequestsMax) return Status::OK();
    return Status::InvalidArgument("a batch of 2^32 requests or more", "divide it");
  }

  template <class X>
  static Status run_on(X& x, Table& table, const RequestsRef& requests) {
    return Call<X>(x, static_cast<PoolTable&>(table), requests).run();
  }

  template <class X>
  static Status bring_back(X& x, const RequestsRef& from, const RequestsRef& to) {
    BRECCIA_TRY(x.copy_out(to.code, from.code, to.count));
    if (to.found != nullptr) BRECCIA_TRY(x.copy_out(to.found, from.found, to.count));
    return x.finish();
  }

  /// As many, if there is a column.
  static std::uint64_t count_of(const void* column, std::uint64_t count) {
    return column == nullptr ? 0 : count;
  }

  Tenant& own_;
};

}  // namespace breccia::slab
