#include "batch/requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/limits.h"

/// A batch's requests as they are added: each family's writes as log records with key columns
/// beside them, its reads and ranges as key columns. Families stand in the order in which the batch
/// named them, which is that of their records in a frame; Places says which request of the batch is
/// which of whose. Batches are joined column by column.

namespace breccia::batch {

Status status_of(Status::Code code) {
  constexpr char kWhere[] = "in the tree below";
  switch (code) {
    case Status::Code::kOk:
      return Status::OK();
    case Status::Code::kNotFound:
      return Status::NotFound();
    case Status::Code::kCorruption:
      return Status::Corruption(kWhere);
    case Status::Code::kNotSupported:
      return Status::NotSupported(kWhere);
    case Status::Code::kInvalidArgument:
      return Status::InvalidArgument(kWhere);
    case Status::Code::kIncomplete:
      return Status::Incomplete(kWhere);
    case Status::Code::kTimedOut:
      return Status::TimedOut(kWhere);
    case Status::Code::kAborted:
      return Status::MemoryLimit();  // of lookups, nothing else is
    case Status::Code::kBusy:
      return Status::Busy(kWhere);
    case Status::Code::kTryAgain:
      return Status::TryAgain(kWhere);
    default:
      return Status::IOError(kWhere);
  }
}

void ResultArena::take_block(std::uint64_t bytes) {
  constexpr std::uint64_t kFirstBytes = 256;  // many batches hold one value
  constexpr std::uint64_t kGrowthBytesMax = 64 << 20;
  while (used_ < blocks_.size() && blocks_[used_].bytes < bytes) ++used_;
  if (used_ == blocks_.size()) {
    const std::uint64_t grown =
        blocks_.empty() ? kFirstBytes : std::min(blocks_.back().bytes * 2, kGrowthBytesMax);
    const std::uint64_t size = std::max(bytes, grown);
    blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
  }
  next_ = blocks_[used_].memory.get();
  room_ = blocks_[used_].bytes;
  ++used_;
}

void ResultArena::clear() {
  used_ = 0;
  next_ = nullptr;
  room_ = 0;
}

// ---- one family's writes -----------------------------------------------------------------------

namespace {

Slice family_value(const FamilyId& family) {
  return {reinterpret_cast<const char*>(&family), sizeof family};
}

}  // namespace

void Writes::add_record(const record::RecordHeader& header, const Slice& key, const Slice& value) {
  const std::uint64_t bytes = header.record_bytes();
  std::byte* const record = records_.extend(bytes);
  // The last word first: its padding must be zero, and the value then covers the rest.
  std::memset(record + bytes - 8, 0, 8);
  std::memcpy(record, &header, sizeof header);
  base::copy_short(record + sizeof header, key.data(), key.size());
  base::copy_short(record + sizeof header + key.size(), value.data(), value.size());
  ++record_count_;
}

bool Writes::add(const record::RecordHeader& header, const Slice& key, const Slice& value) {
  const record::Op op = header.op();
  const bool is_point = record::is_point(op);
  const bool is_first = records_.size() == 0 && family_ != kDefaultFamily;
  const auto name =
      record::RecordHeader::make(record::Op::kFamily, 0, family_value(family_).size());
  // What may fail comes first, so that a failure changes nothing.
  const std::uint64_t bytes = header.record_bytes() + (is_first ? name.record_bytes() : 0);
  if (!records_.reserve(records_.size() + bytes)) return false;
  if (!is_point && range_deletes_.size() == range_deletes_.capacity()) {
    range_deletes_.reserve(2 * range_deletes_.size() + 1);
  }
  if (is_point && (!offsets_.reserve(point_count() + 1) ||
                   (only_numbers_ && !numbers_.reserve(point_count() + 1)) ||
                   !keys_.append(key.data(), key.size()))) {
    return false;
  }
  if (is_first) add_record(name, Slice(), family_value(family_));
  if (is_point) {
    offsets_.push(records_.size() | static_cast<std::uint64_t>(op));
    if (only_numbers_) add_number(op, value);
    merges_ += op == record::Op::kMerge ? 1 : 0;
    deletes_ += record::is_deletion(op) ? 1 : 0;
  } else {
    range_deletes_.push_back(records_.size());
  }
  add_record(header, key, value);
  return true;
}

void Writes::add_number(record::Op op, const Slice& value) {
  std::uint64_t number = 0;
  if (value.size() == sizeof number) {
    std::memcpy(&number, value.data(), sizeof number);
  } else if (!record::is_deletion(op)) {
    only_numbers_ = false;
  }
  numbers_.push(number);
}

// What comes behind other records needs no record that names the family.
bool Writes::append(const Writes& other) {
  BRECCIA_ASSERT(other.family_ == family_);
  const bool is_named = family_ != kDefaultFamily && records_.size() > 0;
  const std::uint64_t skip = is_named && other.record_count_ > 0
                                 ? record::record_header(other.records()).record_bytes()
                                 : 0;
  const std::uint64_t bytes = other.records_.size() - skip;
  const std::uint64_t shift = records_.size() - skip;  // may wrap: it is only added
  const bool only_numbers = only_numbers_ && other.only_numbers_;
  const std::uint64_t points = point_count() + other.point_count();
  if (!records_.reserve(records_.size() + bytes) || !offsets_.reserve(points) ||
      (only_numbers && !numbers_.reserve(points)) || !keys_.append(other.keys())) {
    return false;
  }
  if (only_numbers && other.point_count() > 0) {
    std::memcpy(numbers_.extend(other.point_count()), other.numbers(),
                other.point_count() * sizeof(std::uint64_t));
  }
  if (bytes > 0) std::memcpy(records_.extend(bytes), other.records() + skip, bytes);
  for (std::uint64_t i = 0; i < other.offsets_.size(); ++i)
    offsets_.push(other.offsets_[i] + shift);
  for (const std::uint64_t offset : other.range_deletes_) range_deletes_.push_back(offset + shift);
  record_count_ += other.record_count_ - (skip > 0 ? 1 : 0);
  merges_ += other.merges_;
  deletes_ += other.deletes_;
  only_numbers_ = only_numbers;
  return true;
}

void Writes::clear() {
  records_.clear();
  keys_.clear();
  offsets_.clear();
  numbers_.clear();
  record_count_ = 0;
  range_deletes_.clear();
  merges_ = deletes_ = 0;
  only_numbers_ = true;
  base_ = 0;
}

void Writes::swap_numbers(exec::HostVector<std::uint64_t>* numbers) {
  BRECCIA_ASSERT(only_numbers_ && numbers->size() == point_count());
  numbers_.swap(*numbers);
}

void Writes::set_operation(std::uint64_t i, record::Op op) {
  std::byte* const record = records_.data() + record::position_of(offsets_[i]);
  const record::RecordHeader before = record::record_header(record);
  BRECCIA_ASSERT(only_numbers_ && before.value_bytes == sizeof numbers_[i]);
  const auto header = record::RecordHeader::make(op, before.key_bytes(), before.value_bytes);
  std::memcpy(record, &header, sizeof header);
  std::memcpy(record + sizeof header + header.key_bytes(), &numbers_[i], sizeof numbers_[i]);
  offsets_.data()[i] = record::position_of(offsets_[i]) | static_cast<std::uint64_t>(op);
}

// ---- one family's reads ------------------------------------------------------------------------

bool Reads::add(const Slice& key, std::uint64_t after) {
  if (!after_.reserve(after_.size() + 1) || !keys_.append(key.data(), key.size())) return false;
  after_.push(after);
  return true;
}

namespace {

/// Appends places among the records of one batch as places among those of a batch that had `before`
/// bytes of them. `skip`: bytes at the beginning that are left out then.
void append_places(const exec::HostVector<std::uint64_t>& places, std::uint64_t before,
                   std::uint64_t skip, exec::HostVector<std::uint64_t>* out) {
  for (std::uint64_t i = 0; i < places.size(); ++i) {
    out->push(places[i] == 0 ? before : before + places[i] - skip);
  }
}

}  // namespace

bool Reads::append(const Reads& other, std::uint64_t before, std::uint64_t skip) {
  if (!after_.reserve(after_.size() + other.after_.size()) || !keys_.append(other.keys())) {
    return false;
  }
  append_places(other.after_, before, skip, &after_);
  return true;
}

void Reads::hand_over(Reads* to) {
  BRECCIA_ASSERT(handed_over_ + to->count() <= results_.size());
  std::copy_n(results_.data() + handed_over_, to->count(), to->results_.data());
  handed_over_ += to->count();
}

void Reads::clear() {
  keys_.clear();
  after_.clear();
  results_.clear();
}

std::uint64_t* Reads::make_numbers() {
  if (!numbers_.reserve(count())) return nullptr;
  numbers_.clear();
  return numbers_.extend(count());
}

bool Reads::prepare(bool with_bounds) {
  const std::uint64_t n = count();
  if (!found_.reserve(n) || !results_.reserve(n)) return false;
  if (with_bounds && !bounds_.reserve(n)) return false;
  found_.clear();
  found_.extend(n);
  results_.clear();
  (void)results_.extend(n);
  handed_over_ = 0;
  return true;
}

// ---- one family's ranges -----------------------------------------------------------------------

bool Ranges::add(const Slice& begin, const Slice& end, std::uint32_t limit, std::uint64_t after) {
  const std::uint64_t n = count() + 1;
  if (!limits_.reserve(n) || !after_.reserve(n) || !begin_.append(begin.data(), begin.size())) {
    return false;
  }
  if (!end_.append(end.data(), end.size())) {
    begin_.drop_last();
    return false;
  }
  limits_.push(limit);
  probes_ += 1 + limit / kEntriesPerProbe;
  after_.push(after);
  return true;
}

bool Ranges::append(const Ranges& other, std::uint64_t before, std::uint64_t skip) {
  const std::uint64_t n = count() + other.count();
  if (!limits_.reserve(n) || !after_.reserve(n) || !begin_.append(other.begin()) ||
      !end_.append(other.end())) {
    return false;
  }
  for (std::uint64_t i = 0; i < other.count(); ++i) limits_.push(other.limits_[i]);
  probes_ += other.probes_;
  append_places(other.after_, before, skip, &after_);
  return true;
}

void Ranges::hand_over(Ranges* to) {
  BRECCIA_ASSERT(handed_over_ + to->count() <= results_.size());
  std::copy_n(results_.data() + handed_over_, to->count(), to->results_.data());
  handed_over_ += to->count();
}

void Ranges::clear() {
  begin_.clear();
  end_.clear();
  limits_.clear();
  probes_ = 0;
  after_.clear();
  results_.clear();
  pairs_.clear();
}

std::uint64_t* Ranges::make_pairs(std::uint64_t count) {
  exec::HostVector<std::uint64_t>& pairs = pairs_.emplace_back(memory_);
  return pairs.reserve(2 * count) ? pairs.extend(2 * count) : nullptr;
}

bool Ranges::prepare(bool with_bounds) {
  pairs_.clear();
  if (!results_.reserve(count()) || (with_bounds && !bounds_.reserve(count()))) return false;
  results_.clear();
  (void)results_.extend(count());
  handed_over_ = 0;
  return true;
}

std::pair<Slice, Slice> range_entry(const RangeResult& range, std::uint64_t j) {
  BRECCIA_ASSERT(j < range.count);
  if (range.pairs != nullptr) {
    const auto* const pair = reinterpret_cast<const char*>(range.pairs + 2 * j);
    return {Slice(pair, 8), Slice(pair + 8, 8)};
  }
  // Entries lie all over the log; whoever reads them in order finds the next ones in cache.
  constexpr std::uint64_t kAhead = 12;
  if (j + kAhead < range.count) __builtin_prefetch(range.records[j + kAhead]);
  const std::byte* const record = range.records[j];
  const record::RecordHeader header = record::record_header(record);
  return {Slice(record::record_key(record), header.key_bytes()),
          Slice(record::record_value(record), header.value_bytes)};
}

// ---- the batch ---------------------------------------------------------------------------------

Requests::Requests(std::shared_ptr<exec::HostMemory> memory)
    : memory_(std::move(memory)), flat_(*memory_) {}

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

/// Index of the part of `parts` for `family`, which is made if it is not there.
template <class Part>
std::size_t part_of(std::vector<std::unique_ptr<Part>>* parts, FamilyId family,
                    exec::HostMemory& memory) {
  for (std::size_t i = 0; i < parts->size(); ++i) {
    if ((*parts)[i]->family() == family) return i;
  }
  parts->push_back(std::make_unique<Part>(family, memory));
  return parts->size() - 1;
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

/// Room for what the next add() does.
void Requests::Places::reserve_one(std::size_t parts) {
  if (parts > 1 && at.capacity() <= count) at.reserve(std::max<std::size_t>(2 * count, 8));
}

void Requests::Places::add(std::size_t parts, std::size_t part, std::uint64_t place) {
  if (parts > 1) {
    // Those before the second part's first are all of part 0.
    for (auto i = static_cast<std::uint32_t>(at.size()); i < count; ++i) at.emplace_back(0, i);
    at.emplace_back(part, place);
  }
  ++count;
}

std::pair<std::uint32_t, std::uint64_t> Requests::Places::of(std::uint64_t i) const {
  BRECCIA_ASSERT(i < count);
  if (at.empty()) return {0, i};
  return at[i];
}

void Requests::Places::clear() {
  count = 0;
  at.clear();
}

std::uint64_t Requests::record_bytes_of(FamilyId family) const {
  for (const auto& writes : writes_) {
    if (writes->family() == family) return writes->record_bytes();
  }
  return 0;
}

bool Requests::full(std::uint64_t more_bytes) const {
  // Room in the frame for its header, alignment, descriptors, family names and commit record.
  constexpr std::uint64_t kFrameSlack = 1024;
  const std::uint64_t families = 16 * (writes_.size() + 1);
  return record_bytes_ + more_bytes + 4 * (write_count_ + 1) + families + kFrameSlack >
             limits::kFrameBytesMax ||
         write_count_ + read_count() + range_count() >= limits::kBatchRequestsMax;
}

Status Requests::add_write(record::Op op, FamilyId family, const Slice& key, const Slice& value) {
  const std::uint64_t value_max =
      op == record::Op::kDeleteRange ? limits::kKeyBytesMax : limits::kValueBytesMax;
  if (key.size() > limits::kKeyBytesMax || value.size() > value_max) {
    return too_long(key, limits::kKeyBytesMax, value, value_max);
  }
  if (op == record::Op::kDeleteRange && key.compare(value) > 0) {
    return Status::InvalidArgument("end key comes before start key");
  }
  const auto header = record::RecordHeader::make(op, key.size(), value.size());
  if (full(header.record_bytes())) return batch_full();
  if (last_writes_ == nullptr || last_writes_->family() != family) {
    last_writes_ = writes_[part_of(&writes_, family, *memory_)].get();
  }
  const std::uint64_t before = last_writes_->record_bytes();
  if (!last_writes_->add(header, key, value)) return out_of_memory();
  record_bytes_ += last_writes_->record_bytes() - before;
  ++write_count_;
  return Status::OK();
}

Status Requests::add_read(FamilyId family, const Slice& key) {
  if (key.size() > limits::kKeyBytesMax) return too_long(key, limits::kKeyBytesMax, Slice(), 0);
  if (full(0)) return batch_full();
  const std::size_t part = part_of(&reads_, family, *memory_);
  reads_at_.reserve_one(reads_.size());
  if (!reads_[part]->add(key, record_bytes_of(family))) return out_of_memory();
  reads_at_.add(reads_.size(), part, reads_[part]->count() - 1);
  return Status::OK();
}

Status Requests::add_range(FamilyId family, const Slice& begin, const Slice& end,
                           std::uint32_t limit) {
  if (begin.size() > limits::kKeyBytesMax || end.size() > limits::kKeyBytesMax) {
    return too_long(begin, limits::kKeyBytesMax, end, limits::kKeyBytesMax);
  }
  if (full(0)) return batch_full();
  const std::size_t part = part_of(&ranges_, family, *memory_);
  ranges_at_.reserve_one(ranges_.size());
  if (!ranges_[part]->add(begin, end, limit, record_bytes_of(family))) return out_of_memory();
  ranges_at_.add(ranges_.size(), part, ranges_[part]->count() - 1);
  return Status::OK();
}

bool Requests::append(const Requests& other) {
  // Reads first: their places are counted from what was there before.
  const auto skip_of = [&](FamilyId family) -> std::uint64_t {
    if (family == kDefaultFamily || record_bytes_of(family) == 0) return 0;
    return record::RecordHeader::make(record::Op::kFamily, 0, sizeof family).record_bytes();
  };
  for (const auto& reads : other.reads_) {
    const FamilyId family = reads->family();
    Reads& own = *reads_[part_of(&reads_, family, *memory_)];
    if (!own.append(*reads, record_bytes_of(family), skip_of(family))) return false;
    reads_at_.count += reads->count();
  }
  for (const auto& ranges : other.ranges_) {
    const FamilyId family = ranges->family();
    Ranges& own = *ranges_[part_of(&ranges_, family, *memory_)];
    if (!own.append(*ranges, record_bytes_of(family), skip_of(family))) return false;
    ranges_at_.count += ranges->count();
  }
  for (const auto& writes : other.writes_) {
    Writes& own = *writes_[part_of(&writes_, writes->family(), *memory_)];
    const std::uint64_t before = own.record_bytes();
    if (!own.append(*writes)) return false;
    record_bytes_ += own.record_bytes() - before;
  }
  write_count_ += other.write_count_;
  return true;
}

void Requests::hand_over(Requests* to) {
  for (auto& reads : to->reads_) {
    reads_[part_of(&reads_, reads->family(), *memory_)]->hand_over(reads.get());
  }
  for (auto& ranges : to->ranges_) {
    ranges_[part_of(&ranges_, ranges->family(), *memory_)]->hand_over(ranges.get());
  }
}

void Requests::clear() {
  clear_parts(&writes_);
  clear_parts(&reads_);
  clear_parts(&ranges_);
  reads_at_.clear();
  ranges_at_.clear();
  held_.reset();
  flat_.clear();
  last_writes_ = nullptr;
  write_count_ = 0;
  record_bytes_ = 0;
}

std::uint32_t Requests::record_count() const {
  std::uint32_t count = 0;
  for (const auto& writes : writes_) count += writes->record_count();
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

bool Requests::lay_out() {
  // The default family's records bear no name, so they come before all names.
  std::stable_partition(writes_.begin(), writes_.end(),
                        [](const auto& writes) { return writes->family() == kDefaultFamily; });
  std::uint64_t end = 0;
  for (auto& writes : writes_) {
    if (writes->record_count() == 0) continue;
    writes->base_ = end;
    end += writes->record_bytes();
  }
  BRECCIA_ASSERT(end == record_bytes_ && end > 0);
  return only_writes() != nullptr || flat_.reserve(end);
}

const Writes* Requests::only_writes() const {
  const Writes* only = nullptr;
  for (const auto& writes : writes_) {
    if (writes->record_count() == 0) continue;
    if (only != nullptr) return nullptr;
    only = writes.get();
  }
  return only;
}

const std::byte* Requests::flat_records() {
  if (const Writes* const only = only_writes()) return only->records();
  flat_.clear();
  for (const auto& writes : writes_) {
    if (writes->record_count() == 0) continue;
    std::memcpy(flat_.extend(writes->record_bytes()), writes->records(), writes->record_bytes());
  }
  return flat_.data();
}

std::uint64_t Requests::base_of(FamilyId family) const {
  for (const auto& writes : writes_) {
    if (writes->family() == family) return writes->base();
  }
  return 0;
}

bool Requests::prepare_results(std::size_t parts, bool with_bounds) {
  held_.reset();
  for (auto& reads : reads_) {
    if (!reads->prepare(with_bounds)) return false;
  }
  for (auto& ranges : ranges_) {
    if (!ranges->prepare(with_bounds)) return false;
  }
  while (arenas_.size() < parts) arenas_.push_back(std::make_unique<ResultArena>());
  for (auto& arena : arenas_) arena->clear();
  return true;
}

const ReadResult& Requests::result(std::uint64_t i) const {
  const auto [part, place] = reads_at_.of(i);
  return std::as_const(*reads_[part]).results()[place];
}

const RangeResult& Requests::range_result(std::uint64_t i) const {
  const auto [part, place] = ranges_at_.of(i);
  return std::as_const(*ranges_[part]).results()[place];
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
