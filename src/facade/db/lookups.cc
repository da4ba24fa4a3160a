#include "facade/db/lookups.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/limits.h"
#include "base/memory.h"
#include "batch/requests.h"
#include "facade/db/user_statistics.h"
#include "ordered/read/versions.h"

/// Lookups as RocksDB's interface has them, with ReadOptions. Memory answers first, by the engine;
/// what options say of files (tiers, deadlines, checksums) concerns only what the tree must answer.
/// Single lookups come first in this file, then MultiGet as one batch.

namespace breccia::facade {

namespace {

/// True if the options ask for nothing that concerns files: the engine then reads with its own.
bool is_plain(const rocksdb::ReadOptions& options) {
  return options.read_tier == rocksdb::kReadAllTier && options.verify_checksums &&
         options.fill_cache && options.deadline.count() == 0 && options.io_timeout.count() == 0 &&
         options.rate_limiter_priority == rocksdb::Env::IO_TOTAL;
}

std::uint64_t find_newest(const Seen& seen, const Slice& key, std::uint64_t bound) {
  const std::byte* record = nullptr;
  return ordered::find_one(*seen.view, *seen.pin.view->table, key, bound, &record);
}

/// True if `found`, a key's newest version, is an operand whose base is the tree's, if any.
bool has_base_in_tree(const Seen& seen, const Slice& key, std::uint64_t found) {
  const std::uint64_t covered = seen.view->covering(key, seen.pin.visible);
  while (found != runs::kNotFound && record::position_of(found) > covered) {
    if (record::op_of(found) != record::Op::kMerge) return false;
    found = find_newest(seen, key, record::position_of(found));
  }
  return covered == 0;
}

Status get_from_tree(const Core& core, const rocksdb::ReadOptions& options, const Seen& seen,
                     const Slice& key, rocksdb::PinnableSlice* value) {
  if (!seen.view->tree_has_data) return Status::NotFound();
  return core.tree().Get(tree_options(options, seen), seen.view->tree.get(), key, value);
}

/// get() with options that concern the tree's files.
Status get_by_parts(const Core& core, const rocksdb::ReadOptions& options, const Seen& seen,
                    const Slice& key, rocksdb::PinnableSlice* value, bool* from_tree) {
  if (core.must_skip_memory(options) || is_in_tree(seen, key)) {
    *from_tree = true;
    return get_from_tree(core, options, seen, key, value);
  }
  const std::uint64_t found = find_newest(seen, key, seen.pin.visible);
  if (options.read_tier == rocksdb::kBlockCacheTier && has_base_in_tree(seen, key, found)) {
    rocksdb::PinnableSlice base;
    const Status status = get_from_tree(core, options, seen, key, &base);
    if (status.IsIncomplete()) return status;
  }
  return ordered::read_version(*seen.pin.view, *seen.view, key, found,
                               seen.view->covering(key, seen.pin.visible), value, from_tree);
}

}  // namespace

rocksdb::ReadOptions tree_options(const rocksdb::ReadOptions& options, const Seen& seen) {
  rocksdb::ReadOptions for_tree = options;
  for_tree.snapshot = seen.pin.view->below.snapshot.get();
  for_tree.ignore_range_deletions = false;  // single deletions are such in the tree
  return for_tree;
}

bool is_in_tree(const Seen& seen, const Slice& key) {
  return seen.view->covering(key, seen.pin.visible) == 0 &&
         find_newest(seen, key, seen.pin.visible) == runs::kNotFound;
}

Status get(const Core& core, const rocksdb::ReadOptions& options, const Seen& seen,
           const Slice& key, rocksdb::PinnableSlice* value, bool* from_tree) {
  *from_tree = false;
  if (seen.view == nullptr) return Status::NotFound();
  if (!is_plain(options)) return get_by_parts(core, options, seen, key, value, from_tree);
  return core.engine().lookups().get(seen.pin, seen.family->id(), key, value, from_tree);
}

Status get_merge_operands(const Core& core, const rocksdb::ReadOptions& read_options,
                          const Seen& seen, const Slice& key,
                          rocksdb::GetMergeOperandsOptions* options,
                          rocksdb::PinnableSlice* operands, int* operand_count) {
  if (seen.view == nullptr) return Status::NotFound();
  const int room = options->expected_max_number_of_operands;
  for (int i = 0; i < room; ++i) operands[i].Reset();
  const std::uint64_t covered = seen.view->covering(key, seen.pin.visible);
  std::vector<Slice> above;  // newest first
  bool ends_here = false;
  std::uint64_t found = find_newest(seen, key, seen.pin.visible);
  while (!ends_here && found != runs::kNotFound && record::position_of(found) > covered) {
    ends_here = record::op_of(found) != record::Op::kMerge;
    if (!record::is_deletion(record::op_of(found))) {
      above.push_back(ordered::value_at(*seen.pin.view->table, found));
    }
    found = find_newest(seen, key, record::position_of(found));
  }
  int below = 0;
  if (!ends_here && covered == 0 && seen.view->tree_has_data) {
    const Status status = core.tree().GetMergeOperands(
        tree_options(read_options, seen), seen.view->tree.get(), key, operands, options, &below);
    if (!status.ok() && !status.IsNotFound() && !status.IsIncomplete()) return status;
    if (status.IsNotFound()) below = 0;
  }
  const int count = below + static_cast<int>(above.size());
  if (count == 0) return Status::NotFound();
  *operand_count = count;
  if (count > room) return Status::Incomplete(Status::KMergeOperandsInsufficientCapacity);
  for (int i = below; i < count; ++i) {
    operands[i].PinSelf(above[static_cast<std::size_t>(count - 1 - i)]);
  }
  return Status::OK();
}

// ---- batched -----------------------------------------------------------------------------------

namespace {

/// Results of a batch, alive while one of them is pinned.
struct Results {
  Batch batch;
  std::atomic<std::size_t> users{1};

  static void release(void* results, void*) { release_some(static_cast<Results*>(results), 1); }
  static void release_some(Results* self, std::size_t users) {
    if (self->users.fetch_sub(users, std::memory_order_acq_rel) == users) delete self;
  }
};

/// One MultiGet on its way.
class MultiGet {
 public:
  MultiGet(const Core& core, const rocksdb::ReadOptions& options, const Lookups& lookups,
           rocksdb::PinnableSlice* values, Status* statuses)
      : core_(core), options_(options), lookups_(lookups), values_(values), statuses_(statuses) {}

  void run() {
    for (std::size_t i = 0; i < lookups_.count; ++i) values_[i].Reset();
    Status status = check();
    if (status.ok()) status = read();
    if (!status.ok()) {
      std::fill_n(statuses_, lookups_.count, status);
    } else if (!wrong_handle_) {
      keep_to_limit();
      count();
    }
  }

 private:
  /// Errors  a wrong option; wrong handles are noted in their statuses.
  Status check() {
    if (lookups_.count == 0) return Status::OK();
    BRECCIA_TRY(core_.check_open());
    BRECCIA_TAKE(pin_, core_.pin_of(options_));
    for (std::size_t i = 0; i < lookups_.count && !wrong_handle_; ++i) {
      wrong_handle_ = !is_known(i);
    }
    for (std::size_t i = 0; i < lookups_.count && wrong_handle_; ++i) {
      statuses_[i] = is_known(i) ? Status::Incomplete(
                                       "DB not queried due to invalid argument(s) in the "
                                       "same MultiGet")
                                 : not_a_handle();
    }
    return Status::OK();
  }
  [[nodiscard]] bool is_known(std::size_t i) const {
    return core_.handles().find(lookups_.handle(i)) != nullptr;
  }

  Status read() {
    if (lookups_.count == 0 || wrong_handle_) return Status::OK();
    auto results = std::make_unique<Results>(core_.new_batch(lookups_.count));
    batch::Requests& requests = results->batch.requests();
    batched_.reserve(lookups_.count);
    for (std::size_t i = 0; i < lookups_.count;) {
      BRECCIA_TRY(look_at(lookups_.handle(i)));
      const std::size_t begin = i;
      while (i < lookups_.count && lookups_.handle(i) == last_handle_ &&
             goes_into_batch(lookups_.keys[i])) {
        batched_.push_back(i++);
      }
      if (i > begin) {
        const auto keys = BytesColumn::Slices(lookups_.keys + begin, i - begin);
        BRECCIA_TRY(requests.add_reads(seen_->family->id(), keys, ValueArray()));
      } else {
        get_alone(i++);
      }
    }
    if (batched_.empty()) return Status::OK();
    // Reads of the present that have no others beside them may turn the memtable into a run first.
    const bool any_time = options_.snapshot == nullptr && batched_.size() == lookups_.count;
    Status status = Status::InvalidArgument();
    if (any_time) status = core_.engine().Submit(WriteOptions(), &results->batch);
    // A family that was just dropped may have left the newest view.
    if (status.IsInvalidArgument()) status = core_.engine().lookups().read(pin_, &requests);
    BRECCIA_TRY(status);
    hand_over(results.release());
    return Status::OK();
  }

  /// Makes seen_ what the reads see of the handle's family.
  Status look_at(const rocksdb::ColumnFamilyHandle* handle) {
    if (handle == last_handle_) return Status::OK();
    BRECCIA_TAKE(seen_, core_.see_at(pin_, handle));
    last_handle_ = handle;
    return Status::OK();
  }

  /// Longer keys may be in a tree that RocksDB wrote.
  [[nodiscard]] bool goes_into_batch(const Slice& key) const {
    return options_.read_tier == rocksdb::kReadAllTier && options_.deadline.count() == 0 &&
           seen_->pin.view == pin_.view && seen_->view != nullptr &&
           key.size() <= limits::kKeyBytesMax;
  }

  void get_alone(std::size_t i) {
    bool from_tree = false;
    const auto deadline = static_cast<std::uint64_t>(options_.deadline.count());
    const bool late = deadline != 0 && core_.tree().GetEnv()->NowMicros() > deadline;
    statuses_[i] = late ? Status::TimedOut()
                        : get(core_, options_, *seen_, lookups_.keys[i], &values_[i], &from_tree);
    from_tree_ += from_tree ? 1 : 0;
  }

  void hand_over(Results* results) {
    const batch::Requests& requests = results->batch.requests();
    from_tree_ += requests.from_tree();
    std::size_t users = results->users.fetch_add(batched_.size(), std::memory_order_relaxed);
    for (std::size_t read = 0; read < batched_.size(); ++read) {
      const std::size_t i = batched_[read];
      const batch::ReadResult& result = requests.result(read);
      statuses_[i] = batch::status_of(result.code);
      if (!statuses_[i].ok()) {
        ++users;
        continue;
      }
      values_[i].PinSlice({result.data, result.bytes}, &Results::release, results, nullptr);
    }
    Results::release_some(results, users);
  }

  void count() const {
    std::uint64_t found = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < lookups_.count; ++i) {
      if (!statuses_[i].ok()) continue;
      ++found;
      bytes += values_[i].size();
    }
    note_multi_get(core_.user_statistics(), {lookups_.count, found, bytes, from_tree_});
    set_perf_bytes(&rocksdb::PerfContext::multiget_read_bytes, perf_bytes_before_, bytes);
  }

  /// What comes behind the value that passed options.value_size_soft_limit counts as not read.
  void keep_to_limit() {
    if (options_.value_size_soft_limit == ~std::uint64_t{0}) return;
    std::vector<std::size_t> order(lookups_.count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (lookups_.by_key) {
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return lookups_.keys[a].compare(lookups_.keys[b]) < 0;
      });
    }
    std::uint64_t bytes = 0;
    for (const std::size_t i : order) {
      if (bytes > options_.value_size_soft_limit) {
        statuses_[i] = Status::Aborted();
        values_[i].Reset();
      } else if (statuses_[i].ok()) {
        bytes += values_[i].size();
      }
    }
  }

  const Core& core_;
  const rocksdb::ReadOptions& options_;
  const Lookups& lookups_;
  rocksdb::PinnableSlice* const values_;
  Status* const statuses_;
  ordered::Pin pin_;
  bool wrong_handle_ = false;
  const rocksdb::ColumnFamilyHandle* last_handle_ = nullptr;
  std::optional<Seen> seen_;
  const std::uint64_t perf_bytes_before_ = rocksdb::get_perf_context()->multiget_read_bytes;
  std::uint64_t from_tree_ = 0;       // lookups that needed the tree
  std::vector<std::size_t> batched_;  // lookups in the batch, in its order
};

}  // namespace

void multi_get(const Core& core, const rocksdb::ReadOptions& options, const Lookups& lookups,
               rocksdb::PinnableSlice* values, Status* statuses) {
  const UserTimer timer(core.user_statistics(), rocksdb::DB_MULTIGET);
  const Status status = base::or_memory_limit([&] {
    MultiGet(core, options, lookups, values, statuses).run();
    return Status::OK();
  });
  if (status.ok()) return;
  for (std::size_t i = 0; i < lookups.count; ++i) {
    values[i].Reset();
    statuses[i] = Status::MemoryLimit();
  }
}

}  // namespace breccia::facade
