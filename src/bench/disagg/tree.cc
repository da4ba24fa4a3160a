#include "bench/disagg/tree.h"

#include <atomic>
#include <bit>
#include <utility>

#include "base/checksum.h"

namespace breccia::bench::disagg {

using breccia::disagg::Slot;

std::uint32_t TreeNode::sum() const {
  const auto* const from = reinterpret_cast<const char*>(this) + sizeof checksum;
  const auto* const end = reinterpret_cast<const char*>(entry.data() + count);
  return base::crc32c(0, from, static_cast<std::size_t>(end - from));
}

bool is_whole(const TreeNode& node) {
  return node.count <= TreeNode::kEntries && node.checksum == node.sum();
}

namespace {

void insert_into(TreeNode* node, const TreeNode::Entry& entry) {
  BRECCIA_ASSERT(node->count < TreeNode::kEntries);
  const std::size_t place = node->place_of(entry.key);
  auto* const entries = node->entry.data();
  std::move_backward(entries + place, entries + node->count, entries + node->count + 1);
  entries[place] = entry;
  ++node->count;
}

/// The upper half of a full node, which keeps the lower one.
TreeNode divide(TreeNode* node, std::uint32_t right_number) {
  constexpr std::size_t kLeft = TreeNode::kEntries / 2;
  BRECCIA_ASSERT(node->count == TreeNode::kEntries);
  TreeNode right;
  right.level = node->level;
  right.right = node->right;
  right.high = node->high;
  right.count = TreeNode::kEntries - kLeft;
  std::copy(node->entry.begin() + kLeft, node->entry.end(), right.entry.begin());
  node->count = kLeft;
  node->right = right_number;
  node->high = right.entry[0].key;
  return right;
}

}  // namespace

Tree::Tree(std::span<TreeNode> nodes) : nodes_(nodes) {
  BRECCIA_ASSERT(nodes.size() >= nodes_for(0));
  seal(TreeNode::kRoot, TreeNode());
}

/// Where a key is, or would be; *way, if wanted, gets the nodes from the root to there.
std::uint32_t Tree::leaf_of(const TreeKey& key, std::vector<std::uint32_t>* way) const {
  std::uint32_t at = TreeNode::kRoot;
  while (true) {
    if (way != nullptr) way->push_back(at);
    const TreeNode& node = nodes_[at];
    BRECCIA_ASSERT(!node.is_left_of(key));
    if (node.level == 0) return at;
    at = static_cast<std::uint32_t>(node.entry[node.child_of(key)].to);
  }
}

Result<Slot> Tree::put(const TreeKey& key, Slot slot) {
  BRECCIA_ASSERT(slot != 0);
  std::vector<std::uint32_t> way;
  const std::uint32_t leaf = leaf_of(key, &way);
  const std::size_t place = nodes_[leaf].place_of(key);
  if (nodes_[leaf].find(key) != 0) {
    TreeNode changed = nodes_[leaf];
    const Slot before = std::exchange(changed.entry[place].to, slot);
    seal(leaf, changed);
    return before;
  }
  // Each node on the way may be divided, and the root into two.
  if (used_ + way.size() + 1 > nodes_.size()) return Status::MemoryLimit("the tree is full");
  insert(std::move(way), {.key = key, .to = slot});
  ++size_;
  return Slot{0};
}

void Tree::insert(std::vector<std::uint32_t> way, TreeNode::Entry entry) {
  while (true) {
    const std::uint32_t number = way.back();
    way.pop_back();
    TreeNode left = nodes_[number];
    if (left.count < TreeNode::kEntries) {
      insert_into(&left, entry);
      return seal(number, left);
    }
    const std::uint32_t right_number = used_++;
    TreeNode right = divide(&left, right_number);
    insert_into(entry.key < left.high ? &left : &right, entry);
    // What a node leads to is there before.
    seal(right_number, right);
    if (number != TreeNode::kRoot) {
      seal(number, left);
      entry = {.key = left.high, .to = right_number};
      continue;
    }
    const std::uint32_t left_number = used_++;
    seal(left_number, left);
    TreeNode root;
    root.level = static_cast<std::uint16_t>(left.level + 1);
    root.count = 2;
    root.entry[0] = {.key = TreeKey(), .to = left_number};  // also what is smaller than all so far
    root.entry[1] = {.key = left.high, .to = right_number};
    return seal(TreeNode::kRoot, root);
  }
}

/// What becomes empty stays where it is.
Slot Tree::erase(const TreeKey& key) {
  const std::uint32_t leaf = leaf_of(key, nullptr);
  TreeNode changed = nodes_[leaf];
  const Slot before = changed.find(key);
  if (before == 0) return 0;
  auto* const entries = changed.entry.data();
  const std::size_t place = changed.place_of(key);
  std::move(entries + place + 1, entries + changed.count, entries + place);
  --changed.count;
  seal(leaf, changed);
  --size_;
  return before;
}

std::vector<Slot> Tree::scan(const TreeKey& begin, std::size_t limit) const {
  std::vector<Slot> slots;
  const TreeNode* leaf = &nodes_[leaf_of(begin, nullptr)];
  std::size_t place = leaf->place_of(begin);
  while (slots.size() < limit) {
    if (place < leaf->count) {
      slots.push_back(leaf->entry[place++].to);
    } else if (leaf->right == 0) {
      break;
    } else {
      leaf = &nodes_[leaf->right];
      place = 0;
    }
  }
  return slots;
}

/// Word by word; between them a reader sees what is no node.
void Tree::seal(std::uint32_t number, TreeNode node) {
  node.checksum = node.sum();
  constexpr std::size_t kWords = sizeof(TreeNode) / sizeof(std::uint64_t);
  const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(node);
  auto* const to = reinterpret_cast<std::uint64_t*>(&nodes_[number]);
  for (std::size_t i = 0; i < kWords; ++i) {
    if (to[i] == words[i]) continue;
    std::atomic_ref<std::uint64_t>(to[i]).store(words[i], std::memory_order_release);
  }
}

}  // namespace breccia::bench::disagg
