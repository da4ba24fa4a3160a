#pragma once

#include <rocksdb/merge_operator.h>

#include <optional>
#include <span>
#include <vector>

#include "batch/key_order.h"
#include "batch/key_parts.h"
#include "batch/requests.h"
#include "ordered/read/run_search.h"
#include "ordered/state.h"

namespace breccia::ordered {

/// Writes whose operands are puts of what they leave their keys with, until its end.
/// Owner   the writes live longer.
/// Threads one owner.
class UpdatedWrites {
 public:
  using Numbers = exec::HostVector<std::uint64_t>;

  /// Operations become puts, of numbers that are still to come.
  /// Shape   writes->only_numbers().
  /// Errors  MemoryLimit: nothing changed.
  static Result<std::unique_ptr<UpdatedWrites>> make(batch::Writes* writes);
  ~UpdatedWrites();
  UpdatedWrites(const UpdatedWrites&) = delete;
  UpdatedWrites& operator=(const UpdatedWrites&) = delete;

  /// Operations that were merges.
  [[nodiscard]] std::uint64_t merges() const { return merges_; }
  /// Takes what each operation leaves its key with.
  void take(std::unique_ptr<Numbers> results);
  /// Brings that into the records, which are for the log; what else is made of the writes does not
  /// look at those. Again, it changes nothing.
  void write_records();

 private:
  explicit UpdatedWrites(batch::Writes* writes)
      : writes_(writes), is_operand_(exec::plain_host_memory()), merges_(writes->merges()) {}

  batch::Writes* const writes_;
  std::unique_ptr<Numbers> operands_;  // null: nothing was taken yet
  exec::HostVector<std::uint8_t> is_operand_;
  const std::uint64_t merges_;
  bool is_written_ = false;
};

/// The updates of one family's writes on their way: room for the work, and what was read before.
/// Owner   the writes live longer.
struct UpdateWork {
  UpdateWork(batch::Writes* of, exec::HostMemory& memory)
      : writes(of),
        results(std::make_unique<UpdatedWrites::Numbers>(memory)),
        operation(memory),
        value(memory),
        exists(memory),
        found(memory),
        is_known(exec::plain_host_memory()),
        order(exec::plain_host_memory()) {}

  /// Of all columns, for n operations. False: out of memory.
  [[nodiscard]] bool make_room(std::uint64_t n);
  /// True if an earlier operation is known to be on the same key: what the key has before the batch
  /// is of no interest here.
  [[nodiscard]] bool is_repeat(std::uint64_t i) const {
    return order.count() > 0 && order.before(i) != batch::KeyOrder::kNone;
  }

  batch::Writes* writes;
  std::unique_ptr<UpdatedWrites> puts;
  std::unique_ptr<UpdatedWrites::Numbers> results;
  /// What operations were before they became puts.
  exec::HostVector<std::uint64_t> operation;
  /// What each operation's key has before the batch; of repeats anything.
  exec::HostVector<std::uint64_t> value;
  exec::HostVector<std::uint8_t> exists;
  /// What a search finds, and which of that the tree has told.
  exec::HostVector<std::uint64_t> found;
  exec::HostVector<std::uint8_t> is_known;
  /// Of the operations, where the tree may have many of their keys; else empty.
  batch::KeyOrder order;
  /// As of when all this is: the family's versions before a position, above a state of the tree.
  struct Seen {
    std::uint64_t end = 0;
    std::uint64_t version = 0;
    std::shared_ptr<const rocksdb::Snapshot> snapshot;
    std::uint64_t tree_changes = 0;
  };
  Seen seen;
  /// The operations where they are worked out, if they could be brought there. Last: they are read
  /// from the columns.
  std::shared_ptr<runs::Backend> backend;
  runs::UpdatePtr begun;
};

/// Works the updates of a batch out at once: each merge operand becomes a put of what it leaves its
/// key with, so that no reader has to combine it later.
///
/// That is done for operators on 8-byte values whose every operand and put in the batch has 8
/// bytes; other operands stay what they are, and reads combine them (versions.h).
///
/// In two steps: prepare() looks beside other batches for what keys have; finish() looks while
/// nobody else may write, and only at what was written since, unless a flush or a range deletion
/// has changed what was seen.
///
/// Source  [hrocks] section 6.3. Deviation: what keys have is looked for before the batch's turn,
///         in the tree by CPU threads, each key once; the operations of each key are applied on the
///         backend.
/// Threads any number, of different batches; holds no state of its own.
class Updater {
 public:
  Updater(Backends* backends, const RunSearch* search) : backends_(backends), search_(search) {}

  /// True if the updates of `writes` can be worked out at once.
  static bool can_update(const FamilyView& family, const batch::Writes& writes);

  /// Makes room for the updates of `writes` and looks for what their keys have.
  /// Errors  MemoryLimit; NotSupported: a key has no number of 8 bytes.
  Result<std::unique_ptr<UpdateWork>> prepare(const Pin& pin, const FamilyView& family,
                                              batch::Writes* writes) const;

  /// Replaces the operands by what `pin` and the batch itself make of them. Nothing may come
  /// between the pin and the batch.
  /// Errors  MemoryLimit, NotSupported, or those of the backend: nothing changed, and the operands
  ///         may be written as they are.
  Result<std::unique_ptr<UpdatedWrites>> finish(const Pin& pin, const FamilyView& family,
                                                UpdateWork* work) const;

 private:
  /// Where operations find what their keys have: versions before `bound`.
  struct Base {
    const View& view;
    const FamilyView& family;
    std::uint64_t bound;
  };

  Status look(const Pin& pin, const FamilyView& family, std::uint64_t bound,
              UpdateWork* work) const;
  [[nodiscard]] bool finish_ahead(const FamilyView& family, UpdateWork* work) const;
  static runs::UpdatesRef updates_of(const FamilyView& family, const UpdateWork& work);
  static bool holds_seen(const Pin& pin, const FamilyView& family, const UpdateWork& work);
  static bool take_found(const Base& base, std::uint64_t i, std::uint64_t found, UpdateWork* work);
  static bool take_read(const Base& base, std::uint64_t i, UpdateWork* work);
  static bool take_value(const Slice& value, std::uint64_t i, UpdateWork* work);
  static void read_tree(const Base& base, UpdateWork* work);
  static void find_repeats(UpdateWork* work);
  static std::vector<std::vector<std::uint32_t>> missing_in_memory(const tree::FamilyRef& in_tree,
                                                                   UpdateWork* work);

  Backends* backends_;
  const RunSearch* search_;
};

/// The operator's kind if it is one on 8-byte values that backends know: RocksDB's uint64add, max
/// and put, and breccia's (breccia/merge_operators.h). Those are told by their classes: an operator
/// of the user's may have the name of one, and a class of its own.
[[nodiscard]] std::optional<runs::NumberOp> number_op(const rocksdb::MergeOperator* merge_operator);

}  // namespace breccia::ordered
