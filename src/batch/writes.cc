#include "batch/writes.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/bytes.h"
#include "batch/chunks.h"

namespace breccia::batch {

namespace {

/// The record that names a family before its first.
record::RecordHeader name_header() {
  return record::RecordHeader::make(record::Op::kFamily, 0, sizeof(FamilyId));
}

}  // namespace

void Writes::add_name() {
  add_record(name_header(), Slice(), {reinterpret_cast<const char*>(&family_), sizeof family_});
}

void Writes::add_record(const record::RecordHeader& header, const Slice& key, const Slice& value) {
  const std::uint64_t bytes = header.record_bytes();
  BRECCIA_ASSERT(key.size() == header.key_bytes() && value.size() == header.value_bytes);
  std::byte* const place = records_.extend(bytes);
  std::byte* const record = stream_ == nullptr ? place : stream_->next(bytes);
  record::write_record(record, header, key.data(), key.size(), value.data(), value.size());
  ++record_count_;
}

bool Writes::make_room(std::uint64_t bytes) {
  if (array_bytes_ > 0 && !gather()) return false;
  const std::uint64_t needed = records_.size() + bytes;
  if (needed > records_.capacity()) {
    settle();
    return records_.reserve(needed);
  }
  if (stream_ == nullptr && records_.size() >= kStreamedFrom) {
    stream_.reset(new (std::nothrow) base::StreamedBytes(records_.data() + records_.size()));
  }
  return true;
}

bool Writes::add_another(const record::RecordHeader& header, const Slice& key, const Slice& value) {
  const record::Op op = header.op();
  const bool is_point = record::is_point(op);
  const bool is_first = needs_name();
  // What may fail comes first, so that a failure changes nothing.
  const std::uint64_t bytes = header.record_bytes() + (is_first ? name_header().record_bytes() : 0);
  if (!make_room(bytes)) return false;
  if (!is_point && range_deletes_.size() == range_deletes_.capacity()) {
    range_deletes_.reserve(2 * range_deletes_.size() + 1);
  }
  if (is_point && (!offsets_.reserve(point_count() + 1) ||
                   (only_numbers_ && !numbers_.reserve(point_count() + 1)) ||
                   !keys_.append(key.data(), key.size()))) {
    return false;
  }
  if (is_first) add_name();
  if (is_point) {
    offsets_.push(records_.size() | static_cast<std::uint64_t>(op));
    if (only_numbers_) add_number(op, value);
    merges_ += op == record::Op::kMerge ? 1 : 0;
    deletes_ += record::is_deletion(op) ? 1 : 0;
  } else {
    range_deletes_.push_back(records_.size());
  }
  add_record(header, key, value);
  count_pushes();
  BRECCIA_ASSERT(keys_.count() == offsets_.size());
  BRECCIA_ASSERT(!only_numbers_ || numbers_.size() == offsets_.size());
  return true;
}

void Writes::count_pushes() {
  constexpr std::uint64_t kAtOnce = 4096;  // then it is looked whether records are to be streamed
  BRECCIA_ASSERT(array_bytes_ == 0 && record_count_ > 0);
  const auto room = [](const auto& array) { return array.capacity() - array.size(); };
  pushes_ = std::min(kAtOnce, room(offsets_));
  if (only_numbers_) pushes_ = std::min(pushes_, room(numbers_));
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

bool Writes::add(record::Op op, const RecordArray& records, bool in_place) {
  const std::uint64_t n = records.keys.count();
  BRECCIA_ASSERT(n > 0 && record::is_point(op));
  const std::uint64_t points = point_count() + n;
  const std::uint64_t words = records.keys.tail_words.total();
  const std::uint32_t key_bytes = records.keys.uniform_bytes();
  const bool has_numbers = records.values.uniform_bytes == sizeof numbers_[0];
  const bool only_numbers = only_numbers_ && (has_numbers || record::is_deletion(op));
  const std::uint64_t name_bytes = needs_name() ? name_header().record_bytes() : 0;
  pushes_ = 0;
  // Operands may be worked out in the place of their records.
  in_place = in_place && op != record::Op::kMerge;
  const std::uint64_t bytes = records.bytes.total();
  if (!gather()) return false;
  settle();
  if (in_place) in_arrays_.emplace(op, records);
  if (!records_.reserve(records_.size() + name_bytes + (in_place ? 0 : bytes)) ||
      !offsets_.reserve(points) || (only_numbers && !numbers_.reserve(points)) ||
      !keys_.reserve(n, words, key_bytes)) {
    in_arrays_.reset();
    return false;
  }
  if (needs_name()) add_name();
  only_numbers_ = only_numbers;
  RecordSlots slots{};
  slots.keys = keys_.extend(n, words, key_bytes);
  slots.records_begin = records_.size();
  if (!in_place) slots.records = records_.extend(bytes);
  slots.offsets = offsets_.extend(n);
  if (only_numbers) slots.numbers = numbers_.extend(n);
  write_records(op, records, slots);
  if (in_place) array_bytes_ = bytes;
  record_count_ += static_cast<std::uint32_t>(n);
  merges_ += op == record::Op::kMerge ? n : 0;
  deletes_ += record::is_deletion(op) ? n : 0;
  BRECCIA_ASSERT(keys_.count() == points && offsets_.size() == points);
  BRECCIA_ASSERT(!only_numbers_ || numbers_.size() == points);
  return true;
}

const std::byte* Writes::bytes(std::uint64_t begin, std::uint64_t end, std::byte* room) const {
  BRECCIA_ASSERT(begin <= end && end <= record_bytes());
  const std::uint64_t own = records_.size();
  if (end <= own) return records_.data() + begin;
  BRECCIA_ASSERT(in_arrays_.has_value());
  std::byte* to = room;
  if (begin < own) {
    std::memcpy(to, records_.data() + begin, own - begin);
    to += own - begin;
    begin = own;
  }
  write_record_bytes(in_arrays_->op, in_arrays_->records, begin - own, end - own, to);
  return room;
}

bool Writes::gather() const {
  if (!in_arrays_.has_value()) return true;
  const auto& [op, arrays] = *in_arrays_;
  if (!records_.reserve(records_.size() + array_bytes_)) return false;
  std::byte* const to = records_.extend(array_bytes_);
  const std::uint64_t count = arrays.keys.count();
  for_each_chunk(count, [&](std::uint64_t chunk, std::uint64_t /*begin*/, std::uint64_t end) {
    const std::uint64_t from = arrays.bytes.before(chunk);
    const std::uint64_t until = end == count ? array_bytes_ : arrays.bytes.before(chunk + 1);
    write_record_bytes(op, arrays, from, until, to + from);
  });
  in_arrays_.reset();
  array_bytes_ = 0;
  BRECCIA_ASSERT(record_bytes() == records_.size());
  return true;
}

// What comes behind other records needs no record that names the family.
bool Writes::append(const Writes& other) {
  BRECCIA_ASSERT(other.family_ == family_);
  pushes_ = 0;
  if (!gather()) return false;
  settle();
  other.settle();
  const bool is_named = family_ != kDefaultFamily && records_.size() > 0;
  const std::uint64_t skip = is_named && other.record_count_ > 0 ? name_header().record_bytes() : 0;
  const std::uint64_t bytes = other.record_bytes() - skip;
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
  if (bytes > 0) {
    std::byte* const to = records_.extend(bytes);
    const std::byte* const from = other.bytes(skip, skip + bytes, to);
    if (from != to) std::memcpy(to, from, bytes);
  }
  for (std::uint64_t i = 0; i < other.offsets_.size(); ++i)
    offsets_.push(other.offsets_[i] + shift);
  for (const std::uint64_t offset : other.range_deletes_) range_deletes_.push_back(offset + shift);
  record_count_ += other.record_count_ - (skip > 0 ? 1 : 0);
  merges_ += other.merges_;
  deletes_ += other.deletes_;
  only_numbers_ = only_numbers;
  BRECCIA_ASSERT(offsets_.size() == points && keys_.count() == points);
  BRECCIA_ASSERT(points == 0 || record::position_of(offsets_[points - 1]) < records_.size());
  return true;
}

bool Writes::append(const Writes& other, const ChosenWrites& chosen) {
  BRECCIA_ASSERT(other.family_ == family_ && &other != this);
  if (!other.gather()) return false;
  RecordWalk walk(&other, &chosen);
  while (walk.at() < other.record_bytes()) {
    const std::byte* const record = other.records() + walk.at();
    if (!walk.step()) continue;
    const record::RecordHeader header = record::record_header(record);
    if (!add(header, Slice(record::record_key(record), header.key_bytes()),
             Slice(record::record_value(record), header.value_bytes))) {
      return false;
    }
  }
  return true;
}

void Writes::clear() {
  settle();
  records_.clear();
  pushes_ = 0;
  in_arrays_.reset();
  array_bytes_ = 0;
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
  BRECCIA_ASSERT(only_numbers_ && numbers_.size() == point_count());
  BRECCIA_ASSERT(numbers->size() == point_count());
  numbers_.swap(*numbers);
  pushes_ = 0;
}

void Writes::write_record(std::uint64_t i) {
  // Operands are never in an array of the caller's.
  BRECCIA_ASSERT(stream_ == nullptr && record::position_of(offsets_[i]) < records_.size());
  std::byte* const record = records_.data() + record::position_of(offsets_[i]);
  const record::RecordHeader before = record::record_header(record);
  BRECCIA_ASSERT(only_numbers_ && before.value_bytes == sizeof numbers_[i]);
  const auto header = record::RecordHeader::make(record::op_of(offsets_[i]), before.key_bytes(),
                                                 before.value_bytes);
  std::memcpy(record, &header, sizeof header);
  std::memcpy(record + sizeof header + header.key_bytes(), &numbers_[i], sizeof numbers_[i]);
}

bool RecordWalk::step() {
  BRECCIA_ASSERT(at_ < writes_->record_bytes());
  const record::RecordHeader header = record::record_header(writes_->records() + at_);
  at_ += header.record_bytes();
  BRECCIA_ASSERT(at_ <= writes_->record_bytes());
  if (header.op() == record::Op::kFamily) return false;
  const bool is_point = record::is_point(header.op());
  const Flags& flags = is_point ? chosen_->points : chosen_->range_deletes;
  const std::uint64_t i = is_point ? points_++ : range_deletes_++;
  BRECCIA_ASSERT(i < flags.size());
  return flags[i] != 0;
}

BytesBefore::BytesBefore(FamilyId family, std::uint64_t own, const Writes* added,
                         const ChosenWrites* chosen)
    : name_bytes_(family == kDefaultFamily ? 0 : name_header().record_bytes()),
      own_(own),
      added_bytes_(added == nullptr ? 0 : added->record_bytes()),
      all_(chosen == nullptr),
      walk_(added, chosen) {}

std::uint64_t BytesBefore::of(std::uint64_t after) {
  BRECCIA_ASSERT(after <= added_bytes_ && (after == 0 || after > name_bytes_));
  if (all_) chosen_bytes_ = after == 0 ? 0 : after - name_bytes_;
  while (!all_ && walk_.at() < after) {
    const std::uint64_t at = walk_.at();
    if (walk_.step()) chosen_bytes_ += walk_.at() - at;
  }
  BRECCIA_ASSERT(all_ || walk_.at() == after);
  const bool names = own_ == 0 && chosen_bytes_ > 0;  // who comes behind others needs no name
  return own_ + (names ? name_bytes_ : 0) + chosen_bytes_;
}

}  // namespace breccia::batch
