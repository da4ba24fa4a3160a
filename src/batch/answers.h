#pragma once

#include <breccia/status.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/streamed_bytes.h"
#include "batch/reads.h"
#include "batch/results.h"

namespace breccia::batch {

/// Shorter values are copied all the same: whoever reads them finds them side by side, and not one
/// in each line of the cache.
inline constexpr std::size_t kInPlaceBytesMin = 64;

/// Takes results of reads, in any order, and puts each where it belongs: to the batch, or into an
/// array of the caller's. Those that come one behind the other can go past the caches.
/// Shape   the reads are prepared; each gets one result.
/// Owner   the reads and the arena live longer.
/// Threads one owner; reads may be shared among any number of these.
class Answers {
 public:
  /// `arena` is for values that go to the batch; null if none are added.
  Answers(Reads* reads, ResultArena* arena)
      : reads_(reads), results_(reads->results()), codes_(reads->codes()), arena_(arena) {}

  /// Values are so many that they leave the caches before anybody reads them.
  void stream_values() { streams_ = true; }

  /// An outcome without a value.
  void add(std::uint64_t i, Status::Code code) {
    BRECCIA_ASSERT(code != Status::Code::kOk);
    if (goes_to_batch(i)) {
      results_[i] = {nullptr, 0, code};
    } else {
      put_code(i, code);
    }
  }
  /// A value that lies elsewhere.
  void add_value(std::uint64_t i, const Slice& value) {
    if (goes_to_batch(i)) {
      keep(i, value);
    } else {
      put_value(i, value);
    }
  }
  /// A value that lies in memory which the batch holds.
  void add_place(std::uint64_t i, const Slice& value) {
    if (value.size() >= kInPlaceBytesMin && goes_to_batch(i)) {
      results_[i] = {value.data(), static_cast<std::uint32_t>(value.size()), Status::Code::kOk};
    } else {
      add_value(i, value);
    }
  }
  /// A value of 8 bytes that lives as long as the batch's results.
  void add_number(std::uint64_t i, const std::uint64_t* number) {
    add_result(i, {reinterpret_cast<const char*>(number), sizeof *number, Status::Code::kOk});
  }
  /// The same for reads from `i` on, whose numbers lie side by side, up to `end` or the first
  /// without one, or in another place than `i`. Returns how far it came.
  template <class HasNumber>
  std::uint64_t add_numbers(std::uint64_t i, std::uint64_t end, const std::uint64_t* numbers,
                            const HasNumber& has_number) {
    BRECCIA_ASSERT(i < end);
    const bool to_batch = goes_to_batch(i);
    end = std::min(end, stretch_.end);
    if (to_batch) {
      for (; i < end && has_number(i); ++i) add_number(i, numbers++);
      return i;
    }
    return stretch_.into.width == sizeof *numbers ? fill_numbers(i, end, numbers, has_number) : i;
  }
  /// Values that lie elsewhere, of reads from `i` on, up to `end` or the first for which value_of()
  /// returns none, or in another place than `i`. Returns how far it came.
  template <class ValueOf>
  std::uint64_t add_values(std::uint64_t i, std::uint64_t end, const ValueOf& value_of) {
    BRECCIA_ASSERT(i < end);
    const bool to_batch = goes_to_batch(i);
    end = std::min(end, stretch_.end);
    if (!to_batch && goes_in_a_row()) return stream_row(i, end, value_of);
    for (bool in_rows = to_batch; i < end; ++i) {
      if (in_rows && streams_) {
        const std::uint64_t from = i;
        i = keep_row(i, end, value_of);
        in_rows = i > from;  // values too short for it would be asked for twice
        if (i == end) break;
      }
      const Slice value = value_of(i);
      if (value.data() == nullptr) break;
      if (to_batch) {
        keep(i, value);
      } else {
        put_value(i, value);
      }
    }
    return i;
  }
  void add_result(std::uint64_t i, const ReadResult& result) {
    if (goes_to_batch(i)) {
      results_[i] = result;
    } else if (result.code != Status::Code::kOk) {
      put_code(i, result.code);
    } else {
      put_value(i, {result.data, result.bytes});
    }
  }

 private:
  [[nodiscard]] bool goes_to_batch(std::uint64_t i) {
    if (i < stretch_.begin || i >= stretch_.end) stretch_ = reads_->stretch_at(i);
    return stretch_.into.found == nullptr;
  }
  void keep(std::uint64_t i, const Slice& value) {
    BRECCIA_ASSERT(arena_ != nullptr);
    char* const copy = arena_->allocate(value.size());
    base::copy_inline(on_the_way_to(copy, value.size()), value.data(), value.size());
    results_[i] = {copy, static_cast<std::uint32_t>(value.size()), Status::Code::kOk};
  }
  /// add_numbers() into an array of such numbers.
  template <class HasNumber>
  std::uint64_t fill_numbers(std::uint64_t i, std::uint64_t end, const std::uint64_t* numbers,
                             const HasNumber& has_number) {
    // Copies that nobody else can write to stay in registers.
    const std::ptrdiff_t stride = stretch_.into.stride;
    const std::uint64_t first = stretch_.begin;
    std::uint8_t* const found = stretch_.into.found;
    std::uint8_t* const codes = codes_;
    auto* place = reinterpret_cast<std::byte*>(stretch_.place(i));
    const auto add_one = [&] {
      std::memcpy(place, numbers++, sizeof *numbers);
      found[i - first] = 1;
      codes[i] = Status::Code::kOk;
      ++i;
      place += stride;
    };
    constexpr std::uint64_t kBlock = 16;  // in which none is missing, mostly: no jump for each
    constexpr std::uint64_t kBlockBytes = kBlock * sizeof *numbers;
    static_assert(kBlockBytes % base::kLineBytes == 0);
    const auto none_missing = [&] {
      bool all = true;
      for (std::uint64_t read = i; read < i + kBlock; ++read) all &= has_number(read);
      return all;
    };
    const bool in_a_row = stride == sizeof *numbers;
    const bool streams =
        streams_ && in_a_row && base::bytes_before_line(place) % sizeof *numbers == 0;
    bool has_streamed = false;
    while (in_a_row && i + kBlock <= end && none_missing()) {
      if (streams && base::bytes_before_line(place) > 0) {
        add_one();
        continue;
      }
      if (streams) {
        base::stream_lines(place, reinterpret_cast<const std::byte*>(numbers), kBlockBytes);
      } else {
        std::memcpy(place, numbers, kBlockBytes);
      }
      has_streamed = streams;
      std::memset(found + (i - first), 1, kBlock);
      std::memset(codes + i, Status::Code::kOk, kBlock);
      i += kBlock;
      numbers += kBlock;
      place += kBlockBytes;
    }
    if (has_streamed) base::end_stream();
    while (i < end && has_number(i)) add_one();
    return i;
  }
  // In the loops over all results a call would cost as much as the copy.
  [[gnu::always_inline]] void put_code(std::uint64_t i, Status::Code code) {
    BRECCIA_ASSERT(stretch_.begin <= i && i < stretch_.end);
    stretch_.into.found[i - stretch_.begin] = code == Status::Code::kOk ? 1 : 0;
    codes_[i] = static_cast<std::uint8_t>(code);
  }
  [[gnu::always_inline]] void put_value(std::uint64_t i, const Slice& value) {
    // It would be cut, or leave bytes of another value.
    if (value.size() != stretch_.into.width) return put_code(i, Status::Code::kInvalidArgument);
    char* const place = stretch_.place(i);
    base::copy_inline(on_the_way_to(place, value.size()), value.data(), value.size());
    put_code(i, Status::Code::kOk);
  }
  /// Where `bytes` bytes that belong at `place` are to be written.
  char* on_the_way_to(char* place, std::size_t bytes) {
    if (!streams_ || bytes < kStreamedBytesMin || !begin_stream_at(place)) return place;
    streamed_ += 1;
    return reinterpret_cast<char*>(stream_->next(bytes));
  }
  /// False, and no stream is under way any more, if too many were begun for what they brought: a
  /// new beginning costs as much as it saves for a few values.
  [[nodiscard]] bool begin_stream_at(char* place) {
    auto* const at = reinterpret_cast<std::byte*>(place);
    return (stream_ && stream_->end() == at) || start_stream(at);
  }
  [[nodiscard, gnu::noinline]] bool start_stream(std::byte* at) {
    starts_ += 1;
    streams_ = starts_ * kStreamedInARow <= streamed_ + kStartsForFree * kStreamedInARow;
    stream_.reset();
    if (streams_) stream_.emplace(at);
    return streams_;
  }
  /// True if values of the stretch lie one behind the other and are worth a stream.
  [[nodiscard]] bool goes_in_a_row() const {
    const auto width = static_cast<std::ptrdiff_t>(stretch_.into.width);
    return streams_ && stretch_.into.stride == width && stretch_.into.width >= kStreamedBytesMin;
  }
  /// add_values() for these.
  template <class ValueOf>
  std::uint64_t stream_row(std::uint64_t i, std::uint64_t end, const ValueOf& value_of) {
    if (!begin_stream_at(stretch_.place(i))) return i;
    // Copies that nobody else can write to stay in registers.
    const std::uint64_t first = stretch_.begin;
    const std::size_t width = stretch_.into.width;
    std::uint8_t* const found = stretch_.into.found;
    std::uint8_t* const codes = codes_;
    base::StreamedBytes& stream = *stream_;
    const std::uint64_t from = i;
    for (; i < end; ++i) {
      const Slice value = value_of(i);
      if (value.data() == nullptr || value.size() != width) break;
      base::copy_inline(stream.next(width), value.data(), width);
      found[i - first] = 1;
      codes[i] = Status::Code::kOk;
    }
    streamed_ += i - from;
    return i;
  }

  /// add_values() that go to the batch past the caches, up to one that does not. value_of() may be
  /// asked of that one again.
  template <class ValueOf>
  std::uint64_t keep_row(std::uint64_t i, std::uint64_t end, const ValueOf& value_of) {
    BRECCIA_ASSERT(arena_ != nullptr && goes_to_batch(i) && end <= stretch_.end);
    ReadResult* const results = results_;
    while (i < end) {
      Slice value = value_of(i);
      if (value.size() < kStreamedBytesMin) return i;
      // Copies that nobody else can write to stay in registers.
      const std::span<char> block = arena_->open(value.size());
      char* place = block.data();
      std::uint64_t room = block.size();
      if (!begin_stream_at(place)) {
        arena_->close(room);
        return i;
      }
      base::StreamedBytes& stream = *stream_;
      const std::uint64_t from = i;
      do {
        base::copy_inline(stream.next(value.size()), value.data(), value.size());
        results[i] = {place, static_cast<std::uint32_t>(value.size()), Status::Code::kOk};
        place += value.size();
        room -= value.size();
        if (++i == end) break;
        value = value_of(i);
      } while (value.size() >= kStreamedBytesMin && value.size() <= room);
      BRECCIA_ASSERT(stream.end() == reinterpret_cast<std::byte*>(place) && room <= block.size());
      streamed_ += i - from;
      arena_->close(room);
    }
    return i;
  }

  static constexpr std::size_t kStreamedBytesMin = 32;
  static constexpr std::uint64_t kStreamedInARow = 16;
  static constexpr std::uint64_t kStartsForFree = 4;

  Reads* reads_;
  ReadResult* results_;
  std::uint8_t* codes_;
  ResultArena* arena_;
  Stretch stretch_;
  bool streams_ = false;
  std::uint64_t streamed_ = 0;
  std::uint64_t starts_ = 0;
  std::optional<base::StreamedBytes> stream_;
};

}  // namespace breccia::batch
