#pragma once

#include <breccia/family.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ordered/read/history.h"
#include "ordered/read/run_search.h"
#include "ordered/state.h"
#include "runs/refs.h"

namespace breccia::ordered {

/// What a transaction depends on: keys and ranges, each with the position from which on nobody may
/// have written to it. Range deletions are writes of all keys that they cover.
struct ReadSet {
  /// Keys of one family, each once.
  struct Keys {
    FamilyId family;
    record::KeyColumnsRef keys;
    const std::uint64_t* since;  // of each key; null: since_all of all
    std::uint64_t since_all;

    [[nodiscard]] std::uint64_t since_at(std::uint64_t i) const {
      return since == nullptr ? since_all : since[i];
    }
  };
  /// The keys from `begin` to below `end`, or to the last one.
  struct Range {
    FamilyId family;
    std::string begin;
    std::string end;
    bool is_open;  // there is no end
    std::uint64_t since;
  };

  std::vector<Keys> keys;
  std::vector<Range> ranges;

  [[nodiscard]] bool empty() const { return keys.empty() && ranges.empty(); }
};

/// Finds out whether anything of a read set was written since.
/// Threads any number; holds no state of its own.
class Validator {
 public:
  Validator(Backends* backends, const RunSearch* search, const History* history)
      : backends_(backends), search_(search), history_(history) {}

  /// Errors  Busy: something was written; TryAgain: flushes took the versions out of memory that
  ///         would tell (History); InvalidArgument: a family is not there.
  /// Cost    per family and view one search on the backend if it has `device_min` keys, else as
  ///         ordered::find_one for each key; per range a walk over what lies in it in memory, in
  ///         runs that are newer than its position.
  [[nodiscard]] Status validate(const Pin& pin, const ReadSet& reads,
                                std::uint64_t device_min) const;

 private:
  [[nodiscard]] bool changed(const View& view, std::uint64_t bound, const ReadSet& reads,
                             std::uint64_t device_min) const;
  [[nodiscard]] bool keys_changed(const View& view, const FamilyView& family, std::uint64_t bound,
                                  const ReadSet::Keys& keys, std::uint64_t device_min) const;

  Backends* backends_;
  const RunSearch* search_;
  const History* history_;
};

}  // namespace breccia::ordered
