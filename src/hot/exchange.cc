#include "hot/exchange.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <new>
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
  base::shared_once(parts_.size(), [&](std::uint64_t part) { copies_->discard(parts_[part]); });
  copies_->forget(happening_);
}

bool Exchange::open(std::size_t parts) {
  BRECCIA_ASSERT(!has_begun_ && parts_.empty());
  happening_ = Copies::make_happening();
  if (happening_ == nullptr) return false;
  return base::or_memory_limit([&] {
           parts_.resize(parts);
           return Status::OK();
         })
      .ok();
}

bool Exchange::add(std::size_t part, std::uint64_t hash, const Slice& key,
                   const std::optional<Slice>& value, bool may_come) {
  BRECCIA_ASSERT(!has_begun_ && happening_ != nullptr);
  std::vector<Copies::Change>& changes = parts_.at(part);
  const Status room = base::or_memory_limit([&] {
    changes.emplace_back();
    return Status::OK();
  });
  if (!room.ok()) return false;
  changes.back() = Copies::make_change(hash, key, value, happening_);
  changes.back().may_come = may_come;
  return changes.back().entry != nullptr;
}

/// By many cores, if there are many: others wait for the section that this is in.
template <class Work>
void Exchange::for_each(const Work& work) {
  base::shared_once(parts_.size(), [&](std::uint64_t part) {
    std::vector<Copies::Change>& changes = parts_[part];
    for (std::size_t i = 0; i < changes.size(); ++i) {
      constexpr std::size_t kAhead = 12;
      if (i + kAhead < changes.size()) copies_->fetch(changes[i + kAhead]);
      work(&changes[i]);
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

std::vector<std::vector<ToldWrite>> told_of(const Roads::Way& way,
                                            const record::KeyColumnsRef& keys,
                                            const record::HashSeed& seed) {
  constexpr std::uint64_t kKeysOfList = 4096;
  std::vector<std::vector<ToldWrite>> told((keys.count + kKeysOfList - 1) / kKeysOfList);
  std::atomic<bool> has_memory{true};
  base::shared_or_alone(told.size(), [&](std::uint64_t list) {
    bool is_done = false;
    base::as_memory_allows([&] {
      told[list].clear();
      const std::uint64_t end = std::min(keys.count, (list + 1) * kKeysOfList);
      for (std::uint64_t i = list * kKeysOfList; i < end; ++i) {
        const std::uint64_t hash = record::keyed_hash(keys, i, seed);
        if (way.tells(hash)) told[list].push_back({hash, i});
      }
      is_done = true;
    });
    if (!is_done) has_memory = false;
  });
  if (!has_memory) throw std::bad_alloc();
  return told;
}

namespace {

/// Puts what a batch's writes leave into an exchange, keys of some hashes into each part.
class Leaver {
 public:
  Leaver(const Roads::Way& way, const batch::Writes& writes, std::uint64_t value_bytes_max,
         const std::vector<std::vector<ToldWrite>>& told, std::size_t parts, Exchange* exchange)
      : way_(way),
        by_number_(writes),
        value_bytes_max_(value_bytes_max),
        told_(told),
        parts_(parts),
        exchange_(exchange) {}

  /// False: what is left is not known, or may not be.
  /// Errors  throws std::bad_alloc.
  bool add(std::size_t part) const {
    // Those of the part, the last one first.
    std::vector<ToldWrite> own;
    for (auto list = told_.rbegin(); list != told_.rend(); ++list) {
      std::copy_if(list->rbegin(), list->rend(), std::back_inserter(own),
                   [&](const ToldWrite& one) { return part_of(one.hash) == part; });
    }
    LastWrites last(own.size());
    std::string key, other;
    for (const ToldWrite& one : own) {
      by_number_.key(one.write, &key);
      const std::uint64_t later = last.find_or_add(one.hash, one.write);
      if (later != one.write) {
        by_number_.key(later, &other);
        if (other != key) return false;  // two keys of one hash
        continue;
      }
      const std::optional<Slice> value = by_number_.value(one.write);
      if (value.has_value() && value->size() > value_bytes_max_) return false;
      if (!exchange_->add(part, one.hash, key, value, way_.looks(one.hash))) return false;
    }
    return true;
  }

 private:
  /// Neighbours among the buckets of copies, too.
  [[nodiscard]] std::size_t part_of(std::uint64_t hash) const {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(hash) * parts_ >> 64);
  }

  const Roads::Way& way_;
  const WritesByNumber by_number_;
  const std::uint64_t value_bytes_max_;
  const std::vector<std::vector<ToldWrite>>& told_;
  const std::size_t parts_;
  Exchange* const exchange_;
};

}  // namespace

bool add_writes(const Roads::Way& way, const batch::Writes& writes, const record::HashSeed& seed,
                std::uint64_t value_bytes_max, Exchange* exchange) {
  constexpr std::size_t kWritesOfPart = 1024;
  // Each part looks through the lists of all.
  constexpr std::size_t kPartsMax = 32;
  if (!writes.range_deletes().empty() || writes.merges() > 0) return false;
  const std::vector<std::vector<ToldWrite>> told = told_of(way, writes.keys(), seed);
  std::size_t count = 0;
  for (const std::vector<ToldWrite>& list : told) count += list.size();
  if (count == 0) return true;
  if (writes.numbers() == nullptr && !writes.gather()) return false;
  const std::size_t parts = std::min(count / kWritesOfPart + 1, kPartsMax);
  if (!exchange->open(parts)) return false;
  const Leaver leaver(way, writes, value_bytes_max, told, parts, exchange);
  std::atomic<bool> is_known{true};
  base::shared_once(parts, [&](std::uint64_t part) {
    bool is_added = false;
    base::as_memory_allows([&] { is_added = leaver.add(part); });
    if (!is_added) is_known = false;
  });
  return is_known;
}

}  // namespace breccia::hot
