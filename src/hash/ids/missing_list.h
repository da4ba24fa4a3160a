#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "hash/algo/missing.cuh"
#include "hash/ids/ids.h"

namespace breccia::hash {

/// What lists requests that found nothing. It outlasts what it launches.
class MissingList {
 public:
  /// Of so many requests.
  /// Errors  MemoryLimit; IOError: the device.
  template <class X>
  static Result<MissingList> make(X& x, std::uint64_t count) {
    MissingList list;
    BRECCIA_TAKE(list.number_, exec::make_array<std::uint32_t>(x, count));
    BRECCIA_TAKE(list.flag_, exec::make_array<std::uint8_t>(x, count));
    BRECCIA_TAKE(list.listed_, exec::make_array<std::uint32_t>(x, count));
    BRECCIA_TAKE(list.count_, exec::make_array<std::uint64_t>(x, 1));
    BRECCIA_TRY(x.make_room_to_select(count));
    return Result<MissingList>(std::move(list));
  }

  /// Launches what lists them, behind what says which were found: those of the first *asked, which
  /// is a number of the backend's memory, or, if it is null, of all.
  template <class X>
  Status launch(X& x, const MissingListRef& list, const std::uint64_t* asked) const {
    const std::uint64_t n = list.count;
    BRECCIA_TRY(exec::clear(x, count_.data(), 1));
    if (n > 0) {
      BRECCIA_TRY(x.template launch<32>(
          n, algo::FlagMissing{list.found, number_.data(), flag_.data(), n, asked}));
      BRECCIA_TRY(x.select_here(number_.data(), flag_.data(), n, listed_.data(), count_.data()));
    }
    // What a caller has is no memory of the executor's pool, which is all that it writes.
    return x.template launch<32>(
        std::max<std::uint64_t>(n, 1),
        algo::StoreMissing{listed_.data(), count_.data(), n, list.missing, list.missing_count});
  }

 private:
  exec::Array<std::uint32_t> number_;
  exec::Array<std::uint8_t> flag_;
  exec::Array<std::uint32_t> listed_;
  exec::Array<std::uint64_t> count_;
};

/// Backend::list_missing() on an executor.
template <class X>
Status list_missing_on(X& x, const MissingListRef& list) {
  BRECCIA_TAKE(const MissingList lister, MissingList::make(x, list.count));
  const exec::Finish finish(x);
  BRECCIA_TRY(x.follow(list.stream));
  BRECCIA_TRY(lister.launch(x, list, nullptr));
  return x.finish();
}

}  // namespace breccia::hash
