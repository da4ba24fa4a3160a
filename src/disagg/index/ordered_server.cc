#include "disagg/index/ordered_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <execution>
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
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
/// The first bytes of a key, in its order.
std::uint64_t prefix_of(const std::string& key) {
  std::array<unsigned char, sizeof(std::uint64_t)> bytes{};
  std::copy_n(key.begin(), std::min(key.size(), bytes.size()), bytes.begin());
  std::uint64_t prefix = 0;
  for (const unsigned char byte : bytes) prefix = prefix << 8 | byte;
  return prefix;
}

/// Between two looks at whether keys are sorted.
constexpr fabric::TimeUs kSortUs = 1000;
/// What is read of a block for its key: most keys are there.
constexpr std::uint64_t kKeyHeadBytes = 128;

}  // namespace

Status OrderedServer::follow(const ClusterMap& map) {
  if (map.epoch < epoch_) return Status::InvalidArgument("a map of the past");
  epoch_ = map.epoch;
  asking_.set_epoch(epoch_);
  memory_.follow(map);
  return Status::OK();
}

Status OrderedServer::serve(fabric::TimeUs until) {
  do {
    const fabric::TimeUs idle = port_->now_us() + options_.idle_us;
    fabric::TimeUs wake = log_.empty() ? until : std::min(until, idle);
    if (!is_whole_ && leader_.has_value()) wake = std::min({wake, gather_again_, memory_.wake()});
    for (; !others_.empty(); others_.pop_front()) hear(others_.front());
    const auto arrival = port_->poll(wake);
    if (arrival.has_value()) {
      hear(*arrival);
      if (log_.size() > kLagMax) apply(log_.size() - kLagMax);
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
  return answer_of(Code::kOk).add(Followed{.through = through_, .is_whole = is_whole_ ? 1U : 0U});
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
  const auto there = index_.find(write.key);
  const Slot before = there == index_.end() ? 0 : there->second;
  if (write.slot == 0) {
    if (there != index_.end()) index_.erase(there);
  } else if (there != index_.end()) {
    there->second = write.slot;
  } else {
    index_.emplace(std::move(write.key), write.slot);
  }
  return before;
}

void OrderedServer::apply(std::size_t most) {
  if (!is_whole_) return;  // what is built is of before the log
  for (; most > 0 && !log_.empty(); --most) (void)apply_one();
}

/// All that the log has is in it, also what nobody finds by a lookup yet: the answer says through
/// which write that is.
WireWriter OrderedServer::scan(WireReader question) {
  const Slice begin = question.take_bytes();
  const Slice end = question.take_bytes();
  const auto limit = question.take<std::uint32_t>();
  if (!question.is_whole() || limit > kScanMax) {
    return refusal(Code::kWrong, "no range, or too long");
  }
  const fabric::TimeUs now = port_->now_us();
  if (!is_whole_) return refusal(Code::kBusy, "the ordered index is being built");
  if (now >= trust_until_) return refusal(Code::kBusy, "it may not be the ordered server any more");
  apply(kAll);
  WireWriter answer = answer_of(Code::kOk);
  answer.add(ScanHead{.sequence = through_, .for_us = trust_until_ - now});
  auto at = index_.lower_bound(std::string_view(begin.data(), begin.size()));
  for (std::uint32_t n = 0; n < limit && at != index_.end(); ++n, ++at) {
    if (!end.empty() && Slice(at->first).compare(end) >= 0) break;
    answer.add(at->second);
  }
  return answer;
}

WireWriter OrderedServer::keys_behind(WireReader question) {
  const Slice behind = question.take_bytes();
  if (!question.is_whole() || !is_whole_) return refusal(Code::kWrong, "no key, or not all keys");
  apply(kAll);
  WireWriter answer = answer_of(Code::kOk);
  auto at = index_.upper_bound(std::string_view(behind.data(), behind.size()));
  for (; at != index_.end() && answer.bytes().size() < options_.page_bytes; ++at) {
    answer.add(at->second).add_bytes(at->first);
  }
  return answer;
}

// ---- built from the hash server ----------------------------------------------------------------

void OrderedServer::gather() {
  if (is_whole_ || !has_begun_) return;
  const fabric::TimeUs now = port_->now_us();
  memory_.tend(now + options_.meet_us);
  if (read_ == entries_.size()) return are_all_told_ ? put_together() : ask_for_chains();
  if (now < gather_again_) return;
  const std::size_t count = std::min(options_.keys_at_once, entries_.size() - read_);
  if (read_keys(std::span(entries_).subspan(read_, count))) {
    read_ += count;
    gather_again_ = 0;
  } else {
    gather_again_ = port_->now_us() + options_.again_us;
  }
}

/// All keys are there, by their hashes; sorting takes long.
void OrderedServer::put_together() {
  if (!together_.valid()) {
    entries_ = {};
    read_ = 0;
    const auto when = options_.sorts_aside ? std::launch::async : std::launch::deferred;
    together_ = std::async(when, &OrderedServer::index_of, std::move(keys_));
  }
  gather_again_ = port_->now_us() + kSortUs;
  const auto now = std::chrono::seconds(0);
  if (options_.sorts_aside && together_.wait_for(now) != std::future_status::ready) return;
  index_ = together_.get();
  is_whole_ = true;
}

OrderedServer::Index OrderedServer::index_of(std::vector<std::pair<std::string, Slot>> keys) {
  // Most keys differ in their first bytes, which lie side by side here.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    order[i] = {prefix_of(keys[i].first), static_cast<std::uint32_t>(i)};
  }
  std::sort(std::execution::par_unseq, order.begin(), order.end(),
            [&keys](const auto& one, const auto& other) {
              if (one.first != other.first) return one.first < other.first;
              return keys[one.second].first < keys[other.second].first;
            });
  Index index;
  for (const auto& [prefix, i] : order) {
    index.emplace_hint(index.end(), std::move(keys[i].first), keys[i].second);
  }
  return index;
}

void OrderedServer::ask_for_chains() {
  const fabric::TimeUs now = port_->now_us();
  if (!leader_.has_value() || now < gather_again_) return;
  gather_again_ = now + options_.again_us;
  if (chains_request_ == 0) chains_request_ = asking_.draw_request();
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(Ask::kChains), .epoch = epoch_, .request = chains_request_};
  // What is not answered is asked again.
  (void)port_->send(*leader_, header, WireWriter().add(next_chain_).bytes(), gather_again_);
}

void OrderedServer::take_chains(WireReader answer) {
  const auto next = answer.take<std::uint32_t>();
  std::vector<ChainEntry> entries;
  while (answer.left() > 0) {
    entries.push_back(answer.take<ChainEntry>());
    if (!is_block(location_in(entries.back().slot))) return;
  }
  if (!answer.is_whole() || (next != 0 && next <= next_chain_)) return;
  next_chain_ = next;
  are_all_told_ = next == 0;
  entries_ = std::move(entries);
  read_ = 0;
  gather_again_ = 0;
}

/// Reads their keys. What a block has not, or not any more, was replaced since the
/// hash server told of it, and a write of that key is in the log. False: they cannot be read now.
bool OrderedServer::read_keys(std::span<const ChainEntry> entries) {
  std::vector<std::byte> heads(entries.size() * kKeyHeadBytes);
  const auto head_of = [&](std::size_t i) {
    const std::uint64_t bytes = std::min(location_in(entries[i].slot).bytes(), kKeyHeadBytes);
    return std::span(heads).subspan(i * kKeyHeadBytes, bytes);
  };
  std::map<std::uint32_t, std::vector<fabric::Read>> reads;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Location block = location_in(entries[i].slot);
    if (memory_.is_lost(block.node)) continue;
    if (!memory_.is_place(block)) return false;
    reads[block.node].push_back({memory_.find(block.node)->region, block.offset(), head_of(i)});
  }
  const fabric::TimeUs until = port_->now_us() + options_.read_us;
  for (const auto& [node, of_node] : reads) {
    if (!port_->read(memory_.find(node)->peer, of_node, until).ok()) return false;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Location block = location_in(entries[i].slot);
    if (memory_.is_lost(block.node)) continue;
    const std::span<const std::byte> head = head_of(i);
    BlockHeader header;
    std::memcpy(&header, head.data(), sizeof header);
    const std::size_t key_bytes = std::size_t{header.key_bytes_less_one} + 1;
    std::string key(reinterpret_cast<const char*>(head.data()) + sizeof header,
                    std::min(key_bytes, head.size() - sizeof header));
    if (key.size() < key_bytes && block.bytes() >= sizeof header + key_bytes) {
      auto longer = read_long_key(block, key_bytes);
      if (!longer.ok()) return false;
      key = longer.take();
    }
    if (seeds_.id_of(key) != entries[i].id) continue;
    keys_.emplace_back(std::move(key), slot_of(0, block));
  }
  return true;
}

Result<std::string> OrderedServer::read_long_key(const Location& block, std::size_t key_bytes) {
  const MemoryPeer* const of = memory_.find(block.node);
  std::string key(key_bytes, '\0');
  const fabric::Read read{of->region, block.offset() + sizeof(BlockHeader),
                          std::as_writable_bytes(std::span(key))};
  BRECCIA_TRY(port_->read(of->peer, {&read, 1}, port_->now_us() + options_.read_us));
  return key;
}

}  // namespace breccia::disagg
