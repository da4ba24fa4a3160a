#include "batch/requests.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/memory.h"

namespace breccia::batch {

Requests::Requests(std::shared_ptr<exec::HostMemory> memory)
    : memory_(std::move(memory)), on_device_(memory_.get()) {}

namespace {

/// The refusal of a key, or of a value or second key, that is over its limit.
Status too_long(const Slice& key, std::uint64_t key_max, const Slice& value,
                std::uint64_t value_max) {
  const bool is_key = key.size() > key_max;
  return Status::InvalidArgument((is_key ? "key of " : "value of ") +
                                     std::to_string(is_key ? key.size() : value.size()) + " bytes",
                                 "the limit is " + std::to_string(is_key ? key_max : value_max));
}

Status batch_full() {
  return Status::InvalidArgument("the batch is full; submit it and go on with another");
}

Status out_of_memory() { return Status::MemoryLimit("no memory for the batch"); }

template <class Part>
std::size_t find_or_make_part(std::vector<std::unique_ptr<Part>>* parts, FamilyId family,
                              exec::HostMemory& memory) {
  for (std::size_t i = 0; i < parts->size(); ++i) {
    if ((*parts)[i]->family() == family) return i;
  }
  parts->push_back(std::make_unique<Part>(family, memory));
  return parts->size() - 1;
}

/// Index of the part of `parts` for `family`, which is made if it is not there; most have one.
template <class Part>
inline std::size_t part_of(std::vector<std::unique_ptr<Part>>* parts, FamilyId family,
                           exec::HostMemory& memory) {
  if (!parts->empty() && parts->front()->family() == family) return 0;
  return find_or_make_part(parts, family, memory);
}

template <class Part>
void clear_parts(std::vector<std::unique_ptr<Part>>* parts) {
  for (auto& part : *parts) part->clear();
  // The first family's part is kept with its memory; others would pile up.
  if (parts->size() > 1) parts->resize(1);
}

template <class Part>
std::uint64_t count_results(const std::vector<std::unique_ptr<Part>>& parts) {
  std::uint64_t count = 0;
  for (const auto& part : parts) count += part->result_count();
  return count;
}

}  // namespace

void Requests::Places::add_at(std::size_t part, std::uint64_t place, std::uint64_t more) {
  // Those before the second part's first are all of part 0.
  for (auto i = static_cast<std::uint32_t>(at.size()); i < count; ++i) at.emplace_back(0, i);
  for (std::uint64_t i = 0; i < more; ++i) at.emplace_back(part, place + i);
  BRECCIA_ASSERT(at.size() == count + more);
}

void Requests::Places::clear() {
  count = 0;
  at.clear();
}

std::size_t Requests::writes_of(FamilyId family) const {
  const auto found = std::find_if(writes_.begin(), writes_.end(),
                                  [&](const auto& writes) { return writes->family() == family; });
  return static_cast<std::size_t>(found - writes_.begin());
}

Writes& Requests::writes_to(FamilyId family) {
  if (last_writes_ == nullptr || last_writes_->family() != family) {
    last_writes_ = writes_[part_of(&writes_, family, *memory_)].get();
  }
  return *last_writes_;
}

Status Requests::add_write(record::Op op, FamilyId family, const Slice& key, const Slice& value) {
  // As most are: one more to the same family, and far from a full frame.
  constexpr std::uint64_t kEasyBytes = limits::kFrameBytesMax / 2;
  static_assert(kEasyBytes > limits::kValueBytesMax + 4 * limits::kBatchRequestsMax);
  if (easy_ > 0 && last_writes_ != nullptr && last_writes_->family() == family &&
      key.size() <= limits::kKeyBytesMax && value.size() <= limits::kValueBytesMax &&
      record_bytes_ <= kEasyBytes) {
    const auto header = record::RecordHeader::make(op, key.size(), value.size());
    if (last_writes_->takes(header)) {
      BRECCIA_ASSERT(last_writes_->record_bytes() > 0);  // or a row would not know of it
      last_writes_->push(header, key, value);
      record_bytes_ += header.record_bytes();
      ++write_count_;
      --easy_;
      BRECCIA_ASSERT(record_bytes_ % 8 == 0);
      return Status::OK();
    }
  }
  return add_another_write(op, family, key, value);
}

Status Requests::add_another_write(record::Op op, FamilyId family, const Slice& key,
                                   const Slice& value) {
  settle();
  const std::uint64_t value_max =
      op == record::Op::kDeleteRange ? limits::kKeyBytesMax : limits::kValueBytesMax;
  if (key.size() > limits::kKeyBytesMax || value.size() > value_max) {
    return too_long(key, limits::kKeyBytesMax, value, value_max);
  }
  if (op == record::Op::kDeleteRange && key.compare(value) > 0) {
    return Status::InvalidArgument("end key comes before start key");
  }
  const auto header = record::RecordHeader::make(op, key.size(), value.size());
  if (full(1, 1, header.record_bytes())) return batch_full();
  Writes& writes = writes_to(family);
  const std::uint64_t before = writes.record_bytes();
  if (!writes.add(header, key, value)) return out_of_memory();
  record_bytes_ += writes.record_bytes() - before;
  ++write_count_;
  count_easy();
  BRECCIA_ASSERT(writes.record_bytes() <= record_bytes_ && record_bytes_ % 8 == 0);
  return Status::OK();
}

Status Requests::add_writes(record::Op op, FamilyId family, const BytesColumn& keys,
                            const BytesColumn& values) {
  settle();
  if (!keys.on_device() && !values.on_device()) return add_host_writes(op, family, keys, values);
  const DeviceColumns::Mark mark = on_device_.mark();
  Status status = base::or_memory_limit([&]() -> Status {
    BRECCIA_TAKE(const BytesColumn own_keys, on_device_.bring(keys));
    BRECCIA_TAKE(const BytesColumn own_values, on_device_.bring(values));
    return add_host_writes(op, family, own_keys, own_values);
  });
  if (!status.ok() || !columns_in_place_) on_device_.give_back(mark);
  return status;
}

Status Requests::add_host_writes(record::Op op, FamilyId family, const BytesColumn& keys,
                                 const BytesColumn& values) {
  const std::uint64_t n = keys.count();
  if (full(n, n, 0)) return batch_full();  // before anybody counts so many bytes
  BRECCIA_TAKE(const RecordArray records, measure_records(keys, values));
  if (full(n, n, records.bytes.total())) return batch_full();
  if (n == 0) return Status::OK();
  Writes& writes = writes_to(family);
  const std::uint64_t before = writes.record_bytes();
  if (!writes.add(op, records, columns_in_place_)) return out_of_memory();
  record_bytes_ += writes.record_bytes() - before;
  write_count_ += n;
  count_easy();
  BRECCIA_ASSERT(writes.record_bytes() <= record_bytes_ && record_bytes_ % 8 == 0);
  return Status::OK();
}

Status Requests::add_read(FamilyId family, const Slice& key) {
  // As most are: one more like the last, with nothing to look at but its words.
  if (family == row_.family && row_.reads.keys.takes(key.size()) &&
      key.size() <= limits::kKeyBytesMax) {
    if (row_.reads.after != nullptr) *row_.reads.after++ = row_.writes->record_bytes();
    row_.reads.keys.write(key.data(), key.size());
    return Status::OK();
  }
  return add_another_read(family, key);
}

Status Requests::add_another_read(FamilyId family, const Slice& key) {
  settle();
  if (key.size() > limits::kKeyBytesMax) return too_long(key, limits::kKeyBytesMax, Slice(), 0);
  if (too_many(1)) return batch_full();
  const std::size_t part = part_of(&reads_, family, *memory_);
  reads_at_.reserve(reads_.size(), 1);
  BRECCIA_ASSERT(reads_[part]->family() == family);
  if (!reads_[part]->add(key, record_bytes_of(family))) return out_of_memory();
  reads_at_.add(reads_.size(), part, reads_[part]->count() - 1, 1);
  count_easy();
  if (reads_.size() == 1) open_row();
  return Status::OK();
}

/// The next lookups may come one behind the other, and easy writes between them: each has its share
/// of what is easy. Who adds anything else must settle() first. The first write to a family is not
/// easy, so a row knows whether its lookups come behind records.
void Requests::open_row() {
  BRECCIA_ASSERT(row_.begun == 0 && reads_.size() == 1);
  Reads& reads = *reads_.front();
  const std::size_t part = writes_of(reads.family());
  const Writes* const writes = part == writes_.size() ? nullptr : writes_[part].get();
  const bool behind_records = writes != nullptr && writes->record_bytes() > 0;
  row_ = {reads.family(), reads.row(easy_ / 2, behind_records), writes};
  row_.begun = row_.reads.keys.left;
  easy_ -= row_.begun;
}

void Requests::settle() const {
  if (row_.begun == 0) return;
  BRECCIA_ASSERT(row_.reads.keys.left <= row_.begun && reads_at_.at.empty());
  reads_.front()->count_written(row_.reads);
  reads_at_.count += row_.begun - row_.reads.keys.left;
  row_ = {};
  BRECCIA_ASSERT(reads_.size() == 1 && reads_at_.count == reads_.front()->count());
}

Status Requests::add_reads(FamilyId family, const BytesColumn& keys, const ValueArray& into) {
  settle();
  if (!keys.on_device() && !into.on_device) return add_host_reads(family, keys, into);
  const DeviceColumns::Mark before = on_device_.mark();
  Status status = base::or_memory_limit([&]() -> Status {
    BRECCIA_TAKE(const ValueArray own_into, on_device_.stage(into, keys.count()));
    BRECCIA_TAKE(const BytesColumn own_keys, on_device_.bring(keys));
    return add_host_reads(family, own_keys, own_into);
  });
  const bool is_staged = status.ok() && on_device_.mark().parcels > before.parcels;
  // Keys are in the columns of the batch, or stay where they are; values wait for the submit.
  const bool keeps_keys = status.ok() && columns_in_place_;
  on_device_.give_back({keeps_keys ? on_device_.mark().copies : before.copies,
                        is_staged ? before.parcels + 1 : before.parcels});
  if (!is_staged) return status;
  Reads* const reads = reads_[part_of(&reads_, family, *memory_)].get();
  on_device_.send_later(reads, reads->count() - keys.count());
  return status;
}

Status Requests::add_host_reads(FamilyId family, const BytesColumn& keys, const ValueArray& into) {
  const std::uint64_t n = keys.count();
  const auto stride = static_cast<std::uint64_t>(std::abs(into.stride));
  if (into.found != nullptr && n > 1 && stride < into.width) {
    return Status::InvalidArgument("values of " + std::to_string(into.width) + " bytes overlap",
                                   "the stride is " + std::to_string(into.stride));
  }
  if (full(n, 1, 0)) return batch_full();
  BRECCIA_TAKE(const KeyArray measured, measure_keys(keys));
  if (n == 0) return Status::OK();
  const std::size_t part = part_of(&reads_, family, *memory_);
  reads_at_.reserve(reads_.size(), n);
  if (!reads_[part]->add(measured, record_bytes_of(family), into, columns_in_place_)) {
    return out_of_memory();
  }
  reads_at_.add(reads_.size(), part, reads_[part]->count() - n, n);
  count_easy();
  BRECCIA_ASSERT(read_count() <= limits::kBatchRequestsMax);
  return Status::OK();
}

Status Requests::add_range(FamilyId family, const Slice& begin, const Slice& end,
                           std::uint32_t limit) {
  settle();
  if (begin.size() > limits::kKeyBytesMax || end.size() > limits::kKeyBytesMax) {
    return too_long(begin, limits::kKeyBytesMax, end, limits::kKeyBytesMax);
  }
  if (full(1, 1, 0)) return batch_full();
  const std::size_t part = part_of(&ranges_, family, *memory_);
  ranges_at_.reserve(ranges_.size(), 1);
  BRECCIA_ASSERT(ranges_[part]->family() == family);
  if (!ranges_[part]->add(begin, end, limit, record_bytes_of(family))) return out_of_memory();
  ranges_at_.add(ranges_.size(), part, ranges_[part]->count() - 1, 1);
  count_easy();
  return Status::OK();
}

Status Requests::add_ranges(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
                            std::span<const std::uint32_t> limits) {
  settle();
  if (begins.on_device() || ends.on_device()) {
    const DeviceColumns::Mark mark = on_device_.mark();
    Status status = base::or_memory_limit([&]() -> Status {
      BRECCIA_TAKE(const BytesColumn own_begins, on_device_.bring(begins));
      BRECCIA_TAKE(const BytesColumn own_ends, on_device_.bring(ends));
      return add_host_ranges(family, own_begins, own_ends, limits);
    });
    on_device_.give_back(mark);
    return status;
  }
  return add_host_ranges(family, begins, ends, limits);
}

Status Requests::add_host_ranges(FamilyId family, const BytesColumn& begins,
                                 const BytesColumn& ends, std::span<const std::uint32_t> limits) {
  const std::uint64_t n = begins.count();
  if (ends.count() != n) return differ_in_count(n, ends.count());
  if (limits.size() != n && limits.size() != 1) return differ_in_count(n, limits.size());
  if (full(n, 1, 0)) return batch_full();
  BRECCIA_TAKE(const KeyArray measured_begins, measure_keys(begins));
  BRECCIA_TAKE(const KeyArray measured_ends, measure_keys(ends));
  if (n == 0) return Status::OK();
  const std::size_t part = part_of(&ranges_, family, *memory_);
  ranges_at_.reserve(ranges_.size(), n);
  if (!ranges_[part]->add(measured_begins, measured_ends, limits, record_bytes_of(family))) {
    return out_of_memory();
  }
  ranges_at_.add(ranges_.size(), part, ranges_[part]->count() - n, n);
  count_easy();
  BRECCIA_ASSERT(range_count() <= limits::kBatchRequestsMax);
  return Status::OK();
}

Selection Requests::none_chosen() const {
  settle();
  Selection none;
  for (const auto& part : writes_) {
    none.writes.push_back({Flags(part->point_count()), Flags(part->range_deletes().size())});
  }
  for (const auto& part : reads_) none.reads.emplace_back(part->count());
  for (const auto& part : ranges_) none.ranges.emplace_back(part->count());
  return none;
}

bool Requests::join(const Requests& other, const Selection* chosen) {
  BRECCIA_ASSERT(&other != this);
  settle();
  other.settle();
  BRECCIA_ASSERT(chosen == nullptr || (chosen->writes.size() == other.writes_.size() &&
                                       chosen->reads.size() == other.reads_.size() &&
                                       chosen->ranges.size() == other.ranges_.size()));
  for (const auto& writes : other.writes_) {
    if (chosen != nullptr && !writes->gather()) return false;  // its records are walked along
  }
  // Reads first: their places are counted from what was there before.
  for (std::size_t i = 0; i < other.reads_.size(); ++i) {
    const Reads& reads = *other.reads_[i];
    Reads& own = *reads_[part_of(&reads_, reads.family(), *memory_)];
    const std::uint64_t before = own.count();
    BytesBefore bytes = bytes_before(reads.family(), other, chosen);
    if (!own.append(reads, chosen == nullptr ? nullptr : &chosen->reads[i], &bytes)) return false;
    reads_at_.count += own.count() - before;
  }
  for (std::size_t i = 0; i < other.ranges_.size(); ++i) {
    const Ranges& ranges = *other.ranges_[i];
    Ranges& own = *ranges_[part_of(&ranges_, ranges.family(), *memory_)];
    const std::uint64_t before = own.count();
    BytesBefore bytes = bytes_before(ranges.family(), other, chosen);
    if (!own.append(ranges, chosen == nullptr ? nullptr : &chosen->ranges[i], &bytes)) return false;
    ranges_at_.count += own.count() - before;
  }
  for (std::size_t i = 0; i < other.writes_.size(); ++i) {
    const Writes& writes = *other.writes_[i];
    Writes& own = *writes_[part_of(&writes_, writes.family(), *memory_)];
    const std::uint64_t bytes = own.record_bytes();
    const std::uint64_t requests = own.request_count();
    if (!(chosen == nullptr ? own.append(writes) : own.append(writes, chosen->writes[i]))) {
      return false;
    }
    record_bytes_ += own.record_bytes() - bytes;
    write_count_ += own.request_count() - requests;
  }
  count_easy();
  BRECCIA_ASSERT(record_bytes_ <= limits::kFrameBytesMax);
  return true;
}

BytesBefore Requests::bytes_before(FamilyId family, const Requests& other,
                                   const Selection* chosen) const {
  const std::uint64_t own = record_bytes_of(family);
  const std::size_t part = other.writes_of(family);
  if (part == other.writes_.size()) return {family, own, nullptr, nullptr};
  return {family, own, other.writes_[part].get(),
          chosen == nullptr ? nullptr : &chosen->writes[part]};
}

void Requests::give_results(Requests* to, const Selection* chosen) {
  BRECCIA_ASSERT(chosen == nullptr || (chosen->reads.size() == to->reads_.size() &&
                                       chosen->ranges.size() == to->ranges_.size()));
  for (std::size_t i = 0; i < to->reads_.size(); ++i) {
    Reads& from = *reads_[part_of(&reads_, to->reads_[i]->family(), *memory_)];
    from.hand_over(to->reads_[i].get(), chosen == nullptr ? nullptr : &chosen->reads[i]);
  }
  for (std::size_t i = 0; i < to->ranges_.size(); ++i) {
    Ranges& from = *ranges_[part_of(&ranges_, to->ranges_[i]->family(), *memory_)];
    from.hand_over(to->ranges_[i].get(), chosen == nullptr ? nullptr : &chosen->ranges[i]);
  }
}

void Requests::clear() {
  row_ = {};
  clear_parts(&writes_);
  clear_parts(&reads_);
  clear_parts(&ranges_);
  on_device_.clear();
  reads_at_.clear();
  ranges_at_.clear();
  held_.reset();
  last_writes_ = nullptr;
  easy_ = 0;
  write_count_ = 0;
  record_bytes_ = 0;
}

std::uint32_t Requests::record_count() const {
  std::uint32_t count = 0;
  for (const auto& writes : writes_) count += writes->record_count();
  BRECCIA_ASSERT(count >= write_count_);
  return count;
}

bool Requests::only_points() const {
  return std::all_of(writes_.begin(), writes_.end(),
                     [](const auto& writes) { return writes->range_deletes().empty(); });
}

bool Requests::is_mixed() const {
  return std::any_of(writes_.begin(), writes_.end(), [](const auto& writes) {
    return writes->record_count() > 0 &&
           (writes->family() != kDefaultFamily || !writes->range_deletes().empty());
  });
}

void Requests::lay_out() {
  // The default family's records bear no name, so they come before all names.
  std::stable_partition(writes_.begin(), writes_.end(),
                        [](const auto& writes) { return writes->family() == kDefaultFamily; });
  std::uint64_t end = 0;
  for (auto& writes : writes_) {
    if (writes->record_count() == 0) continue;
    writes->settle();
    writes->base_ = end;
    end += writes->record_bytes();
  }
  BRECCIA_ASSERT(end == record_bytes_ && end > 0);
}

const std::byte* Requests::bytes(std::uint64_t begin, std::uint64_t end, std::byte* room) const {
  BRECCIA_ASSERT(begin < end && end <= record_bytes_);
  for (const auto& writes : writes_) {
    const std::uint64_t base = writes->base();
    const std::uint64_t from = std::max(begin, base);
    const std::uint64_t to = std::min(end, base + writes->record_bytes());
    if (from >= to) continue;
    std::byte* const place = room + (from - begin);
    const std::byte* const found = writes->bytes(from - base, to - base, place);
    if (from == begin && to == end) return found;
    if (found != place) std::memcpy(place, found, to - from);
  }
  return room;
}

std::uint64_t Requests::base_of(FamilyId family) const {
  const std::size_t part = writes_of(family);
  return part == writes_.size() ? 0 : writes_[part]->base();
}

bool Requests::prepare_results(std::size_t parts, bool with_bounds) {
  settle();
  held_.reset();
  for (auto& reads : reads_) {
    if (!reads->prepare(with_bounds)) return false;
  }
  for (auto& ranges : ranges_) {
    if (!ranges->prepare(with_bounds)) return false;
  }
  while (arenas_.size() < parts) arenas_.push_back(std::make_unique<ResultArena>());
  for (auto& arena : arenas_) arena->clear();
  BRECCIA_INVARIANT(result_count() == read_count() && range_result_count() == range_count());
  return true;
}

std::uint64_t Requests::result_count() const { return count_results(reads_); }
std::uint64_t Requests::range_result_count() const { return count_results(ranges_); }

Requests& thread_requests() {
  constexpr std::uint64_t kKeptBytesMax = 1 << 20;
  thread_local std::unique_ptr<Requests> requests;
  if (requests == nullptr || requests->record_bytes() > kKeptBytesMax) {
    requests = std::make_unique<Requests>(exec::shared_plain_host_memory());
  }
  requests->clear();
  return *requests;
}

}  // namespace breccia::batch
