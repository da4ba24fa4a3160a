#include "batch/columns.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/streamed_bytes.h"
#include "batch/chunks.h"

namespace breccia::batch {

namespace {

/// Records of so many bytes leave the caches before a submit copies them to the log; of fewer the
/// copy finds most there, which is worth more (docs/impl/batch.md, "Columns").
constexpr std::uint64_t kStreamedBytesMin = 64 << 20;

/// The shortest and the longest of some strings.
struct Lengths {
  std::uint64_t min = ~std::uint64_t{0};
  std::uint64_t max = 0;

  void add(const Lengths& more) {
    min = std::min(min, more.min);
    max = std::max(max, more.max);
  }
};

Lengths lengths_of(const BytesColumn& strings) {
  const std::uint64_t count = strings.count();
  BRECCIA_ASSERT(count > 0);
  if (strings.fixed()) return {strings.width(), strings.width()};
  std::vector<Lengths> chunks(chunks_of(count));
  for_each_chunk(count, [&](std::uint64_t chunk, std::uint64_t begin, std::uint64_t end) {
    Lengths lengths;
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::uint64_t bytes = strings.at(i).size();
      lengths.add({bytes, bytes});
    }
    chunks[chunk] = lengths;
  });
  Lengths all;
  for (const Lengths& lengths : chunks) all.add(lengths);
  BRECCIA_ASSERT(all.min <= all.max);
  return all;
}

/// The sums of of(i) of `count` requests.
template <class Of>
ChunkSums sums_of(std::uint64_t count, const Of& of) {
  std::vector<std::uint64_t> sums(chunks_of(count));
  for_each_chunk(count, [&](std::uint64_t chunk, std::uint64_t begin, std::uint64_t end) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = begin; i < end; ++i) sum += of(i);
    sums[chunk] = sum;
  });
  return ChunkSums(std::move(sums));
}

/// Says which string is too long.
Status too_long(const BytesColumn& strings, const char* what, std::uint64_t bytes_max) {
  std::uint64_t i = 0;
  while (strings.at(i).size() <= bytes_max) ++i;
  BRECCIA_ASSERT(i < strings.count());
  const auto bytes = static_cast<std::int64_t>(strings.at(i).size());
  const std::string which = std::string(what) + " " + std::to_string(i);
  if (bytes < 0) return Status::InvalidArgument(which, "its end comes before its begin");
  return Status::InvalidArgument(which + " has " + std::to_string(bytes) + " bytes",
                                 "the limit is " + std::to_string(bytes_max));
}

/// The strings; those that lie one behind the other are of the fixed kind if of one length.
/// Errors  InvalidArgument: one is longer than `bytes_max`; std::bad_alloc.
Result<StringArray> checked(const BytesColumn& strings, const char* what, std::uint64_t bytes_max) {
  if (strings.count() == 0) return StringArray{BytesColumn::Fixed(nullptr, 0, 0), 0};
  const Lengths lengths = lengths_of(strings);
  if (lengths.max > bytes_max) return too_long(strings, what, bytes_max);
  if (lengths.min < lengths.max) return StringArray{strings, record::kVariableBytes};
  const auto bytes = static_cast<std::uint32_t>(lengths.max);
  if (!strings.has_offsets()) return StringArray{strings, bytes};
  return StringArray{BytesColumn::Fixed(strings.at(0).data(), strings.count(), bytes), bytes};
}

/// String `i`; its length is kBytes, or known when it runs if that is 0.
template <std::uint64_t kBytes>
Slice string_at(const BytesColumn& strings, std::uint64_t i) {
  const Slice string = strings.at(i);
  return kBytes == 0 ? string : Slice(string.data(), kBytes);
}

/// Pieces one behind the other, as base::StreamedBytes; they stay in the caches.
class PlainBytes {
 public:
  explicit PlainBytes(std::byte* to) : to_(to) {}
  std::byte* next(std::uint64_t bytes) {
    std::byte* const piece = to_;
    to_ += bytes;
    return piece;
  }

 private:
  std::byte* to_;
};

/// Words of a column, one behind the other.
template <class Bytes>
class Words {
 public:
  explicit Words(std::uint64_t* to) : bytes_(reinterpret_cast<std::byte*>(to)) {}
  std::uint64_t* next(std::uint64_t words) {
    return reinterpret_cast<std::uint64_t*>(bytes_.next(words * sizeof(std::uint64_t)));
  }

 private:
  Bytes bytes_;
};
using PlainWords = Words<PlainBytes>;
using StreamedWords = Words<base::StreamedBytes>;

/// Writes keys, one behind the other, where they come to stand.
template <class Column>
class KeyWriter {
 public:
  /// From key `i` on, whose tail comes behind `word` words of the others'.
  KeyWriter(const record::KeySlots& slots, std::uint64_t i, std::uint64_t word)
      : has_meta_(slots.meta != nullptr),
        tail_at_(slots.tail_begin + word),
        heads_(slots.head + i),
        metas_(has_meta_ ? slots.meta + i : nullptr),
        tails_(slots.tail + word) {
    BRECCIA_ASSERT(slots.head != nullptr);
  }
  void write(const char* key, std::uint64_t bytes) {
    const std::uint64_t words = record::tail_words(bytes);
    if (has_meta_) *metas_.next(1) = tail_at_ << record::kMetaLengthBits | bytes;
    record::cut_key(key, bytes, heads_.next(1), tails_.next(words));
    tail_at_ += words;
  }
  /// Where the next tail comes to stand.
  [[nodiscard]] std::uint64_t tail_at() const { return tail_at_; }

 private:
  const bool has_meta_;
  std::uint64_t tail_at_;
  Column heads_;
  Column metas_;
  Column tails_;
};

template <std::uint64_t kKeyBytes, class Column>
void write_keys_by(const KeyArray& from, const record::KeySlots& to) {
  for_each_chunk(from.count(), [&](std::uint64_t chunk, std::uint64_t begin, std::uint64_t end) {
    // Copies that nobody else can write to stay in registers.
    const BytesColumn keys = from.keys.strings;
    KeyWriter<Column> out(to, begin, from.tail_words.before(chunk));
    for (std::uint64_t i = begin; i < end; ++i) {
      const Slice key = string_at<kKeyBytes>(keys, i);
      out.write(key.data(), key.size());
    }
    BRECCIA_ASSERT(end < from.count() || out.tail_at() == to.tail_begin + from.tail_words.total());
  });
}

template <std::uint64_t kKeyBytes>
void write_sized_keys(const KeyArray& from, const record::KeySlots& to) {
  if (to.is_streamed) return write_keys_by<kKeyBytes, StreamedWords>(from, to);
  write_keys_by<kKeyBytes, PlainWords>(from, to);
}

/// Records that are not written now.
class NoBytes {
 public:
  explicit NoBytes(std::byte* /*to*/) {}
};

template <std::uint64_t kKeyBytes, std::uint64_t kValueBytes, class Column, class Bytes>
void write_chunk(record::Op op, const RecordArray& from, const RecordSlots& to, std::uint64_t chunk,
                 std::uint64_t begin, std::uint64_t end) {
  const BytesColumn keys = from.keys.keys.strings;
  const BytesColumn values = from.values.strings;
  const bool has_numbers = to.numbers != nullptr;
  BRECCIA_ASSERT(begin < end && to.offsets != nullptr);
  std::uint64_t at = from.bytes.before(chunk);
  Bytes records(to.records + at);
  KeyWriter<Column> key_columns(to.keys, begin, from.keys.tail_words.before(chunk));
  Column offsets(to.offsets + begin);
  Column numbers(has_numbers ? to.numbers + begin : nullptr);
  for (std::uint64_t i = begin; i < end; ++i) {
    const Slice key = string_at<kKeyBytes>(keys, i);
    const Slice value = string_at<kValueBytes>(values, i);
    key_columns.write(key.data(), key.size());
    const auto header = record::RecordHeader::make(op, key.size(), value.size());
    const std::uint64_t bytes = header.record_bytes();
    if constexpr (!std::is_same_v<Bytes, NoBytes>) {
      record::write_record(records.next(bytes), header, key.data(), key.size(), value.data(),
                           value.size());
    }
    *offsets.next(1) = (to.records_begin + at) | static_cast<std::uint64_t>(op);
    at += bytes;
    if (!has_numbers) continue;
    std::uint64_t number = 0;  // of a deletion
    if constexpr (kValueBytes == sizeof number) std::memcpy(&number, value.data(), sizeof number);
    *numbers.next(1) = number;
  }
  BRECCIA_ASSERT(end < from.keys.count() || at == from.bytes.total());
  BRECCIA_ASSERT(end < from.keys.count() ||
                 key_columns.tail_at() == to.keys.tail_begin + from.keys.tail_words.total());
}

template <std::uint64_t kKeyBytes, std::uint64_t kValueBytes, class Column>
void write_by(record::Op op, const RecordArray& from, const RecordSlots& to) {
  const bool is_streamed = from.bytes.total() >= kStreamedBytesMin;
  for_each_chunk(
      from.keys.count(), [&](std::uint64_t chunk, std::uint64_t begin, std::uint64_t end) {
        const auto write = [&]<class Bytes>(Bytes*) {
          write_chunk<kKeyBytes, kValueBytes, Column, Bytes>(op, from, to, chunk, begin, end);
        };
        if (to.records == nullptr) return write(static_cast<NoBytes*>(nullptr));
        if (is_streamed) return write(static_cast<base::StreamedBytes*>(nullptr));
        write(static_cast<PlainBytes*>(nullptr));
      });
}

template <std::uint64_t kKeyBytes, std::uint64_t kValueBytes>
void write_sized(record::Op op, const RecordArray& from, const RecordSlots& to) {
  BRECCIA_ASSERT(kValueBytes == 0 || from.values.uniform_bytes == kValueBytes);
  if (to.keys.is_streamed) return write_by<kKeyBytes, kValueBytes, StreamedWords>(op, from, to);
  write_by<kKeyBytes, kValueBytes, PlainWords>(op, from, to);
}

template <std::uint64_t kKeyBytes>
void write_with_keys(record::Op op, const RecordArray& from, const RecordSlots& to) {
  if (from.values.uniform_bytes == 8) {
    write_sized<kKeyBytes, 8>(op, from, to);
  } else {
    write_sized<kKeyBytes, 0>(op, from, to);
  }
}

/// Copies what [begin, end) has of some bytes that stand at *at, and steps behind them.
class PartCopy {
 public:
  PartCopy(std::uint64_t begin, std::uint64_t end, std::byte* to)
      : begin_(begin), end_(end), to_(to) {}
  void add(const void* bytes, std::uint64_t count) {
    BRECCIA_ASSERT(begin_ < end_);
    const std::uint64_t from = std::max(at_, begin_);
    const std::uint64_t to = std::min(at_ + count, end_);
    if (from < to) {
      std::memcpy(to_ + (from - begin_), static_cast<const std::byte*>(bytes) + (from - at_),
                  to - from);
    }
    at_ += count;
  }

 private:
  const std::uint64_t begin_;
  const std::uint64_t end_;
  std::byte* const to_;
  std::uint64_t at_ = 0;
};

/// Bytes [begin, end) of a record.
void write_part(const record::RecordHeader& header, const Slice& key, const Slice& value,
                std::uint64_t begin, std::uint64_t end, std::byte* to) {
  BRECCIA_ASSERT(begin < end && end <= header.record_bytes());
  constexpr char kPadding[8] = {};
  PartCopy copy(begin, end, to);
  copy.add(&header, sizeof header);
  copy.add(key.data(), key.size());
  copy.add(value.data(), value.size());
  copy.add(kPadding, sizeof kPadding);
}

/// write_record_bytes() of records from number `i` on, which stands at `at`.
void write_from(std::uint64_t i, std::uint64_t at, record::Op op, const RecordArray& from,
                std::uint64_t begin, std::uint64_t end, std::byte* to) {
  const BytesColumn& keys = from.keys.keys.strings;
  const BytesColumn& values = from.values.strings;
  for (; at < end; ++i) {
    BRECCIA_ASSERT(i < keys.count());
    const Slice key = keys.at(i);
    const Slice value = values.at(i);
    const auto header = record::RecordHeader::make(op, key.size(), value.size());
    const std::uint64_t next = at + header.record_bytes();
    if (begin <= at && next <= end) {
      record::write_record(to + (at - begin), header, key.data(), key.size(), value.data(),
                           value.size());
    } else if (next > begin) {
      const std::uint64_t first = std::max(begin, at);
      write_part(header, key, value, first - at, std::min(end, next) - at, to + (first - begin));
    }
    at = next;
  }
}

/// Fixed strings, as far as a loop needs them.
class Rows {
 public:
  explicit Rows(const BytesColumn& strings)
      : data_(strings.at(0).data()),
        stride_(strings.count() > 1 ? strings.at(1).data() - data_ : 0) {
    BRECCIA_ASSERT(strings.fixed());
  }
  [[nodiscard]] const char* at(std::uint64_t i) const {
    return data_ + static_cast<std::ptrdiff_t>(i) * stride_;
  }

 private:
  const char* data_;
  std::ptrdiff_t stride_;
};

/// Writes records [i, end) of fixed strings, one behind the other. Lengths are constants, or the
/// header's if they are 0.
template <std::uint64_t kKeyBytes, std::uint64_t kValueBytes>
void write_rows(std::uint64_t i, std::uint64_t end, record::RecordHeader header, Rows keys,
                Rows values, std::byte* to) {
  const std::uint64_t key_bytes = kKeyBytes == 0 ? header.key_bytes() : kKeyBytes;
  const std::uint64_t value_bytes = kValueBytes == 0 ? header.value_bytes : kValueBytes;
  BRECCIA_ASSERT(key_bytes == header.key_bytes() && value_bytes == header.value_bytes);
  const std::uint64_t bytes = header.record_bytes();
  for (; i < end; ++i, to += bytes) {
    record::write_record(to, header, keys.at(i), key_bytes, values.at(i), value_bytes);
  }
}

/// write_record_bytes() of fixed strings: whole records in a loop of their own.
void write_fixed(record::Op op, const RecordArray& from, std::uint64_t begin, std::uint64_t end,
                 std::byte* to) {
  const std::uint64_t each = from.bytes.each();
  BRECCIA_ASSERT(each > 0 && begin < end);
  const std::uint64_t rows_begin = std::min(end, (begin + each - 1) / each * each);
  const std::uint64_t rows_end = std::max(rows_begin, end / each * each);
  const auto cut_off = [&](std::uint64_t part_begin, std::uint64_t part_end) {
    const std::uint64_t i = part_begin / each;
    write_from(i, i * each, op, from, part_begin, part_end, to + (part_begin - begin));
  };
  if (begin < rows_begin) cut_off(begin, rows_begin);
  if (rows_end < end) cut_off(rows_end, end);
  if (rows_begin == rows_end) return;
  const BytesColumn& keys = from.keys.keys.strings;
  const BytesColumn& values = from.values.strings;
  const auto header = record::RecordHeader::make(op, keys.width(), values.width());
  const auto write = [&](const auto& rows) {
    rows(rows_begin / each, rows_end / each, header, Rows(keys), Rows(values),
         to + (rows_begin - begin));
  };
  if (keys.width() == 8 && values.width() == 8) return write(write_rows<8, 8>);
  if (keys.width() == 16) return write(write_rows<16, 0>);
  write(write_rows<0, 0>);
}

}  // namespace

std::uint64_t ChunkSums::chunk_of(std::uint64_t sum) const {
  BRECCIA_ASSERT(sum < total_);
  if (before_.empty()) return sum / (each_ * kChunkRequests);
  const auto behind = std::upper_bound(before_.begin(), before_.end(), sum);
  BRECCIA_ASSERT(behind != before_.begin());
  return static_cast<std::uint64_t>(behind - before_.begin()) - 1;
}

ChunkSums::ChunkSums(std::vector<std::uint64_t> sums) : before_(std::move(sums)) {
  for (std::uint64_t& chunk : before_) {
    const std::uint64_t own = chunk;
    chunk = total_;
    total_ += own;
  }
}

Status differ_in_count(std::uint64_t a, std::uint64_t b) {
  return Status::InvalidArgument(
      "columns of " + std::to_string(a) + " and " + std::to_string(b) + " strings",
      "every request has one of each");
}

Result<KeyArray> measure_keys(const BytesColumn& keys) {
  BRECCIA_TAKE(const StringArray array, checked(keys, "key", limits::kKeyBytesMax));
  const std::uint64_t count = array.strings.count();
  if (array.uniform_bytes != record::kVariableBytes) {
    return KeyArray{array, ChunkSums(count, record::tail_words(array.uniform_bytes))};
  }
  return KeyArray{array, sums_of(count, [&](std::uint64_t i) {
                    return record::tail_words(array.strings.at(i).size());
                  })};
}

Result<RecordArray> measure_records(const BytesColumn& keys, const BytesColumn& values) {
  if (keys.count() != values.count()) return differ_in_count(keys.count(), values.count());
  BRECCIA_TAKE(KeyArray key_array, measure_keys(keys));
  BRECCIA_TAKE(const StringArray sized_values, checked(values, "value", limits::kValueBytesMax));
  const StringArray sized_keys = key_array.keys;
  const auto bytes_of = [](std::uint64_t key_bytes, std::uint64_t value_bytes) {
    return record::RecordHeader::make(record::Op::kPut, key_bytes, value_bytes).record_bytes();
  };
  const std::uint64_t count = sized_values.strings.count();
  if (sized_keys.uniform_bytes != record::kVariableBytes &&
      sized_values.uniform_bytes != record::kVariableBytes) {
    ChunkSums bytes(count, bytes_of(sized_keys.uniform_bytes, sized_values.uniform_bytes));
    return RecordArray{std::move(key_array), sized_values, std::move(bytes)};
  }
  BRECCIA_ASSERT(sized_keys.strings.count() == count);
  ChunkSums bytes = sums_of(count, [&](std::uint64_t i) {
    return bytes_of(sized_keys.strings.at(i).size(), sized_values.strings.at(i).size());
  });
  return RecordArray{std::move(key_array), sized_values, std::move(bytes)};
}

void append_keys(const KeyArray& keys, record::KeyColumns* out) {
  write_keys(keys, out->extend(keys.count(), keys.tail_words.total(), keys.uniform_bytes()));
  BRECCIA_ASSERT(out->count() >= keys.count());
}

void write_keys(const KeyArray& keys, const record::KeySlots& to) {
  BRECCIA_ASSERT(to.head != nullptr || keys.count() == 0);
  switch (keys.uniform_bytes()) {
    case 8:
      return write_sized_keys<8>(keys, to);
    case 16:
      return write_sized_keys<16>(keys, to);
    default:
      return write_sized_keys<0>(keys, to);
  }
}

void write_records(record::Op op, const RecordArray& from, const RecordSlots& to) {
  BRECCIA_ASSERT(record::is_point(op) && to.records_begin % 8 == 0);
  BRECCIA_ASSERT(from.keys.count() == from.values.strings.count());
  switch (from.keys.uniform_bytes()) {
    case 8:
      return write_with_keys<8>(op, from, to);
    case 16:
      return write_with_keys<16>(op, from, to);
    default:
      return write_with_keys<0>(op, from, to);
  }
}

void write_record_bytes(record::Op op, const RecordArray& from, std::uint64_t begin,
                        std::uint64_t end, std::byte* to) {
  BRECCIA_ASSERT(record::is_point(op) && begin <= end && end <= from.bytes.total());
  if (begin == end) return;
  BRECCIA_ASSERT(from.bytes.total() % 8 == 0);
  const bool is_fixed = from.keys.keys.strings.fixed() && from.values.strings.fixed();
  if (is_fixed && from.bytes.each() > 0) return write_fixed(op, from, begin, end, to);
  const std::uint64_t chunk = from.bytes.chunk_of(begin);
  write_from(chunk * kChunkRequests, from.bytes.before(chunk), op, from, begin, end, to);
}

}  // namespace breccia::batch
