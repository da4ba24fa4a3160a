#pragma once

#include <cstdint>
#include <vector>

#include "record/key_columns.h"

namespace breccia::batch {

/// Of requests of one kind and family, in arrival order: not 0 where one is chosen.
using Flags = std::vector<std::uint8_t>;

/// Which writes of a family are chosen.
struct ChosenWrites {
  Flags points;
  Flags range_deletes;
};

/// Which requests of a batch are chosen, as Requests::append and hand_over ask for: the lists are
/// those of the batch's parts, as they stood when Requests::none_chosen made the selection
/// (Requests::lay_out changes the order of the writes').
struct Selection {
  /// Those that are not chosen here.
  [[nodiscard]] Selection others() const;

  std::vector<ChosenWrites> writes;
  std::vector<Flags> reads;
  std::vector<Flags> ranges;
};

/// Appends the chosen ones of `keys` (null: all). False: out of memory; some may then be there.
[[nodiscard]] bool append_keys(const record::KeyColumnsRef& keys, const Flags* chosen,
                               record::KeyColumns* out);

}  // namespace breccia::batch
