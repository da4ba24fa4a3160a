#pragma once

#include <breccia/status.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/random.h"
#include "memory/allocation_faults.h"
#include "support/seeds.h"

/// A piece of work in a process without memory: allocation number 1, 2, 3, ... of it fails, on
/// whichever thread it comes, alone or with those behind it.

namespace breccia::testing {

/// A call of what is tested. It may fail, but nothing comes out of it.
template <class Call>
Status tried(const Call& call) {
  const ExposedCall exposed;
  return call();
}

/// One run of `work` in a session that is made of `arguments`; allocations from the `first`-th on
/// fail, `count` of them. How many it makes.
template <class Session, class Work, class... Arguments>
std::uint64_t run_once(const Work& work, std::uint64_t first, std::uint64_t count,
                       const Arguments&... arguments) {
  const SparedThread spared;
  Session session(arguments...);
  work(&session, [&] { arm_allocations(first, count); });
  const std::uint64_t made = disarm_allocations();
  session.check();
  return made;
}

/// Fails each allocation of `work` in turn, or a share of them.
/// Shape   work(Session*, arm): what it does before it calls arm() does not fail;
///         Session::check(): looks, without failures, whether all is as it must be.
template <class Session, class Work, class... Arguments>
void fail_each(const Work& work, const Arguments&... arguments) {
  if (!can_tell_rocksdb()) GTEST_SKIP() << "RocksDB is part of this program";
  const std::uint64_t all = run_once<Session>(work, 0, 0, arguments...);
  ::testing::Test::RecordProperty("allocations", static_cast<int>(all));
  const std::uint64_t share = share_of(all);
  const std::uint64_t stride = (all + share - 1) / share;
  std::uint64_t first = 1 + seeds_to_run(1).front() % stride;
  std::uint64_t last = all;
  if (const auto one = only_seed()) first = last = *one;
  for (std::uint64_t k = first; k <= last; k += stride) {
    SCOPED_TRACE(replay_command(k));
    constexpr std::uint64_t kCounts[] = {1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 5, 5, 10, 25};
    base::Random random(k);
    (void)run_once<Session>(work, k, kCounts[random.below(std::size(kCounts))], arguments...);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace breccia::testing
