#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/section_mutex.h"
#include "exec/executor.h"
#include "exec/in_flight.h"
#include "hash/algo/keys.cuh"
#include "hash/call.h"
#include "hash/ids/cache_search.h"
#include "hash/ids/ids.h"
#include "hash/ids/missing_list.h"
#include "hash/ids/row_cache.h"
#include "hash/pool_table.h"

namespace breccia::hash {

/// Looks up the rows that a cache has, and waits for nothing: what the caller's stream is given
/// next finds them there. The others are not there.
template <class Tenant>
class BegunLookup final : public RowLookup {
 public:
  /// `missing` may list none (its missing_count null).
  BegunLookup(Tenant& tenant, PoolCache& cache, exec::InFlight& in_flight, const RowsOutRef& out,
              const MissingListRef& missing)
      : tenant_(tenant), cache_(cache), in_flight_(in_flight), out_(out), missing_(missing) {}

  Status look(Table& table) override {
    auto& own = static_cast<PoolTable&>(table);
    BRECCIA_TRY(own.fault());
    BRECCIA_TAKE(auto x, tenant_.executor());
    BRECCIA_TAKE(auto search, CacheSearch::make(*x, out_));
    std::optional<MissingList> list;
    if (missing_.missing_count != nullptr) {
      BRECCIA_TAKE(list, MissingList::make(*x, missing_.count));
    }
    if constexpr (kIsAsync) {
      using Work = WorkOf<typename Tenant::Parked>;
      auto work = std::make_shared<Work>(cache_, std::move(search), std::move(list));
      exec::InFlight::Place place{work};
      return begin(*x, own, work->search, work->list, [&] {
        work->executor.emplace(x.park());
        in_flight_.add(std::move(place));
        return Status::OK();
      });
    } else {
      return begin(*x, own, search, list, [&] {
        BRECCIA_TRY(x->finish());
        note(cache_, x->words());
        return Status::OK();
      });
    }
  }

  Status bring(const Gather& /*gather*/) override { return Status::OK(); }

 private:
  using X = std::decay_t<decltype(*std::declval<Tenant&>().executor().take())>;
  static constexpr bool kIsAsync = X::kIsAsync;

  /// What the lookup counted, as the host has it.
  static void note(PoolCache& cache, const std::uint64_t* words) {
    const auto [missing, asked] = std::pair(words[0], words[1]);
    BRECCIA_ASSERT(missing <= asked);
    if (asked > 0) cache.note(asked, asked - missing);
  }

  /// What was launched, and what it uses. The cache waits for it before it ends.
  template <class Parked>
  struct WorkOf final : exec::InFlight::Work {
    WorkOf(PoolCache& cache, CacheSearch some_search, std::optional<MissingList> some_list)
        : cache(cache), search(std::move(some_search)), list(std::move(some_list)) {}

    bool is_done() override {
      // Who waits for it has the lock: it is not done then.
      const std::unique_lock lock(mutex, std::try_to_lock);
      return lock.owns_lock() && (is_finished || executor->is_done());
    }
    void finish() override {
      const std::lock_guard lock(mutex);
      if (is_finished) return;
      // A device that is lost says so to the caller's stream, too.
      const bool is_answered = executor->finish().ok();
      is_finished = true;
      if (is_answered) note(cache, executor->words());
    }

    PoolCache& cache;
    const CacheSearch search;
    const std::optional<MissingList> list;
    std::mutex mutex;  // guards what follows
    std::optional<Parked> executor;
    bool is_finished = false;
  };

  /// Launches all of it; `end` sees to its end before others may change what it looks at.
  template <class End>
  Status begin(X& x, PoolTable& table, const CacheSearch& search,
               const std::optional<MissingList>& list, const End& end) {
    exec::Finish<X> finish(x);
    BRECCIA_TRY(x.enter(out_.ids.stream));
    BRECCIA_TRY(search.launch_numbers(x));
    const std::shared_lock lock(cache_.mutex());
    BRECCIA_TRY(Call(x, table, search.requests(), algo::WordKeys()).begin_find([&] {
      BRECCIA_TRY(search.launch_rows(x, cache_.ref()));
      BRECCIA_TRY(x.copy_out(x.words(), search.missing_count(), 1));
      BRECCIA_TRY(x.copy_out(x.words() + 1, search.asked(), 1));
      if (list.has_value()) BRECCIA_TRY(list->launch(x, missing_, search.asked()));
      BRECCIA_TRY(x.leave());
      return end();
    }));
    finish.dismiss();
    return Status::OK();
  }

  Tenant& tenant_;
  PoolCache& cache_;
  exec::InFlight& in_flight_;
  const RowsOutRef out_;
  const MissingListRef missing_;
};

}  // namespace breccia::hash
