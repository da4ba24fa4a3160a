#include "bench/key_stream.h"

namespace breccia::bench {

namespace {

// Which requests miss says nothing about which keys they choose.
constexpr std::uint64_t kMissSalt = 0x6d697373;

}  // namespace

KeyStream::KeyStream(Config config)
    : config_(std::move(config)), shuffle_(config_.keys->count(), config_.shuffle_seed) {
  BRECCIA_ASSERT(config_.part < config_.parts && config_.part < config_.keys->count());
  BRECCIA_ASSERT(config_.values != nullptr && config_.one_in > 0);
  BRECCIA_ASSERT(config_.misses >= 0 && config_.misses <= 1);
  misses_below_ =
      config_.misses >= 1 ? ~0ULL : static_cast<std::uint64_t>(config_.misses * 0x1.0p64);
  if (config_.order != Order::kRandom || config_.skew <= 0) return;
  const Zipf zipf(config_.keys->count(), config_.skew);
  base::Random random(config_.seed);
  skewed_.resize(config_.skew_choices);
  for (std::uint64_t& number : skewed_) number = shuffle_.at(zipf.rank(random.unit()));
}

std::uint64_t KeyStream::key_number(std::uint64_t request) const {
  const std::uint64_t keys = config_.keys->count();
  if (config_.order == Order::kRandom) {
    if (!skewed_.empty()) return skewed_[request % skewed_.size()];
    const std::uint64_t own = (keys - config_.part - 1) / config_.parts + 1;
    return below(base::mix64(config_.seed + request), own) * config_.parts + config_.part;
  }
  const std::uint64_t count = config_.count == 0 ? blocks_of(keys, config_.one_in) : config_.count;
  const std::uint64_t place = config_.first + request % count;
  if (config_.order == Order::kEachOnce) return shuffle_.at(place);
  return one_of_block(place, config_.one_in, keys);
}

Kind KeyStream::kind_of(std::uint64_t request) const {
  return config_.every_second_reads && request % 2 == 0 ? Kind::kGet : config_.kind;
}

bool KeyStream::is_miss(std::uint64_t request) const {
  return misses_below_ > 0 && kind_of(request) == Kind::kGet &&
         base::mix64((config_.seed + request) ^ kMissSalt) <= misses_below_;
}

void KeyStream::fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const {
  BRECCIA_ASSERT(count <= kChunkRequests && chunk->stride >= key_size_max());
  chunk->count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t number = key_number(first + i);
    char* const key = chunk->key_bytes.data() + i * chunk->stride;
    const std::size_t size = is_miss(first + i) ? config_.keys->write_absent(number, key)
                                                : config_.keys->write(number, key);
    const Kind kind = kind_of(first + i);
    chunk->kind[i] = kind;
    chunk->scan_entries[i] = config_.scan_entries;
    chunk->key[i] = Slice(key, size);
    if (kind == Kind::kInsert || kind == Kind::kUpdate || kind == Kind::kMerge)
      chunk->value[i] = config_.values->at(number, config_.generation);
  }
}

bool KeyStream::allows(std::uint64_t number, Status::Code code, const Slice& value) const {
  if (is_miss(number)) return code == Status::kNotFound;
  return config_.contents.allows(*config_.values, key_number(number), code, value);
}

bool KeyStream::allows_scan(std::uint64_t /*number*/, Status::Code code,
                            std::uint64_t entries) const {
  return code == Status::kOk && entries <= config_.scan_entries;
}

}  // namespace breccia::bench
