#include "batch/key_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/parallel.h"
#include "record/key_hash.h"

/// Requests for one key are found by the hash of its words:
///
///  1. Chunks of requests, in arrival order, are hashed, and counted by part: a part has the keys
///     whose hashes begin with the same bits.
///  2. Each chunk puts its requests into the parts, behind those of the chunks before it.
///  3. Each part has a hash table of the last request of each key, and its requests go through that
///     one by one: whoever finds a request of its key is linked to it, and takes its place.
///
/// Keys can be made to have one hash. A part in which the search takes too long is sorted instead.

namespace breccia::batch {

namespace {

constexpr std::uint64_t kChunkRequests = 4096;
constexpr int kPartBits = 6;

/// Calls work(i) for i in [0, n), on several threads if there are several.
template <class Work>
void for_each(std::uint64_t n, const Work& work) {
  if (n == 1) {
    work(std::uint64_t{0});
  } else {
    base::parallel_for(std::uint64_t{0}, n, work);
  }
}

/// The keys of all requests, by their numbers.
class Keys {
 public:
  Keys(const Writes* writes, const Reads* reads)
      : writes_(writes == nullptr ? record::KeyColumnsRef() : writes->keys()),
        reads_(reads == nullptr ? record::KeyColumnsRef() : reads->keys()) {}

  [[nodiscard]] std::uint64_t count() const { return writes_.count + reads_.count; }
  [[nodiscard]] std::uint32_t hash(std::uint64_t i) const {
    const auto [keys, at] = find(i);
    return static_cast<std::uint32_t>(record::hash_key(*keys, at, /*seed=*/0));
  }
  [[nodiscard]] int compare(std::uint64_t i, std::uint64_t j) const {
    const auto [left, left_at] = find(i);
    const auto [right, right_at] = find(j);
    return record::compare_keys(*left, left_at, *right, right_at);
  }
  [[nodiscard]] bool are_same(std::uint64_t i, std::uint64_t j) const { return compare(i, j) == 0; }

 private:
  [[nodiscard]] std::pair<const record::KeyColumnsRef*, std::uint64_t> find(std::uint64_t i) const {
    BRECCIA_INVARIANT(i < count());
    if (i < writes_.count) return {&writes_, i};
    return {&reads_, i - writes_.count};
  }

  const record::KeyColumnsRef writes_;
  const record::KeyColumnsRef reads_;
};

/// A request with the hash of its key, in one word; never 0.
std::uint64_t word_of(std::uint32_t hash, std::uint64_t request) {
  return std::uint64_t{hash} << 32 | (request + 1);
}
std::uint32_t request_of(std::uint64_t word) { return static_cast<std::uint32_t>(word) - 1; }
std::uint64_t hash_of(std::uint64_t word) { return word >> 32; }

/// Slots of the table for `requests` requests: a power of two, a third of them stays empty.
std::uint64_t slots_for(std::uint64_t requests) {
  return requests == 0 ? 0 : std::bit_ceil(requests + requests / 2 + 1);
}

/// Of each request the one before it on its key, and the next.
struct KeyLinks {
  std::uint32_t* before;
  std::uint32_t* next;

  void begin(std::uint32_t request) const { before[request] = next[request] = KeyOrder::kNone; }
  /// Links a request to the last one of its key; true if that one was alone so far.
  [[nodiscard]] bool add(std::uint32_t last, std::uint32_t request) const {
    BRECCIA_INVARIANT(next[last] == KeyOrder::kNone && before[request] == KeyOrder::kNone);
    next[last] = request;
    before[request] = last;
    return before[last] == KeyOrder::kNone;
  }
};

/// Fills a key order.
class Linker {
 public:
  Linker(const Keys& keys, exec::HostMemory& memory)
      : keys_(keys),
        chunks_(std::max<std::uint64_t>(1, (keys.count() + kChunkRequests - 1) / kChunkRequests)),
        parts_(chunks_ == 1 ? 1 : std::uint64_t{1} << kPartBits),
        arrived_(memory),
        sorted_(memory),
        ends_(memory),
        slots_(memory) {}

  /// False: out of memory.
  [[nodiscard]] bool reserve() {
    if (!arrived_.reserve(keys_.count()) || !sorted_.reserve(keys_.count()) ||
        !ends_.reserve(chunks_ * parts_)) {
      return false;
    }
    arrived_.extend(keys_.count());
    sorted_.extend(keys_.count());
    std::fill_n(ends_.extend(chunks_ * parts_), chunks_ * parts_, 0);
    return true;
  }

  void number(const Writes* writes, const Reads* reads);
  /// False: out of memory.
  [[nodiscard]] bool sort();
  /// Links the requests; of each key that several have, the first one goes to `shared`.
  /// False: out of memory.
  [[nodiscard]] bool link(KeyLinks links, exec::HostVector<std::uint32_t>* shared);

 private:
  [[nodiscard]] std::uint64_t part_of(std::uint64_t word) const {
    return parts_ == 1 ? 0 : word >> (64 - kPartBits);
  }
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> chunk(std::uint64_t i) const {
    return {i * kChunkRequests, std::min(keys_.count(), (i + 1) * kChunkRequests)};
  }
  [[nodiscard]] std::optional<std::uint64_t> link_by_hash(std::uint64_t begin, std::uint64_t end,
                                                          std::uint64_t* slots, KeyLinks links);
  std::uint64_t link_by_sort(std::uint64_t part, std::uint64_t begin, std::uint64_t end,
                             KeyLinks links);

  const Keys& keys_;
  const std::uint64_t chunks_;
  const std::uint64_t parts_;
  exec::HostVector<std::uint64_t> arrived_;  // words in arrival order
  exec::HostVector<std::uint64_t> sorted_;   // those of each part, in arrival order
  exec::HostVector<std::uint64_t> ends_;     // of chunk c and part p at [c * parts_ + p]
  exec::HostVector<std::uint64_t> slots_;
};

/// Numbers the requests in arrival order. Hashes come later.
void Linker::number(const Writes* writes, const Reads* reads) {
  const std::uint64_t write_count = writes == nullptr ? 0 : writes->point_count();
  const std::uint64_t read_count = reads == nullptr ? 0 : reads->count();
  std::uint64_t* out = arrived_.data();
  std::uint64_t read = 0;
  for (std::uint64_t write = 0; write < write_count; ++write) {
    const std::uint64_t place = record::position_of(writes->offsets()[write]);
    for (; read < read_count && reads->after(read) <= place; ++read) *out++ = write_count + read;
    *out++ = write;
  }
  for (; read < read_count; ++read) *out++ = write_count + read;
  BRECCIA_ASSERT(out == arrived_.data() + arrived_.size());
}

bool Linker::sort() {
  for_each(chunks_, [&](std::uint64_t i) {
    const auto [begin, end] = chunk(i);
    for (std::uint64_t at = begin; at < end; ++at) {
      std::uint64_t& word = arrived_.data()[at];
      word = word_of(keys_.hash(word), word);
      ++ends_.data()[i * parts_ + part_of(word)];
    }
  });
  // From counts to where each chunk begins in each part.
  std::uint64_t sum = 0;
  std::uint64_t slots = 0;
  for (std::uint64_t part = 0; part < parts_; ++part) {
    const std::uint64_t begin = sum;
    for (std::uint64_t i = 0; i < chunks_; ++i) {
      std::uint64_t& end = ends_.data()[i * parts_ + part];
      sum += std::exchange(end, sum);
    }
    slots += slots_for(sum - begin);
  }
  BRECCIA_ASSERT(sum == keys_.count());
  if (!slots_.reserve(slots)) return false;
  slots_.extend(slots);
  for_each(chunks_, [&](std::uint64_t i) {
    const auto [begin, end] = chunk(i);
    for (std::uint64_t at = begin; at < end; ++at) {
      const std::uint64_t word = arrived_[at];
      sorted_.data()[ends_.data()[i * parts_ + part_of(word)]++] = word;
    }
  });
  return true;
}

bool Linker::link(KeyLinks links, exec::HostVector<std::uint32_t>* shared) {
  struct Part {
    std::uint64_t begin, end, slots, shared;
  };
  std::array<Part, std::size_t{1} << kPartBits> parts{};
  std::uint64_t begin = 0;
  std::uint64_t slots = 0;
  for (std::uint64_t i = 0; i < parts_; ++i) {
    const std::uint64_t end = ends_[(chunks_ - 1) * parts_ + i];
    parts[i] = {begin, end, slots, 0};
    slots += slots_for(end - begin);
    begin = end;
  }
  BRECCIA_ASSERT(begin == keys_.count() && slots == slots_.size());
  for_each(parts_, [&](std::uint64_t i) {
    Part& part = parts[i];
    const auto by_hash = link_by_hash(part.begin, part.end, slots_.data() + part.slots, links);
    part.shared = by_hash.has_value() ? *by_hash : link_by_sort(i, part.begin, part.end, links);
  });
  for (std::uint64_t i = 0; i < parts_; ++i) {
    if (!shared->reserve(shared->size() + parts[i].shared)) return false;
    for (std::uint64_t at = parts[i].begin; at < parts[i].begin + parts[i].shared; ++at) {
      shared->push(static_cast<std::uint32_t>(sorted_[at]));
    }
  }
  return true;
}

/// Links the requests sorted_[begin, end), and leaves at its front, in their place, the first ones
/// of the keys that several have. Returns how many those are; none if the keys' hashes are too much
/// alike for that.
std::optional<std::uint64_t> Linker::link_by_hash(std::uint64_t begin, std::uint64_t end,
                                                  std::uint64_t* slots, KeyLinks links) {
  std::uint64_t shared = 0;
  std::uint64_t probes_left = 4096 + 16 * (end - begin);  // hardly two a request are usual
  const std::uint64_t slot_count = slots_for(end - begin);
  std::fill_n(slots, slot_count, 0);
  for (std::uint64_t at = begin; at < end; ++at) {
    const std::uint64_t word = sorted_[at];
    const std::uint32_t request = request_of(word);
    links.begin(request);
    std::uint64_t slot = hash_of(word) & (slot_count - 1);
    while (slots[slot] != 0 && (hash_of(slots[slot]) != hash_of(word) ||
                                !keys_.are_same(request_of(slots[slot]), request))) {
      if (--probes_left == 0) return std::nullopt;
      slot = (slot + 1) & (slot_count - 1);
    }
    const std::uint64_t found = std::exchange(slots[slot], word);
    if (found == 0) continue;
    const std::uint32_t last = request_of(found);
    if (links.add(last, request)) sorted_.data()[begin + shared++] = last;
  }
  return shared;
}

/// The same of a part as it came.
std::uint64_t Linker::link_by_sort(std::uint64_t part, std::uint64_t begin, std::uint64_t end,
                                   KeyLinks links) {
  std::uint64_t* const words = sorted_.data() + begin;
  std::uint64_t* const words_end =
      std::copy_if(arrived_.data(), arrived_.data() + arrived_.size(), words,
                   [&](std::uint64_t word) { return part_of(word) == part; });
  BRECCIA_ASSERT(words_end == sorted_.data() + end);
  std::stable_sort(words, words_end, [&](std::uint64_t left, std::uint64_t right) {
    return keys_.compare(request_of(left), request_of(right)) < 0;
  });
  std::uint64_t shared = 0;
  std::uint32_t last = KeyOrder::kNone;
  for (std::uint64_t i = 0; i < end - begin; ++i) {
    const std::uint32_t request = request_of(words[i]);
    links.begin(request);
    if (last != KeyOrder::kNone && keys_.are_same(last, request) && links.add(last, request)) {
      words[shared++] = last;
    }
    last = request;
  }
  return shared;
}

}  // namespace

bool KeyOrder::build(const Writes* writes, const Reads* reads) {
  BRECCIA_ASSERT(writes == nullptr || reads == nullptr || writes->family() == reads->family());
  clear();
  const Keys keys(writes, reads);
  const std::uint64_t n = keys.count();
  BRECCIA_ASSERT(n <= limits::kBatchRequestsMax);
  if (!before_.reserve(n) || !next_.reserve(n)) return false;
  Linker linker(keys, memory_);
  if (!linker.reserve()) return false;
  linker.number(writes, reads);
  if (!linker.sort()) return false;
  if (!linker.link({before_.data(), next_.data()}, &shared_)) {
    clear();
    return false;
  }
  before_.extend(n);
  next_.extend(n);
  return true;
}

void KeyOrder::clear() {
  before_.clear();
  next_.clear();
  shared_.clear();
}

}  // namespace breccia::batch
