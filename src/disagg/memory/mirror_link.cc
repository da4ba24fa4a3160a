#include "disagg/memory/mirror_link.h"

#include <limits>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

}  // namespace

void MirrorLink::follow(const std::string& member, std::uint32_t epoch) {
  epoch_ = epoch;
  if (member == member_) return;
  leave();
  member_ = member;
}

/// The mirror is told all anew when it comes again, as it hears that it was left. Whether it has
/// what was under way is not known: nobody has got such blocks, so they are free again, if they are
/// not yet; what was given back is.
void MirrorLink::leave() {
  for (Change& change : changes_) {
    if (!change.is_lease) continue;
    for (const auto& [size_class, line] : change.blocks) {
      (void)pool_->give_back(size_class, line);
    }
    change.answer = refusal(Code::kBusy, "the other server of this memory went");
  }
  answer_first(changes_.size());
  if (peer_.has_value()) port_->disconnect(*peer_);
  peer_.reset();
  told_ = 0;
  is_told_ = false;
}

void MirrorLink::answer_first(std::size_t count) {
  BRECCIA_ASSERT(count <= changes_.size());
  for (; count > 0; --count) {
    const Change change = std::move(changes_.front());
    changes_.pop_front();
    if (change.asker.has_value()) answers_->give(*change.asker, change.answer);
  }
  request_ = 0;
  asked_ = 0;
}

void MirrorLink::tell(Change change) {
  BRECCIA_ASSERT(takes_changes());
  changes_.push_back(std::move(change));
  if (member_.empty()) answer_first(changes_.size());
}

WireWriter MirrorLink::use(const Answers::Asker& asker, const fabric::RegionName& region,
                           WireReader question) {
  const Slice member = question.take_bytes();
  const auto from = question.take<std::uint64_t>();
  if (!question.is_whole()) return refusal(Code::kWrong, "no mirror");
  if (member_.empty() || member != Slice(member_)) {
    return refusal(Code::kEpoch, "another map of the cluster");
  }
  if (from == 0) {
    if (peer_ == asker.peer) peer_.reset();
    leave();
    peer_ = asker.peer;
  }
  // It looks whether it still is told all.
  if (peer_ == asker.peer && is_told_ && from == told_) {
    return answer_of(Code::kOk).add(UseHead{.region = region, .next = told_});
  }
  const bool goes_on = peer_ == asker.peer && from == told_ && from < pool_->chunks();
  if (!goes_on) return refusal(Code::kBusy, "the mirror is to begin anew");
  WireWriter chunks;
  for (; told_ < pool_->chunks() && chunks.bytes().size() < options_.page_bytes; ++told_) {
    if (!pool_->chunk(told_).is_used.empty()) add_chunk(told_, pool_->chunk(told_), &chunks);
  }
  is_told_ = told_ == pool_->chunks();
  WireWriter answer = answer_of(Code::kOk);
  return answer.add(UseHead{.region = region, .next = told_}).append(chunks);
}

void MirrorLink::tend() {
  if (peer_.has_value() && port_->is_gone(*peer_)) leave();
  if (!is_told_ || changes_.empty() || (request_ != 0 && port_->now_us() < again_)) return;
  if (request_ == 0) {
    request_ = asking_->draw_request();
    WireWriter question;
    for (asked_ = 0; asked_ < changes_.size(); ++asked_) {
      if (question.bytes().size() >= options_.page_bytes) break;
      const Change& change = changes_[asked_];
      for (const auto& [size_class, line] : change.blocks) {
        question.add(static_cast<std::uint8_t>(change.is_lease ? 1 : 0)).add(size_class).add(line);
      }
    }
    question_ = question.bytes();
  }
  again_ = port_->now_us() + options_.again_us;
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(Ask::kKeep), .epoch = epoch_, .request = request_};
  (void)port_->send(*peer_, header, question_, again_);
}

TimeUs MirrorLink::wake() const {
  if (!is_told_ || changes_.empty()) return std::numeric_limits<TimeUs>::max();
  return request_ == 0 ? 0 : again_;
}

void MirrorLink::hear(const fabric::Arrival& arrival) {
  if (arrival.peer != peer_) return;
  if (arrival.kind == fabric::Arrival::Kind::kGone) return leave();
  constexpr std::uint8_t kKept = static_cast<std::uint8_t>(Ask::kKeep) | kAnswerBit;
  const bool is_it =
      arrival.header.kind == kKept && request_ != 0 && arrival.header.request == request_;
  if (!is_it) return;
  WireReader answer(arrival.payload);
  const Status kept = take_code(&answer);
  if (kept.ok()) return answer_first(asked_);
  // It has not heard yet what was in use before: again, behind a pause, as another question.
  if (!kept.IsBusy()) return leave();
  request_ = asking_->draw_request();
  again_ = port_->now_us() + options_.again_us;
}

}  // namespace breccia::disagg
