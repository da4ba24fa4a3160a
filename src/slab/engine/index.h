#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "slab/engine/entries.h"
#include "slab/engine/table_on.h"

namespace breccia::slab {

/// What some numbers are to have: this entry first in its list, or none.
/// Shape   columns of one length; entry null: it is to be taken out. Of several for one number any
///         comes last, and meets the others.
struct Lists {
  std::vector<std::uint64_t> number;
  std::vector<Entry*> entry;

  [[nodiscard]] std::uint64_t count() const { return number.size(); }
  void clear() {
    number.clear();
    entry.clear();
  }
  void add(std::uint64_t one_number, Entry* one_entry) {
    number.push_back(one_number);
    entry.push_back(one_entry);
  }
};

/// Which entries the keys of a number have, in a table on a device or on the host.
/// Threads find() by any number; the rest by one, with nobody else in a call.
class Index {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  static Result<std::unique_ptr<Index>> make(const TableOn::Ground& ground);

  /// entry[n] of number[n], the first of a list; null: there is none.
  /// Errors  MemoryLimit; IOError: the device, and the index is of no use any more.
  [[nodiscard]] Status find(std::span<const std::uint64_t> number, Entry** entry) const;
  /// Does all of it, or nothing. before[n]: what each number had; `sequence`: of what comes in.
  /// Errors  MemoryLimit: nothing was done. All else, and what it throws: what was done is not
  ///         known, and the index is of no use any more.
  [[nodiscard]] Status change(const Lists& changes, std::uint64_t sequence,
                              std::vector<Entry*>* before);

  [[nodiscard]] const TableOn& table() const { return table_; }

 private:
  explicit Index(TableOn table) : table_(std::move(table)) {}
  Status undo(const Lists& changes, std::uint64_t sequence, std::span<const Entry* const> before,
              std::span<const hash::Code> code);

  const TableOn table_;
};

}  // namespace breccia::slab
