#pragma once

#include <breccia/status.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/random.h"

/// Requests of a benchmark.
///
/// A request is a pure function of its stream and its place in it. So nothing is stored, every
/// engine gets the same requests, and a thread makes them for a few nanoseconds each. They are made
/// in chunks that stay in the first-level cache: one virtual call per chunk.
///
/// The value of a key is a function of the key and of a generation, never of the request. So what
/// threads that write the same keys leave behind does not depend on who was last, and results can
/// be compared between engines.
namespace breccia::bench {

enum class Kind : std::uint8_t { kGet, kUpdate, kInsert, kDelete, kReadModifyWrite, kMerge, kScan };
inline constexpr std::size_t kKinds = 7;

/// Whether requests of this kind bring a value.
[[nodiscard]] inline bool has_value(Kind kind) {
  return kind == Kind::kUpdate || kind == Kind::kInsert || kind == Kind::kReadModifyWrite ||
         kind == Kind::kMerge;
}

inline constexpr std::uint32_t kChunkRequests = 256;
inline constexpr std::size_t kKeySizeMax = 1024;

/// A request as its user sees it.
struct Request {
  Kind kind;
  Slice key;
  Slice value;                 // of writes and merges
  std::uint32_t scan_entries;  // of scans
};

/// Up to kChunkRequests requests, with the bytes of their keys.
struct Chunk {
  explicit Chunk(std::size_t key_stride)
      : stride(key_stride), key_bytes(key_stride * kChunkRequests) {}

  const std::size_t stride;
  std::vector<char> key_bytes;
  std::uint32_t count = 0;
  std::array<Kind, kChunkRequests> kind{};
  std::array<Slice, kChunkRequests> key;
  std::array<Slice, kChunkRequests> value;                   // of writes and merges
  std::array<std::uint32_t, kChunkRequests> scan_entries{};  // of scans

  [[nodiscard]] Request at(std::uint32_t i) const {
    return {kind[i], key[i], value[i], scan_entries[i]};
  }
};

/// Requests whose keys and values lie in arrays, in their order.
struct RequestArrays {
  const char* keys = nullptr;
  std::size_t key_stride = 0;
  std::size_t key_bytes = 0;     // of all keys
  const char* values = nullptr;  // null: they have none
  std::size_t value_size = 0;
  bool is_uniform = true;  // they are of one kind, and their keys as long as the stride
  Kind kind = Kind::kGet;  // of the first
  const Kind* kinds = nullptr;
  const std::uint16_t* key_sizes = nullptr;
  const std::uint32_t* scan_entries = nullptr;  // null: none is a scan

  [[nodiscard]] Request at(std::uint64_t i) const {
    const Slice value = has_value(kinds[i]) ? Slice(values + i * value_size, value_size) : Slice();
    return {kinds[i], Slice(keys + i * key_stride, key_sizes[i]), value,
            scan_entries == nullptr ? 0 : scan_entries[i]};
  }
};

/// The requests of one thread.
/// Threads any number may call const members.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Puts the requests [first, first + count) into *chunk.
  /// Shape   count <= kChunkRequests, chunk->stride >= key_size_max().
  virtual void fill(std::uint64_t first, std::uint32_t count, Chunk* chunk) const = 0;
  [[nodiscard]] virtual std::size_t key_size_max() const = 0;
  /// Where all of its requests lie, from the first one on; null: they are made when asked for.
  [[nodiscard]] virtual const RequestArrays* arrays() const { return nullptr; }
  /// Whether a lookup may have this outcome, as far as the generator of the writes can say.
  /// Shape   request `number` is a lookup, or a read-modify-write.
  [[nodiscard]] virtual bool allows(std::uint64_t number, Status::Code code,
                                    const Slice& value) const = 0;
  /// Whether a scan may find so many entries. What they hold is only compared between engines.
  [[nodiscard]] virtual bool allows_scan(std::uint64_t number, Status::Code code,
                                         std::uint64_t entries) const = 0;
};

/// Calls use(number, request) for the requests [first, first + count).
template <class Use>
void for_each_request(const Stream& stream, std::uint64_t first, std::uint32_t count, Chunk* chunk,
                      Use&& use) {
  for (std::uint32_t done = 0; done < count; done += chunk->count) {
    stream.fill(first + done, std::min(kChunkRequests, count - done), chunk);
    for (std::uint32_t i = 0; i < chunk->count; ++i) {
      use(first + done + i, chunk->at(i));
    }
  }
}

/// Writes key number `number` as db_bench does: big-endian in the first eight bytes (its low bytes
/// if the key is shorter), then the digit zero.
inline void write_key(std::uint64_t number, std::size_t key_size, char* to) {
  const std::size_t digits = std::min<std::size_t>(key_size, 8);
  const std::uint64_t swapped = __builtin_bswap64(number << (8 * (8 - digits)));
  std::memcpy(to, &swapped, digits);
  std::memset(to + digits, '0', key_size - digits);
}

/// Values of one size out of a buffer that compresses to half, made as db_bench makes its own.
/// Threads any number.
class ValueSource {
 public:
  explicit ValueSource(std::size_t value_size);

  [[nodiscard]] std::size_t size() const { return size_; }
  /// The value of `key` in `generation`.
  [[nodiscard]] Slice at(std::uint64_t key, std::uint64_t generation) const {
    const std::uint64_t word = base::mix64(key ^ base::mix64(generation));
    const auto offset =
        static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * offsets_) >> 64);
    return {buffer_.data() + offset, size_};
  }

 private:
  std::size_t size_;
  std::uint64_t offsets_;  // places where a value may begin
  std::string buffer_;
};

}  // namespace breccia::bench
