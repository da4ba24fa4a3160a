#include "ordered/write/update.h"

#include <breccia/merge_operators.h>
#include <rocksdb/convenience.h>
#include <tbb/info.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/memory.h"
#include "base/parallel.h"
#include "ordered/read/tree_reads.h"
#include "ordered/read/versions.h"

namespace breccia::ordered {

namespace {

constexpr std::uint64_t kEntriesPerPart = 4096;

/// An operator's class, by the address of its virtual functions. Its name may be anybody's, and
/// RocksDB may have been built without type information.
const void* class_of(const rocksdb::MergeOperator& merge_operator) {
  const void* functions;
  std::memcpy(&functions, static_cast<const void*>(&merge_operator), sizeof functions);
  return functions;
}

struct KnownOperator {
  const void* of_class;
  runs::NumberOp op;
};

/// RocksDB's operators and breccia's.
std::vector<KnownOperator> known_operators() {
  std::vector<KnownOperator> known;
  constexpr std::pair<const char*, runs::NumberOp> kRocksDb[] = {
      {"uint64add", runs::NumberOp::kAdd},
      {"max", runs::NumberOp::kMax},
      {"put", runs::NumberOp::kPut},
      {"put_v1", runs::NumberOp::kPut}};
  for (const auto& [id, op] : kRocksDb) {
    std::shared_ptr<rocksdb::MergeOperator> made;
    const Status status = rocksdb::MergeOperator::CreateFromString({}, id, &made);
    if (status.ok()) known.push_back({class_of(*made), op});
  }
  known.push_back({class_of(*NewInt64AddOperator()), runs::NumberOp::kAdd});
  known.push_back({class_of(*NewBytesMaxOperator()), runs::NumberOp::kMax});
  known.push_back({class_of(*NewBytesMinOperator()), runs::NumberOp::kMin});
  return known;
}

/// Calls work(i) for i in [0, n), shared among threads.
template <class Work>
void for_each(std::uint64_t n, const Work& work) {
  const std::uint64_t parts = (n + kEntriesPerPart - 1) / kEntriesPerPart;
  base::shared_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    const std::uint64_t end = std::min(n, (part + 1) * kEntriesPerPart);
    for (std::uint64_t i = part * kEntriesPerPart; i < end; ++i) work(i);
  });
}

/// for_each() that cannot fail: what TBB has no memory to share, the caller does alone.
/// Shape   work(i) may be called again, and then changes nothing.
template <class Work>
void for_each_surely(std::uint64_t n, const Work& work) {
  const Status shared = base::or_memory_limit([&] {
    for_each(n, work);
    return Status::OK();
  });
  for (std::uint64_t i = 0; !shared.ok() && i < n; ++i) work(i);
}

std::uint64_t number_at(const Slice& value) {
  std::uint64_t number;
  BRECCIA_ASSERT(value.size() == sizeof number);
  std::memcpy(&number, value.data(), sizeof number);
  return number;
}

}  // namespace

std::optional<runs::NumberOp> number_op(const rocksdb::MergeOperator* merge_operator) {
  if (merge_operator == nullptr) return {};
  static const std::vector<KnownOperator> all = known_operators();
  for (const KnownOperator& known : all) {
    if (known.of_class == class_of(*merge_operator)) return known.op;
  }
  return {};
}

bool Updater::can_update(const FamilyView& family, const batch::Writes& writes) {
  return writes.merges() > 0 && writes.only_numbers() && writes.range_deletes().empty() &&
         number_op(family.merge_operator.get()).has_value();
}

Result<std::unique_ptr<UpdateWork>> Updater::prepare(const Pin& pin, const FamilyView& family,
                                                     batch::Writes* writes) const {
  const auto backend = backends_->current();
  const std::uint64_t n = writes->point_count();
  auto work = std::make_unique<UpdateWork>(writes, backend->host_memory());
  if (!work->results->reserve(n) || !work->is_operand->reserve(n) || !work->found.reserve(n) ||
      !work->value.reserve(n) || !work->exists.reserve(n) ||
      (family.asks_tree() && (!work->tree_value.reserve(n) || !work->tree_state.reserve(n)))) {
    return Status::MemoryLimit("no memory to work out updates");
  }
  work->results->extend(n);
  work->is_operand->extend(n);
  work->found.extend(n);
  work->value.extend(n);
  work->exists.extend(n);
  if (family.asks_tree()) read_tree(pin, family, work.get());
  return work;
}

// Keys that memory holds now it holds in the batch's turn too, unless a flush takes them: then the
// tree is another one, and nothing of this is used.
void Updater::read_tree(const Pin& pin, const FamilyView& family, UpdateWork* work) const {
  const record::KeyColumnsRef keys = work->writes->keys();
  if (!search_->search(family, {keys, nullptr, pin.visible}, {work->found.data()},
                       /*cached=*/nullptr)) {
    return;
  }
  work->tree = pin.view->below;
  std::fill_n(work->tree_state.extend(keys.count), keys.count, UpdateWork::Tree::kUnknown);
  work->tree_value.extend(keys.count);
  find_repeats(work);
  tree::FamilyRef in_tree = family.in_tree();
  in_tree.is_cached = false;  // what is read here is about to change
  const auto note = [work](std::uint64_t, std::span<const batch::KeyParts::Key> same,
                           const Status& status, const Slice& value) {
    for (const batch::KeyParts::Key& key : same) note_tree(key.index, status, value, work);
  };
  ordered::read_tree({*work->tree, in_tree, keys}, missing_in_memory(in_tree, work),
                     static_cast<std::uint64_t>(tbb::info::default_concurrency()), note,
                     [work](std::uint64_t, std::span<const tree::KnownFiles::Known> known) {
                       for (const auto& one : known) {
                         note_tree(one.place, one.is_found ? Status() : Status::NotFound(),
                                   one.value, work);
                       }
                     });
}

/// Finds operations on one key, where reading each key once is worth that. Without memory for it
/// each operation's key is read.
void Updater::find_repeats(UpdateWork* work) {
  constexpr std::uint64_t kShare = 4;  // one operation in so many must be missing in memory
  const std::uint64_t* const found = work->found.data();
  const auto missing =
      static_cast<std::uint64_t>(std::count(found, found + work->found.size(), runs::kNotFound));
  if (missing * kShare >= work->found.size()) {
    base::as_memory_allows([&] { (void)work->order.build(work->writes, /*reads=*/nullptr); });
  }
}

/// The operations whose keys memory does not hold and the tree may, of each key that repeats are
/// known of the first.
std::vector<std::vector<std::uint32_t>> Updater::missing_in_memory(const tree::FamilyRef& family,
                                                                   UpdateWork* work) {
  constexpr std::uint64_t kListKeys = 16 << 10;
  const std::uint64_t n = work->found.size();
  std::vector<std::vector<std::uint32_t>> missing((n + kListKeys - 1) / kListKeys);
  base::parallel_for(std::size_t{0}, missing.size(), [&](std::size_t list) {
    const std::uint64_t end = std::min<std::uint64_t>(n, (list + 1) * kListKeys);
    for (std::uint64_t i = list * kListKeys; i < end; ++i) {
      if (work->found[i] != runs::kNotFound || work->is_repeat(i)) continue;
      missing[list].push_back(static_cast<std::uint32_t>(i));
    }
    take_absent(family, work->writes->keys(), &missing[list], [work](std::uint32_t i) {
      work->tree_state.data()[i] = UpdateWork::Tree::kAbsent;
    });
  });
  return missing;
}

/// Keeps what the tree has for the operations `same`.
void Updater::note_tree(std::uint32_t operation, const Status& status, const Slice& value,
                        UpdateWork* work) {
  const bool is_number = status.ok() && value.size() == sizeof(std::uint64_t);
  work->tree_state.data()[operation] = is_number             ? UpdateWork::Tree::kNumber
                                       : status.IsNotFound() ? UpdateWork::Tree::kAbsent
                                                             : UpdateWork::Tree::kOther;
  if (is_number) work->tree_value.data()[operation] = number_at(value);
}

Status Updater::read_bases(const Pin& pin, const FamilyView& family, UpdateWork* work) const {
  const record::KeyColumnsRef keys = work->writes->keys();
  std::uint64_t* const value = work->value.data();
  std::uint8_t* const exists = work->exists.data();
  const bool searched = search_->search(family, {keys, nullptr, pin.visible},
                                        {work->found.data(), family.has_values ? value : nullptr},
                                        /*cached=*/nullptr);
  const bool plain = searched && family.active->count() == 0;
  const bool tree_known =
      work->tree.has_value() && work->tree->snapshot == pin.view->below.snapshot;
  std::atomic<bool> fits{true};
  const auto key_at = [&](std::uint64_t i) {
    std::string key(keys.bytes_at(i), '\0');
    record::restore_key(keys, i, key.data());
    return key;
  };
  for_each(keys.count, [&](std::uint64_t i) {
    const std::uint64_t found = searched ? work->found.data()[i] : runs::kNotFound;
    static_assert(runs::kNotFound == 0);  // at position 0, below every range deletion
    exists[i] = 0;
    if (work->is_repeat(i)) return;
    if (plain && family.tombstones != nullptr &&
        record::position_of(found) < family.covering(key_at(i), pin.visible)) {
      return;
    }
    const bool is_put =
        plain && found != runs::kNotFound && record::op_of(found) == record::Op::kPut;
    const bool in_tree = plain && found == runs::kNotFound;
    const UpdateWork::Tree tree = !family.asks_tree() ? UpdateWork::Tree::kAbsent
                                  : tree_known        ? work->tree_state[i]
                                                      : UpdateWork::Tree::kUnknown;
    exists[i] = 1;
    if (is_put && family.has_values) return;
    if (in_tree && tree == UpdateWork::Tree::kNumber) {
      value[i] = work->tree_value[i];
      return;
    }
    exists[i] = 0;
    if (in_tree && tree == UpdateWork::Tree::kAbsent) return;
    rocksdb::PinnableSlice slice;
    if (is_put) {
      slice.PinSlice(value_at(*pin.view->table, found), nullptr);
    } else {
      const Status status = read_key(*pin.view, family, key_at(i), pin.visible, &slice);
      if (status.IsNotFound()) return;
      if (!status.ok()) fits = false;
    }
    if (slice.size() != sizeof(std::uint64_t)) {
      fits = false;  // the operator itself knows what to make of it
      return;
    }
    value[i] = number_at(slice);
    exists[i] = 1;
  });
  return fits ? Status::OK() : Status::NotSupported("a value that is no number of 8 bytes");
}

UpdatedWrites::UpdatedWrites(batch::Writes* writes, std::unique_ptr<Numbers> results,
                             std::unique_ptr<Flags> is_operand)
    : writes_(writes),
      operands_(std::move(results)),
      is_operand_(std::move(is_operand)),
      merges_(writes->merges()) {
  writes_->swap_numbers(operands_.get());
  std::fill_n(is_operand_->data(), writes_->point_count(), std::uint8_t{0});
  for_each_surely(writes_->point_count(), [&](std::uint64_t i) {
    if (record::op_of(writes_->offsets()[i]) != record::Op::kMerge) return;
    is_operand_->data()[i] = 1;
    writes_->set_operation(i, record::Op::kPut);
  });
  writes_->set_merges(0);
}

UpdatedWrites::~UpdatedWrites() {
  if (operands_ == nullptr) return;
  writes_->swap_numbers(operands_.get());
  for_each_surely(writes_->point_count(), [&](std::uint64_t i) {
    if ((*is_operand_)[i] != 0) writes_->set_operation(i, record::Op::kMerge);
  });
  writes_->set_merges(merges_);
}

Result<UpdatedWrites> Updater::finish(const Pin& pin, const FamilyView& family,
                                      UpdateWork* work) const {
  const batch::Writes& writes = *work->writes;
  BRECCIA_TRY(read_bases(pin, family, work));
  const runs::UpdatesRef updates{writes.keys(),       writes.offsets(),
                                 writes.numbers(),    work->value.data(),
                                 work->exists.data(), *number_op(family.merge_operator.get())};
  BRECCIA_TRY(backends_->run(
      [&](runs::Backend& backend) { return backend.update(updates, work->results->data()); }));
  return UpdatedWrites(work->writes, std::move(work->results), std::move(work->is_operand));
}

}  // namespace breccia::ordered
