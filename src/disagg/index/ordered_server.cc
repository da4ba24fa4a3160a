#include "disagg/index/ordered_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

/// Writes that go into the index between two looks at what has come.
constexpr std::size_t kApplyAtOnce = 256;
/// With more of them in the log alone they are not put off any more.
constexpr std::size_t kLagMax = 64 << 10;
/// Of the log of a build at a time: more than a message brings, and less than takes a session.
constexpr std::size_t kCatchUpAtOnce = 16 << 10;
/// Of what has come between two turns of a build, which may take a millisecond each.
constexpr std::size_t kHeardAtOnce = 64;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
/// Between two looks at whether keys are sorted.
constexpr fabric::TimeUs kSortUs = 1000;

/// Bytes of the key of a block whose head was read.
std::size_t key_bytes_in(std::span<const std::byte> head) {
  BlockHeader header;
  std::memcpy(&header, head.data(), sizeof header);
  return std::size_t{header.key_bytes_less_one} + 1;
}

void add_key(const OrderedIndex::Cursor& at, WireWriter* to) {
  const auto key_bytes = static_cast<std::uint32_t>(at.key_bytes());
  to->add(key_bytes);
  at.copy_key(reinterpret_cast<char*>(to->add_room(key_bytes)));
}

/// What is known of memory servers: looked up once for all entries of a turn.
class Reach {
 public:
  explicit Reach(const MemoryPeers& memory) : memory_(memory) {}
  [[nodiscard]] bool is_lost(const Location& block) { return of(block).is_lost; }
  [[nodiscard]] bool is_place(const Location& block) { return is_block_of(block, of(block).bytes); }

 private:
  struct Node {
    bool is_known = false;
    bool is_lost = false;
    std::uint64_t bytes = 0;
  };
  const Node& of(const Location& block) {
    Node& node = nodes_.at(block.node);
    if (!node.is_known) {
      node = {.is_known = true,
              .is_lost = memory_.is_lost(block.node),
              .bytes = memory_.bytes_of(block.node)};
    }
    return node;
  }

  const MemoryPeers& memory_;
  std::array<Node, kNodesMax> nodes_;
};

std::string_view view_of(const Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace

Status OrderedServer::follow(const ClusterMap& map, std::uint32_t /*shard*/) {
  if (map.epoch < epoch_) return Status::InvalidArgument("a map of the past");
  epoch_ = map.epoch;
  asking_.set_epoch(epoch_);
  memory_.follow(map);
  return Status::OK();
}

Status OrderedServer::serve(fabric::TimeUs until) {
  do {
    // While it is built what is logged waits.
    const bool may_apply = is_built_ && !log_.empty();
    const fabric::TimeUs idle = port_->now_us() + options_.idle_us;
    fabric::TimeUs wake = may_apply ? std::min(until, idle) : until;
    if (!is_whole_ && has_begun_) wake = std::min({wake, gather_wake(), memory_.wake()});
    for (; !others_.empty(); others_.pop_front()) hear(others_.front());
    auto arrival = port_->poll(wake);
    if (arrival.has_value()) {
      hear(*arrival);
      const bool builds = !is_whole_ && has_begun_;
      for (std::size_t n = 1; builds && n < kHeardAtOnce && arrival.has_value(); ++n) {
        if (port_->now_us() >= until) break;
        arrival = port_->poll(0);
        if (arrival.has_value()) hear(*arrival);
      }
      if (is_whole_ && log_.size() > kLagMax) apply(log_.size() - kLagMax);
    } else {
      apply(kApplyAtOnce);
    }
    gather();
  } while (port_->now_us() < until);
  return Status::OK();
}

void OrderedServer::hear(const fabric::Arrival& arrival) {
  if (arrival.kind == fabric::Arrival::Kind::kGone && leader_ == arrival.peer) {
    leader_.reset();
    chains_request_ = 0;
  }
  if ((arrival.header.kind & kAnswerBit) == 0) {
    answers_.hear(arrival, [this](const Answers::Asker& asker, Ask ask, WireReader question) {
      return std::optional(answer(asker, ask, question));
    });
    return;
  }
  constexpr std::uint8_t kTold = static_cast<std::uint8_t>(Ask::kChains) | kAnswerBit;
  const bool is_it = leader_ == arrival.peer && arrival.header.kind == kTold &&
                     chains_request_ != 0 && arrival.header.request == chains_request_;
  if (!is_it) return;
  chains_request_ = 0;
  WireReader answer(arrival.payload);
  // It is asked anew where it does not tell yet.
  if (take_code(&answer).ok()) take_chains(answer);
}

WireWriter OrderedServer::answer(const Answers::Asker& asker, Ask ask, WireReader question) {
  const bool is_leader = leader_ == asker.peer;
  const WireWriter other_epoch = refusal(Code::kEpoch, "another map of the cluster");
  switch (ask) {
    case Ask::kState:
      return answer_of(Code::kOk).add(IndexState{.sequence = through_,
                                                 .waiting = log_.size(),
                                                 .keys = index_.size(),
                                                 .is_whole = is_whole_ ? 1U : 0U});
    case Ask::kFollow:
      return asker.header.epoch < leader_epoch_ ? other_epoch : meet(asker, question);
    case Ask::kShip:
      return is_leader ? log(asker, question) : other_epoch;
    case Ask::kKeysBehind:
      return is_leader ? keys_behind(question) : other_epoch;
    case Ask::kScan:
      // What it has may lie where another map of the asker's does not lead.
      return asker.header.epoch == std::max(epoch_, epoch_of_writes_) ? scan(question)
                                                                      : other_epoch;
    default:
      return refusal(Code::kWrong, "an ordered server does not do that");
  }
}

/// From here on writes of all others are refused.
WireWriter OrderedServer::meet(const Answers::Asker& asker, WireReader question) {
  const auto follow = question.take<Follow>();
  if (!question.is_whole()) return refusal(Code::kWrong, "no hash server");
  if (!is_whole_ && follow.is_whole == 0) return refusal(Code::kWrong, "neither index is whole");
  if (has_begun_ && through_ < follow.from) return refusal(Code::kWrong, "another server's log");
  leader_ = asker.peer;
  leader_epoch_ = asker.header.epoch;
  chains_request_ = 0;
  seeds_ = follow.seeds;
  if (!std::exchange(has_begun_, true)) through_ = follow.from;
  // Memory servers may have heard of writes that the hash server before had no time to bring here.
  if (follow.is_whole == 0) through_ += kWritesLost;
  WireWriter answer = answer_of(Code::kOk);
  answer.add(Followed{.through = through_, .is_whole = is_whole_ ? 1U : 0U});
  // Who is whole has told memory servers of these, or will.
  if (follow.is_whole != 0) return answer;
  apply(kAll);
  for (const LastWrite& one : last_writes_) answer.add(one);
  return answer;
}

/// Takes writes that come behind those that it has; others came before. A hash server that is being
/// built asks where the values lie that they replace.
WireWriter OrderedServer::log(const Answers::Asker& asker, WireReader question) {
  epoch_of_writes_ = std::max(epoch_of_writes_, asker.header.epoch);
  const bool tells = question.take<std::uint8_t>() != 0;
  if (tells) apply(kAll);
  std::vector<Slot> replaced;
  while (question.left() > 0) {
    LoggedWrite write = LoggedWrite::taken_from(&question);
    const bool is_one = !write.key.empty() && write.key.size() <= kKeyBytesMax;
    if (!is_one) return refusal(Code::kWrong, "no write");
    if (write.sequence != through_ + 1) {
      if (write.sequence > through_ || tells) return refusal(Code::kWrong, "no next write");
      continue;
    }
    log_.push_back(std::move(write));
    ++through_;
    if (tells) replaced.push_back(apply_one());
  }
  if (options_.keeps_step) apply(kAll);
  WireWriter answer = answer_of(Code::kOk);
  answer.add(Logged{through_});
  for (const Slot slot : replaced) answer.add(slot);
  return answer;
}

/// Where the value was that the log's first write replaces; 0: there was none.
Slot OrderedServer::apply_one() {
  BRECCIA_ASSERT(!log_.empty());
  LoggedWrite write = std::move(log_.front());
  log_.pop_front();
  const Slot before = write.slot == 0 ? index_.erase(write.key) : index_.put(write.key, write.slot);
  last_writes_.push_back({.sequence = write.sequence,
                          .slot = write.slot,
                          .replaced = before,
                          .generation = write.generation});
  if (last_writes_.size() > kLastWrites) last_writes_.pop_front();
  return before;
}

void OrderedServer::apply(std::size_t most) {
  if (!is_built_) return;  // what is built is of before the log
  for (; most > 0 && !log_.empty(); --most) (void)apply_one();
}

/// All that the log has is in it, also what nobody finds by a lookup yet: the answer says through
/// which write that is.
WireWriter OrderedServer::scan(WireReader question) {
  const Slice begin = question.take_bytes();
  const Slice end = question.take_bytes();
  const auto limit = question.take<std::uint32_t>();
  const bool has_keys = question.take<std::uint8_t>() != 0;
  if (!question.is_whole() || limit > kScanMax) {
    return refusal(Code::kWrong, "no range, or too long");
  }
  const fabric::TimeUs now = port_->now_us();
  if (!is_whole_) return refusal(Code::kBusy, "the ordered index is being built");
  if (now >= trust_until_) return refusal(Code::kBusy, "it may not be the ordered server any more");
  if (lets_go_) return refusal(Code::kBusy, "another server is to have the ordered index");
  told_until_ = std::max(told_until_, trust_until_);
  apply(kAll);
  ScanHead head{.sequence = through_, .for_us = trust_until_ - now};
  WireWriter found;
  if (end.empty() || begin.compare(end) < 0) {
    auto at = index_.lower_bound(view_of(begin));
    const auto behind = end.empty() ? OrderedIndex::Cursor() : index_.lower_bound(view_of(end));
    for (std::uint32_t n = 0; n < limit && at != behind && head.is_cut == 0; ++n, at.next()) {
      found.add(at.slot());
      if (!has_keys) continue;
      add_key(at, &found);
      head.is_cut = found.bytes().size() >= options_.page_bytes ? 1 : 0;
    }
  }
  return answer_of(Code::kOk).add(head).append(found);
}

WireWriter OrderedServer::keys_behind(WireReader question) {
  const Slice behind = question.take_bytes();
  if (!question.is_whole() || !is_whole_) return refusal(Code::kWrong, "no key, or not all keys");
  apply(kAll);
  WireWriter answer = answer_of(Code::kOk);
  // What comes right behind a key is that with one more byte.
  auto at = index_.lower_bound(behind.empty() ? "" : behind.ToString() + '\0');
  for (; !at.is_at_end() && answer.bytes().size() < options_.page_bytes; at.next()) {
    answer.add(at.slot());
    add_key(at, &answer);
  }
  return answer;
}

// ---- built from the hash server ----------------------------------------------------------------

/// The next chains are on their way while keys of those before are read.
void OrderedServer::gather() {
  if (is_whole_ || !has_begun_) return;
  if (is_built_) return catch_up();
  memory_.tend(port_->now_us() + kServersOfANode * options_.meet_us);
  if (read_ == entries_.size()) {
    entries_ = std::exchange(following_, {});
    read_ = 0;
  }
  if (following_.empty() && !are_all_told_) ask_for_chains();
  const fabric::TimeUs now = port_->now_us();
  if (now < gather_again_) return;
  if (entries_.empty()) {
    if (are_all_told_ && following_.empty()) put_together();
    return;
  }
  const std::size_t count = std::min(keys_at_once_, entries_.size() - read_);
  if (read_keys(std::span(entries_).subspan(read_, count))) {
    read_ += count;
    keys_at_once_ = std::min(2 * keys_at_once_, options_.keys_at_once);
  } else {
    keys_at_once_ = std::max<std::size_t>(keys_at_once_ / 2, 1);
    gather_again_ = port_->now_us() + options_.again_us;
  }
}

/// When there is something to do for it though nothing has come.
fabric::TimeUs OrderedServer::gather_wake() const {
  const bool waits = entries_.empty() && following_.empty() && !are_all_told_;
  if (!waits) return gather_again_;
  return leader_.has_value() ? chains_again_ : std::numeric_limits<fabric::TimeUs>::max();
}

/// All keys are there, by their hashes; sorting takes long.
void OrderedServer::put_together() {
  if (!together_.valid()) {
    const auto when = options_.sorts_aside ? std::launch::async : std::launch::deferred;
    heads_ = {};
    long_keys_.clear();
    together_ = std::async(when, [keys = std::move(keys_), is_shared = options_.sorts_aside] {
      return OrderedIndex::build(keys, is_shared);
    });
  }
  gather_again_ = port_->now_us() + kSortUs;
  const auto now = std::chrono::seconds(0);
  if (options_.sorts_aside && together_.wait_for(now) != std::future_status::ready) return;
  index_ = together_.get();
  is_built_ = true;
  gather_again_ = 0;
}

/// Whoever asks a whole index for a range waits until all of the log is in it, and nobody else is
/// answered meanwhile: what came while it was built, which may be millions of writes, is not to be
/// among that.
void OrderedServer::catch_up() {
  apply(kCatchUpAtOnce);
  is_whole_ = log_.size() <= kLagMax;
}

void OrderedServer::ask_for_chains() {
  const fabric::TimeUs now = port_->now_us();
  if (!leader_.has_value() || now < chains_again_) return;
  chains_again_ = now + options_.again_us;
  if (chains_request_ == 0) chains_request_ = asking_.draw_request();
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(Ask::kChains), .epoch = epoch_, .request = chains_request_};
  // What is not answered is asked again.
  (void)port_->send(*leader_, header, WireWriter().add(next_chain_).bytes(), chains_again_);
}

void OrderedServer::take_chains(WireReader answer) {
  const auto next = answer.take<std::uint64_t>();
  std::vector<ChainEntry> entries;
  entries.reserve(answer.left() / sizeof(ChainEntry));
  while (answer.left() > 0) {
    entries.push_back(answer.take<ChainEntry>());
    if (!is_block(location_in(entries.back().slot))) return;
  }
  if (!answer.is_whole() || (next != 0 && next <= next_chain_)) return;
  BRECCIA_ASSERT(following_.empty());
  next_chain_ = next;
  are_all_told_ = next == 0;
  following_ = std::move(entries);
  chains_again_ = 0;
}

/// Reads their keys. What a block has not, or not any more, was replaced since the
/// hash server told of it, and a write of that key is in the log. False: they cannot be read now.
bool OrderedServer::read_keys(std::span<const ChainEntry> entries) {
  if (!read_heads(entries) || !read_long_keys(entries)) return false;
  const auto key_of = [&](std::size_t i) -> std::string_view {
    if (const auto found = long_keys_.find(i); found != long_keys_.end()) return found->second;
    const std::span<const std::byte> head = head_of(i, entries[i]);
    const auto* const key = reinterpret_cast<const char*>(head.data()) + sizeof(BlockHeader);
    return {key, std::min(key_bytes_in(head), head.size() - sizeof(BlockHeader))};
  };
  std::size_t key_bytes = 0, longest = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::size_t bytes = key_of(i).size();
    key_bytes += bytes;
    longest = std::max(longest, bytes);
  }
  LooseKeys keys;
  keys.reserve(entries.size(), key_bytes);
  Reach reach(memory_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Location block = location_in(entries[i].slot);
    if (reach.is_lost(block)) continue;
    const std::string_view key = key_of(i);
    if (seeds_.id_of(Slice(key.data(), key.size())) != entries[i].id) continue;
    keys.add(key, slot_of(0, block));
  }
  keys_.push_back(std::move(keys));
  head_bytes_ = sizeof(BlockHeader) + longest <= kLineBytes ? kLineBytes : kHeadBytesMax;
  return true;
}

std::span<std::byte> OrderedServer::head_of(std::size_t i, const ChainEntry& entry) {
  const std::uint64_t bytes = std::min(location_in(entry.slot).bytes(), head_bytes_);
  return std::span(heads_).subspan(i * head_bytes_, bytes);
}

/// The beginnings of their blocks. Of those of servers that are lost there is none.
bool OrderedServer::read_heads(std::span<const ChainEntry> entries) {
  heads_.assign(entries.size() * head_bytes_, std::byte{0});
  MemoryPeers::ReadsByNode of_node;
  Reach reach(memory_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Location block = location_in(entries[i].slot);
    if (reach.is_lost(block)) continue;
    if (!reach.is_place(block)) return false;
    of_node[block.node].push_back({block.offset(), head_of(i, entries[i])});
  }
  return memory_.read(of_node, options_.read_us).ok();
}

/// Those keys that their heads have not all of.
bool OrderedServer::read_long_keys(std::span<const ChainEntry> entries) {
  long_keys_.clear();
  MemoryPeers::ReadsByNode of_node;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::span<const std::byte> head = head_of(i, entries[i]);
    const std::size_t bytes = key_bytes_in(head);
    const Location block = location_in(entries[i].slot);
    if (sizeof(BlockHeader) + bytes <= head.size()) continue;
    if (sizeof(BlockHeader) + bytes > block.bytes() || memory_.is_lost(block.node)) continue;
    std::string& key = long_keys_[i];
    key.resize(bytes);
    of_node[block.node].push_back(
        {block.offset() + sizeof(BlockHeader), std::as_writable_bytes(std::span(key))});
  }
  return memory_.read(of_node, options_.read_us).ok();
}

}  // namespace breccia::disagg
