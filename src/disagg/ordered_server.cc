#include "disagg/ordered_server.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

/// Writes that go into the index between two looks at what has come.
constexpr std::size_t kApplyAtOnce = 256;
/// With more of them in the log alone they are not put off any more.
constexpr std::size_t kLagMax = 64 << 10;

}  // namespace

void OrderedServer::serve(fabric::TimeUs until) {
  const auto now = [this](const Answers::Asker& /*asker*/, Ask ask, WireReader question) {
    return std::optional(answer(ask, question));
  };
  do {
    const fabric::TimeUs idle = port_->now_us() + options_.idle_us;
    const auto arrival = port_->poll(log_.empty() ? until : std::min(until, idle));
    if (!arrival.has_value()) {
      apply(kApplyAtOnce);
    } else if ((arrival->header.kind & kAnswerBit) == 0) {
      answers_.hear(*arrival, now);
      if (log_.size() > kLagMax) apply(kApplyAtOnce);
    }
  } while (port_->now_us() < until);
}

WireWriter OrderedServer::answer(Ask ask, WireReader question) {
  switch (ask) {
    case Ask::kShip:
      return log(question);
    case Ask::kScan:
      return scan(question);
    default:
      return refusal(Code::kWrong, "an ordered server does not do that");
  }
}

/// Takes writes that come behind those that it has; others came before, or are to come again.
WireWriter OrderedServer::log(WireReader question) {
  const auto log_id = question.take<std::uint64_t>();
  if (log_id_ == 0) log_id_ = log_id;
  if (log_id == 0 || log_id != log_id_) return refusal(Code::kWrong, "another server's log");
  while (question.left() > 0) {
    LoggedWrite write = LoggedWrite::taken_from(&question);
    const bool is_one = !write.key.empty() && write.key.size() <= kKeyBytesMax;
    if (!is_one) return refusal(Code::kWrong, "no write");
    if (write.sequence != through_ + 1) continue;
    log_.push_back(std::move(write));
    ++through_;
  }
  return answer_of(Code::kOk).add(Logged{through_});
}

void OrderedServer::apply(std::size_t most) {
  for (; most > 0 && !log_.empty(); --most) {
    LoggedWrite& write = log_.front();
    if (write.slot == 0) {
      index_.erase(write.key);
    } else {
      index_.insert_or_assign(std::move(write.key), write.slot);
    }
    log_.pop_front();
  }
}

/// All that the log has is in it, also what nobody finds by a lookup yet: the answer says through
/// which write that is.
WireWriter OrderedServer::scan(WireReader question) {
  const Slice begin = question.take_bytes();
  const Slice end = question.take_bytes();
  const auto limit = question.take<std::uint32_t>();
  if (!question.is_whole() || limit > kScanMax)
    return refusal(Code::kWrong, "no range, or too long");
  apply(std::numeric_limits<std::size_t>::max());
  WireWriter answer = answer_of(Code::kOk);
  answer.add(through_);
  auto at = index_.lower_bound(std::string_view(begin.data(), begin.size()));
  for (std::uint32_t n = 0; n < limit && at != index_.end(); ++n, ++at) {
    if (!end.empty() && Slice(at->first).compare(end) >= 0) break;
    answer.add(at->second);
  }
  return answer;
}

}  // namespace breccia::disagg
