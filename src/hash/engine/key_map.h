#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "hash/engine/common.h"
#include "hash/engine/index.h"
#include "hash/engine/numbering.h"
#include "hash/engine/shared_numbers.h"
#include "record/record.h"
#include "wal/segment_table.h"

namespace breccia::hash {

/// The newest record of each key, as a payload: its position in the log, and what it does.
///
/// It follows from the log alone: whoever loses it (a device that fails) fills it again from there.
/// Records may be taken in in any order, as long as deletions come behind all that they delete.
///
/// Threads find() and newest() by any number; the rest by one, with nobody else in a call.
class KeyMap {
 public:
  /// Errors  as Index::make.
  static Result<std::unique_ptr<KeyMap>> make(std::shared_ptr<Backend> backend, std::uint64_t keys,
                                              const Numbering& numbering);

  /// payload[keys.count] of keys: 0 or a deletion: there is none. It may be that of another key
  /// with the same number: whoever looks at the record compares.
  /// Errors  as Index::find.
  [[nodiscard]] Status find(const record::KeyColumnsRef& keys, std::uint64_t* payload) const;
  /// The same for the keys of records in `table`.
  [[nodiscard]] Status newest(const Entries& records, const wal::SegmentTable& table,
                              std::uint64_t* payload) const;

  /// Whether all keys that were ever taken in have 8 bytes, so each has a number of its own.
  [[nodiscard]] bool has_only_words() const {
    return common_.only_words && numbering_.tells_words_apart();
  }
  /// The header that all puts that were ever taken in share.
  [[nodiscard]] std::optional<record::RecordHeader> common_put() const {
    return common_.put.shared();
  }
  /// Lets a lookup of rows, of the index's backend, look here.
  /// Shape   has_only_words().
  /// Errors  as Index::find.
  [[nodiscard]] Status find(RowLookup* lookup) const {
    BRECCIA_ASSERT(has_only_words());
    return index_->find(lookup);
  }

  /// Takes records in, which lie in `log`, as does all that was taken in before, and have `common`.
  /// Errors  as Index::raise: the map is of no use any more, until it was filled again.
  [[nodiscard]] Status take_in(const Entries& entries, const Common& common,
                               const wal::SegmentTable::Places& log);
  /// take_in() of records that the index's backend has made, the first of which lies at a position.
  /// Shape   has_only_words().
  [[nodiscard]] Status take_in(RowRecords* records, std::uint64_t position) {
    BRECCIA_ASSERT(has_only_words());
    common_.add(records->header());
    // What is newer than all that there is need not come in to take it out.
    if (records->deletes()) return index_->drop(records);
    return index_->raise(records, position | static_cast<std::uint64_t>(record::Op::kPut));
  }

  [[nodiscard]] const Numbering& numbering() const { return numbering_; }
  [[nodiscard]] const Index& index() const { return *index_; }
  /// Keys that are there, to within the few that share a number.
  [[nodiscard]] std::uint64_t keys() const { return index_->count(); }

 private:
  KeyMap(std::unique_ptr<Index> index, const Numbering& numbering)
      : index_(std::move(index)), numbering_(numbering) {}
  void note_shared(const Entries& entries, const std::vector<std::uint64_t>& before,
                   const wal::SegmentTable::Places& log);
  Status forget_deletions(const Entries& entries, const wal::SegmentTable::Places& log);

  const std::unique_ptr<Index> index_;
  const Numbering numbering_;
  SharedNumbers shared_;
  Common common_;  // of all records that were taken in
};

}  // namespace breccia::hash
