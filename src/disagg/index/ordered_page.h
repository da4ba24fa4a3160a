#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prefetch.h"

namespace breccia::disagg {

/// How many bytes both begin with.
[[nodiscard]] std::size_t common_bytes(std::string_view one, std::string_view other);

/// Keys in their order, a word with each: a page of an ordered index (ordered_index.h).
///
/// What all keys of a page begin with lies there once. Behind that, a key's first eight bytes are a
/// number that compares as they do (its head), which searches mostly need alone; what is behind
/// these lies packed, in the keys' order.
///
/// Shape   keys of any bytes, also none; no two alike.
/// Threads readers any, while nobody changes it.
class OrderedPage {
 public:
  static constexpr std::uint32_t kKeysMax = 64;
  /// Of a page that is made out of many keys at once: room for some more.
  static constexpr std::uint32_t kKeysAtFirst = 56;

  struct Entry {
    std::string_view key;
    std::uint64_t word = 0;
  };
  struct Place {
    std::uint32_t at = 0;  // so many keys come before
    bool is_there = false;
  };

  OrderedPage() = default;
  OrderedPage(const OrderedPage&) = delete;
  OrderedPage& operator=(const OrderedPage&) = delete;

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] Place place_of(std::string_view key) const;
  /// Has in the cache before long what place_of() reads: the lines of a search come one after the
  /// other otherwise.
  void prefetch() const {
    constexpr std::uint32_t kHeadsOfALine = 64 / sizeof(std::uint64_t);
    base::prefetch(this);
    for (std::uint32_t i = 0; i < kKeysMax; i += kHeadsOfALine) base::prefetch(&heads_[i]);
  }
  [[nodiscard]] std::uint64_t word(std::uint32_t at) const { return words_[at]; }
  void set_word(std::uint32_t at, std::uint64_t word) { words_[at] = word; }
  [[nodiscard]] std::size_t key_bytes(std::uint32_t at) const;
  /// Writes key_bytes(at) bytes.
  void copy_key(std::uint32_t at, char* to) const;
  [[nodiscard]] std::string key(std::uint32_t at) const;

  /// At the place of the key, which is not there. Returns a page with the keys behind this one's if
  /// they did not all find room, otherwise null; each of both has some.
  [[nodiscard]] std::unique_ptr<OrderedPage> insert(std::uint32_t at, const Entry& entry);
  void erase(std::uint32_t at);

  /// Whether there are so few keys that it should be made one with the page beside it.
  [[nodiscard]] bool is_small() const { return size_ < kKeysMax / 4; }
  /// Takes all keys of the page behind this one, or as many that both have half of them. Returns
  /// whether it has all.
  bool share_with(OrderedPage* behind);

  /// Has these, in their order, and no others.
  /// Shape   kKeysMax at most.
  void pack(std::span<const Entry> entries);
  /// All of them; the keys lie in `bytes`.
  [[nodiscard]] std::vector<Entry> unpack(std::string* bytes) const;

  /// Of pages on the lowest level: the one behind it.
  [[nodiscard]] OrderedPage* next() const { return next_; }
  void set_next(OrderedPage* next) { next_ = next; }

  /// What it takes of memory.
  [[nodiscard]] std::size_t memory_bytes() const { return sizeof *this + bytes_.capacity(); }
  /// Asserts what has to be so between its parts, and that keys are in their order.
  void check() const;

 private:
  struct Suffix {
    std::uint64_t head;
    std::uint8_t head_bytes;
    std::string_view rest;
    explicit Suffix(std::string_view bytes);
  };
  [[nodiscard]] std::string_view prefix() const { return {bytes_.data(), prefix_bytes_}; }
  [[nodiscard]] std::uint32_t begin_of(std::uint32_t at) const {
    return at == 0 ? prefix_bytes_ : ends_[at - 1];
  }
  [[nodiscard]] std::string_view rest(std::uint32_t at) const {
    return std::string_view(bytes_).substr(begin_of(at), ends_[at] - begin_of(at));
  }
  [[nodiscard]] int compare(std::uint32_t at, const Suffix& other) const;
  [[nodiscard]] bool has_room(std::size_t key_bytes) const;

  std::uint32_t size_ = 0;
  std::uint32_t prefix_bytes_ = 0;
  std::string bytes_;  // the prefix, and the rests behind one another
  OrderedPage* next_ = nullptr;
  std::array<std::uint64_t, kKeysMax> heads_;      // filled with zeros at the end
  std::array<std::uint8_t, kKeysMax> head_bytes_;  // bytes of the key that the head has
  std::array<std::uint32_t, kKeysMax> ends_;       // of rests, in bytes_
  std::array<std::uint64_t, kKeysMax> words_;
};

}  // namespace breccia::disagg
