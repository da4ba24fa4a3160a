#include "ordered/write/update.h"

#include <breccia/merge_operators.h>
#include <rocksdb/convenience.h>
#include <tbb/info.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.h"
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

namespace {

std::string key_at(const record::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key(keys.bytes_at(i), '\0');
  record::restore_key(keys, i, key.data());
  return key;
}

}  // namespace

bool UpdateWork::make_room(std::uint64_t n) {
  if (!results->reserve(n) || !operation.reserve(n) || !found.reserve(n) || !value.reserve(n) ||
      !exists.reserve(n) || !is_known.reserve(n)) {
    return false;
  }
  results->extend(n);
  operation.extend(n);
  found.extend(n);
  value.extend(n);
  exists.extend(n);
  is_known.extend(n);
  return true;
}

Result<std::unique_ptr<UpdateWork>> Updater::prepare(const Pin& pin, const FamilyView& family,
                                                     batch::Writes* writes) const {
  const auto backend = backends_->current();
  const std::uint64_t n = writes->point_count();
  auto work = std::make_unique<UpdateWork>(writes, backend->host_memory());
  if (!work->make_room(n)) return Status::MemoryLimit("no memory to work out updates");
  for_each(n, [&](std::uint64_t i) { work->operation.data()[i] = writes->offsets()[i]; });
  BRECCIA_TAKE(work->puts, UpdatedWrites::make(writes));
  // Of the family nothing lies behind its runs but what is in its memtable, and range deletions.
  const std::uint64_t seen = std::min(pin.visible, family.runs_end);
  BRECCIA_TRY(look(pin, family, seen, work.get()));
  const tree::TreeState& below = pin.view->below;
  work->seen = {seen, below.version, below.snapshot, family.tree_changes};
  auto begun = backends_->attempt(
      *backend, [&](runs::Backend& on) { return on.begin_update(updates_of(family, *work)); });
  if (begun.ok()) {
    work->backend = backend;
    work->begun = begun.take();
  }
  return work;
}

runs::UpdatesRef Updater::updates_of(const FamilyView& family, const UpdateWork& work) {
  return {work.writes->keys(), work.operation.data(), work.writes->numbers(),
          work.value.data(),   work.exists.data(),    *number_op(family.merge_operator.get())};
}

/// All that keys have of what lies before `bound`.
Status Updater::look(const Pin& pin, const FamilyView& family, std::uint64_t bound,
                     UpdateWork* work) const {
  const record::KeyColumnsRef keys = work->writes->keys();
  const Base base{*pin.view, family, bound};
  const bool is_searched = search_->search(
      family, family.backend_runs, {keys, nullptr, base.bound},
      {work->found.data(), family.has_values ? work->value.data() : nullptr}, /*cached=*/nullptr);
  std::fill_n(work->is_known.data(), keys.count, std::uint8_t{0});
  if (is_searched && family.asks_tree()) read_tree(base, work);
  std::atomic<bool> fits{true};
  for_each(keys.count, [&](std::uint64_t i) {
    if (work->is_repeat(i)) return;
    const bool fit =
        is_searched ? take_found(base, i, work->found[i], work) : take_read(base, i, work);
    if (!fit) fits.store(false, std::memory_order_relaxed);
  });
  return fits ? Status::OK() : Status::NotSupported("a value that is no number of 8 bytes");
}

/// Works the operations out on what was seen and on what was published since, of which nothing but
/// runs has come. False: it cannot be done, or a device was lost.
bool Updater::finish_ahead(const FamilyView& family, UpdateWork* work) const {
  if (work->begun == nullptr) return false;
  std::vector<runs::RunPtr> newer;
  for (const MemRunPtr& run : family.runs) {
    // A run may have been merged with what was seen: as no others are newer, its versions still
    // come before the base.
    if (run->end > work->seen.end) newer.push_back(run->run);
  }
  const auto is_here = [&](const runs::RunPtr& run) {
    return run->has_values() && work->backend->holds(*run);
  };
  if (newer.size() > limits::kRunsPerSearchMax || backends_->current() != work->backend ||
      !std::all_of(newer.begin(), newer.end(), is_here)) {
    return false;
  }
  bool fits = false;
  const Status status = backends_->attempt(*work->backend, [&](runs::Backend& on) {
    return on.finish_update(*work->begun, newer, work->results->data(), &fits);
  });
  return status.ok() && fits;
}

/// Takes what a search has found of an operation's key. False: it is no number.
bool Updater::take_found(const Base& base, std::uint64_t i, std::uint64_t found, UpdateWork* work) {
  static_assert(runs::kNotFound == 0);  // at position 0, below every range deletion
  const FamilyView& family = base.family;
  const bool is_there = found != runs::kNotFound;
  if (family.tombstones != nullptr &&
      record::position_of(found) < family.covering(key_at(work->writes->keys(), i), base.bound)) {
    work->exists.data()[i] = 0;
    return true;
  }
  if (!is_there && work->is_known[i] != 0) return true;
  work->exists.data()[i] = 0;
  if (!is_there && !family.asks_tree()) return true;
  if (!is_there || record::op_of(found) != record::Op::kPut) return take_read(base, i, work);
  if (!family.has_values) return take_value(value_at(*base.view.table, found), i, work);
  work->exists.data()[i] = 1;  // its value came with what was found
  return true;
}

/// The same where it is to be looked for: versions to combine, or what a search did not do.
bool Updater::take_read(const Base& base, std::uint64_t i, UpdateWork* work) {
  rocksdb::PinnableSlice value;
  const std::string key = key_at(work->writes->keys(), i);
  const Status status = read_key(base.view, base.family, key, base.bound, &value);
  work->exists.data()[i] = 0;
  return status.IsNotFound() || (status.ok() && take_value(value, i, work));
}

bool Updater::take_value(const Slice& value, std::uint64_t i, UpdateWork* work) {
  if (value.size() != sizeof(std::uint64_t)) return false;  // the operator knows what that makes
  work->value.data()[i] = number_at(value);
  work->exists.data()[i] = 1;
  return true;
}

/// Knows of keys that memory does not have what the tree has, where that is a number or nothing.
void Updater::read_tree(const Base& base, UpdateWork* work) {
  const record::KeyColumnsRef keys = work->writes->keys();
  tree::FamilyRef in_tree = base.family.below_memory();
  // A key that is found in a file costs less than to see that it is there twice.
  if (!files_come_first(in_tree)) find_repeats(work);
  in_tree.is_cached = false;  // what is read here is about to change
  const auto note = [work](std::uint32_t i, const Status& status, const Slice& value) {
    work->exists.data()[i] = 0;
    const bool is_told = status.IsNotFound() || (status.ok() && take_value(value, i, work));
    work->is_known.data()[i] = is_told ? 1 : 0;
  };
  ordered::read_tree(
      {base.view.below, in_tree, keys}, missing_in_memory(in_tree, work),
      static_cast<std::uint64_t>(tbb::info::default_concurrency()),
      [&](std::uint64_t, std::span<const batch::KeyParts::Key> same, const Status& status,
          const Slice& value) {
        for (const batch::KeyParts::Key& key : same) note(key.index, status, value);
      },
      [&](std::uint64_t, std::span<const tree::KnownFiles::Known> known) {
        for (const auto& one : known) {
          note(one.place, one.is_found ? Status() : Status::NotFound(), one.value);
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
  if (missing * kShare >= work->found.size() && work->order.count() == 0) {
    base::as_memory_allows([&] { (void)work->order.build(work->writes, /*reads=*/nullptr); });
  }
}

/// The operations whose keys memory does not hold and the tree may, of each key that repeats are
/// known of the first.
std::vector<std::vector<std::uint32_t>> Updater::missing_in_memory(const tree::FamilyRef& in_tree,
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
    take_absent(in_tree, work->writes->keys(), &missing[list], [work](std::uint32_t i) {
      work->exists.data()[i] = 0;
      work->is_known.data()[i] = 1;
    });
  });
  return missing;
}

Result<std::unique_ptr<UpdatedWrites>> UpdatedWrites::make(batch::Writes* writes) {
  std::unique_ptr<UpdatedWrites> puts(new UpdatedWrites(writes));
  const std::uint64_t n = writes->point_count();
  if (!puts->is_operand_.reserve(n)) return Status::MemoryLimit("no memory to work out updates");
  std::fill_n(puts->is_operand_.extend(n), n, std::uint8_t{0});
  for_each_surely(n, [&](std::uint64_t i) {
    // Where it is done twice, it was an operand before.
    if (record::op_of(writes->offsets()[i]) != record::Op::kMerge) return;
    puts->is_operand_.data()[i] = 1;
    writes->set_operation(i, record::Op::kPut);
  });
  writes->set_merges(0);
  return Result<std::unique_ptr<UpdatedWrites>>(std::move(puts));
}

void UpdatedWrites::take(std::unique_ptr<Numbers> results) {
  BRECCIA_ASSERT(operands_ == nullptr);
  operands_ = std::move(results);
  writes_->swap_numbers(operands_.get());
}

void UpdatedWrites::write_records() {
  BRECCIA_ASSERT(operands_ != nullptr);
  is_written_ = true;
  for_each_surely(writes_->point_count(), [this](std::uint64_t i) {
    if (is_operand_[i] != 0) writes_->write_record(i);
  });
}

UpdatedWrites::~UpdatedWrites() {
  if (operands_ != nullptr) writes_->swap_numbers(operands_.get());
  for_each_surely(is_operand_.size(), [this](std::uint64_t i) {
    if (is_operand_[i] == 0) return;
    writes_->set_operation(i, record::Op::kMerge);
    if (is_written_) writes_->write_record(i);
  });
  writes_->set_merges(merges_);
}

/// Whether what was seen is as it was, but for what newer runs hide: no flush has taken versions
/// away, and no range deletion, which need not have been visible then, hides any.
bool Updater::holds_seen(const Pin& pin, const FamilyView& family, const UpdateWork& work) {
  const tree::TreeState& below = pin.view->below;
  return work.seen.version == below.version && work.seen.snapshot == below.snapshot &&
         work.seen.tree_changes == family.tree_changes && family.tombstones == nullptr;
}

Result<std::unique_ptr<UpdatedWrites>> Updater::finish(const Pin& pin, const FamilyView& family,
                                                       UpdateWork* work) const {
  if (family.active->count() > 0) return Status::MemoryLimit("entries that no search sees");
  if (!holds_seen(pin, family, *work) || !finish_ahead(family, work)) {
    work->begun = nullptr;  // its memory is wanted again
    BRECCIA_TRY(look(pin, family, pin.visible, work));
    BRECCIA_TRY(backends_->run([&](runs::Backend& backend) -> Status {
      bool fits = false;
      BRECCIA_TAKE(const auto begun, backend.begin_update(updates_of(family, *work)));
      return backend.finish_update(*begun, /*newer=*/{}, work->results->data(), &fits);
    }));
  }
  work->puts->take(std::move(work->results));
  return std::move(work->puts);
}

}  // namespace breccia::ordered
