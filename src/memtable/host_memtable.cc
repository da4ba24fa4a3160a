#include "memtable/host_memtable.h"

#include <new>

#include "base/assert.h"
#include "base/bytes.h"
#include "wal/format.h"

namespace breccia::memtable {

struct HostMemtable::Node {
  std::uint64_t head;
  std::uint64_t payload;
  const std::byte* record;
  std::atomic<Node*> next[1];  // as many as the node is high

  [[nodiscard]] Slice key() const {
    return {record::record_key(record), record::record_header(record).key_bytes()};
  }
};

/// Node memory in blocks, freed as a whole.
class HostMemtable::Arena {
 public:
  Node* make(int height) {
    BRECCIA_ASSERT(1 <= height && height <= kHeightMax);
    const std::size_t bytes = sizeof(Node) + (height - 1) * sizeof(std::atomic<Node*>);
    if (bytes > room_) {
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes));
      next_ = blocks_.back().get();
      room_ = kBlockBytes;
    }
    auto* const node = new (next_) Node;
    for (int level = 1; level < height; ++level) new (&node->next[level]) std::atomic<Node*>;
    next_ += bytes;
    room_ -= bytes;
    return node;
  }

 private:
  static constexpr std::size_t kBlockBytes = 64 << 10;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  std::size_t room_ = 0;
};

namespace {

std::uint64_t head_of(const Slice& key) {
  return key.size() >= 8 ? base::load_big_endian_8(key.data())
                         : base::load_big_endian(key.data(), key.size());
}

}  // namespace

HostMemtable::HostMemtable() : arena_(std::make_unique<Arena>()), random_(0x5eed) {
  root_ = arena_->make(kHeightMax);
  for (int level = 0; level < kHeightMax; ++level) {
    root_->next[level].store(nullptr, std::memory_order_relaxed);
  }
}

HostMemtable::~HostMemtable() = default;

int HostMemtable::random_height() {
  int height = 1;
  while (height < kHeightMax && random_.one_in(4)) ++height;
  return height;
}

/// True if (head, key, payload) lies between two nodes: the root is before all, and null behind.
bool HostMemtable::is_between(const Node* before, std::uint64_t head, const Slice& key,
                              std::uint64_t payload, const Node* behind) const {
  const auto order = [&](const Node* node) {
    if (node->head != head) return node->head < head ? -1 : 1;
    const int keys = node->key().compare(key);
    return keys != 0 ? keys : node->payload > payload ? -1 : 1;
  };
  return (before == root_ || order(before) < 0) && (behind == nullptr || order(behind) > 0);
}

/// True if `node` comes before (key, payload).
bool HostMemtable::sorts_before(const Node* node, std::uint64_t head, const Slice& key,
                                std::uint64_t payload) {
  if (node->head != head) return node->head < head;
  const int order = node->key().compare(key);
  return order != 0 ? order < 0 : node->payload > payload;
}

// Walks down from the top of the tallest tower. `before`, if given, gets for each level the last
// node that sorts before (key, payload).
HostMemtable::Node* HostMemtable::first_not_before(std::uint64_t head, const Slice& key,
                                                   std::uint64_t payload, Node** before) const {
  Node* at = root_;
  const Node* known_not_before = nullptr;
  for (int level = height_.load(std::memory_order_relaxed) - 1;; --level) {
    Node* next = at->next[level].load(std::memory_order_acquire);
    while (next != nullptr && next != known_not_before && sorts_before(next, head, key, payload)) {
      at = next;
      next = at->next[level].load(std::memory_order_acquire);
    }
    if (before != nullptr) before[level] = at;
    if (level == 0) return next;
    known_not_before = next;
  }
}

HostMemtable::Place HostMemtable::find_place(const std::byte* record,
                                             std::uint64_t position) const {
  const record::RecordHeader header = record::record_header(record);
  const Slice key(record::record_key(record), header.key_bytes());
  Place place;
  // Before the walk, which may see a taller tower and begin there: what lies above is not asked
  // for.
  place.height_ = height_.load(std::memory_order_relaxed);
  (void)first_not_before(head_of(key), key, position | static_cast<std::uint64_t>(header.op()),
                         place.before_);
  return place;
}

/// The last nodes before the entry on the lowest `height` levels, from where `place` has them.
/// False: too much has come between. Cost: one node a level, if nothing has.
bool HostMemtable::catch_up(const Place& place, int height, std::uint64_t head, const Slice& key,
                            std::uint64_t payload, Node** before) const {
  constexpr int kStepsMax = 32;
  int steps = 0;
  for (int level = height - 1; level >= 0; --level) {
    Node* at = level < place.height_ ? place.before_[level] : root_;
    BRECCIA_INVARIANT(at == root_ || sorts_before(at, head, key, payload));
    Node* next = at->next[level].load(std::memory_order_relaxed);
    while (next != nullptr && sorts_before(next, head, key, payload)) {
      if (++steps > kStepsMax) return false;
      at = next;
      next = at->next[level].load(std::memory_order_relaxed);
    }
    before[level] = at;
  }
  return true;
}

void HostMemtable::insert_at(const Place& place, const std::byte* record, std::uint64_t position,
                             const wal::SegmentPtr& segment) {
  BRECCIA_ASSERT(position % 8 == 0 && segment->base < position && position < segment->end());
  if (segments_.empty() || segments_.back() != segment) segments_.push_back(segment);
  const record::RecordHeader header = record::record_header(record);
  BRECCIA_ASSERT(record::is_point(header.op()));
  const Slice key(record::record_key(record), header.key_bytes());
  const std::uint64_t payload = position | static_cast<std::uint64_t>(header.op());
  const std::uint64_t head = head_of(key);
  has_merges_ = has_merges_ || header.op() == record::Op::kMerge;

  Node* before[kHeightMax];
  const int height = random_height();
  const bool is_found = catch_up(place, height, head, key, payload, before) ||
                        catch_up(find_place(record, position), height, head, key, payload, before);
  BRECCIA_ASSERT(is_found);
  if (height > height_.load(std::memory_order_relaxed)) {
    height_.store(height, std::memory_order_relaxed);
  }

  Node* const node = arena_->make(height);
  node->head = head;
  node->payload = payload;
  node->record = record;
  // From the bottom up: a reader that meets the node on any level finds the list below it whole.
  for (int level = 0; level < height; ++level) {
    Node* const behind = before[level]->next[level].load(std::memory_order_relaxed);
    BRECCIA_INVARIANT(is_between(before[level], head, key, payload, behind));
    node->next[level].store(behind, std::memory_order_relaxed);
    before[level]->next[level].store(node, std::memory_order_release);  // read in first_not_before
  }
  count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

HostMemtable::Hit HostMemtable::find(const Slice& key, std::uint64_t bound) const {
  BRECCIA_ASSERT(bound % 8 == 0 || bound == ~std::uint64_t{0});
  const std::uint64_t head = head_of(key);
  // The newest payload below `bound`: no operation's bits reach bound itself.
  const Node* const node = first_not_before(head, key, bound - 1, nullptr);
  if (node == nullptr || node->head != head || node->key() != key) return {nullptr, 0};
  return {node->record, node->payload};
}

// ---- walking -----------------------------------------------------------------------------------

const HostMemtable::Node* HostMemtable::last_before(const Slice& key, std::uint64_t payload) const {
  Node* before[kHeightMax];
  (void)first_not_before(head_of(key), key, payload, before);
  return before[0] == root_ ? nullptr : before[0];
}

Slice HostMemtable::Cursor::key() const { return node_->key(); }
std::uint64_t HostMemtable::Cursor::payload() const { return node_->payload; }

void HostMemtable::Cursor::seek(const Slice& key, std::uint64_t bound) {
  node_ = memtable_->first_not_before(head_of(key), key, bound - 1, nullptr);
}

void HostMemtable::Cursor::seek_to_first() {
  node_ = memtable_->root_->next[0].load(std::memory_order_acquire);
}

void HostMemtable::Cursor::seek_to_last() {
  const Node* at = memtable_->root_;
  for (int level = memtable_->height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    while (const Node* const next = at->next[level].load(std::memory_order_acquire)) at = next;
  }
  node_ = at == memtable_->root_ ? nullptr : at;
}

void HostMemtable::Cursor::next() { node_ = node_->next[0].load(std::memory_order_acquire); }

void HostMemtable::Cursor::prev() { node_ = memtable_->last_before(node_->key(), node_->payload); }

bool HostMemtable::export_to(record::EntryColumns* columns) const {
  for (const Node* node = root_->next[0].load(std::memory_order_acquire); node != nullptr;
       node = node->next[0].load(std::memory_order_acquire)) {
    if (!columns->append(node->record, node->payload)) return false;
  }
  return true;
}

}  // namespace breccia::memtable
