#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "exec/executor.h"
#include "hash/algo/ids.cuh"
#include "hash/backend.h"
#include "hash/call.h"
#include "hash/ids/begun_lookup.h"
#include "hash/ids/missing_list.h"
#include "hash/ids/pin_lookup.h"
#include "hash/ids/renewal.h"
#include "hash/ids/row_cache.h"
#include "hash/ids/row_lookup.h"
#include "hash/ids/row_records.h"
#include "hash/ids/small_row_lookup.h"
#include "hash/rows_call.h"

namespace breccia::hash {

/// The calls of Backend for a tenant's type.
template <class Tenant>
class BackendOn final : public Backend {
 public:
  explicit BackendOn(const std::shared_ptr<Tenant>& tenant)
      : Backend(tenant), own_(*tenant), in_flight_(std::make_shared<exec::InFlight>()) {}
  ~BackendOn() override { in_flight_->finish_all(); }

  Result<TablePtr> make_table(const TableOptions& options) override {
    BRECCIA_ASSERT(options.lanes == 1 || options.lanes == 4 || options.lanes == 8);
    BRECCIA_ASSERT(is_secret(options.secret.factor) && is_secret(options.secret.second_factor));
    if (options.slots_min > kSlotsMax) {
      return Status::InvalidArgument("a table of more than 2^48 slots");
    }
    BRECCIA_TRY(check_sizes(options));
    const std::uint64_t buckets = base::round_up(options.slots_min, kBucketPairs) / kBucketPairs;
    BRECCIA_TAKE(auto storage, Storage::make(own_.pool(), options.secret,
                                             std::max<std::uint64_t>(buckets, kChoices)));
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TRY(storage->clear(*x));
    std::unique_ptr<Rows> rows;
    if (options.has_rows()) {
      const std::uint64_t key_bytes = options.keys_in_rows() ? options.key_bytes : 0;
      BRECCIA_TAKE(
          rows, Rows::make(*x, algo::RowShape::of(key_bytes, options.value_bytes), options.rows));
    }
    BRECCIA_TRY(x->finish());
    return TablePtr(std::make_shared<PoolTable>(tenant_ptr(), options, std::move(storage),
                                                std::move(rows), in_flight_));
  }

  Status run(Table& table, const RequestsRef& requests) override {
    const std::uint64_t n = requests.count;
    if (n == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
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
    return behind(table, requests, bring_back(*x, here, requests, found.data(), requests.found, 1));
  }

  Status run_here(Table& table, const RequestsRef& requests) override {
    if (requests.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return run_on(*x, table, requests);
  }

  Status run_values(Table& table, const ValueRequestsRef& given) override {
    const RequestsRef& requests = given.requests;
    const std::uint64_t n = requests.count;
    if (n == 0) return Status::OK();
    if (requests.operation != nullptr &&
        std::any_of(requests.operation, requests.operation + n, compares_values)) {
      return Status::InvalidArgument(kNoComparing);
    }
    const std::uint64_t bytes = n * table.options().value_bytes;
    const std::uint64_t key_bytes = n * table.options().key_bytes;
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const auto words, x->import(requests.key, count_of(requests.key, n)));
    BRECCIA_TAKE(const auto keys, x->import(given.key, count_of(given.key, key_bytes)));
    BRECCIA_TAKE(const auto values, x->import(given.value, count_of(given.value, bytes)));
    BRECCIA_TAKE(const auto operations,
                 x->import(requests.operation, count_of(requests.operation, n)));
    // What is found of absent keys stays as it is.
    BRECCIA_TAKE(const auto kept, x->import(given.found, count_of(given.found, bytes)));
    BRECCIA_TAKE(const auto found, exec::make_array<char>(*x, count_of(given.found, bytes)));
    BRECCIA_TAKE(const auto codes, exec::make_array<Code>(*x, n));
    const exec::Finish finish(*x);
    BRECCIA_TRY(x->copy(found.data(), kept.data(), found.count()));
    ValueRequestsRef here = given;
    if (requests.key != nullptr) here.requests.key = words.data();
    if (given.key != nullptr) here.key = keys.data();
    if (given.value != nullptr) here.value = values.data();
    if (requests.operation != nullptr) here.requests.operation = operations.data();
    if (given.found != nullptr) here.found = found.data();
    here.requests.code = codes.data();
    BRECCIA_TRY(run_values_on(*x, table, here));
    return behind(table, requests,
                  bring_back(*x, here.requests, requests, found.data(), given.found,
                             table.options().value_bytes));
  }

  Status run_values_here(Table& table, const ValueRequestsRef& requests) override {
    if (requests.requests.count == 0) return Status::OK();
    BRECCIA_TAKE(auto x, own_.executor());
    return run_values_on(*x, table, requests);
  }

  std::unique_ptr<RowLookup> make_lookup(const RowSources& from, const RowsOutRef& rows) override {
    BRECCIA_ASSERT(rows.ids.count > 0 && rows.ids.count < kRequestsMax);
    BRECCIA_ASSERT(is_of_words(rows.row, rows.row_bytes));
    BRECCIA_ASSERT(from.cache == nullptr || from.cache->row_bytes() == rows.row_bytes);
    BRECCIA_ASSERT(rows.ids.asked == nullptr);
    BRECCIA_ASSERT(from.log.count == 0 || from.logged.value_bytes == rows.row_bytes);
    (void)in_flight_->reap();
    auto* const cache = static_cast<PoolCache*>(from.cache);
    if (are_few(rows.ids.count, rows.row_bytes, from.few_ids)) {
      return std::make_unique<SmallRowLookup<Tenant>>(
          own_, cache, algo::LoggedRow::of(from.log, from.logged), rows);
    }
    return std::make_unique<PoolRowLookup<Tenant>>(own_, cache, rows);
  }

  std::unique_ptr<RowLookup> make_begun_lookup(Cache& cache, const RowsOutRef& rows,
                                               const MissingListRef& missing) override {
    BRECCIA_ASSERT(rows.ids.count > 0 && rows.ids.count < kRequestsMax);
    BRECCIA_ASSERT(is_of_words(rows.row, rows.row_bytes) && cache.row_bytes() == rows.row_bytes);
    in_flight_->make_room();
    return std::make_unique<BegunLookup<Tenant>>(own_, static_cast<PoolCache&>(cache), *in_flight_,
                                                 rows, missing);
  }

  const char* reach(char* host) override {
    auto x = own_.executor();
    return x.ok() ? x.value()->reach(host) : nullptr;
  }

  Result<std::uint64_t> read_number(const std::uint64_t* at, void* stream) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const auto number, exec::make_array<std::uint64_t>(*x, 1));
    const exec::Finish finish(*x);
    BRECCIA_TRY(x->follow(stream));
    BRECCIA_TRY(x->template launch<32>(1, algo::CopyNumber{at, number.data()}));
    BRECCIA_TRY(x->copy_out(x->words(), number.data(), 1));
    BRECCIA_TRY(x->finish());
    return *x->words();
  }

  Status list_missing(const MissingListRef& list) override {
    BRECCIA_ASSERT(list.missing_count != nullptr && (list.missing != nullptr || list.count == 0));
    BRECCIA_ASSERT(list.count < kRequestsMax);
    BRECCIA_TAKE(auto x, own_.executor());
    return list_missing_on(*x, list);
  }

  Result<CachePtr> make_cache(std::uint64_t row_bytes, std::uint64_t bytes_max,
                              RowCachePolicy policy) override {
    if (!is_of_words(nullptr, row_bytes)) {
      return Status::InvalidArgument("rows of no multiple of 8 bytes");
    }
    BRECCIA_TAKE(exec::TenantPtr tenant,
                 device().admit({.name = "hash rows", .cost = exec::GiveCost::kCopy}));
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(CachePtr cache,
                 PoolCache::make(*x, std::move(tenant), row_bytes, bytes_max, policy, in_flight_));
    return cache;
  }

  std::unique_ptr<Pins> make_pins(const CachePtr& cache) override {
    return std::make_unique<PoolPins>(std::static_pointer_cast<PoolCache>(cache));
  }

  std::unique_ptr<RowLookup> make_pin_lookup(Pins& pins, const IdsRef& ids) override {
    BRECCIA_ASSERT(ids.count > 0 && ids.count < kRequestsMax && ids.asked == nullptr);
    (void)in_flight_->reap();
    return std::make_unique<PinLookup<Tenant>>(own_, static_cast<PoolPins&>(pins), ids);
  }

  Result<std::unique_ptr<RowRecords>> write_records(const RowsInRef& rows) override {
    BRECCIA_ASSERT(rows.header.key_bytes() == sizeof(std::uint64_t));
    BRECCIA_ASSERT(rows.header.op() == record::Op::kPut
                       ? is_of_words(rows.row, rows.header.value_bytes)
                       : rows.header.op() == record::Op::kDelete && rows.header.value_bytes == 0);
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(std::unique_ptr<RowRecords> records, PoolRowRecords::make(*x, device(), rows));
    return Result<std::unique_ptr<RowRecords>>(std::move(records));
  }

  Status raise_records(Table& table, RowRecords& records, std::uint64_t first_payload,
                       std::uint64_t* absent) override {
    *absent = 0;
    if (records.count() == 0) return Status::OK();
    auto& own = static_cast<PoolRowRecords&>(records);
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const RequestsRef raise, own.place(*x, first_payload));
    BRECCIA_TRY(run_records(*x, table, raise));
    return own.settle(*x, absent);
  }

  std::unique_ptr<RowLookup> make_renewal(Cache& cache, const RowRecords& records,
                                          const RowsInRef& rows) override {
    return std::make_unique<Renewal<Tenant>>(own_, static_cast<PoolCache&>(cache),
                                             static_cast<const PoolRowRecords&>(records), rows);
  }

  Status drop_records(Table& table, RowRecords& records, std::uint64_t* gone) override {
    *gone = 0;
    if (records.count() == 0) return Status::OK();
    auto& own = static_cast<PoolRowRecords&>(records);
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TRY(run_records(*x, table, own.removal()));
    return own.count_gone(*x, gone);
  }

  Status copy_in(char* here, const char* host, std::uint64_t bytes) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TAKE(const auto imported, x->import(host, bytes));
    BRECCIA_TRY(x->copy(here, imported.data(), bytes));
    return x->finish();
  }
  Status copy_out(char* host, const char* here, std::uint64_t bytes) override {
    BRECCIA_TAKE(auto x, own_.executor());
    BRECCIA_TRY(x->copy_out(host, here, bytes));
    return x->finish();
  }

  Status read(const Table& table, TableImage* image) override {
    BRECCIA_TAKE(auto x, own_.executor());
    image->tables = static_cast<const PoolTable&>(table).ref();
    BRECCIA_TRY(read_one(*x, &image->tables.table, &image->pairs, &image->maps));
    BRECCIA_TRY(read_one(*x, &image->tables.old, &image->old_pairs, &image->old_maps));
    const Rows* const rows = static_cast<const PoolTable&>(table).rows();
    return rows == nullptr ? Status::OK() : read_rows(*x, *rows, image);
  }

 private:
  template <class X>
  static Status run_on(X& x, Table& table, const RequestsRef& requests) {
    if (requests.count >= kRequestsMax) {
      return Status::InvalidArgument("a batch of 2^32 requests or more", "divide it");
    }
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_ASSERT(own.rows() == nullptr);
    BRECCIA_TRY(own.fault());
    return Call(x, own, requests, algo::WordKeys()).run();
  }

  /// Behind what was launched for it.
  template <class X>
  static Status run_records(X& x, Table& table, const RequestsRef& requests) {
    const Status run = run_on(x, table, requests);
    if (!run.ok()) (void)x.finish();
    return base::copy_of(run);
  }

  template <class X>
  static Status run_values_on(X& x, Table& table, const ValueRequestsRef& requests) {
    if (requests.requests.count >= kRequestsMax / 2) {
      return Status::InvalidArgument("a batch of 2^31 requests or more", "divide it");
    }
    if (reinterpret_cast<std::uintptr_t>(requests.value) % sizeof(std::uint64_t) != 0 ||
        reinterpret_cast<std::uintptr_t>(requests.found) % sizeof(std::uint64_t) != 0) {
      return Status::InvalidArgument("values that do not lie at multiples of 8 bytes");
    }
    if (requests.requests.operation == nullptr && compares_values(requests.requests.all)) {
      return Status::InvalidArgument(kNoComparing);
    }
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_ASSERT(own.rows() != nullptr);
    BRECCIA_ASSERT((table.options().keys_in_rows() ? requests.key != nullptr
                                                   : requests.requests.key != nullptr));
    BRECCIA_TRY(own.fault());
    return RowsCall<X>(x, own, requests).run();
  }

  static constexpr char kNoComparing[] = "operations that compare values, which lie in rows";
  static bool compares_values(Operation operation) {
    return operation == Operation::kRaise || operation == Operation::kDrop;
  }
  static bool is_of_words(const char* rows, std::uint64_t row_bytes) {
    return row_bytes > 0 && row_bytes % sizeof(std::uint64_t) == 0 &&
           reinterpret_cast<std::uintptr_t>(rows) % sizeof(std::uint64_t) == 0;
  }
  /// As many, if there is a column.
  static std::uint64_t count_of(const void* column, std::uint64_t count) {
    return column == nullptr ? 0 : count;
  }

  /// What fails behind a batch that writes was done, and nobody knows what.
  static Status behind(Table& table, const RequestsRef& requests, Status status) {
    if (only_finds(requests)) return status;
    if (status.IsMemoryLimit()) status = Status::IOError("memory ran out behind a batch");
    if (!status.ok()) static_cast<PoolTable&>(table).note_fault(status);
    return status;
  }
  template <class X, class T>
  static Status bring_back(X& x, const RequestsRef& from, const RequestsRef& to, const T* found,
                           T* found_to, std::uint64_t width) {
    BRECCIA_TRY(x.copy_out(to.code, from.code, to.count));
    if (found_to != nullptr) BRECCIA_TRY(x.copy_out(found_to, found, width * to.count));
    return x.finish();
  }

  template <class X>
  static Status read_one(X& x, TableRef* table, std::vector<Pair>* pairs,
                         std::vector<std::uint32_t>* maps) {
    const bool is_there = table->pairs != nullptr;
    const std::uint64_t map_words = is_there ? table->bucket_count / 32 + 1 : 0;
    pairs->resize(is_there ? (table->bucket_count + 1) * kBucketPairs : 0);
    maps->resize(2 * map_words);
    BRECCIA_TRY(x.copy_out(pairs->data(), table->pairs, pairs->size()));
    BRECCIA_TRY(x.copy_out(maps->data(), table->was_full, map_words));
    BRECCIA_TRY(x.copy_out(maps->data() + map_words, table->is_full, map_words));
    table->pairs = pairs->data();
    table->was_full = maps->data();
    table->is_full = maps->data() + map_words;
    table->has_deleted = nullptr;
    return x.finish();
  }

  /// Rows that slots name; others may never have been written.
  template <class X>
  static Status read_rows(X& x, const Rows& rows, TableImage* image) {
    const std::uint64_t bytes = rows.shape().bytes();
    image->rows.resize(rows.count() * bytes);
    for (const auto* const pairs : {&image->pairs, &image->old_pairs}) {
      for (const Pair& pair : *pairs) {
        if (pair.first == kEmpty || pair.first == kDeleted) continue;
        BRECCIA_ASSERT(pair.second < rows.count());
        const std::uint64_t at = pair.second * bytes;
        BRECCIA_TRY(x.copy_out(image->rows.data() + at, rows.ref().bytes + at, bytes));
      }
    }
    return x.finish();
  }

  static Status check_sizes(const TableOptions& options) {
    if (options.key_bytes < kKeyBytesMin || options.key_bytes > kKeyBytesMax) {
      return Status::InvalidArgument("keys of another size than 4 to 64 bytes");
    }
    if (options.value_bytes == 0 || options.value_bytes % 8 != 0 ||
        options.value_bytes > kValueBytesMax ||
        (options.has_rows() && options.rows >= kRequestsMax)) {
      return Status::InvalidArgument(
          "values of another size than 8, 16, ... 4096 bytes, or 2^32 rows");
    }
    return Status::OK();
  }

  /// Even factors make two keys one.
  static bool is_secret(std::uint64_t factor) { return factor % 2 == 1 && factor != 1; }

  static constexpr std::uint64_t kKeyBytesMin = 4;
  static constexpr std::uint64_t kKeyBytesMax = sizeof(Pair) * algo::kKeyPairsMax;
  static constexpr std::uint64_t kValueBytesMax = 4096;
  static constexpr std::uint64_t kSlotsMax = std::uint64_t{1} << 48;
  /// Numbers of requests have 32 bits.
  static constexpr std::uint64_t kRequestsMax = std::uint64_t{1} << 32;

  Tenant& own_;
  const std::shared_ptr<exec::InFlight> in_flight_;
};

}  // namespace breccia::hash
