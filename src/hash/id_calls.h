#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/device.h"
#include "exec/executor.h"
#include "exec/host_vector.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/clear.cuh"
#include "hash/algo/ids.cuh"
#include "hash/algo/rows.cuh"
#include "hash/ids.h"
#include "hash/rows.h"
#include "hash/section_mutex.h"
#include "record/record.h"

namespace breccia::hash {

/// A cache in the memory of a tenant of its own, which others may want back.
class PoolCache final : public Cache {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  template <class X>
  static Result<std::shared_ptr<PoolCache>> make(X& x, exec::TenantPtr tenant,
                                                 std::uint64_t row_bytes, std::uint64_t bytes_max) {
    auto cache = std::shared_ptr<PoolCache>(new PoolCache(std::move(tenant), row_bytes));
    exec::Pool& pool = cache->tenant_->pool();
    const std::uint64_t sets = bytes_max / (kSetBytes + kCacheWays * row_bytes);
    BRECCIA_TAKE(cache->sets_, exec::Array<Pair>::make(pool, sets * kSetBytes / sizeof(Pair)));
    BRECCIA_TAKE(cache->rows_, exec::Array<char>::make(pool, sets * kCacheWays * row_bytes));
    BRECCIA_TRY(algo::clear(x, cache->sets_.data(), cache->sets_.count()));
    BRECCIA_TRY(x.finish());
    cache->tenant_->answer(
        {.give = [raw = cache.get()](std::uint64_t /*bytes*/) { raw->drop(); }, .lost = {}});
    return cache;
  }
  ~PoolCache() override { tenant_->be_left_alone(); }

  /// Lookups share it; who admits rows has it.
  [[nodiscard]] SectionMutex& mutex() const { return mutex_; }
  /// Whoever calls this has the mutex or a share of it.
  [[nodiscard]] CacheRef ref() const { return {sets_.data(), set_count(), rows_.data()}; }
  void note(std::uint64_t lookups, std::uint64_t hits) {
    lookups_ += lookups;
    hits_ += hits;
  }

  /// Waits for lookups that are under way, none of which claims memory while it has the mutex.
  void drop() override {
    const std::unique_lock lock(mutex_);
    sets_ = {};
    rows_ = {};
  }
  [[nodiscard]] std::uint64_t rows() const override {
    const std::shared_lock lock(mutex_);
    return set_count() * kCacheWays;
  }
  [[nodiscard]] std::uint64_t bytes() const override {
    const std::shared_lock lock(mutex_);
    return sets_.bytes() + rows_.bytes();
  }
  [[nodiscard]] std::uint64_t lookups() const override { return lookups_; }
  [[nodiscard]] std::uint64_t hits() const override { return hits_; }

 private:
  static constexpr std::uint64_t kSetBytes = algo::SetRef::kPairs * sizeof(Pair);

  PoolCache(exec::TenantPtr tenant, std::uint64_t row_bytes)
      : Cache(row_bytes), tenant_(std::move(tenant)) {}
  [[nodiscard]] std::uint64_t set_count() const { return sets_.count() / algo::SetRef::kPairs; }
  const exec::TenantPtr tenant_;
  mutable SectionMutex mutex_;  // guards the arrays
  exec::Array<Pair> sets_;
  exec::Array<char> rows_;
  std::atomic<std::uint64_t> lookups_{0}, hits_{0};
};

/// Records that a device has written.
class PoolRowRecords final : public RowRecords {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  template <class X>
  static Result<std::unique_ptr<PoolRowRecords>> make(X& x, exec::Device& device,
                                                      const RowsInRef& rows) {
    const std::uint64_t n = rows.ids.count;
    const auto header =
        record::RecordHeader::make(record::Op::kPut, sizeof(std::uint64_t), rows.row_bytes);
    auto made =
        std::unique_ptr<PoolRowRecords>(new PoolRowRecords(device, n, header.record_bytes()));
    BRECCIA_ASSERT(header.record_bytes() == 2 * sizeof(std::uint64_t) + rows.row_bytes);
    const std::uint64_t piece = std::clamp<std::uint64_t>(kPieceBytes / made->record_bytes(), 1, n);
    BRECCIA_TAKE(const auto records, exec::make_array<std::byte>(x, piece * made->record_bytes()));
    BRECCIA_TAKE(made->number_, exec::make_array<std::uint64_t>(x, n));
    BRECCIA_TAKE(made->payload_, exec::make_array<std::uint64_t>(x, n));
    BRECCIA_TAKE(made->code_, exec::make_array<Code>(x, n));
    BRECCIA_TAKE(made->met_, exec::make_array<std::uint64_t>(x, algo::CountCodes::kCodes));
    if (!made->host_.reserve(made->bytes())) {
      return Status::MemoryLimit("no memory for the records of a batch");
    }
    std::byte* const host = made->host_.extend(made->bytes());
    const exec::Finish finish(x);
    BRECCIA_TRY(x.follow(rows.ids.stream));
    BRECCIA_TRY(
        x.template launch<32>(n, algo::NumberIds{rows.ids.id, made->number_.data(), n, nullptr}));
    algo::WriteRecords write;
    std::memcpy(&write.header, &header, sizeof header);
    write.record = reinterpret_cast<std::uint64_t*>(records.data());
    write.row_words = static_cast<std::uint32_t>(rows.row_bytes / sizeof(std::uint64_t));
    // One room for all pieces: what runs does so in order.
    for (std::uint64_t begin = 0; begin < n; begin += piece) {
      write.id = rows.ids.id + begin;
      write.row = reinterpret_cast<const std::uint64_t*>(rows.row + begin * rows.row_bytes);
      write.count = std::min(piece, n - begin);
      BRECCIA_TRY(x.template launch<32>(write.words(), write));
      BRECCIA_TRY(x.copy_out(host + begin * made->record_bytes(), records.data(),
                             write.count * made->record_bytes()));
    }
    BRECCIA_TRY(x.finish());
    return Result<std::unique_ptr<PoolRowRecords>>(std::move(made));
  }

  [[nodiscard]] const std::byte* data() const override { return host_.data(); }

  /// What raises them in an index, when the first one's payload is this.
  template <class X>
  Result<RequestsRef> place(X& x, std::uint64_t first_payload) {
    BRECCIA_TRY(x.template launch<32>(
        count(), algo::PlaceRecords{first_payload, record_bytes(), payload_.data(), count()}));
    return RequestsRef{.all = Operation::kRaise,
                       .key = number_.data(),
                       .value = payload_.data(),
                       .code = code_.data(),
                       .count = count()};
  }
  /// Of the keys, when they were raised: *absent were not there before.
  /// Errors  MemoryLimit: some found no room.
  template <class X>
  Status settle(X& x, std::uint64_t* absent) {
    std::uint64_t met[algo::CountCodes::kCodes];
    BRECCIA_TRY(algo::clear(x, met_.data(), met_.count()));
    BRECCIA_TRY(
        x.template launch<32>(count(), algo::CountCodes{code_.data(), count(), met_.data()}));
    BRECCIA_TRY(x.copy_out(met, met_.data(), met_.count()));
    BRECCIA_TRY(x.finish());
    *absent = met[static_cast<int>(Code::kAbsent)];
    if (met[static_cast<int>(Code::kNoRoom)] == 0) return Status::OK();
    return Status::MemoryLimit("the index finds no room to grow");
  }

 private:
  static constexpr std::uint64_t kPieceBytes = 64 << 20;

  PoolRowRecords(exec::Device& device, std::uint64_t count, std::uint64_t record_bytes)
      : RowRecords(count, record_bytes), host_(device.host_memory()) {}

  exec::HostVector<std::byte> host_;
  exec::Array<std::uint64_t> number_, payload_, met_;
  exec::Array<Code> code_;
};

/// Brings rows from the host to a device, a piece at a time.
/// Threads one owner.
template <class X>
class Courier {
 public:
  Courier(X& x, exec::HostMemory& memory) : x_(x), rows_(memory), there_(memory) {}
  ~Courier() { (void)x_.finish(); }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Room for a piece; what it brought before is there.
  /// Errors  MemoryLimit; IOError: the device.
  Status load(std::uint64_t rows, std::uint64_t row_bytes) {
    BRECCIA_TRY(x_.finish());
    rows_on_device_.reset();
    there_on_device_.reset();
    rows_.clear();
    there_.clear();
    if (!rows_.reserve(rows * row_bytes) || !there_.reserve(rows)) {
      return Status::MemoryLimit("no memory for rows on their way to the device");
    }
    rows_.extend(rows * row_bytes);
    there_.extend(rows);
    return Status::OK();
  }
  [[nodiscard]] char* rows() { return rows_.data(); }
  [[nodiscard]] std::uint8_t* there() { return there_.data(); }
  /// Sends the piece to the requests that it is of.
  Status send(const std::uint32_t* request, const RowsOutRef& to) {
    const std::uint64_t n = there_.size();
    BRECCIA_TAKE(auto rows, x_.import(rows_.data(), n * to.row_bytes));
    rows_on_device_.emplace(std::move(rows));
    BRECCIA_TAKE(auto there, x_.import(there_.data(), n));
    there_on_device_.emplace(std::move(there));
    return with_row_words(
        algo::RowShape::of(0, to.row_bytes), {rows_on_device_->data(), to.row},
        [&]<class Word>(const Word*, std::uint32_t words) {
          return x_.template launch<32>(
              n * words,
              algo::PutFound<Word>{reinterpret_cast<const Word*>(rows_on_device_->data()),
                                   there_on_device_->data(), request, n,
                                   reinterpret_cast<Word*>(to.row), to.found, words});
        });
  }
  Status finish() { return x_.finish(); }

 private:
  using RowsImport = std::decay_t<
      decltype(std::declval<X&>().import(static_cast<const char*>(nullptr), 0).take())>;
  using ThereImport = std::decay_t<
      decltype(std::declval<X&>().import(static_cast<const std::uint8_t*>(nullptr), 0).take())>;

  X& x_;
  exec::HostVector<char> rows_;
  exec::HostVector<std::uint8_t> there_;
  std::optional<RowsImport> rows_on_device_;
  std::optional<ThereImport> there_on_device_;
};

/// Looks rows up: those in a cache on the device, and the others from the host, where cores gather
/// one piece while the bus brings the other. `Find` finds requests in a table, and waits for them
/// and for what is launched behind: find(x, table, requests, behind).
template <class Tenant, class Find>
class PoolRowLookup final : public RowLookup {
 public:
  /// `cache` may be null.
  PoolRowLookup(Tenant& tenant, PoolCache* cache, const RowsOutRef& out, const Find& find)
      : tenant_(tenant),
        cache_(cache),
        out_(out),
        find_(find),
        missing_(host_memory()),
        missing_payloads_(host_memory()) {}

  Status look(Table& table) override {
    BRECCIA_TAKE(auto x, tenant_.executor());
    BRECCIA_TRY(allocate(*x));
    BRECCIA_TRY(x->follow(out_.ids.stream));
    BRECCIA_TRY(x->template launch<32>(
        count(), algo::NumberIds{out_.ids.id, number_.data(), count(), missing_count_.data()}));
    std::shared_lock<SectionMutex> lock;
    CacheRef cache;
    if (cache_ != nullptr) {
      lock = std::shared_lock(cache_->mutex());
      cache = cache_->ref();
    }
    const RequestsRef find{
        .key = number_.data(), .found = payload_.data(), .code = code_.data(), .count = count()};
    const Status looked = find_(*x, table, find, [&] { return find_cached(*x, cache); });
    if (!looked.ok()) {
      (void)x->finish();  // what was launched before it
      return base::copy_of(looked);
    }
    BRECCIA_ASSERT(missing() <= count());
    if (cache_ != nullptr) cache_->note(count(), count() - missing());
    return Status::OK();
  }

  Status bring(const Gather& gather) override {
    if (missing() == 0) return Status::OK();
    BRECCIA_TAKE(auto x, tenant_.executor());
    BRECCIA_TRY(fetch_missing(*x));
    BRECCIA_TRY(bring_all(*x, gather));
    return cache_ == nullptr ? Status::OK() : admit(*x);
  }

 private:
  [[nodiscard]] exec::HostMemory& host_memory() { return tenant_.device().host_memory(); }
  [[nodiscard]] std::uint64_t count() const { return out_.ids.count; }
  [[nodiscard]] algo::RowShape shape() const { return algo::RowShape::of(0, out_.row_bytes); }
  [[nodiscard]] std::uint64_t missing() const { return missing_[0]; }
  /// Payloads of so few ids are fetched with their number, before it is known.
  [[nodiscard]] bool is_small() const { return count() <= kSmall; }

  template <class X>
  Status allocate(X& x) {
    for (exec::Array<std::uint64_t>* const column :
         {&number_, &payload_, &row_, &missing_payload_}) {
      BRECCIA_TAKE(*column, exec::make_array<std::uint64_t>(x, count()));
    }
    BRECCIA_TAKE(code_, exec::make_array<Code>(x, count()));
    BRECCIA_TAKE(request_, exec::make_array<std::uint32_t>(x, count()));
    BRECCIA_TAKE(missing_count_, exec::make_array<std::uint64_t>(x, 1));
    missing_.clear();
    missing_payloads_.clear();
    if (!missing_.reserve(1) || (is_small() && !missing_payloads_.reserve(count()))) {
      return Status::MemoryLimit("no memory for what a batch looks up");
    }
    *missing_.extend(1) = 0;
    return Status::OK();
  }

  /// Launches what follows the ids' payloads.
  template <class X>
  Status find_cached(X& x, const CacheRef& cache) {
    BRECCIA_TRY(x.template launch<32>(
        count(),
        algo::FindCached{cache,
                         payload_.data(),
                         count(),
                         row_.data(),
                         code_.data(),
                         out_.found,
                         {request_.data(), missing_payload_.data(), missing_count_.data()}}));
    BRECCIA_TRY(x.copy_out(missing_.data(), missing_count_.data(), 1));
    if (is_small()) {
      BRECCIA_TRY(x.copy_out(missing_payloads_.extend(count()), missing_payload_.data(), count()));
    }
    if (cache.set_count == 0) return Status::OK();
    const algo::RowsRef rows{.bytes = cache.rows, .shape = shape()};
    return with_row_words(
        rows.shape, {out_.row}, [&]<class Word>(const Word*, std::uint32_t words) {
          return x.template launch<32>(
              count() * words,
              algo::GetRows<Word>::of(rows, row_.data(), code_.data(), out_.row, count()));
        });
  }

  template <class X>
  Status fetch_missing(X& x) {
    if (is_small()) return Status::OK();
    if (!missing_payloads_.reserve(missing())) {
      return Status::MemoryLimit("no memory for what a batch looks up");
    }
    BRECCIA_TRY(
        x.copy_out(missing_payloads_.extend(missing()), missing_payload_.data(), missing()));
    return x.finish();
  }

  template <class X>
  Status bring_all(X& x, const Gather& gather) {
    const std::uint64_t piece = std::max<std::uint64_t>(kPieceBytes / out_.row_bytes, 1);
    if constexpr (X::kIsAsync) {
      if (missing() > piece) {
        auto other = tenant_.executor();
        if (other.ok()) return bring_by(&x, &*other.value(), piece, gather);
      }
    }
    return bring_by(&x, &x, piece, gather);
  }

  /// While one brings a piece, the next one is gathered for the other.
  template <class X>
  Status bring_by(X* one, X* other, std::uint64_t piece, const Gather& gather) {
    const std::uint64_t* const payload = missing_payloads_.data();
    Courier<X> first(*one, host_memory());
    Courier<X> second(*other, host_memory());
    Courier<X>* const couriers[] = {&first, &second};
    for (std::uint64_t begin = 0, turn = 0; begin < missing(); begin += piece, turn = 1 - turn) {
      const std::uint64_t n = std::min(piece, missing() - begin);
      Courier<X>& courier = *couriers[turn];
      BRECCIA_TRY(courier.load(n, out_.row_bytes));
      gather({payload + begin, n}, courier.rows(), courier.there());
      BRECCIA_TRY(courier.send(request_.data() + begin, out_));
    }
    BRECCIA_TRY(first.finish());
    return one == other ? Status::OK() : second.finish();
  }

  template <class X>
  Status admit(X& x) {
    const std::unique_lock lock(cache_->mutex());
    const CacheRef cache = cache_->ref();
    if (cache.set_count == 0) return Status::OK();
    BRECCIA_TRY(
        with_row_words(shape(), {out_.row}, [&]<class Word>(const Word*, std::uint32_t words) {
          return x.template launch<32>(
              missing(),
              algo::Admit<Word>{cache, missing_payload_.data(), request_.data(), missing(),
                                reinterpret_cast<const Word*>(out_.row), out_.found, words});
        }));
    return x.finish();
  }

  static constexpr std::uint64_t kPieceBytes = 16 << 20;
  static constexpr std::uint64_t kSmall = 16 << 10;

  Tenant& tenant_;
  PoolCache* const cache_;
  const RowsOutRef out_;
  const Find find_;
  exec::Array<std::uint64_t> number_, payload_, row_, missing_payload_, missing_count_;
  exec::Array<Code> code_;
  exec::Array<std::uint32_t> request_;
  exec::HostVector<std::uint64_t> missing_;  // one number
  exec::HostVector<std::uint64_t> missing_payloads_;
};

}  // namespace breccia::hash
