#pragma once

#include <cstdint>

#include "base/memory.h"
#include "exec/executor.h"
#include "hash/algo/combine.cuh"

namespace breccia::hash {

/// Does `count` requests that gave up, those in `list`, which comes back in another order.
/// `words`: algo::WordsToSort, by W lanes a request. run(list, count): runs the requests in a list,
/// which do not give up.
/// Errors  as run's. MemoryLimit before anything was run: there is no memory for that, and they run
///         as they are, each by itself.
/// Cost    45 bytes of memory a request; a sort and a scan of so many; six launches besides, and
///         a wait for the scan.
template <int W, class X, class Words, class Keys, class Run>
Status combine(X& x, const RequestsRef& requests, std::uint32_t* list, std::uint64_t count,
               const Words& words, const Keys& keys, const Run& run) {
  exec::Array<std::uint64_t> is_last, set, found;
  exec::Array<std::uint32_t> request;
  exec::Array<Code> code;
  const exec::Finish finish(x);
  std::uint64_t sets = 0;
  const auto prepare = [&]() -> Status {
    BRECCIA_TAKE(is_last, exec::make_array<std::uint64_t>(x, count));
    BRECCIA_TAKE(set, exec::make_array<std::uint64_t>(x, count));
    BRECCIA_TAKE(found, exec::make_array<std::uint64_t>(x, count));
    BRECCIA_TAKE(request, exec::make_array<std::uint32_t>(x, count));
    BRECCIA_TAKE(code, exec::make_array<Code>(x, count));
    // What stands in `found` until sets have one.
    std::uint64_t* const word = found.data();
    BRECCIA_TRY(
        x.template launch<W>(count * W, algo::WordsToSort<Words>{requests, list, words, word}));
    BRECCIA_TRY(x.sort_pairs(word, list, count));
    BRECCIA_TRY(x.template launch<32>(
        count, algo::MarkLast<Keys>{requests, keys, list, count, is_last.data()}));
    BRECCIA_TRY(x.exclusive_scan(is_last.data(), set.data(), count, &sets));
    return x.template launch<32>(
        count, algo::PickLeaders{list, is_last.data(), set.data(), count, request.data()});
  };
  const Status prepared = prepare();
  if (prepared.IsMemoryLimit()) return run(list, count);
  BRECCIA_TRY(base::copy_of(prepared));
  const algo::Leaders leaders{request.data(), code.data(), found.data()};
  BRECCIA_TRY(run(request.data(), sets));
  BRECCIA_TRY(x.template launch<32>(sets, algo::KeepAnswers{requests, sets, leaders}));
  return x.template launch<32>(count, algo::AnswerSets{requests, list, set.data(), count, leaders});
}

}  // namespace breccia::hash
