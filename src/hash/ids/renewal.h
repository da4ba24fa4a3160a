#pragma once

#include <cstdint>
#include <optional>

#include "base/assert.h"
#include "exec/executor.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/keys.cuh"
#include "hash/call.h"
#include "hash/ids/ids.h"
#include "hash/ids/row_cache.h"
#include "hash/ids/row_records.h"
#include "hash/pool_table.h"
#include "hash/rows.h"

namespace breccia::hash {

/// Writes rows of records that were raised over those of before that a cache has of their ids.
/// Where an id is there twice the index is asked which of its records is the newest.
template <class Tenant>
class Renewal final : public RowLookup {
 public:
  Renewal(Tenant& tenant, PoolCache& cache, const PoolRowRecords& records, const RowsInRef& rows)
      : tenant_(tenant), cache_(cache), records_(records), rows_(rows) {
    BRECCIA_ASSERT(rows.ids.count == records.count() && !records.deletes());
    BRECCIA_ASSERT(cache.row_bytes() == records.header().value_bytes);
  }

  Status look(Table& table) override {
    if (!records_.has_ids_twice()) return Status::OK();
    const Status found = find_newest(static_cast<PoolTable&>(table));
    // Without that, who has two rows for an id is not in the cache any more.
    if (!found.ok()) newest_ = {};
    return found.IsMemoryLimit() ? Status::OK() : base::copy_of(found);
  }

  Status bring(const Gather& /*gather*/) override {
    if (!records_.have_replaced()) return Status::OK();
    BRECCIA_TAKE(auto x, tenant_.executor());  // before the section, as everybody
    const std::optional<Section> section = cache_.section_to_renew();
    if (!section.has_value()) return Status::OK();
    const CacheRef cache = cache_.ref();
    if (cache.set_count == 0) return Status::OK();
    const exec::Finish finish(*x);
    BRECCIA_TRY(with_row_words(algo::RowShape::of(0, cache_.row_bytes()), {rows_.row},
                               [&]<class Word>(const Word*, std::uint32_t words) {
                                 algo::Renew<Word> renew{
                                     .cache = cache,
                                     .id = rows_.ids.id,
                                     .before = records_.before(),
                                     .code = records_.code(),
                                     .newest = newest_.data(),
                                     .count = records_.count(),
                                     .first_payload = records_.first_payload(),
                                     .record_bytes = records_.header().record_bytes(),
                                     .row = reinterpret_cast<const Word*>(rows_.row),
                                     .words = words};
                                 return x->template launch<4>(records_.count() * 4, renew);
                               }));
    return x->finish();
  }

 private:
  Status find_newest(PoolTable& table) {
    BRECCIA_TRY(table.fault());
    BRECCIA_TAKE(auto x, tenant_.executor());
    const std::uint64_t n = records_.count();
    BRECCIA_TAKE(const auto code, exec::make_array<Code>(*x, n));
    BRECCIA_TAKE(newest_, exec::make_array<std::uint64_t>(*x, n));
    const RequestsRef requests{
        .key = records_.number(), .found = newest_.data(), .code = code.data(), .count = n};
    return Call(*x, table, requests, algo::WordKeys()).find([] { return Status::OK(); });
  }

  Tenant& tenant_;
  PoolCache& cache_;
  const PoolRowRecords& records_;
  const RowsInRef rows_;
  exec::Array<std::uint64_t> newest_;  // payload that the index has of each id; none: its own
};

}  // namespace breccia::hash
