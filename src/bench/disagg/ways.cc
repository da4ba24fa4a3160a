#include "bench/disagg/ways.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/random.h"
#include "bench/disagg/ordered_alone.h"
#include "disagg/block.h"
#include "disagg/client/client.h"
#include "disagg/client/leased_blocks.h"
#include "disagg/client/routes.h"

namespace breccia::bench::disagg {

using namespace breccia::disagg;
using fabric::TimeUs;

namespace {

class HashedWay final : public Way {
 public:
  explicit HashedWay(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  Status get(const Slice& key, std::string* value, TimeUs until) override {
    return client_->get(key, value, until);
  }
  Status put(const Slice& key, const Slice& value, TimeUs until) override {
    return client_->put(key, value, until);
  }
  Status erase(const Slice& key, TimeUs until) override { return client_->erase(key, until); }
  Status get_all(std::span<const std::string> keys, std::vector<std::string>* values,
                 TimeUs until) override {
    values->resize(keys.size());
    lookups_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      lookups_.push_back({.key = keys[i], .value = &(*values)[i]});
    }
    BRECCIA_TRY(client_->get(lookups_, until));
    for (const Lookup& one : lookups_) BRECCIA_TRY(one.status());
    return Status::OK();
  }
  Status put_all(std::span<const Pair> pairs, TimeUs until) override {
    changes_.clear();
    for (const Pair& one : pairs) changes_.push_back({.key = one.first, .value = one.second});
    return client_->write(changes_, until);
  }
  Status scan(const Slice& begin, std::uint32_t limit, Pairs* found, TimeUs until) override {
    return client_->scan(begin, "", limit, found, until);
  }
  [[nodiscard]] std::uint64_t reads() const override { return client_->counts().reads; }
  [[nodiscard]] std::uint64_t gets_in_order() const override { return client_->counts().ordered; }

 private:
  const std::unique_ptr<Client> client_;
  // Of one get_all() or put_all(); members, so that their memory is used again.
  std::vector<Lookup> lookups_;
  std::vector<Change> changes_;
};

/// Of an OrderedAlone. It goes to servers by what the store's own client goes by; only how a place
/// is found is another.
class OrderedWay : public Way {
 public:
  OrderedWay(fabric::Port* port, Coordinator* coordinator, const WayOptions& options)
      : random_(options.seed),
        port_(port),
        routes_(port, coordinator,
                {.again_us = ClientOptions().ask_again_us, .try_us = ClientOptions().try_us}),
        blocks_(port, &routes_, ClientOptions().lease_max) {}

  Status open(TimeUs until) {
    return again_and_again(until, [&]() -> Status {
      BRECCIA_TRY(routes_.find());
      return routes_.meet(0, until);
    });
  }

  Status get(const Slice& key, std::string* value, TimeUs until) override {
    return again_and_again(until, [&] { return get_once(key, value, until); });
  }
  Status put(const Slice& key, const Slice& value, TimeUs until) override {
    return again_and_again(until, [&] { return put_once(key, value, until); });
  }
  Status erase(const Slice& key, TimeUs until) override {
    return again_and_again(until, [&]() -> Status {
      WireWriter question;
      question.add(Slot{0}).add(std::uint32_t{0}).add_bytes(key);
      return change(question, until);
    });
  }
  Status scan(const Slice& begin, std::uint32_t limit, Pairs* found, TimeUs until) override {
    return again_and_again(until, [&] { return scan_once(begin, limit, found, until); });
  }
  [[nodiscard]] std::uint64_t reads() const override { return reads_; }
  [[nodiscard]] std::uint64_t gets_in_order() const override { return gets_; }

 protected:
  /// 0: there is no such key.
  virtual Result<Slot> locate(const Slice& key, TimeUs until) {
    const std::string behind = key.ToString() + '\0';
    BRECCIA_TAKE(const std::vector<Slot> slots, ask_for_range(key, behind, 1, until));
    return slots.empty() ? Slot{0} : slots.front();
  }
  virtual Result<std::vector<Slot>> locate_range(const Slice& begin, std::uint32_t limit,
                                                 TimeUs until) {
    return ask_for_range(begin, "", limit, until);
  }
  [[nodiscard]] TimeUs now_us() const { return port_->now_us(); }
  Status read_nodes(std::span<const std::uint32_t> numbers, TreeNode* nodes, TimeUs until) {
    Routes::TableReads of{.shard = 0, .reads = {}};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      of.reads.push_back({routes_.table(0).region, OrderedAlone::offset_of(numbers[i]),
                          std::as_writable_bytes(std::span(nodes + i, 1))});
    }
    reads_ += of.reads.size();
    return routes_.read_tables({&of, 1}, until);
  }

 private:
  template <class Once>
  Status again_and_again(TimeUs until, Once once) {
    while (port_->now_us() < until) {
      Status last = once();
      // A server's time is shorter than the operation's.
      if (!last.IsTryAgain() && !last.IsBusy() && !last.IsTimedOut()) {
        routes_.rest_assured();
        return last;
      }
      routes_.reconsider(until);
    }
    return Status::TimedOut("the time is over");
  }

  Result<std::vector<Slot>> ask_for_range(const Slice& begin, const Slice& end, std::uint32_t limit,
                                          TimeUs until) {
    WireWriter question;
    question.add_bytes(begin).add_bytes(end).add(limit).add(std::uint8_t{0});
    Routes::ToShard asked{.shard = 0, .question = std::move(question)};
    routes_.ask_ordered(Ask::kScan, {&asked, 1}, until);
    BRECCIA_TAKE(const auto answer, std::move(asked.answer));
    WireReader reader(answer);
    (void)reader.take<ScanHead>();
    std::vector<Slot> slots;
    while (reader.left() >= sizeof(Slot)) slots.push_back(reader.take<Slot>());
    if (!reader.is_whole() || slots.size() > limit) return Status::IOError("no answer to a range");
    return slots;
  }

  Status get_once(const Slice& key, std::string* value, TimeUs until) {
    const TimeUs begin = port_->now_us();
    ++gets_;
    BRECCIA_TAKE(const Slot slot, locate(key, until));
    if (slot == 0) return Status::NotFound();
    Pairs found;
    BRECCIA_TRY(read_values({&slot, 1}, &found, until));
    const bool is_late = port_->now_us() - begin > routes_.read_us();
    if (is_late) return Status::TryAgain("a lookup that took too long");
    if (Slice(found.front().first) != key) return Status::Corruption("another key's value");
    *value = std::move(found.front().second);
    return Status::OK();
  }

  Status put_once(const Slice& key, const Slice& value, TimeUs until) {
    BRECCIA_TRY(blocks_.tend(until));
    const auto generation = static_cast<std::uint32_t>(random_.next());
    const auto block = make_block(generation, key, value);
    BRECCIA_TAKE(const Location location, blocks_.take(class_of(block.size()), &random_, until));
    Routes::NodeWrites write{.node = location.node, .writes = {{location.offset(), block}}};
    routes_.write_memory({&write, 1}, until);
    BRECCIA_TRY(write.status);
    WireWriter question;
    question.add(slot_of(0, location)).add(generation).add_bytes(key);
    return change(question, until);
  }

  Status change(WireWriter question, TimeUs until) {
    const TimeUs asked = port_->now_us();
    Routes::ToShard to{.shard = 0, .question = std::move(question)};
    routes_.ask_hash(Ask::kWrite, {&to, 1}, until);
    BRECCIA_TAKE(const auto answer, std::move(to.answer));
    WireReader reader(answer);
    const auto replaced = reader.take<Slot>();
    if (!reader.is_whole()) return Status::IOError("no answer to a write");
    if (replaced != 0) blocks_.let_rest(location_in(replaced), asked);
    return Status::OK();
  }

  Status scan_once(const Slice& begin, std::uint32_t limit, Pairs* found, TimeUs until) {
    const TimeUs asked = port_->now_us();
    BRECCIA_TAKE(const std::vector<Slot> slots, locate_range(begin, limit, until));
    found->clear();
    BRECCIA_TRY(read_values(slots, found, until));
    const bool is_late = port_->now_us() - asked > routes_.read_us();
    return is_late ? Status::TryAgain("a range that took too long") : Status::OK();
  }

  /// All at once.
  Status read_values(std::span<const Slot> slots, Pairs* found, TimeUs until) {
    std::vector<std::vector<std::byte>> bytes(slots.size());
    std::map<std::uint32_t, std::vector<Routes::BlockRead>> of_node;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Location location = location_in(slots[i]);
      if (!is_block(location)) return Status::Corruption("an entry that leads nowhere");
      bytes[i].resize(location.bytes());
      of_node[location.node].push_back({location.offset(), bytes[i]});
    }
    reads_ += slots.size();
    std::vector<Routes::NodeReads> reads;
    for (auto& [node, blocks] : of_node) {
      reads.push_back({.node = node, .reads = std::move(blocks)});
    }
    (void)routes_.read_memory(reads, {}, until);
    for (const Routes::NodeReads& one : reads) BRECCIA_TRY(one.status);
    for (const std::vector<std::byte>& one : bytes) {
      const auto block = whole_block(one);
      if (!block.has_value()) return Status::TryAgain("a block that is not whole");
      found->emplace_back(block->key.ToString(), block->value.ToString());
    }
    return Status::OK();
  }

  base::Random random_;
  fabric::Port* const port_;
  Routes routes_;
  LeasedBlocks blocks_;
  std::uint64_t reads_ = 0, gets_ = 0;
};

/// It reads nodes from the root to the leaf, one after the other. If it remembers inner nodes, it
/// reads the leaf alone; those that were divided since lead to its left.
class TreeWay final : public OrderedWay {
 public:
  TreeWay(fabric::Port* port, Coordinator* coordinator, const WayOptions& options)
      : OrderedWay(port, coordinator, options), remembers_(options.remembered > 0) {}

 private:
  /// Leaves that a range reads at once behind its first one.
  static constexpr std::size_t kLeavesAtOnce = 64;
  struct Leaf {
    TreeNode node;
    std::vector<std::uint32_t> behind;  // as far as the node above says
  };

  Result<Slot> locate(const Slice& key, TimeUs until) override {
    const TreeKey of = TreeKey::of(key);
    Leaf leaf;
    BRECCIA_TRY(find_leaf(of, &leaf, 0, until));
    return leaf.node.find(of);
  }

  Result<std::vector<Slot>> locate_range(const Slice& begin, std::uint32_t limit,
                                         TimeUs until) override {
    // So many leaves may be wanted if they are half full.
    constexpr std::size_t kHalf = TreeNode::kEntries / 2;
    const std::size_t leaves = std::min(kLeavesAtOnce, limit / kHalf + 1);
    Leaf first;
    BRECCIA_TRY(find_leaf(TreeKey::of(begin), &first, leaves, until));
    std::vector<TreeNode> behind(first.behind.size());
    if (!behind.empty()) BRECCIA_TRY(read_nodes(first.behind, behind.data(), until));
    std::vector<Slot> slots;
    TreeNode leaf = first.node;
    std::size_t place = leaf.place_of(TreeKey::of(begin));
    for (std::size_t next = 0; slots.size() < limit;) {
      if (place < leaf.count) {
        slots.push_back(leaf.entry[place++].to);
        continue;
      }
      if (leaf.right == 0) break;
      // One that was divided since leads to a leaf that was not read yet.
      const bool is_read = next < behind.size() && first.behind[next] == leaf.right &&
                           is_whole(behind[next]) && behind[next].level == 0;
      if (is_read) {
        leaf = behind[next++];
      } else {
        BRECCIA_TAKE(leaf, read_node(leaf.right, until));
      }
      place = 0;
    }
    return slots;
  }

  Status find_leaf(const TreeKey& key, Leaf* leaf, std::size_t behind, TimeUs until) {
    std::uint32_t at = TreeNode::kRoot, above = TreeNode::kRoot;
    while (true) {
      const auto known = remembered_.find(at);
      if (known != remembered_.end()) {
        leaf->node = known->second;
      } else {
        BRECCIA_TAKE(leaf->node, read_node(at, until));
      }
      const TreeNode& node = leaf->node;
      if (remembers_ && known == remembered_.end() && node.level > 0) remembered_[at] = node;
      if (node.is_left_of(key)) {
        // What led here is of before a node was divided.
        remembered_.erase(above);
        at = node.right;
        continue;
      }
      if (node.level == 0) return Status::OK();
      const std::size_t child = node.child_of(key);
      leaf->behind.clear();
      for (std::size_t i = child + 1; i < node.count && leaf->behind.size() < behind; ++i) {
        if (node.level == 1) leaf->behind.push_back(static_cast<std::uint32_t>(node.entry[i].to));
      }
      above = at;
      at = static_cast<std::uint32_t>(node.entry[child].to);
    }
  }

  Result<TreeNode> read_node(std::uint32_t number, TimeUs until) {
    TreeNode node;
    do {
      BRECCIA_TRY(read_nodes({&number, 1}, &node, until));
      if (is_whole(node)) return node;
    } while (now_us() < until);
    return Status::TimedOut("a node that is never whole");
  }

  const bool remembers_;
  std::unordered_map<std::uint32_t, TreeNode> remembered_;
};

}  // namespace

Status Way::get_all(std::span<const std::string> keys, std::vector<std::string>* values,
                    TimeUs until) {
  values->resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    BRECCIA_TRY(get(keys[i], &(*values)[i], until));
  }
  return Status::OK();
}

Status Way::put_all(std::span<const Pair> pairs, TimeUs until) {
  for (const Pair& one : pairs) BRECCIA_TRY(put(one.first, one.second, until));
  return Status::OK();
}

Result<std::unique_ptr<Way>> open_way(Indexes indexes, fabric::Port* port, Coordinator* coordinator,
                                      const WayOptions& options, TimeUs until) {
  if (has_hash(indexes)) {
    ClientOptions of_client;
    of_client.seed = options.seed;
    of_client.cached_places = options.remembered;
    BRECCIA_TAKE(auto client, Client::open(port, coordinator, of_client, until));
    return std::unique_ptr<Way>(std::make_unique<HashedWay>(std::move(client)));
  }
  std::unique_ptr<OrderedWay> way = indexes == Indexes::kOrdered
                                        ? std::make_unique<OrderedWay>(port, coordinator, options)
                                        : std::make_unique<TreeWay>(port, coordinator, options);
  BRECCIA_TRY(way->open(until));
  return std::unique_ptr<Way>(std::move(way));
}

}  // namespace breccia::bench::disagg
