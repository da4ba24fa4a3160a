#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/executor.h"
#include "exec/host_vector.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/find_row.cuh"
#include "hash/algo/rows_ref.cuh"
#include "hash/call.h"
#include "hash/ids.h"
#include "hash/pool_table.h"
#include "hash/row_cache.h"

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

/// Looks few rows up, where what counts is how often the host waits and what it asks the driver
/// for: one kernel says what is missing, in memory of the host, and two bring that from there.
template <class Tenant>
class SmallRowLookup final : public RowLookup {
 public:
  /// `cache` may be null.
  SmallRowLookup(Tenant& tenant, PoolCache* cache, const RowsOutRef& out)
      : tenant_(tenant),
        cache_(cache),
        out_(out),
        missing_(host_memory()),
        payload_(host_memory()),
        request_(host_memory()),
        rows_(host_memory()),
        there_(host_memory()) {}

  Status look(Table& table) override {
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_TRY(own.fault());
    BRECCIA_TAKE(auto x, tenant_.executor());
    missing_.clear();
    if (!missing_.reserve(count())) return no_memory();
    (void)missing_.extend(count());
    BRECCIA_TRY(find(*x, own));
    if (!list_missing()) return no_memory();
    if (cache_ != nullptr) cache_->note(count(), count() - payload_.size());
    return Status::OK();
  }

  Status bring(const Gather& gather) override {
    const std::uint64_t n = payload_.size();
    if (n == 0) return Status::OK();
    rows_.clear();
    there_.clear();
    if (!rows_.reserve(n * out_.row_bytes) || !there_.reserve(n)) return no_memory();
    gather({payload_.data(), n}, rows_.extend(n * out_.row_bytes), there_.extend(n));
    BRECCIA_TAKE(auto x, tenant_.executor());
    return with_words(
        [&]<class Word>(const Word*, std::uint32_t words) { return put<Word>(*x, words); });
  }

 private:
  [[nodiscard]] exec::HostMemory& host_memory() { return tenant_.device().host_memory(); }
  [[nodiscard]] std::uint64_t count() const { return out_.ids.count; }
  static Status no_memory() { return Status::MemoryLimit("no memory for what a batch looks up"); }
  /// call(words of the type that rows are copied by, how many a row has).
  template <class F>
  Status with_words(const F& call) const {
    return with_row_words(algo::RowShape::of(0, out_.row_bytes), {out_.row}, call);
  }

  /// What the ids' rows are, as one moment has it.
  template <class X>
  Status find(X& x, PoolTable& table) {
    // Where kernels cannot write the host's memory, they write this.
    exec::Array<std::uint64_t> missing;
    std::uint64_t* to = x.reach(missing_.data());
    const exec::Finish finish(x);
    if (to == nullptr) {
      BRECCIA_TAKE(missing, exec::make_array<std::uint64_t>(x, count()));
      to = missing.data();
    }
    BRECCIA_TRY(x.follow(out_.ids.stream));
    const std::shared_lock table_lock(table.mutex());
    std::shared_lock<SectionMutex> cache_lock;
    CacheRef cache;
    if (cache_ != nullptr) {
      cache_lock = std::shared_lock(cache_->mutex());
      cache = cache_->ref();
    }
    BRECCIA_TRY(with_words([&]<class Word>(const Word*, std::uint32_t words) {
      auto* const row = reinterpret_cast<Word*>(out_.row);
      const std::uint64_t* const id = out_.ids.id;
      return table.grows() ? launch_groups(x, table, count(),
                                           algo::FindRow<true, Word>{table.ref(), cache, id, row,
                                                                     out_.found, to, words})
                           : launch_groups(x, table, count(),
                                           algo::FindRow<false, Word>{table.ref(), cache, id, row,
                                                                      out_.found, to, words});
    }));
    if (missing.data() != nullptr) BRECCIA_TRY(x.copy_out(missing_.data(), to, count()));
    return x.finish();
  }

  /// Of what is missing payloads and requests. False: no memory.
  bool list_missing() {
    payload_.clear();
    request_.clear();
    for (std::uint64_t i = 0; i < count(); ++i) {
      if (missing_[i] == 0) continue;
      if (!payload_.reserve(payload_.size() + 1) || !request_.reserve(request_.size() + 1)) {
        return false;
      }
      payload_.push(missing_[i]);
      request_.push(static_cast<std::uint32_t>(i));
    }
    return true;
  }

  /// Brings what was gathered, and offers it to the cache.
  template <class Word, class X>
  Status put(X& x, std::uint32_t words) {
    const std::uint64_t n = payload_.size();
    const exec::Finish finish(x);
    BRECCIA_TAKE(const auto brought, (Within<X, char>::of(x, rows_)));
    BRECCIA_TAKE(const auto there, (Within<X, std::uint8_t>::of(x, there_)));
    BRECCIA_TAKE(const auto request, (Within<X, std::uint32_t>::of(x, request_)));
    BRECCIA_TAKE(const auto payload, (Within<X, std::uint64_t>::of(x, payload_)));
    auto* const row = reinterpret_cast<Word*>(out_.row);
    BRECCIA_TRY(x.template launch<32>(
        n * words, algo::PutFound<Word>{reinterpret_cast<const Word*>(brought.data()), there.data(),
                                        request.data(), n, row, out_.found, words}));
    if (cache_ == nullptr) return x.finish();
    const std::unique_lock lock(cache_->mutex());
    const CacheRef cache = cache_->ref();
    if (cache.set_count > 0) {
      BRECCIA_TRY(x.template launch<32>(
          n, algo::Admit<Word>{cache, payload.data(), request.data(), n, row, out_.found, words}));
    }
    return x.finish();
  }

  Tenant& tenant_;
  PoolCache* const cache_;
  const RowsOutRef out_;
  exec::HostVector<std::uint64_t> missing_;  // of each id: its payload, or 0
  exec::HostVector<std::uint64_t> payload_;  // of those that are missing
  exec::HostVector<std::uint32_t> request_;  // whose they are
  exec::HostVector<char> rows_;
  exec::HostVector<std::uint8_t> there_;
};

}  // namespace breccia::hash
