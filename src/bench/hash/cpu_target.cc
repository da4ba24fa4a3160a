#include "bench/hash/target.h"

#if __has_include(<boost/unordered/concurrent_flat_map.hpp>)
#define BRECCIA_HAVE_FLAT_MAP 1
#include <boost/unordered/concurrent_flat_map.hpp>
#endif

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/parallel.h"
#include "base/random.h"
#include "exec/host_vector.h"

/// A hash table of the host's that serves a device, as [gphash] has it beside its own: requests are
/// copied to the host, all cores answer them, and results are copied back. The table is
/// boost::concurrent_flat_map, made as large as it will be. Finds and updates go through its bulk
/// visits, sixteen at a time, which prefetch; insertions and deletions it takes one by one, looked
/// up together before. Keys lie in it, and values of 8 bytes; others in rows beside it.

namespace breccia::bench::tables {

#if defined(BRECCIA_HAVE_FLAT_MAP)

namespace {

using hash::Code;
using hash::Operation;

using Clock = std::chrono::steady_clock;

/// Requests that one core answers at a time.
constexpr std::uint64_t kPiece = 256;

template <std::size_t kWords>
struct WideKey {
  std::array<std::uint64_t, kWords> words{};
  bool operator==(const WideKey&) const = default;
};

struct MixKey {
  using is_avalanching = void;
  template <std::size_t kWords>
  std::size_t operator()(const WideKey<kWords>& key) const {
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : key.words) mixed = base::mix64(mixed ^ word);
    return mixed;
  }
};

/// Numbers of rows for values, handed out a piece's worth at a time.
/// Threads any.
class RowNumbers {
 public:
  explicit RowNumbers(std::uint64_t count) {
    free_.reserve(count);
    for (std::uint64_t i = count; i > 0; --i) free_.push_back(i - 1);
  }
  void take(std::uint64_t count, std::vector<std::uint64_t>* to) {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(count <= free_.size());
    const auto from = free_.end() - static_cast<std::ptrdiff_t>(count);
    to->insert(to->end(), from, free_.end());
    free_.erase(from, free_.end());
  }
  void give(const std::vector<std::uint64_t>& numbers) {
    const std::lock_guard lock(mutex_);
    free_.insert(free_.end(), numbers.begin(), numbers.end());
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> free_;
};

/// Requests and results in the host's memory, from where a device fetches them at full speed.
class Buffers {
 public:
  explicit Buffers(exec::HostMemory& memory)
      : keys(memory), values(memory), found(memory), operations(memory), codes(memory) {}

  bool reserve(std::uint64_t requests, const Shape& shape) {
    return grow(&keys, requests * shape.key_bytes) && grow(&values, requests * shape.value_bytes) &&
           grow(&found, requests * shape.value_bytes) && grow(&operations, requests) &&
           grow(&codes, requests);
  }

  exec::HostVector<char> keys, values, found;
  exec::HostVector<Operation> operations;
  exec::HostVector<Code> codes;

 private:
  template <class T>
  static bool grow(exec::HostVector<T>* vector, std::uint64_t count) {
    if (!vector->reserve(count)) return false;
    if (vector->size() < count) vector->extend(count - vector->size());
    return true;
  }
};

/// A batch in the host's memory.
struct HostBatch {
  const Operation* operation;  // null: all do `all`
  Operation all;
  const char* keys;
  const char* values;
  char* found;
  Code* codes;
  std::uint64_t count;

  [[nodiscard]] Operation operation_of(std::uint64_t i) const {
    return operation == nullptr ? all : operation[i];
  }
};

template <std::size_t kWords>
class CpuTarget final : public Target {
 public:
  using Key = WideKey<kWords>;

  CpuTarget(hash::Backend& backend, const Shape& shape, std::shared_ptr<Buffers> buffers,
            const Room& room)
      : backend_(backend),
        shape_(shape),
        buffers_(std::move(buffers)),
        map_(room.keys),
        in_rows_(shape.value_bytes != sizeof(std::uint64_t)),
        // Each core has a piece's worth aside while it works.
        row_count_(in_rows_ ? room.keys + kPiece * (std::thread::hardware_concurrency() + 1) : 0),
        rows_(std::make_unique_for_overwrite<char[]>(row_count_ * shape.value_bytes)),
        row_numbers_(row_count_) {}

  std::string engine() const override { return "boost::concurrent_flat_map"; }
  std::string place() const override {
    const std::string cores = fmt::format("{} CPU threads", std::thread::hardware_concurrency());
    return is_beside() ? cores : cores + ", requests and results copied";
  }
  std::string keys_in() const override { return "slots"; }
  std::string values_in() const override { return in_rows_ ? "rows" : "slots"; }
  std::uint64_t slots() const override { return map_.bucket_count(); }
  std::uint64_t growths() const override { return 0; }
  bool is_growing() const override { return false; }
  double copy_seconds() const override { return std::chrono::duration<double>(copying_).count(); }

  Result<std::unique_ptr<Target>> make_other(const Room& room) const override {
    return make(backend_, shape_, buffers_, room);
  }

  static Result<std::unique_ptr<Target>> make(hash::Backend& backend, const Shape& shape,
                                              std::shared_ptr<Buffers> buffers, const Room& room) {
    if (!buffers->reserve(std::min(room.batch, room.keys), shape)) {
      return Status::MemoryLimit("no memory of the host for requests and results");
    }
    return std::unique_ptr<Target>(
        std::make_unique<CpuTarget>(backend, shape, std::move(buffers), room));
  }

  Status run(const hash::ValueRequestsRef& given) override {
    const hash::RequestsRef& requests = given.requests;
    const char* const keys =
        given.key != nullptr ? given.key : reinterpret_cast<const char*>(requests.key);
    HostBatch batch{requests.operation, requests.all,  keys,          given.value,
                    given.found,        requests.code, requests.count};
    if (is_beside()) {
      answer(batch);
      return Status::OK();
    }
    const HostBatch there = batch;
    const auto begin = Clock::now();
    BRECCIA_TRY(bring(&batch));
    copying_ += Clock::now() - begin;
    answer(batch);
    const auto answered = Clock::now();
    BRECCIA_TRY(bring_back(batch, there));
    copying_ += Clock::now() - answered;
    return Status::OK();
  }

 private:
  using Map = boost::concurrent_flat_map<Key, std::uint64_t, MixKey>;
  /// Some of a piece.
  struct Requests {
    std::array<std::uint64_t, kPiece> number;
    std::size_t count = 0;
    void add(std::uint64_t i) { number[count++] = i; }
  };
  /// What one core needs for its piece.
  struct Work {
    Requests finds, updates, others;
    std::vector<std::uint64_t> rows;  // that it may use, or that came free
  };

  /// Keys that are visited at once. Who is visited is not told for which of them, so a visit is
  /// for the next one that has the same key.
  class Group {
   public:
    Group(const std::uint64_t* requests, std::size_t count) : requests_(requests), count_(count) {}
    void set_key(std::size_t place, const Key& key) { keys_[place] = key; }
    [[nodiscard]] const Key* begin() const { return keys_.data(); }
    [[nodiscard]] const Key* end() const { return keys_.data() + count_; }
    /// The request that a visit of this key is for.
    std::uint64_t next(const Key& key) {
      for (std::size_t step = 0; step < count_; ++step, at_ = (at_ + 1) % count_) {
        if (is_met_[at_] || keys_[at_] != key) continue;
        is_met_[at_] = true;
        return requests_[at_];
      }
      BRECCIA_ASSERT(false);
      return 0;
    }
    /// Those that no visit was for.
    template <class Use>
    void for_absent(const Use& use) const {
      for (std::size_t place = 0; place < count_; ++place) {
        if (!is_met_[place]) use(requests_[place]);
      }
    }
    template <class Use>
    void for_all(const Use& use) const {
      for (std::size_t place = 0; place < count_; ++place) use(requests_[place]);
    }

   private:
    const std::uint64_t* const requests_;
    const std::size_t count_;
    std::array<Key, Map::bulk_visit_size> keys_;
    std::array<bool, Map::bulk_visit_size> is_met_{};
    std::size_t at_ = 0;
  };

  /// Whether the columns lie in the host's memory.
  [[nodiscard]] bool is_beside() const { return backend_.device().host_reads(); }

  /// Copies a batch's requests to the host, and has it answered there.
  Status bring(HostBatch* batch) {
    const std::uint64_t n = batch->count;
    BRECCIA_ASSERT(n <= buffers_->codes.size());
    BRECCIA_TRY(backend_.copy_out(buffers_->keys.data(), batch->keys, n * shape_.key_bytes));
    batch->keys = buffers_->keys.data();
    if (batch->operation != nullptr) {
      BRECCIA_TRY(backend_.copy_out(reinterpret_cast<char*>(buffers_->operations.data()),
                                    reinterpret_cast<const char*>(batch->operation),
                                    n * sizeof(Operation)));
      batch->operation = buffers_->operations.data();
    }
    const bool has_values = batch->operation != nullptr ||
                            (batch->all != Operation::kFind && batch->all != Operation::kDelete);
    if (has_values) {
      BRECCIA_TRY(
          backend_.copy_out(buffers_->values.data(), batch->values, n * shape_.value_bytes));
      batch->values = buffers_->values.data();
    }
    batch->found = buffers_->found.data();
    batch->codes = buffers_->codes.data();
    return Status::OK();
  }

  Status bring_back(const HostBatch& batch, const HostBatch& there) {
    BRECCIA_TRY(backend_.copy_in(there.found, batch.found, batch.count * shape_.value_bytes));
    return backend_.copy_in(reinterpret_cast<char*>(there.codes),
                            reinterpret_cast<const char*>(batch.codes), batch.count * sizeof(Code));
  }

  void answer(const HostBatch& batch) {
    const std::uint64_t pieces = (batch.count + kPiece - 1) / kPiece;
    base::parallel_for(std::uint64_t{0}, pieces, [&](std::uint64_t piece) {
      answer_piece(batch, piece * kPiece, std::min(batch.count, (piece + 1) * kPiece));
    });
  }

  void answer_piece(const HostBatch& batch, std::uint64_t begin, std::uint64_t end) {
    Work work;
    std::uint64_t insertions = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      const Operation operation = batch.operation_of(i);
      if (operation == Operation::kFind) {
        work.finds.add(i);
      } else if (operation == Operation::kUpdate) {
        work.updates.add(i);
      } else {
        work.others.add(i);
        if (operation == Operation::kInsert) ++insertions;
      }
    }
    if (in_rows_ && insertions > 0) row_numbers_.take(insertions, &work.rows);
    find(batch, work.finds);
    update(batch, work.updates);
    insert_or_erase(batch, work.others, &work.rows);
    if (in_rows_ && !work.rows.empty()) row_numbers_.give(work.rows);
  }

  void find(const HostBatch& batch, const Requests& requests) const {
    for_groups(batch, requests, [&](Group& group) {
      map_.cvisit(group.begin(), group.end(),
                  [&](const auto& entry) { tell(batch, group.next(entry.first), entry.second); });
      group.for_absent([&](std::uint64_t i) { tell_absent(batch, i); });
    });
  }
  void update(const HostBatch& batch, const Requests& requests) {
    for_groups(batch, requests, [&](Group& group) {
      map_.visit(group.begin(), group.end(), [&](auto& entry) {
        const std::uint64_t i = group.next(entry.first);
        tell(batch, i, entry.second);
        write(batch, i, &entry.second);
      });
      group.for_absent([&](std::uint64_t i) { tell_absent(batch, i); });
    });
  }
  /// One by one, as the map takes them; looked up together before, which fetches what they need.
  void insert_or_erase(const HostBatch& batch, const Requests& requests,
                       std::vector<std::uint64_t>* rows) {
    for_groups(batch, requests, [&](Group& group) {
      map_.cvisit(group.begin(), group.end(), [](const auto&) {});
      group.for_all([&](std::uint64_t i) {
        if (batch.operation_of(i) == Operation::kInsert) {
          insert(batch, i, rows);
        } else {
          BRECCIA_ASSERT(batch.operation_of(i) == Operation::kDelete);
          erase(batch, i, rows);
        }
      });
    });
  }

  template <class Visit>
  void for_groups(const HostBatch& batch, const Requests& requests, const Visit& visit) const {
    for (std::size_t at = 0; at < requests.count; at += Map::bulk_visit_size) {
      const std::size_t n = std::min(Map::bulk_visit_size, requests.count - at);
      Group group(requests.number.data() + at, n);
      for (std::size_t p = 0; p < n; ++p) group.set_key(p, key_of(batch, requests.number[at + p]));
      visit(group);
    }
  }

  void insert(const HostBatch& batch, std::uint64_t i, std::vector<std::uint64_t>* rows) {
    std::uint64_t cell = 0;
    if (in_rows_) {
      cell = rows->back();
      rows->pop_back();
    }
    const std::uint64_t row = cell;
    write(batch, i, &cell);
    const bool is_in = map_.try_emplace_or_cvisit(
        key_of(batch, i), cell, [&](const auto& entry) { tell(batch, i, entry.second); });
    if (is_in) {
      tell_absent(batch, i);
    } else if (in_rows_) {
      rows->push_back(row);
    }
  }

  void erase(const HostBatch& batch, std::uint64_t i, std::vector<std::uint64_t>* rows) {
    const std::size_t erased = map_.erase_if(key_of(batch, i), [&](const auto& entry) {
      tell(batch, i, entry.second);
      if (in_rows_) rows->push_back(entry.second);
      return true;
    });
    if (erased == 0) tell_absent(batch, i);
  }

  [[nodiscard]] Key key_of(const HostBatch& batch, std::uint64_t i) const {
    Key key;
    std::memcpy(key.words.data(), batch.keys + i * shape_.key_bytes, shape_.key_bytes);
    return key;
  }
  [[nodiscard]] char* row(std::uint64_t number) const {
    return rows_.get() + number * shape_.value_bytes;
  }
  /// Puts a request's value into a cell, or into the row that it names.
  void write(const HostBatch& batch, std::uint64_t i, std::uint64_t* cell) const {
    char* const to = in_rows_ ? row(*cell) : reinterpret_cast<char*>(cell);
    std::memcpy(to, batch.values + i * shape_.value_bytes, shape_.value_bytes);
  }
  void tell(const HostBatch& batch, std::uint64_t i, const std::uint64_t& cell) const {
    const char* const from = in_rows_ ? row(cell) : reinterpret_cast<const char*>(&cell);
    std::memcpy(batch.found + i * shape_.value_bytes, from, shape_.value_bytes);
    batch.codes[i] = Code::kPresent;
  }
  void tell_absent(const HostBatch& batch, std::uint64_t i) const {
    std::memset(batch.found + i * shape_.value_bytes, 0, shape_.value_bytes);
    batch.codes[i] = Code::kAbsent;
  }

  hash::Backend& backend_;
  const Shape shape_;
  const std::shared_ptr<Buffers> buffers_;
  Clock::duration copying_{0};
  Map map_;
  const bool in_rows_;
  const std::uint64_t row_count_;
  const std::unique_ptr<char[]> rows_;
  RowNumbers row_numbers_;
};

}  // namespace

bool has_cpu_table() { return true; }

Result<std::unique_ptr<Target>> make_cpu_table(hash::Backend& backend, const Shape& shape,
                                               const Room& room) {
  auto buffers = std::make_shared<Buffers>(backend.device().host_memory());
  if (shape.key_bytes <= 8) return CpuTarget<1>::make(backend, shape, buffers, room);
  if (shape.key_bytes <= 16) return CpuTarget<2>::make(backend, shape, buffers, room);
  if (shape.key_bytes <= 32) return CpuTarget<4>::make(backend, shape, buffers, room);
  BRECCIA_ASSERT(shape.key_bytes <= 64);
  return CpuTarget<8>::make(backend, shape, buffers, room);
}

#else

bool has_cpu_table() { return false; }

Result<std::unique_ptr<Target>> make_cpu_table(hash::Backend& /*backend*/, const Shape& /*shape*/,
                                               const Room& /*room*/) {
  return Status::NotSupported("built without boost 1.83 or newer; `./dev setup` brings it");
}

#endif

}  // namespace breccia::bench::tables
