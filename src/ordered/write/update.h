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

/// Writes whose operands are replaced by what they leave their keys with, until its end.
/// Owner   the writes live longer.
class UpdatedWrites {
 public:
  using Numbers = exec::HostVector<std::uint64_t>;
  using Flags = exec::HostVector<std::uint8_t>;

  /// `results`: what each operation leaves its key with. `is_operand`: room for as many flags.
  UpdatedWrites(batch::Writes* writes, std::unique_ptr<Numbers> results,
                std::unique_ptr<Flags> is_operand);
  UpdatedWrites(UpdatedWrites&&) = default;
  UpdatedWrites& operator=(UpdatedWrites&&) = delete;
  ~UpdatedWrites();

 private:
  batch::Writes* writes_;
  std::unique_ptr<Numbers> operands_;  // null: moved from
  std::unique_ptr<Flags> is_operand_;
  std::uint64_t merges_;
};

/// The updates of one family's writes on their way: room for the work, and what was read before.
/// Owner   the writes live longer.
struct UpdateWork {
  UpdateWork(batch::Writes* of, exec::HostMemory& memory)
      : writes(of),
        results(std::make_unique<UpdatedWrites::Numbers>(memory)),
        is_operand(std::make_unique<UpdatedWrites::Flags>(exec::plain_host_memory())),
        value(memory),
        exists(memory),
        found(memory),
        newer_value(memory),
        is_known(exec::plain_host_memory()),
        order(exec::plain_host_memory()) {}

  /// True if an earlier operation is known to be on the same key: what the key has before the batch
  /// is of no interest here.
  [[nodiscard]] bool is_repeat(std::uint64_t i) const {
    return order.count() > 0 && order.before(i) != batch::KeyOrder::kNone;
  }

  batch::Writes* writes;
  std::unique_ptr<UpdatedWrites::Numbers> results;
  std::unique_ptr<UpdatedWrites::Flags> is_operand;
  /// What each operation's key has before the batch; of repeats anything.
  exec::HostVector<std::uint64_t> value;
  exec::HostVector<std::uint8_t> exists;
  /// What a search finds, and which of that the tree has told.
  exec::HostVector<std::uint64_t> found;
  exec::HostVector<std::uint64_t> newer_value;
  exec::HostVector<std::uint8_t> is_known;
  /// Of the operations, where the tree may have many of their keys; else empty.
  batch::KeyOrder order;
  /// As of when all this is: the family's versions before a position, above a state of the tree.
  struct Seen {
    std::uint64_t end = 0;
    std::uint64_t version = 0;
    std::shared_ptr<const rocksdb::Snapshot> snapshot;
  };
  Seen seen;
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
  Result<UpdatedWrites> finish(const Pin& pin, const FamilyView& family, UpdateWork* work) const;

 private:
  /// Where operations find what their keys have: versions before `bound`, and the values that a
  /// search has found.
  struct Base {
    const View& view;
    const FamilyView& family;
    std::uint64_t bound;
    std::uint64_t* found_value;
  };

  Status look(const Pin& pin, const FamilyView& family, UpdateWork* work) const;
  Status look_at_newer(const Pin& pin, const FamilyView& family, UpdateWork* work) const;
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
