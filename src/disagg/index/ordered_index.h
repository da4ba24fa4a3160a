#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "disagg/index/loose_keys.h"
#include "disagg/index/ordered_build.h"
#include "disagg/index/ordered_page.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// Keys in their order, and where the value of each lies: a B+-tree of packed pages.
///
/// Pages above the lowest level have, for each page below, a key that comes before all of its keys
/// or is its first, and behind all keys of the page before; it is as short as can be. The first one
/// of a level is empty. No page is empty, but the only one.
///
/// Shape   keys of 1 to kKeyBytesMax bytes.
/// Threads one that changes it, or any number of readers.
class OrderedIndex {
 public:
  OrderedIndex();
  OrderedIndex(OrderedIndex&& other) noexcept;
  OrderedIndex& operator=(OrderedIndex&& other) noexcept;
  ~OrderedIndex();

  /// Where the value was before; 0: there was no such key.
  Slot put(std::string_view key, Slot slot);
  Slot erase(std::string_view key);
  [[nodiscard]] Slot find(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return size_; }

  /// A place among the keys, as long as these do not change.
  class Cursor {
   public:
    /// At the end.
    Cursor() : Cursor(nullptr, 0) {}
    [[nodiscard]] bool is_at_end() const { return page_ == nullptr; }
    /// Shape   these three not at the end.
    [[nodiscard]] Slot slot() const { return page_->word(at_); }
    [[nodiscard]] std::size_t key_bytes() const { return page_->key_bytes(at_); }
    /// Writes key_bytes() bytes.
    void copy_key(char* to) const { page_->copy_key(at_, to); }
    void next();
    friend bool operator==(const Cursor&, const Cursor&) = default;

   private:
    friend class OrderedIndex;
    Cursor(const OrderedPage* page, std::uint32_t at) : page_(page), at_(at) {}
    const OrderedPage* page_;
    std::uint32_t at_;
  };
  /// The first key that is not before this one.
  [[nodiscard]] Cursor lower_bound(std::string_view key) const;

  /// Made of many keys at once: these are divided into ranges, each of which becomes a row of pages
  /// by itself. Of keys that are there more than once one stays.
  /// Threads, Bound, Cost  those of sorted_pages() (ordered_build.h).
  [[nodiscard]] static OrderedIndex build(const std::vector<LooseKeys>& keys, bool is_shared);

  /// What it takes of memory.
  [[nodiscard]] std::size_t memory_bytes() const;
  /// Asserts what has to be so between its pages.
  void check() const;

 private:
  using Page = OrderedPage;
  /// A page on the way down to a key, and the place there that leads on.
  struct Step {
    Page* page;
    std::uint32_t at;
  };
  static constexpr std::uint32_t kLevelsMax = 24;
  using Path = std::array<Step, kLevelsMax>;  // from the lowest level up

  Path path_to(std::string_view key, OrderedPage::Place* place) const;
  void insert(const Path& path, std::string_view key, Slot slot);
  void put_behind(const Path& path, std::uint32_t level, std::unique_ptr<Page> behind);
  void join(Path path, std::uint32_t level);
  static std::vector<BuiltPage> level_upon(std::vector<BuiltPage> below);
  std::size_t check(const Page& page, std::uint32_t level, std::string_view from,
                    const std::string* to) const;
  template <class Work>
  static void each_page(Page* page, std::uint32_t level, const Work& work);

  static Page* page_in(std::uint64_t word) { return reinterpret_cast<Page*>(word); }
  static std::uint64_t word_of(Page* page) { return reinterpret_cast<std::uint64_t>(page); }

  Page* root_ = nullptr;
  std::uint32_t level_ = 0;  // of the root; 0: it has the keys itself
  std::size_t size_ = 0;
};

}  // namespace breccia::disagg
