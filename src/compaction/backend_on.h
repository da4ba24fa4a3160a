#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "compaction/algo/rules.cuh"
#include "compaction/backend.h"
#include "exec/clear.h"
#include "record/key_columns.h"
#include "runs/algo/runs.cuh"
#include "sst/algo/filter.cuh"
#include "sst/algo/order.cuh"
#include "sst/seal.h"

namespace breccia::compaction {

/// Hashes in a tenant's pool.
template <class Tenant>
struct PoolHashes final : Hashes {
  PoolHashes(std::shared_ptr<Tenant> of, exec::Array<std::uint64_t> array)
      : tenant(std::move(of)), hash(std::move(array)) {}

  const std::shared_ptr<Tenant> tenant;  // the pool is its own
  const exec::Array<std::uint64_t> hash;
};

namespace algo {

/// One merge of a slice on an executor; a step a function.
template <class X>
class SliceMerge {
 public:
  SliceMerge(X& x, exec::HostMemory& memory, const Slice& slice)
      : x_(x), memory_(memory), slice_(slice), answers_(memory), bounds_(memory) {}

  Status run(const MergeRules& rules, const sst::TableShape& shape, const MergeHow& how,
             MergedSlice* merged, exec::Array<std::uint64_t>* hash) {
    if (!answers_.reserve(1) || !bounds_.reserve(slice_.run_blocks.size() + 2)) return no_memory();
    answers_.push({});
    BRECCIA_TAKE(faults_, exec::make_array<std::uint32_t>(x_, 1));
    BRECCIA_TRY(exec::clear(x_, faults_.data(), 1));
    BRECCIA_TRY(decode());
    if (entries_.keys.count == 0) return Status::OK();
    BRECCIA_TRY(order(how.ordering));
    BRECCIA_TRY(bound());
    merged->entries_read = end_ - begin_;
    if (begin_ == end_) return Status::OK();
    BRECCIA_TRY(judge(rules));
    merged->entries_kept = survivor_count_;
    if (survivor_count_ == 0) return Status::OK();
    return encode(shape, how.stock_file_bytes, merged, hash);
  }

 private:
  using Imports = decltype(std::declval<X&>().import(static_cast<const char*>(nullptr), 0).take());

  Status decode() {
    // What may throw comes before anything runs.
    std::vector<const char*> part;
    part.reserve(slice_.parts.size());
    parts_.reserve(slice_.parts.size());
    std::vector<sst::algo::BlockPlace> places;
    places.reserve(slice_.blocks.size());
    for (const Part& one : slice_.parts) {
      BRECCIA_TAKE(auto imported, x_.import(one.data, one.bytes + sst::algo::kPadBytes));
      part.push_back(imported.data());
      parts_.push_back(std::move(imported));
    }
    for (const SliceBlock& block : slice_.blocks) {
      places.push_back({part[block.part] + block.offset, block.bytes, block.file});
    }
    BRECCIA_TAKE(const auto block, x_.import(places.data(), places.size()));
    BRECCIA_TAKE(const auto file, x_.import(slice_.files.data(), slice_.files.size()));
    sst::algo::Decoder<X> decoder(x_, {block.data(), places.size(), file.data()}, faults_.data(),
                                  answers_.data());
    exec::Array<std::uint64_t> ends;
    const exec::Finish finish(x_);  // what was given memory for goes behind it
    BRECCIA_TRY(decoder.run(slice_.run_blocks, &columns_, &ends));
    entries_ = columns_.ref();
    return check_runs(ends.data());
  }

  /// Merges of what is not sorted would read anywhere.
  Status check_runs(const std::uint64_t* ends) {
    const std::uint64_t runs = slice_.run_blocks.size();
    const std::uint64_t n = entries_.keys.count;
    std::uint64_t* const found = bounds_.extend(runs);
    BRECCIA_TRY(
        x_.template launch<1>(n, sst::algo::CheckRuns{entries_, ends, runs, n, faults_.data()}));
    BRECCIA_TRY(x_.copy_out(found, ends, runs));
    BRECCIA_TRY(check_faults());
    ends_.assign(found, found + runs);
    return Status::OK();
  }

  Status order(Ordering ordering) {
    const std::uint64_t n = entries_.keys.count;
    const runs::algo::VersionLess less{entries_.keys, entries_.tag};
    BRECCIA_TAKE(ids_, exec::make_array<std::uint32_t>(x_, n));
    BRECCIA_TAKE(spare_, exec::make_array<std::uint32_t>(x_, n));
    if (ordering == Ordering::kSort) {
      BRECCIA_TRY(runs::algo::sort_versions(x_, less, ids_.data()));
    } else {
      BRECCIA_TRY(x_.template launch<runs::algo::kWidth>(n, runs::algo::Iota{0, n, ids_.data()}));
      BRECCIA_TRY(runs::algo::merge_ranges(x_, ends_, less, &ids_, &spare_));
    }
    if constexpr (X::kIsHost) return Status::OK();  // who judges looks at the order on the way
    BRECCIA_TRY(x_.template launch<1>(n, CheckMerged{entries_, ids_.data(), n, faults_.data()}));
    return check_faults();
  }

  /// Keys of the host's as columns that kernels read.
  Status import_keys(const record::KeyColumns& keys,
                     std::optional<runs::algo::ImportedKeys<X>>* imported) {
    BRECCIA_TAKE(auto taken, runs::algo::ImportedKeys<X>::make(x_, keys.ref()));
    imported->emplace(std::move(taken));
    return Status::OK();
  }

  Status bound() {
    begin_ = 0;
    end_ = entries_.keys.count;
    record::KeyColumns keys(memory_);
    for (const auto* const key : {&slice_.begin, &slice_.end}) {
      if (key->has_value()) BRECCIA_TRY(append(**key, &keys));
    }
    if (keys.count() == 0) return Status::OK();
    std::optional<runs::algo::ImportedKeys<X>> ends;
    BRECCIA_TRY(import_keys(keys, &ends));
    std::uint64_t* const bounds = bounds_.extend(keys.count());
    BRECCIA_TAKE(const auto found, exec::make_array<std::uint64_t>(x_, keys.count()));
    BRECCIA_TRY(x_.template launch<1>(
        keys.count(), FindBounds{entries_.keys, ids_.data(), end_, ends->ref(), found.data()}));
    BRECCIA_TRY(x_.copy_out(bounds, found.data(), keys.count()));
    BRECCIA_TRY(x_.finish());
    if (slice_.begin.has_value()) begin_ = bounds[0];
    if (slice_.end.has_value()) end_ = bounds[slice_.begin.has_value() ? 1 : 0];
    if (begin_ > end_) return Status::Corruption("entries are out of order");
    return Status::OK();
  }

  Status judge(const MergeRules& rules) {
    const std::uint64_t n = end_ - begin_;
    record::KeyColumns keys(memory_);
    for (const KeyRange& range : rules.deeper) {
      BRECCIA_TRY(append(range.smallest, &keys));
      BRECCIA_TRY(append(range.largest, &keys));
    }
    std::optional<runs::algo::ImportedKeys<X>> deeper;
    BRECCIA_TRY(import_keys(keys, &deeper));
    BRECCIA_TAKE(const auto snapshots, x_.import(rules.snapshots.data(), rules.snapshots.size()));
    const RulesRef ref{snapshots.data(), rules.snapshots.size(), deeper->ref(), rules.is_bottommost,
                       rules.drops_deletions};
    BRECCIA_TAKE(const auto keep, exec::make_array<std::uint8_t>(x_, n));
    BRECCIA_TAKE(judged_tag_, exec::make_array<std::uint64_t>(x_, n));
    BRECCIA_TRY(
        x_.template launch<1>(n, JudgeEntries{entries_, ref, ids_.data() + begin_, n, keep.data(),
                                              judged_tag_.data(), faults_.data()}));
    BRECCIA_TAKE(const auto places, exec::make_array<std::uint32_t>(x_, n));
    BRECCIA_TAKE(kept_, exec::make_array<std::uint32_t>(x_, n));
    BRECCIA_TRY(x_.template launch<runs::algo::kWidth>(n, runs::algo::Iota{0, n, places.data()}));
    BRECCIA_TRY(x_.copy_out(&answers_.data()->faults, faults_.data(), 1));
    BRECCIA_TRY(x_.select(places.data(), keep.data(), n, kept_.data(), &survivor_count_));
    BRECCIA_TRY(sst::algo::status_of(answers_[0].faults));  // the selection has waited for them
    BRECCIA_TAKE(tag_, exec::make_array<std::uint64_t>(x_, survivor_count_));
    return x_.template launch<1>(survivor_count_,
                                 PickTags{survivor_count_, kept_.data(), judged_tag_.data(),
                                          ids_.data() + begin_, tag_.data(), spare_.data()});
  }

  Status encode(const sst::TableShape& shape, std::uint64_t stock_file_bytes, MergedSlice* merged,
                exec::Array<std::uint64_t>* hash) {
    const sst::algo::SurvivorsRef survivors{entries_, spare_.data(), tag_.data(), survivor_count_};
    sst::algo::Blocks blocks;
    sst::algo::Encoder<X> encoder(x_, survivors, shape);
    const exec::Finish finish(x_);  // what was given memory for goes behind it
    BRECCIA_TRY(encoder.run(stock_file_bytes, &blocks));
    const std::uint64_t count = blocks.blocks.count();
    if (!merged->bytes.reserve(blocks.bytes.count()) || !merged->blocks.reserve(count)) {
      return no_memory();
    }
    BRECCIA_TRY(x_.copy_out(merged->bytes.extend(blocks.bytes.count()), blocks.bytes.data(),
                            blocks.bytes.count()));
    BRECCIA_TRY(x_.copy_out(merged->blocks.extend(count), blocks.blocks.data(), count));
    BRECCIA_TRY(x_.finish());
    *hash = std::move(blocks.hash);
    return Status::OK();
  }

  /// Waits.
  Status check_faults() {
    BRECCIA_TRY(x_.copy_out(&answers_.data()->faults, faults_.data(), 1));
    BRECCIA_TRY(x_.finish());
    return sst::algo::status_of(answers_[0].faults);
  }
  /// Keys of files that are not read here may have any length.
  static Status append(const std::string& key, record::KeyColumns* keys) {
    if (key.size() > sst::algo::kKeyBytesMax + 1) return Status::NotSupported("a key is too long");
    return keys->append(key.data(), key.size()) ? Status::OK() : no_memory();
  }
  static Status no_memory() { return Status::MemoryLimit("memory for a merge is exhausted"); }

  X& x_;
  exec::HostMemory& memory_;
  const Slice& slice_;
  exec::HostVector<sst::algo::Answers> answers_;
  exec::HostVector<std::uint64_t> bounds_;  // ends of runs, and of what lies within the slice
  std::vector<Imports> parts_;
  sst::algo::Columns columns_;
  sst::algo::EntriesRef entries_;
  std::vector<std::uint64_t> ends_;
  exec::Array<std::uint32_t> faults_, ids_, spare_, kept_;
  exec::Array<std::uint64_t> judged_tag_, tag_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t survivor_count_ = 0;
};

}  // namespace algo

/// The verbs for a tenant's type: `tenant->executor()` leases an executor for one call.
template <class Tenant>
class BackendOn final : public Backend {
 public:
  explicit BackendOn(const std::shared_ptr<Tenant>& tenant) : Backend(tenant), own_(tenant) {}

  Status merge(const Slice& slice, const MergeRules& rules, const sst::TableShape& shape,
               const MergeHow& how, MergedSlice* merged) override {
    BRECCIA_TAKE(auto x, own_->executor());
    exec::Array<std::uint64_t> hash;
    algo::SliceMerge merge(*x, device().host_memory(), slice);
    // An exception must not give back what is still worked on.
    const exec::Finish finish(*x);
    BRECCIA_TRY(merge.run(rules, shape, how, merged, &hash));
    if (hash.count() > 0) {
      merged->hashes = std::make_shared<PoolHashes<Tenant>>(own_, std::move(hash));
    }
    return Status::OK();
  }

  Status build_filter(std::span<const HashRange> ranges, const sst::FilterShape& shape,
                      char* lines) override {
    BRECCIA_TAKE(auto x, own_->executor());
    const std::uint64_t count = shape.bytes() / sizeof(std::uint32_t);
    BRECCIA_TAKE(const auto words, exec::make_array<std::uint32_t>(*x, count));
    BRECCIA_TRY(exec::clear(*x, words.data(), count));
    for (const HashRange& range : ranges) {
      const auto& hashes = static_cast<const PoolHashes<Tenant>&>(*range.hashes);
      BRECCIA_TRY(sst::algo::add_hashes(*x, hashes.hash.data() + range.begin, range.count, shape,
                                        words.data()));
    }
    BRECCIA_TRY(x->copy_out(lines, reinterpret_cast<const char*>(words.data()), shape.bytes()));
    return x->finish();
  }

 private:
  const std::shared_ptr<Tenant> own_;
};

}  // namespace breccia::compaction
