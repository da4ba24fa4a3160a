#include "disagg/memory/orphans.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Who could not be reached is left alone for so many times as long as was waited.
constexpr TimeUs kPauses = 4;

}  // namespace

/// What was told by one hash server is not gone on with by another one.
void Orphans::follow(const ClusterMap& map, std::uint32_t node) {
  node_ = node;
  epoch_ = map.epoch;
  const auto is_same = [](const ClusterMap::Index& before, const ClusterMap::Shard& now) {
    return before.member == now.hash.member && before.address == now.hash.address;
  };
  const bool are_same =
      std::equal(hashes_.begin(), hashes_.end(), map.shards.begin(), map.shards.end(), is_same);
  hashes_.clear();
  for (const ClusterMap::Shard& one : map.shards) hashes_.push_back(one.hash);
  if (!are_same || next_ == 0) {
    leave();
    begin();
  } else if (phase_ == Phase::kLook) {
    look_anew();  // as of this epoch
  }
}

void Orphans::begin() {
  pool_->watch();
  phase_ = Phase::kAge;
  next_ = port_->now_us() + options_.hold_us;
}

/// From the first shard's first chain on.
void Orphans::look_anew() {
  if (shard_ != 0) leave();
  shard_ = 0;
  request_ = position_ = 0;
}

void Orphans::leave() {
  if (peer_.has_value()) port_->disconnect(*peer_);
  peer_.reset();
  request_ = position_ = 0;
}

Orphans::Blocks Orphans::tend() {
  if (next_ == 0 || port_->now_us() < next_) return {};
  if (phase_ == Phase::kAge) {
    phase_ = Phase::kLook;
    look_anew();
  }
  if (phase_ == Phase::kLook) {
    look();
    return {};
  }
  Blocks nobodys = blocks_left();
  begin();
  return nobodys;
}

void Orphans::look() {
  BRECCIA_ASSERT(phase_ == Phase::kLook);
  if (hashes_.empty()) return begin();  // nobody indexes anything yet
  BRECCIA_ASSERT(shard_ < hashes_.size());
  if (peer_.has_value() && port_->is_gone(*peer_)) leave();
  if (!peer_.has_value()) {
    const auto connected =
        port_->connect(hashes_[shard_].address, port_->now_us() + options_.meet_us);
    next_ = port_->now_us() + kPauses * options_.meet_us;
    if (!connected.ok()) return;
    peer_ = connected.value();
  }
  if (request_ == 0) request_ = asking_->draw_request();
  next_ = port_->now_us() + options_.again_us;
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(Ask::kPlaces), .epoch = epoch_, .request = request_};
  const WireWriter question = WireWriter().add(node_).add(position_);
  (void)port_->send(*peer_, header, question.bytes(), next_);
}

void Orphans::hear(const fabric::Arrival& arrival) {
  if (arrival.peer != peer_) return;
  if (arrival.kind == fabric::Arrival::Kind::kGone) return leave();
  constexpr std::uint8_t kTold = static_cast<std::uint8_t>(Ask::kPlaces) | kAnswerBit;
  const bool is_it = phase_ == Phase::kLook && request_ != 0 && arrival.header.kind == kTold &&
                     arrival.header.request == request_;
  if (!is_it) return;
  request_ = 0;
  WireReader answer(arrival.payload);
  if (take_code(&answer).ok()) return take_places(answer);
  position_ = 0;  // it does not tell now: from the first chain on, behind a pause
}

/// All that has been told is of these hash servers, from their first chains on, and what waited
/// then.
void Orphans::take_places(WireReader answer) {
  const auto next = answer.take<std::uint64_t>();
  while (answer.left() > 0) {
    const Location place = location_in(answer.take<Slot>());
    pool_->forget_watched(place.size_class, place.line);
  }
  if (!answer.is_whole() || (next != 0 && next <= position_)) return leave();
  position_ = next;
  next_ = port_->now_us();
  if (next != 0) return;
  if (++shard_ < hashes_.size()) return leave();
  phase_ = Phase::kRest;
  next_ += options_.hold_us;
}

Orphans::Blocks Orphans::blocks_left() const {
  Blocks all;
  for (std::uint64_t number = 0; number < pool_->chunks(); ++number) {
    const PoolImage::Chunk& chunk = pool_->watched().chunks()[number];
    for (std::uint64_t block = 0; block < chunk.is_used.size(); ++block) {
      if (!chunk.is_used[block]) continue;
      all.emplace_back(chunk.size_class,
                       PoolImage::line_of(chunk.size_class, {.chunk = number, .block = block}));
    }
  }
  return all;
}

}  // namespace breccia::disagg
