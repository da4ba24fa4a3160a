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
        found(memory),
        value(memory),
        exists(memory),
        order(exec::plain_host_memory()),
        tree_value(exec::plain_host_memory()),
        tree_state(exec::plain_host_memory()) {}

  /// What the tree has of a key.
  enum class Tree : std::uint8_t { kUnknown, kAbsent, kNumber, kOther };

  /// True if an earlier operation is known to be on the same key: what the key has before the batch
  /// is of no interest here.
  [[nodiscard]] bool is_repeat(std::uint64_t i) const {
    return order.count() > 0 && order.before(i) != batch::KeyOrder::kNone;
  }

  batch::Writes* writes;
  std::unique_ptr<UpdatedWrites::Numbers> results;
  std::unique_ptr<UpdatedWrites::Flags> is_operand;
  /// What each operation's key has before the batch; of repeats anything.
  exec::HostVector<std::uint64_t> found;
  exec::HostVector<std::uint64_t> value;
  exec::HostVector<std::uint8_t> exists;
  /// Of the operations, where the tree may have many of their keys; else empty.
  batch::KeyOrder order;
  /// What the tree had in that state of keys that memory did not hold; no state: nothing was read.
  std::optional<tree::TreeState> tree;
  exec::HostVector<std::uint64_t> tree_value;
  exec::HostVector<Tree> tree_state;
};

/// Works the updates of a batch out at once: each merge operand becomes a put of what it leaves its
/// key with, so that no reader has to combine it later.
///
/// That is done for operators on 8-byte values whose every operand and put in the batch has 8
/// bytes; other operands stay what they are, and reads combine them (versions.h).
///
/// In two steps: prepare() reads the tree beside other batches; finish() does the rest while
/// nobody else may write, and reads the tree again only if a flush has changed it.
///
/// Source  [hrocks] section 6.3. Deviation: values from the tree are gathered by CPU threads before
///         the batch's turn, each key once; the operations of each key are applied on the backend.
/// Threads any number, of different batches; holds no state of its own.
class Updater {
 public:
  Updater(Backends* backends, const RunSearch* search) : backends_(backends), search_(search) {}

  /// True if the updates of `writes` can be worked out at once.
  static bool can_update(const FamilyView& family, const batch::Writes& writes);

  /// Makes room for the updates of `writes` and reads what the tree has of their keys.
  /// Errors  MemoryLimit.
  Result<std::unique_ptr<UpdateWork>> prepare(const Pin& pin, const FamilyView& family,
                                              batch::Writes* writes) const;

  /// Replaces the operands by what `pin` and the batch itself make of them. Nothing may come
  /// between the pin and the batch.
  /// Errors  MemoryLimit, NotSupported, or those of the backend: nothing changed, and the operands
  ///         may be written as they are.
  Result<UpdatedWrites> finish(const Pin& pin, const FamilyView& family, UpdateWork* work) const;

 private:
  Status read_bases(const Pin& pin, const FamilyView& family, UpdateWork* work) const;
  void read_tree(const Pin& pin, const FamilyView& family, UpdateWork* work) const;
  static void find_repeats(UpdateWork* work);
  static std::vector<std::vector<std::uint32_t>> missing_in_memory(const tree::FamilyRef& family,
                                                                   UpdateWork* work);
  static void note_tree(std::uint32_t operation, const Status& status, const Slice& value,
                        UpdateWork* work);

  Backends* backends_;
  const RunSearch* search_;
};

/// The operator's kind if it is one on 8-byte values that backends know: RocksDB's uint64add, max
/// and put, and breccia's (breccia/merge_operators.h). Those are told by their classes: an operator
/// of the user's may have the name of one, and a class of its own.
[[nodiscard]] std::optional<runs::NumberOp> number_op(const rocksdb::MergeOperator* merge_operator);

}  // namespace breccia::ordered
