#include "bench/disagg/phases.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/assert.h"
#include "disagg/bucket.h"
#include "disagg/protocol.h"

namespace breccia::bench::disagg {

namespace {

using breccia::disagg::Ask;
using Ns = std::uint64_t;

constexpr std::uint8_t question(Ask ask) { return static_cast<std::uint8_t>(ask); }
constexpr std::uint8_t answer(Ask ask) {
  return static_cast<std::uint8_t>(ask) | breccia::disagg::kAnswerBit;
}
bool is(const Event& event, Event::Kind kind, std::uint8_t message) {
  return event.kind == kind && event.message == message;
}
Ns time_of(const Event& event) { return event.end_ns - event.begin_ns; }

/// When a hash server did what with a put.
struct Served {
  std::uint64_t slot = 0;
  Ns heard = 0, told = 0, committed = 0, shipped = 0, logged = 0, marked = 0, answered = 0;
  Ns marking = 0;
};

/// Puts of a hash server that were answered behind their log, by the slot that they bring.
class ServedPuts {
 public:
  explicit ServedPuts(const Watch& server) {
    for (const Event& event : server.events) see(event);
  }

  /// The put that was served within that time.
  [[nodiscard]] const Served* find(std::uint64_t slot, Ns from, Ns to) const {
    const auto [begin, end] = done_.equal_range(slot);
    for (auto one = begin; one != end; ++one) {
      if (one->second.heard >= from && one->second.answered <= to) return &one->second;
    }
    return nullptr;
  }

 private:
  using Asker = std::pair<fabric::PeerId, std::uint64_t>;

  void see(const Event& event) {
    if (is(event, Event::Kind::kHear, question(Ask::kWrite))) {
      open_.try_emplace({event.peer, event.request},
                        Served{.slot = event.word, .heard = event.end_ns});
    } else if (is(event, Event::Kind::kSend, question(Ask::kCommit))) {
      const bool is_again = !commits_.insert(event.request).second;
      for (auto& [asker, put] : open_) {
        if (!is_again && put.told == 0) put.told = event.begin_ns;
      }
    } else if (is(event, Event::Kind::kHear, answer(Ask::kCommit))) {
      commits_.erase(event.request);
      for (auto& [asker, put] : open_) {
        if (commits_.empty() && put.told != 0 && put.committed == 0) put.committed = event.end_ns;
      }
    } else if (is(event, Event::Kind::kSend, question(Ask::kShip))) {
      // One message is under way at a time; if it goes again it is the same one.
      const bool is_again = std::exchange(ship_, event.request) == event.request;
      for (auto& [asker, put] : open_) {
        if (!is_again && put.shipped == 0) put.shipped = event.begin_ns;
      }
    } else if (is(event, Event::Kind::kHear, answer(Ask::kShip))) {
      for (auto& [asker, put] : open_) {
        if (put.shipped != 0 && put.logged == 0) put.logged = event.end_ns;
      }
    } else if (event.kind == Event::Kind::kWrite) {
      for (auto& [asker, put] : open_) {
        if (put.logged != 0) put.marking += time_of(event);
      }
    } else if (is(event, Event::Kind::kSend, answer(Ask::kWrite))) {
      const auto found = open_.find({event.peer, event.request});
      if (found == open_.end()) return;
      // Others were refused.
      found->second.answered = event.begin_ns;
      const bool is_done = found->second.logged != 0 && found->second.committed != 0;
      if (is_done) done_.emplace(found->second.slot, found->second);
      open_.erase(found);
    }
  }

  std::map<Asker, Served> open_;
  std::multimap<std::uint64_t, Served> done_;
  std::uint64_t ship_ = 0;
  std::set<std::uint64_t> commits_;  // that are under way
};

/// Calls work(begin, end of its events) for each whole operation of clients.
template <class Work>
void for_operations(const Watches& clients, const Work& work) {
  for (const Watch* const client : clients) {
    const std::vector<Event>& events = client->events;
    auto begin = events.end();
    for (auto at = events.begin(); at != events.end(); ++at) {
      if (at->kind == Event::Kind::kBegin) begin = at;
      if (at->kind == Event::Kind::kEnd && begin != events.end()) {
        work(std::span(begin, at + 1));
        begin = events.end();
      }
    }
  }
}

/// With what is left of the operation's time as the last one.
void keep(std::span<const Event> operation, std::vector<Ns> phases, Phases* to) {
  const Ns whole = operation.back().end_ns - operation.front().begin_ns;
  const Ns known = std::accumulate(phases.begin(), phases.end(), Ns{0});
  phases.push_back(whole - std::min(known, whole));
  BRECCIA_ASSERT(phases.size() == to->names.size());
  to->ns.push_back(std::move(phases));
}

/// The time of a question to its answer, also if it was put again.
struct Question {
  std::uint64_t word = 0;
  Ns begin = 0, end = 0;
};
std::optional<Question> question_in(std::span<const Event> operation, Ask ask) {
  Question all;
  for (const Event& event : operation) {
    if (is(event, Event::Kind::kSend, question(ask))) {
      if (all.begin == 0) all.begin = event.begin_ns;
      all.word = event.word;
    }
    if (is(event, Event::Kind::kHear, answer(ask))) all.end = event.end_ns;
  }
  return all.begin != 0 && all.end > all.begin ? std::optional(all) : std::nullopt;
}

Ns time_of_reads(std::span<const Event> operation, bool of_lines) {
  Ns all = 0;
  for (const Event& event : operation) {
    const bool is_line = event.bytes == sizeof(breccia::disagg::Bucket);
    if (event.kind == Event::Kind::kRead && is_line == of_lines) all += time_of(event);
  }
  return all;
}

}  // namespace

Phases phases_of_puts(const Watches& clients, const Watch& hash_server) {
  Phases phases{.names = {"value", "rpc", "queue", "log", "commit", "mark", "apply", "rest"},
                .ns = {}};
  const ServedPuts served(hash_server);
  for_operations(clients, [&](std::span<const Event> operation) {
    const auto asked = question_in(operation, Ask::kWrite);
    if (!asked.has_value()) return;
    const Served* const put = served.find(asked->word, asked->begin, asked->end);
    if (put == nullptr) return;
    Ns value = 0;
    for (const Event& event : operation) {
      if (event.kind == Event::Kind::kWrite) value += time_of(event);
    }
    const Ns in_server = put->answered - put->heard;
    const Ns behind = std::max(put->logged, put->committed);
    keep(operation,
         {value, asked->end - asked->begin - in_server, put->shipped - put->heard,
          put->logged - put->shipped, behind - put->logged, put->marking,
          put->answered - behind - std::min(put->marking, put->answered - behind)},
         &phases);
  });
  return phases;
}

Phases phases_of_gets(const Watches& clients) {
  Phases phases{.names = {"bucket", "block", "rest"}, .ns = {}};
  for_operations(clients, [&](std::span<const Event> operation) {
    keep(operation, {time_of_reads(operation, true), time_of_reads(operation, false)}, &phases);
  });
  return phases;
}

Phases phases_of_scans(const Watches& clients) {
  Phases phases{.names = {"index", "values", "watermark", "rest"}, .ns = {}};
  for_operations(clients, [&](std::span<const Event> operation) {
    const auto asked = question_in(operation, Ask::kScan);
    if (!asked.has_value()) return;
    keep(operation,
         {asked->end - asked->begin, time_of_reads(operation, false),
          time_of_reads(operation, true)},
         &phases);
  });
  return phases;
}

std::vector<std::unique_ptr<Figure>> figures_of(const Phases& phases, const std::string& name,
                                                double seconds) {
  std::vector<std::unique_ptr<Figure>> figures;
  Ns all = 0;
  for (const auto& one : phases.ns) all = std::accumulate(one.begin(), one.end(), all);
  if (all == 0) return figures;
  for (std::size_t i = 0; i < phases.names.size(); ++i) {
    auto figure = std::make_unique<Figure>();
    figure->name = name + "_" + phases.names[i];
    figure->seconds = seconds;
    Ns sum = 0;
    for (const auto& one : phases.ns) {
      figure->ns.record(one[i]);
      sum += one[i];
    }
    figure->share_percent = 100 * static_cast<double>(sum) / static_cast<double>(all);
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace breccia::bench::disagg
