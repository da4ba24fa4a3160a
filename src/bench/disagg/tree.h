#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "disagg/location.h"

namespace breccia::bench::disagg {

/// A key as nodes of a tree have it: compared byte by byte, the shorter one first.
struct TreeKey {
  static constexpr std::size_t kBytesMax = 23;

  /// Shape   1 to kBytesMax bytes.
  static TreeKey of(const Slice& key) {
    BRECCIA_ASSERT(!key.empty() && key.size() <= kBytesMax);
    TreeKey of;
    std::copy_n(key.data(), key.size(), of.bytes.begin());
    of.size = static_cast<std::uint8_t>(key.size());
    return of;
  }
  friend bool operator<(const TreeKey& one, const TreeKey& other) {
    return std::memcmp(&one, &other, sizeof one) < 0;
  }
  friend bool operator==(const TreeKey&, const TreeKey&) = default;

  std::array<char, kBytesMax> bytes{};
  std::uint8_t size = 0;
};
static_assert(sizeof(TreeKey) == 24);

/// A node, in memory that others read while its server changes it.
///
///     0   checksum  4   CRC32C of what follows, up to the last entry
///     4   level     2   0: a leaf
///     6   count     2   of entries
///     8   right     4   the node of this level with the keys behind; 0: none
///     12  unused    4
///     16  high      24  if there is such a node, its keys begin here
///     40  entries   32 each: key 24; of a leaf the slot of its value, else the node below, which
///                   has the keys from there on
struct TreeNode {
  struct Entry {
    TreeKey key;
    std::uint64_t to = 0;
  };
  static constexpr std::size_t kEntries = 62;
  static constexpr std::uint32_t kRoot = 0;

  /// The first entry whose key is not below this one.
  [[nodiscard]] std::size_t place_of(const TreeKey& key) const {
    const auto* const found =
        std::lower_bound(entry.data(), entry.data() + count, key,
                         [](const Entry& one, const TreeKey& other) { return one.key < other; });
    return static_cast<std::size_t>(found - entry.data());
  }
  /// Of a leaf: the slot; 0: none.
  [[nodiscard]] breccia::disagg::Slot find(const TreeKey& key) const {
    const std::size_t place = place_of(key);
    return place < count && entry[place].key == key ? entry[place].to : 0;
  }
  /// Of an inner node: which entry leads to a key.
  /// Shape   the first entry's key is not above it.
  [[nodiscard]] std::size_t child_of(const TreeKey& key) const {
    const std::size_t place = place_of(key);
    const bool is_there = place < count && entry[place].key == key;
    BRECCIA_ASSERT(is_there || place > 0);
    return is_there ? place : place - 1;
  }
  /// Whether a key lies in a node further to the right, as this one was divided.
  [[nodiscard]] bool is_left_of(const TreeKey& key) const { return right != 0 && !(key < high); }

  [[nodiscard]] std::uint32_t sum() const;

  std::uint32_t checksum = 0;
  std::uint16_t level = 0;
  std::uint16_t count = 0;
  std::uint32_t right = 0;
  std::uint32_t unused = 0;
  TreeKey high;
  std::array<Entry, kEntries> entry{};
  std::array<std::uint64_t, 3> rest{};
};
static_assert(sizeof(TreeNode) == 2048);

/// Whether what was read is a whole node.
[[nodiscard]] bool is_whole(const TreeNode& node);

/// An ordered index whose nodes others read: a B-link tree. A node that is divided leads to the one
/// that has its upper half, so a reader that comes to it by an older parent finds the way; nodes
/// are not used again.
/// Owner   the nodes outlive it.
/// Threads one; readers any, of other processes.
/// Source  [hstore] 2.2 has one-sided reads of a B+-tree; Lehman and Yao 1981. Deviation: one
///         server writes, as all servers of this benchmark do.
class Tree {
 public:
  explicit Tree(std::span<TreeNode> nodes);
  /// Nodes that so many keys may want.
  [[nodiscard]] static std::uint64_t nodes_for(std::uint64_t keys) {
    return 16 + keys / (TreeNode::kEntries / 2 - 1);
  }

  /// The slot before; 0: there was none.
  /// Errors  MemoryLimit: there may be no node for one more; nothing has changed.
  Result<breccia::disagg::Slot> put(const TreeKey& key, breccia::disagg::Slot slot);
  breccia::disagg::Slot erase(const TreeKey& key);
  [[nodiscard]] breccia::disagg::Slot find(const TreeKey& key) const {
    return nodes_[leaf_of(key, nullptr)].find(key);
  }
  /// Slots of the first keys from `begin` on, `limit` at most.
  [[nodiscard]] std::vector<breccia::disagg::Slot> scan(const TreeKey& begin,
                                                        std::size_t limit) const;
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  [[nodiscard]] std::uint32_t leaf_of(const TreeKey& key, std::vector<std::uint32_t>* way) const;
  void insert(std::vector<std::uint32_t> way, TreeNode::Entry entry);
  void seal(std::uint32_t number, TreeNode node);

  const std::span<TreeNode> nodes_;
  std::uint32_t used_ = 1;  // the root
  std::uint64_t size_ = 0;
};

}  // namespace breccia::bench::disagg
