#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "exec/clear.h"
#include "exec/copy_in.h"
#include "record/key_columns.h"
#include "residency/algo/find.cuh"
#include "residency/algo/place_values.cuh"
#include "residency/backend.h"
#include "runs/algo/runs.cuh"
#include "sst/algo/order.cuh"

namespace breccia::residency {

namespace algo {

/// Reads key `i` of columns in the executor's memory. Waits.
/// Shape   keys.skip == 0
template <class X>
Status read_key(X& x, const record::KeyColumnsRef& keys, std::uint64_t i, std::string* key) {
  std::uint64_t head = 0;
  std::uint64_t meta = 0;
  BRECCIA_TRY(x.copy_out(&head, keys.head + i, 1));
  if (!keys.uniform()) BRECCIA_TRY(x.copy_out(&meta, keys.meta + i, 1));
  BRECCIA_TRY(x.finish());
  record::KeyColumnsRef one = keys;  // of this key alone, as the host reads it
  one.meta = &meta - i;
  const std::uint64_t bytes = keys.uniform() ? keys.uniform_bytes : one.bytes_at(i);
  const std::uint64_t tail_at = one.tail_at(i);
  std::vector<std::uint64_t> tail(record::tail_words(bytes));
  BRECCIA_TRY(x.copy_out(tail.data(), keys.tail + tail_at, tail.size()));
  BRECCIA_TRY(x.finish());
  one = {&head, nullptr, tail.data(), 1, tail.size(), static_cast<std::uint32_t>(bytes)};
  key->resize(bytes);
  record::restore_key(one, 0, key->data());
  return Status::OK();
}

/// Heads of a run whose first and last key these are: what both begin with all keys between them
/// begin with, too.
inline runs::algo::Heads heads_between(const std::string& first, const std::string& last) {
  const std::size_t most =
      std::min<std::size_t>({first.size(), last.size(), 8 * runs::algo::kPrefixWordsMax});
  const auto end = first.begin() + static_cast<std::ptrdiff_t>(most);
  const auto differs = std::mismatch(first.begin(), end, last.begin()).first;
  const auto shared = static_cast<std::uint64_t>(differs - first.begin());
  return runs::algo::heads_behind(
      base::load_big_endian(first.data(), std::min<std::size_t>(8, first.size())), shared);
}

/// Blocks become a piece; a step a function.
template <class X>
class PieceBuilder {
 public:
  PieceBuilder(X& x, exec::HostMemory& memory, const FileBlocks& blocks)
      : x_(x), blocks_(blocks), answers_(memory) {}

  Status run(runs::algo::RunArrays* arrays, std::string* first, std::string* last) {
    if (!answers_.reserve(1)) return Status::MemoryLimit("memory for keys of a file is exhausted");
    answers_.push({});
    BRECCIA_TAKE(faults_, exec::make_array<std::uint32_t>(x_, 1));
    BRECCIA_TRY(exec::clear(x_, faults_.data(), 1));
    BRECCIA_TAKE(const auto data, x_.import(blocks_.data, blocks_.bytes + sst::algo::kPadBytes));
    BRECCIA_TRY(decode(data.data()));
    const std::uint64_t n = columns_.keys().count;
    if (n == 0) return Status::Corruption("blocks without entries");
    BRECCIA_TRY(read_key(x_, columns_.keys(), 0, first));
    BRECCIA_TRY(read_key(x_, columns_.keys(), n - 1, last));
    return gather(data.data(), heads_between(*first, *last), arrays);
  }

 private:
  Status decode(const char* data) {
    std::vector<sst::algo::BlockPlace> places;  // what may throw comes before anything runs
    places.reserve(blocks_.blocks.size());
    for (const FileBlocks::Block& block : blocks_.blocks) {
      BRECCIA_ASSERT(block.at + block.bytes <= blocks_.bytes);
      places.push_back({data + block.at, block.bytes, /*file=*/0});
    }
    const sst::algo::FilePlace own{.is_checked = blocks_.is_checked ? 1U : 0U};
    BRECCIA_TAKE(const auto block, x_.import(places.data(), places.size()));
    BRECCIA_TAKE(const auto file, x_.import(&own, 1));
    sst::algo::Decoder<X> decoder(x_, {block.data(), places.size(), file.data()}, faults_.data(),
                                  answers_.data());
    const std::uint64_t run_blocks = places.size();
    exec::Array<std::uint64_t> ends;
    const exec::Finish finish(x_);  // what was given memory for goes behind it
    BRECCIA_TRY(decoder.run(std::span(&run_blocks, 1), &columns_, &ends));
    const std::uint64_t n = columns_.keys().count;
    BRECCIA_TRY(x_.template launch<1>(
        n, sst::algo::CheckRuns{columns_.ref(), ends.data(), 1, n, faults_.data()}));
    BRECCIA_TRY(x_.copy_out(&answers_.data()->faults, faults_.data(), 1));
    BRECCIA_TRY(x_.finish());
    // Entries of other kinds have a key, too, and places that say so.
    return sst::algo::status_of(answers_[0].faults & ~sst::algo::kFaultType);
  }

  /// Keys with shorter heads, places and fences.
  Status gather(const char* data, const runs::algo::Heads& heads, runs::algo::RunArrays* arrays) {
    const record::KeyColumnsRef keys = columns_.keys();
    BRECCIA_TAKE(const auto place, exec::make_array<std::uint64_t>(x_, keys.count));
    BRECCIA_TAKE(const auto id,
                 exec::make_array<std::uint32_t>(x_, keys.uniform() ? 0 : keys.count));
    std::vector<std::uint64_t> begins;
    for (const FileBlocks::Block& block : blocks_.blocks) {
      if (blocks_.was_packed) begins.push_back(block.at);
    }
    BRECCIA_ASSERT(begins.size() <= kPackedBlocksMax);
    BRECCIA_TAKE(const auto block_at, exec::copy_in(x_, begins.data(), begins.size()));
    const exec::Finish finish(x_);
    BRECCIA_TRY(x_.template launch<runs::algo::kWidth>(
        keys.count, PlaceValues{columns_.ref(), data, blocks_.offset, block_at.data(),
                                begins.size(), place.data()}));
    BRECCIA_TRY(x_.template launch<runs::algo::kWidth>(id.count(),
                                                       runs::algo::Iota{0, id.count(), id.data()}));
    const runs::algo::Entries entries{keys,
                                      place.data(),
                                      /*payload_base=*/0,
                                      /*value=*/nullptr,
                                      /*has_values=*/false,
                                      keys.uniform() ? nullptr : id.data(),
                                      keys.count,
                                      heads};
    BRECCIA_TAKE(*arrays, runs::algo::gather_run(x_, entries, /*descriptors=*/nullptr));
    return Status::OK();
  }

  X& x_;
  const FileBlocks& blocks_;
  exec::HostVector<sst::algo::Answers> answers_;
  exec::Array<std::uint32_t> faults_;
  sst::algo::Columns columns_;
};

}  // namespace algo

/// Columns of a run in one block of memory, which is large enough for huge pages.
struct RunBlock {
  static constexpr std::uint64_t kLineWords = 16;  // of a device; columns begin with one
  exec::Array<std::uint64_t> words;
  runs::RunRef ref;

  template <class X>
  static Result<RunBlock> make(X& x, const runs::algo::RunArrays& arrays) {
    BRECCIA_ASSERT(!arrays.has_values);
    RunBlock block;
    block.ref = arrays.ref();
    const std::array<std::pair<const exec::Array<std::uint64_t>*, const std::uint64_t**>, 5> moved{
        {{&arrays.fence, &block.ref.fence},
         {&arrays.head, &block.ref.keys.head},
         {&arrays.meta, &block.ref.keys.meta},
         {&arrays.tail, &block.ref.keys.tail},
         {&arrays.payload, &block.ref.payload}}};
    std::uint64_t words = 0;
    for (const auto& [from, to] : moved) words += base::round_up(from->count(), kLineWords);
    BRECCIA_TAKE(block.words, exec::make_array<std::uint64_t>(x, words));
    std::uint64_t* at = block.words.data();
    const exec::Finish finish(x);
    for (const auto& [from, to] : moved) {
      BRECCIA_TRY(x.copy(at, from->data(), from->count()));
      *to = at;
      at += base::round_up(from->count(), kLineWords);
    }
    BRECCIA_TRY(x.finish());
    return Result<RunBlock>(std::move(block));
  }
};

/// Keys of a piece in a tenant's pool: a run whose payloads are places.
class PoolPiece final : public Piece {
 public:
  PoolPiece(exec::TenantPtr tenant, RunBlock run, std::string first, std::string last)
      : tenant_(std::move(tenant)),
        run_(std::move(run)),
        first_(std::move(first)),
        last_(std::move(last)) {}

  [[nodiscard]] std::uint64_t count() const override { return run_.ref.keys.count; }
  [[nodiscard]] std::uint64_t memory_bytes() const override { return run_.words.bytes(); }
  [[nodiscard]] const std::string& first_key() const override { return first_; }
  [[nodiscard]] const std::string& last_key() const override { return last_; }
  [[nodiscard]] const runs::RunRef& ref() const { return run_.ref; }

 private:
  const exec::TenantPtr tenant_;  // first: the block gives its memory back to it
  const RunBlock run_;
  const std::string first_;
  const std::string last_;
};

/// Keys in a tenant's pool.
struct PoolKeys {
  exec::Array<std::uint64_t> head, meta, tail;
  std::uint32_t uniform_bytes = 0;

  template <class X>
  static Result<PoolKeys> make(X& x, const record::KeyColumnsRef& host) {
    PoolKeys keys;
    keys.uniform_bytes = host.uniform_bytes;
    BRECCIA_TAKE(keys.head, exec::copy_in(x, host.head, host.count));
    BRECCIA_TAKE(keys.meta, exec::copy_in(x, host.meta, host.uniform() ? 0 : host.count));
    BRECCIA_TAKE(keys.tail, exec::copy_in(x, host.tail, host.tail_count));
    return Result<PoolKeys>(std::move(keys));
  }
  [[nodiscard]] record::KeyColumnsRef ref() const {
    return {head.data(), meta.data(), tail.data(), head.count(), tail.count(), uniform_bytes};
  }
};

/// Levels in a tenant's pool.
class PoolLevels final : public LevelTable {
 public:
  explicit PoolLevels(exec::TenantPtr tenant) : tenant_(std::move(tenant)) {}

  template <class X>
  Status build(X& x, exec::HostMemory& memory, std::span<const Level> levels) {
    std::vector<runs::RunRef> runs;
    std::vector<std::uint64_t> ends;
    record::KeyColumns first(memory);
    record::KeyColumns last(memory);
    for (const Level& level : levels) {
      for (const LevelPart& part : level) {
        const auto* const piece = static_cast<const PoolPiece*>(part.piece.get());
        runs.push_back(piece == nullptr ? runs::RunRef() : piece->ref());
        if (piece != nullptr) pieces_.push_back(part.piece);
        if (!first.append(part.first_key.data(), part.first_key.size()) ||
            !last.append(part.last_key.data(), part.last_key.size())) {
          return Status::MemoryLimit("memory for a table of files is exhausted");
        }
      }
      ends.push_back(runs.size());
    }
    BRECCIA_TAKE(run_, exec::copy_in(x, runs.data(), runs.size()));
    BRECCIA_TAKE(level_end_, exec::copy_in(x, ends.data(), ends.size()));
    BRECCIA_TAKE(first_, PoolKeys::make(x, first.ref()));
    BRECCIA_TAKE(last_, PoolKeys::make(x, last.ref()));
    return Status::OK();
  }

  [[nodiscard]] algo::LevelsRef ref() const {
    return {run_.data(), level_end_.data(), level_end_.count(), first_.ref(), last_.ref()};
  }

 private:
  const exec::TenantPtr tenant_;  // first: the arrays give their memory back to it
  std::vector<PiecePtr> pieces_;
  exec::Array<runs::RunRef> run_;
  exec::Array<std::uint64_t> level_end_;
  PoolKeys first_, last_;
};

/// A search on an executor that is leased for it. Whoever waits for it may have begun others since:
/// a GPU need not be the thread's current one for that.
template <class Tenant>
class SearchOn final : public Search {
  using Lease = std::remove_cvref_t<decltype(std::declval<Tenant&>().executor().take())>;
  using X = std::remove_cvref_t<decltype(*std::declval<Lease&>())>;
  using Which = std::remove_cvref_t<
      decltype(std::declval<X&>().import(std::declval<const std::uint32_t*>(), 0).take())>;

 public:
  explicit SearchOn(Lease x) : x_(std::move(x)) {}
  ~SearchOn() override { (void)finish(); }
  SearchOn(const SearchOn&) = delete;
  SearchOn& operator=(const SearchOn&) = delete;

  Status find(const algo::LevelsRef& levels, const record::KeyColumnsRef& keys,
              const std::uint32_t* which, std::uint64_t n, const FoundRef& found) {
    X& x = **x_;
    BRECCIA_TRY(prepare(keys, found, n));
    BRECCIA_TRY(take(x.import(which, which == nullptr ? 0 : n), &which_));
    BRECCIA_TRY(x.template launch<runs::algo::kWidth>(
        n, algo::Find{levels,
                      {keys_->ref()},
                      which == nullptr ? nullptr : which_->data(),
                      n,
                      {place_->data(), part_->data()}}));
    return send();
  }

  Status seek(const algo::LevelsRef& levels, const record::KeyColumnsRef& keys,
              const FoundRef& found) {
    BRECCIA_TRY(prepare(keys, found, keys.count * levels.levels));
    BRECCIA_TRY((*x_)->template launch<runs::algo::kWidth>(
        keys.count, algo::Seek{levels, {keys_->ref()}, {place_->data(), part_->data()}}));
    return send();
  }

  Status finish() override {
    if (!x_.has_value()) return Status::OK();
    const Status status = (*x_)->finish();
    // Whoever waits for an executor need not wait for the owner.
    part_.reset();
    place_.reset();
    which_.reset();
    keys_.reset();
    x_.reset();
    return base::copy_of(status);
  }

 private:
  Status prepare(const record::KeyColumnsRef& keys, const FoundRef& found, std::uint64_t answers) {
    X& x = **x_;
    const bool in_place = runs::algo::reads_queries_once(keys);
    BRECCIA_TRY(take(runs::algo::ImportedKeys<X>::make(x, keys, in_place), &keys_));
    BRECCIA_TRY(take(runs::algo::Outlet<X>::make(x, found.place, answers), &place_));
    return take(runs::algo::Outlet<X, std::uint32_t>::make(x, found.part, answers), &part_);
  }
  Status send() {
    BRECCIA_TRY(place_->send(**x_));
    return part_->send(**x_);
  }
  template <class T>
  static Status take(Result<T> from, std::optional<T>* to) {
    if (!from.ok()) return from.status();
    to->emplace(from.take());
    return Status::OK();
  }

  std::optional<Lease> x_;  // first: what follows gives its memory back to it
  std::optional<runs::algo::ImportedKeys<X>> keys_;
  std::optional<Which> which_;
  std::optional<runs::algo::Outlet<X>> place_;
  std::optional<runs::algo::Outlet<X, std::uint32_t>> part_;
};

/// The verbs for a tenant's type: `tenant->executor()` leases an executor for one call.
template <class Tenant>
class BackendOn final : public Backend {
 public:
  explicit BackendOn(const std::shared_ptr<Tenant>& tenant) : Backend(tenant), own_(tenant) {}

  Result<PiecePtr> make_piece(const FileBlocks& blocks) override {
    BRECCIA_TAKE(auto x, own_->executor());
    runs::algo::RunArrays arrays;
    std::string first;
    std::string last;
    algo::PieceBuilder builder(*x, device().host_memory(), blocks);
    const exec::Finish finish(*x);  // an exception must not give back what is still worked on
    BRECCIA_TRY(builder.run(&arrays, &first, &last));
    BRECCIA_TAKE(RunBlock run, RunBlock::make(*x, arrays));
    return PiecePtr(
        std::make_shared<PoolPiece>(own_, std::move(run), std::move(first), std::move(last)));
  }

  Result<LevelTablePtr> make_table(std::span<const Level> levels) override {
    BRECCIA_TAKE(auto x, own_->executor());
    auto table = std::make_shared<PoolLevels>(own_);
    const exec::Finish finish(*x);
    BRECCIA_TRY(table->build(*x, device().host_memory(), levels));
    return LevelTablePtr(std::move(table));
  }

  Result<SearchPtr> find(const LevelTable& table, const record::KeyColumnsRef& keys,
                         const std::uint32_t* which, std::uint64_t n,
                         const FoundRef& found) override {
    BRECCIA_ASSERT(keys.skip == 0 && (which != nullptr || n == keys.count));
    BRECCIA_TAKE(auto x, own_->executor());
    auto search = std::make_unique<SearchOn<Tenant>>(std::move(x));
    if (n > 0) BRECCIA_TRY(search->find(ref_of(table), keys, which, n, found));
    return begun(std::move(search));
  }

  Result<SearchPtr> seek(const LevelTable& table, const record::KeyColumnsRef& keys,
                         const FoundRef& found) override {
    BRECCIA_ASSERT(keys.skip == 0);
    BRECCIA_TAKE(auto x, own_->executor());
    auto search = std::make_unique<SearchOn<Tenant>>(std::move(x));
    const algo::LevelsRef levels = ref_of(table);
    if (keys.count * levels.levels > 0) BRECCIA_TRY(search->seek(levels, keys, found));
    return begun(std::move(search));
  }

  std::uint64_t find_one(const LevelTable& table, const record::KeyColumnsRef& key,
                         std::uint32_t* part) override {
    BRECCIA_ASSERT(device().host_reads() && key.count == 1 && key.skip == 0);
    const algo::Find find{ref_of(table), {key}, nullptr, 1, {}};
    const algo::Answer answer = find.look_up(exec::HostGroup<1>(), 0)[0];
    *part = answer.part;
    return answer.place;
  }

 private:
  Result<SearchPtr> begun(std::unique_ptr<SearchOn<Tenant>> search) {
    // Others do at once what they are told, and have one executor for all.
    if (device().kind() != exec::DeviceKind::kCuda) BRECCIA_TRY(search->finish());
    return SearchPtr(std::move(search));
  }
  static algo::LevelsRef ref_of(const LevelTable& table) {
    return static_cast<const PoolLevels&>(table).ref();
  }

  const std::shared_ptr<Tenant> own_;
};

}  // namespace breccia::residency
