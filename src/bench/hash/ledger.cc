#include "bench/hash/ledger.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "base/parallel.h"

namespace breccia::bench::tables {

namespace {

using hash::Code;
using hash::Operation;

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

std::uint32_t exchange(std::uint32_t& word, std::uint32_t with) {
  return std::atomic_ref(word).exchange(with, std::memory_order_relaxed);
}

/// The smallest number that was noted.
void note_first(std::atomic<std::uint64_t>& first, std::uint64_t number) {
  std::uint64_t seen = first.load();
  while (number < seen && !first.compare_exchange_weak(seen, number)) {
  }
}

template <class Work>
void for_requests(const Step& step, const Work& work) {
  constexpr std::uint64_t kFew = 1024;
  if (step.end - step.begin > kFew) return base::parallel_for(step.begin, step.end, work);
  for (std::uint64_t i = step.begin; i < step.end; ++i) work(i);
}

}  // namespace

struct Ledger::Look {
  const Trace& trace;
  const Answers& answers;
  const Step& step;
  const std::uint32_t number;  // of the step, and the version that it writes
  const bool may_refuse;
  std::atomic<std::uint64_t> wrong = kNone;  // the first request that met what cannot be
  std::atomic<std::uint64_t> twice = kNone;  // changed a key that another one had changed
  std::atomic<std::uint64_t> lost = kNone;   // wrote a key that nobody had changed
  std::atomic<std::uint64_t> refused = 0;

  [[nodiscard]] Operation operation(std::uint64_t i) const { return trace.operation(step, i); }
  /// What the step's writes leave in a key.
  [[nodiscard]] std::uint32_t left_by(Operation operation) const {
    return operation == Operation::kDelete ? kAbsent : number;
  }
};

Ledger::Ledger(const Keys& keys, std::uint64_t count)
    : keys_(keys), versions_(count), written_(count), changed_(count) {}

bool Ledger::changes(Operation operation, std::uint32_t version) {
  switch (operation) {
    case Operation::kInsert:
      return version == kAbsent;
    case Operation::kUpsert:
      return true;
    case Operation::kUpdate:
    case Operation::kDelete:
      return version != kAbsent;
    default:
      return false;
  }
}

bool Ledger::fits(const Look& look, std::uint64_t i, std::uint32_t version) const {
  const std::uint64_t words = keys_.words();
  const std::uint64_t* const found = look.answers.found.data() + i * words;
  if (version == kAbsent) {
    return look.answers.codes[i] == Code::kAbsent &&
           std::all_of(found, found + words, [](std::uint64_t word) { return word == 0; });
  }
  const std::uint64_t first = keys_.first_word(look.trace.order[i], version);
  if (look.answers.codes[i] != Code::kPresent) return false;
  for (std::uint64_t w = 0; w < words; ++w) {
    if (found[w] != Keys::word(first, w)) return false;
  }
  return true;
}

void Ledger::announce(const Look& look, std::uint64_t i) {
  const std::uint64_t key = look.trace.order[i];
  if (!changes(look.operation(i), version(key))) return;
  BRECCIA_ASSERT(key < versions_.size());
  BRECCIA_ASSERT(!look.step.is_mixed || look.operation(i) != Operation::kDelete);
  std::atomic_ref(written_[key]).store(look.number, std::memory_order_relaxed);
}

void Ledger::judge(Look& look, std::uint64_t i) {
  const std::uint64_t key = look.trace.order[i];
  const std::uint32_t before = version(key);
  const bool writes = changes(look.operation(i), before);
  if (fits(look, i, before)) {
    if (writes && exchange(changed_[key], look.number) == look.number) note_first(look.twice, i);
    return;
  }
  if (writes && look.may_refuse && look.answers.codes[i] == Code::kNoRoom) {
    ++look.refused;
    return;
  }
  // A finder does not know who wrote, so it asks what kind of write the step has.
  const bool is_written = key < versions_.size() && written_[key] == look.number;
  const std::uint32_t after = look.left_by(look.step.is_mixed ? Operation::kUpsert : look.step.all);
  if (!is_written || !fits(look, i, after)) note_first(look.wrong, i);
}

void Ledger::settle(Look& look, std::uint64_t i) {
  const std::uint64_t key = look.trace.order[i];
  const Operation operation = look.operation(i);
  if (operation == Operation::kFind || key >= versions_.size() || written_[key] != look.number) {
    return;
  }
  if (changed_[key] == look.number) {
    std::atomic_ref(versions_[key]).store(look.left_by(operation), std::memory_order_relaxed);
  } else if (!(look.may_refuse && look.answers.codes[i] == Code::kNoRoom)) {
    note_first(look.lost, i);
  }
}

Status Ledger::check(const std::string& what, const Trace& trace, const Answers& answers,
                     bool may_refuse, std::uint64_t* refused) {
  BRECCIA_ASSERT(answers.codes.size() >= trace.size());
  BRECCIA_ASSERT(answers.found.size() >= trace.size() * keys_.words());
  for (const Step& step : trace.steps) {
    Look look{trace, answers, step, ++step_, may_refuse};
    for_requests(step, [&](std::uint64_t i) { announce(look, i); });
    for_requests(step, [&](std::uint64_t i) { judge(look, i); });
    for_requests(step, [&](std::uint64_t i) { settle(look, i); });
    const auto say = [&](std::uint64_t request, const char* why) {
      return Status::Corruption(what, "request " + std::to_string(request) + why);
    };
    if (look.wrong != kNone) {
      const bool is_code = answers.codes[look.wrong] == Code::kNoRoom;
      return say(look.wrong, is_code ? " found no room" : " met what its key cannot have had");
    }
    if (look.twice != kNone) return say(look.twice, " changed what another one had changed");
    if (look.lost != kNone) return say(look.lost, " wrote a key that nobody changed");
    *refused += look.refused;
  }
  return Status::OK();
}

}  // namespace breccia::bench::tables
