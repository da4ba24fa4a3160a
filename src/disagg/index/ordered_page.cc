#include "disagg/index/ordered_page.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace breccia::disagg {

namespace {

/// Pages of long keys have fewer of them, so that a change moves no more than some times so much.
constexpr std::size_t kBytesMax = 64 << 10;
/// As few as that are in one page however long they are: pages have keys to share.
constexpr std::size_t kFew = 8;
/// Pages that become one have room for some more.
constexpr std::size_t kJoinedMax = std::size_t{OrderedPage::kKeysMax} * 3 / 4;

/// Puts a number in front of what begins at `at` of `size`.
template <class Array, class Number>
void insert_at(Array* array, std::uint32_t size, std::uint32_t at, Number number) {
  std::copy_backward(array->begin() + at, array->begin() + size, array->begin() + size + 1);
  (*array)[at] = number;
}

template <class Array>
void erase_at(Array* array, std::uint32_t size, std::uint32_t at) {
  std::copy(array->begin() + at + 1, array->begin() + size, array->begin() + at);
}

}  // namespace

std::size_t common_bytes(std::string_view one, std::string_view other) {
  const std::size_t most = std::min(one.size(), other.size());
  const auto* const differ = std::mismatch(one.begin(), one.begin() + most, other.begin()).first;
  return static_cast<std::size_t>(differ - one.begin());
}

OrderedPage::Suffix::Suffix(std::string_view bytes)
    : head(base::load_big_endian(bytes.data(), std::min<std::size_t>(bytes.size(), 8))),
      head_bytes(static_cast<std::uint8_t>(std::min<std::size_t>(bytes.size(), 8))),
      rest(bytes.substr(head_bytes)) {}

/// Heads that are equal are of equal bytes, or one has zeros where the other one ends.
int OrderedPage::compare(std::uint32_t at, const Suffix& other) const {
  if (heads_[at] != other.head) return heads_[at] < other.head ? -1 : 1;
  if (head_bytes_[at] != other.head_bytes) return head_bytes_[at] < other.head_bytes ? -1 : 1;
  return rest(at).compare(other.rest);
}

OrderedPage::Place OrderedPage::place_of(std::string_view key) const {
  const int beginning = key.substr(0, prefix_bytes_).compare(prefix());
  if (beginning != 0) return {.at = beginning < 0 ? 0 : size_, .is_there = false};
  const Suffix suffix(key.substr(prefix_bytes_));
  std::uint32_t begin = 0;
  std::uint32_t end = size_;
  while (begin < end) {
    const std::uint32_t middle = (begin + end) / 2;
    const int order = compare(middle, suffix);
    if (order == 0) return {.at = middle, .is_there = true};
    (order < 0 ? begin : end) = order < 0 ? middle + 1 : middle;
  }
  return {.at = begin, .is_there = false};
}

std::size_t OrderedPage::key_bytes(std::uint32_t at) const {
  return prefix_bytes_ + head_bytes_[at] + (ends_[at] - begin_of(at));
}

void OrderedPage::copy_key(std::uint32_t at, char* to) const {
  const std::uint64_t head = __builtin_bswap64(heads_[at]);
  const std::string_view behind = rest(at);
  base::copy_inline(to, bytes_.data(), prefix_bytes_);
  std::memcpy(to + prefix_bytes_, &head, head_bytes_[at]);
  base::copy_inline(to + prefix_bytes_ + head_bytes_[at], behind.data(), behind.size());
}

std::string OrderedPage::key(std::uint32_t at) const {
  std::string key(key_bytes(at), '\0');
  copy_key(at, key.data());
  return key;
}

bool OrderedPage::has_room(std::size_t key_bytes) const {
  return size_ < kKeysMax && (size_ < kFew || bytes_.size() + key_bytes <= kBytesMax);
}

std::unique_ptr<OrderedPage> OrderedPage::insert(std::uint32_t at, const Entry& entry) {
  BRECCIA_ASSERT(at <= size_);
  if (has_room(entry.key.size()) && size_ > 0 && entry.key.starts_with(prefix())) {
    const Suffix suffix(entry.key.substr(prefix_bytes_));
    const std::uint32_t begin = begin_of(at);
    const auto rest_bytes = static_cast<std::uint32_t>(suffix.rest.size());
    bytes_.insert(begin, suffix.rest);
    insert_at(&heads_, size_, at, suffix.head);
    insert_at(&head_bytes_, size_, at, suffix.head_bytes);
    insert_at(&words_, size_, at, entry.word);
    insert_at(&ends_, size_, at, begin);
    ++size_;
    for (std::uint32_t i = at; i < size_; ++i) ends_[i] += rest_bytes;
    return nullptr;
  }
  std::string bytes;
  std::vector<Entry> entries = unpack(&bytes);
  entries.insert(entries.begin() + at, entry);
  if (has_room(prefix_bytes_ * entries.size() + entry.key.size())) {
    pack(entries);
    return nullptr;
  }
  // Where keys come in their order more of them come behind the last one: this page stays full.
  const bool is_last = at == size_ && next_ == nullptr;
  const std::size_t left = is_last ? entries.size() - kFew / 2 : entries.size() / 2;
  auto behind = std::make_unique<OrderedPage>();
  behind->pack(std::span(entries).subspan(left));
  behind->next_ = next_;
  pack(std::span(entries).first(left));
  return behind;
}

void OrderedPage::erase(std::uint32_t at) {
  BRECCIA_ASSERT(at < size_);
  const std::uint32_t begin = begin_of(at);
  const std::uint32_t rest_bytes = ends_[at] - begin;
  bytes_.erase(begin, rest_bytes);
  erase_at(&heads_, size_, at);
  erase_at(&head_bytes_, size_, at);
  erase_at(&words_, size_, at);
  erase_at(&ends_, size_, at);
  --size_;
  for (std::uint32_t i = at; i < size_; ++i) ends_[i] -= rest_bytes;
}

bool OrderedPage::share_with(OrderedPage* behind) {
  std::string bytes, bytes_behind;
  std::vector<Entry> entries = unpack(&bytes);
  const std::vector<Entry> more = behind->unpack(&bytes_behind);
  entries.insert(entries.end(), more.begin(), more.end());
  const bool are_few = entries.size() < kFew || bytes.size() + bytes_behind.size() <= kBytesMax;
  if (entries.size() <= kJoinedMax && are_few) {
    pack(entries);
    next_ = behind->next_;
    return true;
  }
  const std::size_t half = entries.size() / 2;
  behind->pack(std::span(entries).subspan(half));
  pack(std::span(entries).first(half));
  return false;
}

void OrderedPage::pack(std::span<const Entry> entries) {
  BRECCIA_ASSERT(entries.size() <= kKeysMax);
  const std::size_t prefix_bytes =
      entries.empty() ? 0 : common_bytes(entries.front().key, entries.back().key);
  const std::size_t rests = std::accumulate(
      entries.begin(), entries.end(), std::size_t{0}, [&](std::size_t sum, const Entry& one) {
        return sum + (one.key.size() > prefix_bytes + 8 ? one.key.size() - prefix_bytes - 8 : 0);
      });
  std::string bytes;
  bytes.reserve(prefix_bytes + rests);
  if (!entries.empty()) bytes.append(entries.front().key.substr(0, prefix_bytes));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Suffix suffix(entries[i].key.substr(prefix_bytes));
    heads_[i] = suffix.head;
    head_bytes_[i] = suffix.head_bytes;
    words_[i] = entries[i].word;
    bytes.append(suffix.rest);
    ends_[i] = static_cast<std::uint32_t>(bytes.size());
  }
  BRECCIA_ASSERT(bytes.size() == prefix_bytes + rests);
  bytes_ = std::move(bytes);
  prefix_bytes_ = static_cast<std::uint32_t>(prefix_bytes);
  size_ = static_cast<std::uint32_t>(entries.size());
}

std::vector<OrderedPage::Entry> OrderedPage::unpack(std::string* bytes) const {
  BRECCIA_ASSERT(bytes->empty());
  std::size_t all = 0;
  for (std::uint32_t i = 0; i < size_; ++i) all += key_bytes(i);
  bytes->resize(all);
  std::vector<Entry> entries;
  entries.reserve(kKeysMax + 1);
  char* to = bytes->data();
  for (std::uint32_t i = 0; i < size_; to += key_bytes(i++)) {
    copy_key(i, to);
    entries.push_back({.key = {to, key_bytes(i)}, .word = words_[i]});
  }
  BRECCIA_ASSERT(to == bytes->data() + all);
  return entries;
}

void OrderedPage::check() const {
  BRECCIA_ASSERT(size_ <= kKeysMax && prefix_bytes_ <= bytes_.size());
  BRECCIA_ASSERT(size_ == 0 || ends_[size_ - 1] == bytes_.size());
  for (std::uint32_t i = 0; i < size_; ++i) {
    BRECCIA_ASSERT(begin_of(i) <= ends_[i] && head_bytes_[i] <= 8);
    BRECCIA_ASSERT(head_bytes_[i] == 8 || begin_of(i) == ends_[i]);
    BRECCIA_ASSERT(i == 0 || key(i - 1) < key(i));
  }
}

}  // namespace breccia::disagg
