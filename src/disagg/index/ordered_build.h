#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "disagg/index/loose_keys.h"
#include "disagg/index/ordered_page.h"

namespace breccia::disagg {

/// A page of an index that is built, and what stands for it in the page above.
struct BuiltPage {
  std::string separator;
  std::unique_ptr<OrderedPage> page;
};

/// The shortest key that is behind one of them, and not behind the other, which comes behind it.
[[nodiscard]] std::string_view separator_of(std::string_view before, std::string_view behind);

/// How to divide so many into rows for pages of kKeysAtFirst at most: the ends of these, all of
/// about the same length.
[[nodiscard]] std::vector<std::size_t> ends_of_pages(std::size_t count);

/// Of a range: what is compared of these is near while it is sorted.
constexpr std::size_t kKeysOfRange = 4096;

/// The lowest level of an index: all keys in their order, each once. They are divided into ranges
/// of some `keys_of_range` by keys that are drawn, and each range is sorted, and becomes pages, by
/// itself.
/// Shape   of keys that are there more than once one stays. At least one key of a range.
/// Bound   beside the keys and the pages 20 bytes a key.
/// Threads many, of TBB's, if `is_shared`; the pages are the same in any case.
/// Cost    each key's bytes are read three times, and it is compared with log2(keys) others, mostly
///         by the first eight bytes behind those that all keys have in common.
[[nodiscard]] std::vector<BuiltPage> sorted_pages(const std::vector<LooseKeys>& keys,
                                                  bool is_shared, std::size_t keys_of_range);
/// The same with ranges of kKeysOfRange.
[[nodiscard]] std::vector<BuiltPage> sorted_pages(const std::vector<LooseKeys>& keys,
                                                  bool is_shared);

}  // namespace breccia::disagg
