#include "disagg/index/ordered_index.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

OrderedIndex::OrderedIndex() : root_(new Page) {}

OrderedIndex::OrderedIndex(OrderedIndex&& other) noexcept
    : root_(std::exchange(other.root_, nullptr)),
      level_(std::exchange(other.level_, 0)),
      size_(std::exchange(other.size_, 0)) {}

OrderedIndex& OrderedIndex::operator=(OrderedIndex&& other) noexcept {
  std::swap(root_, other.root_);
  std::swap(level_, other.level_);
  std::swap(size_, other.size_);
  return *this;
}

OrderedIndex::~OrderedIndex() {
  if (root_ != nullptr) each_page(root_, level_, [](Page* page) { delete page; });
}

/// Those below a page come before it.
template <class Work>
void OrderedIndex::each_page(Page* page, std::uint32_t level, const Work& work) {
  for (std::uint32_t i = 0; level > 0 && i < page->size(); ++i) {
    each_page(page_in(page->word(i)), level - 1, work);
  }
  work(page);
}

/// Where the key is, or belongs.
OrderedIndex::Path OrderedIndex::path_to(std::string_view key, OrderedPage::Place* place) const {
  BRECCIA_ASSERT(root_ != nullptr && level_ < kLevelsMax);
  Path path;
  Page* page = root_;
  for (std::uint32_t level = level_; level > 0; --level) {
    const OrderedPage::Place next = page->place_of(key);
    BRECCIA_ASSERT(next.is_there || next.at > 0);  // the first one is before all keys
    const std::uint32_t at = next.is_there ? next.at : next.at - 1;
    path[level] = {.page = page, .at = at};
    page = page_in(page->word(at));
    page->prefetch();
  }
  *place = page->place_of(key);
  path[0] = {.page = page, .at = place->at};
  return path;
}

Slot OrderedIndex::find(std::string_view key) const {
  OrderedPage::Place place;
  const Page* const page = path_to(key, &place)[0].page;
  return place.is_there ? page->word(place.at) : 0;
}

Slot OrderedIndex::put(std::string_view key, Slot slot) {
  BRECCIA_ASSERT(!key.empty() && key.size() <= kKeyBytesMax && slot != 0);
  OrderedPage::Place place;
  const Path path = path_to(key, &place);
  if (place.is_there) {
    const Slot before = path[0].page->word(place.at);
    path[0].page->set_word(place.at, slot);
    return before;
  }
  put_behind(path, 0, path[0].page->insert(place.at, {.key = key, .word = slot}));
  ++size_;
  return 0;
}

/// A page that a page of the path could not keep all of its keys without, if there is one. Pages
/// above that have no room for one more become two as well.
void OrderedIndex::put_behind(const Path& path, std::uint32_t level, std::unique_ptr<Page> behind) {
  const std::uint32_t top = level_;
  for (; behind != nullptr; ++level) {
    Page* const page = path[level].page;
    const std::string first = behind->key(0);
    const std::string separator(level > 0 ? first
                                          : separator_of(page->key(page->size() - 1), first));
    if (level == 0) page->set_next(behind.get());
    const std::uint64_t word = word_of(behind.release());
    if (level < top) {
      const Step& above = path[level + 1];
      behind = above.page->insert(above.at + 1, {.key = separator, .word = word});
      continue;
    }
    BRECCIA_ASSERT(level_ + 1 < kLevelsMax && page == root_);
    auto root = std::make_unique<Page>();
    const std::array<OrderedPage::Entry, 2> entries{
        {{.key = "", .word = word_of(root_)}, {.key = separator, .word = word}}};
    root->pack(entries);
    root_ = root.release();
    ++level_;
  }
}

Slot OrderedIndex::erase(std::string_view key) {
  OrderedPage::Place place;
  const Path path = path_to(key, &place);
  if (!place.is_there) return 0;
  const Slot before = path[0].page->word(place.at);
  path[0].page->erase(place.at);
  --size_;
  const std::uint32_t top = level_;
  for (std::uint32_t level = 0; level < top && path[level].page->is_small(); ++level) {
    join(path, level);
  }
  while (level_ > 0 && root_->size() == 1) {
    const std::unique_ptr<Page> above(root_);
    root_ = page_in(above->word(0));
    --level_;
  }
  return before;
}

/// A page of the path and one beside it become one, or share their keys.
void OrderedIndex::join(Path path, std::uint32_t level) {
  Step& above = path[level + 1];
  BRECCIA_ASSERT(above.page->size() > 1);
  above.at = std::min(above.at, above.page->size() - 2);
  path[level].page = page_in(above.page->word(above.at));
  std::unique_ptr<Page> behind(page_in(above.page->word(above.at + 1)));
  const bool are_one = path[level].page->share_with(behind.get());
  above.page->erase(above.at + 1);
  if (!are_one) put_behind(path, level, std::move(behind));
}

// ---- in their order ----------------------------------------------------------------------------

OrderedIndex::Cursor OrderedIndex::lower_bound(std::string_view key) const {
  OrderedPage::Place place;
  const Page* const page = path_to(key, &place)[0].page;
  if (place.at < page->size()) return Cursor(page, place.at);
  return Cursor(page->next(), 0);
}

void OrderedIndex::Cursor::next() {
  if (++at_ < page_->size()) return;
  page_ = page_->next();
  at_ = 0;
}

// ---- built at once -----------------------------------------------------------------------------

OrderedIndex OrderedIndex::build(const std::vector<LooseKeys>& keys, bool is_shared) {
  std::vector<BuiltPage> pages = sorted_pages(keys, is_shared);
  OrderedIndex index;
  if (pages.empty()) return index;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    index.size_ += pages[i].page->size();
    if (i + 1 < pages.size()) pages[i].page->set_next(pages[i + 1].page.get());
  }
  pages.front().separator.clear();
  std::uint32_t level = 0;
  for (; pages.size() > 1; ++level) pages = level_upon(std::move(pages));
  delete std::exchange(index.root_, pages.front().page.release());
  index.level_ = level;
  return index;
}

std::vector<BuiltPage> OrderedIndex::level_upon(std::vector<BuiltPage> below) {
  std::vector<BuiltPage> level;
  std::vector<OrderedPage::Entry> entries;
  std::size_t begin = 0;
  for (const std::size_t end : ends_of_pages(below.size())) {
    entries.clear();
    for (std::size_t i = begin; i < end; ++i) {
      entries.push_back({.key = below[i].separator, .word = word_of(below[i].page.get())});
    }
    auto page = std::make_unique<Page>();
    page->pack(entries);
    level.push_back({.separator = below[begin].separator, .page = std::move(page)});
    begin = end;
  }
  for (BuiltPage& one : below) (void)one.page.release();
  return level;
}

// ---- what it is --------------------------------------------------------------------------------

std::size_t OrderedIndex::memory_bytes() const {
  std::size_t bytes = sizeof *this;
  each_page(root_, level_, [&bytes](const Page* page) { bytes += page->memory_bytes(); });
  return bytes;
}

void OrderedIndex::check() const {
  const std::size_t found = check(*root_, level_, "", nullptr);
  BRECCIA_ASSERT(found == size_);
  std::size_t in_row = 0;
  for (Cursor at = lower_bound(""); !at.is_at_end(); at.next()) ++in_row;
  BRECCIA_ASSERT(in_row == size_);
}

/// All keys of a page lie from one key up to another. Returns how many there are below it.
std::size_t OrderedIndex::check(const Page& page, std::uint32_t level, std::string_view from,
                                const std::string* to) const {
  page.check();
  BRECCIA_ASSERT(page.size() > 0 || &page == root_);
  if (page.size() == 0) return 0;
  const std::string last = page.key(page.size() - 1);
  BRECCIA_ASSERT(page.key(0) >= from && (to == nullptr || last < *to));
  if (level == 0) return page.size();
  std::size_t size = 0;
  for (std::uint32_t i = 0; i < page.size(); ++i) {
    const std::string next = i + 1 < page.size() ? page.key(i + 1) : "";
    size += check(*page_in(page.word(i)), level - 1, page.key(i), i + 1 < page.size() ? &next : to);
  }
  return size;
}

}  // namespace breccia::disagg
