#include "hot/exchange.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/assert.h"
#include "base/memory.h"
#include "base/parallel.h"

namespace breccia::hot {

namespace {

/// The writes of a batch, by number.
class WritesByNumber {
 public:
  /// Shape   their records lie in one piece, if their values are not all numbers.
  explicit WritesByNumber(const batch::Writes& writes)
      : writes_(writes), records_(writes.numbers() == nullptr ? writes.records() : nullptr) {}

  void key(std::uint64_t i, std::string* to) const {
    const record::KeyColumnsRef keys = writes_.keys();
    to->resize(keys.bytes_at(i));
    record::restore_key(keys, i, to->data());
  }
  /// None of a deletion.
  [[nodiscard]] std::optional<Slice> value(std::uint64_t i) const {
    const std::uint64_t offset = writes_.offsets()[i];
    if (record::is_deletion(record::op_of(offset))) return std::nullopt;
    if (records_ == nullptr) {
      return Slice(reinterpret_cast<const char*>(writes_.numbers() + i), sizeof(std::uint64_t));
    }
    const std::byte* const record = records_ + record::position_of(offset);
    return Slice(record::record_value(record), record::record_header(record).value_bytes);
  }

 private:
  const batch::Writes& writes_;
  const std::byte* const records_;
};

/// Of each hash the last write. Never full.
class LastWrites {
 public:
  explicit LastWrites(std::uint64_t writes) : places_(std::bit_ceil(2 * writes + 1)) {}

  /// The write that was added for this hash, or `i`, which is from now on.
  std::uint64_t find_or_add(std::uint64_t hash, std::uint64_t i) {
    for (std::uint64_t at = hash;; ++at) {
      Place& place = places_[at & (places_.size() - 1)];
      if (!place.is_taken) place = {hash, i, true};
      if (place.hash == hash) return place.write;
    }
  }

 private:
  struct Place {
    std::uint64_t hash = 0;
    std::uint64_t write = 0;
    bool is_taken = false;
  };
  std::vector<Place> places_;
};

}  // namespace

Exchange::~Exchange() {
  BRECCIA_ASSERT(!has_begun_);
  copies_->discard(changes_);
  copies_->forget(happening_);
}

bool Exchange::add(std::uint64_t hash, const Slice& key, const std::optional<Slice>& value,
                   bool may_come) {
  BRECCIA_ASSERT(!has_begun_);
  if (happening_ == nullptr) happening_ = Copies::make_happening();
  if (happening_ == nullptr) return false;
  const Status room = base::or_memory_limit([&] {
    changes_.emplace_back();
    return Status::OK();
  });
  if (!room.ok()) return false;
  changes_.back() = Copies::make_change(hash, key, value, happening_);
  changes_.back().may_come = may_come;
  return changes_.back().entry != nullptr;
}

/// By many cores, if there are many: others wait for the section that this is in.
template <class Work>
void Exchange::for_each(const Work& work) {
  constexpr std::size_t kChangesOfPart = 1024;
  const std::size_t parts = (changes_.size() + kChangesOfPart - 1) / kChangesOfPart;
  base::shared_once(parts, [&](std::uint64_t part) {
    const std::size_t begin = part * kChangesOfPart;
    const std::size_t end = std::min(changes_.size(), begin + kChangesOfPart);
    for (std::size_t i = begin; i < end; ++i) {
      constexpr std::size_t kAhead = 12;
      if (i + kAhead < end) copies_->fetch(changes_[i + kAhead]);
      work(&changes_[i]);
    }
  });
}

void Exchange::Begin() noexcept {
  BRECCIA_ASSERT(!has_begun_);
  has_begun_ = true;
  for_each([this](Copies::Change* change) { copies_->begin(change); });
}

void Exchange::End(bool happens) noexcept {
  BRECCIA_ASSERT(has_begun_);
  has_begun_ = false;
  if (happens && happening_ != nullptr) Copies::happen(happening_);
  for_each([this, happens](Copies::Change* change) { copies_->end(change, happens); });
}

std::vector<std::uint8_t> told_of(const Roads::Way& way, const record::KeyColumnsRef& keys,
                                  const record::HashSeed& seed) {
  constexpr std::uint64_t kKeysOfPart = 8192;
  std::vector<std::uint8_t> told(keys.count);
  const std::uint64_t parts = (keys.count + kKeysOfPart - 1) / kKeysOfPart;
  base::shared_or_alone(parts, [&](std::uint64_t part) {
    const std::uint64_t end = std::min(keys.count, (part + 1) * kKeysOfPart);
    for (std::uint64_t i = part * kKeysOfPart; i < end; ++i) {
      told[i] = way.tells(record::keyed_hash(keys, i, seed)) ? 1 : 0;
    }
  });
  return told;
}

bool add_writes(const Roads::Way& way, const batch::Writes& writes, const record::HashSeed& seed,
                std::uint64_t value_bytes_max, Exchange* exchange) {
  if (!writes.range_deletes().empty() || writes.merges() > 0) return false;
  const record::KeyColumnsRef keys = writes.keys();
  const std::vector<std::uint8_t> told = told_of(way, keys, seed);
  const auto count = static_cast<std::size_t>(std::count(told.begin(), told.end(), 1));
  if (count == 0) return true;
  if (writes.numbers() == nullptr && !writes.gather()) return false;
  const WritesByNumber by_number(writes);
  LastWrites last(count);
  std::string key, other;
  for (std::uint64_t i = keys.count; i-- > 0;) {
    if (told[i] == 0) continue;
    const std::uint64_t hash = record::keyed_hash(keys, i, seed);
    by_number.key(i, &key);
    const std::uint64_t later = last.find_or_add(hash, i);
    if (later != i) {
      by_number.key(later, &other);
      if (other != key) return false;  // two keys of one hash
      continue;
    }
    const std::optional<Slice> value = by_number.value(i);
    if (value.has_value() && value->size() > value_bytes_max) return false;
    if (!exchange->add(hash, key, value, way.looks(hash))) return false;
  }
  return true;
}

}  // namespace breccia::hot
