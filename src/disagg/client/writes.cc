#include "disagg/client/writes.h"

#include <algorithm>
#include <map>

#include "base/assert.h"
#include "disagg/block.h"
#include "disagg/protocol.h"
#include "disagg/wire.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Writes of one question, and bytes of it and of its blocks, and one write more. Blocks that do
/// not arrive in time are lost.
constexpr std::size_t kAtOnce = 256;
constexpr std::size_t kQuestionBytes = 256 << 10;
constexpr std::size_t kBlockBytes = 256 << 10;
/// Who is told to try again does so behind a pause, each time a longer one.
constexpr TimeUs kPauseUs = 50;
constexpr TimeUs kPauseUsMax = 5000;

/// Of a question that had no answer that tells.
Status not_known(const Status& why) {
  const char* const sentence = "whether it was written is not known";
  return why.IsTimedOut() ? Status::IOError(sentence, "the time is over")
                          : Status::IOError(sentence, why.ToString());
}

bool is_known_not(const Status& status) {
  return status.IsMemoryLimit() || status.IsInvalidArgument() || status.IsBusy() ||
         status.IsTryAgain();
}

}  // namespace

Status check(const Change& change) {
  if (change.key.empty() || change.key.size() > kKeyBytesMax) {
    return Status::InvalidArgument("a key has 1 to 65536 bytes");
  }
  if (!change.value.has_value() || change.value->size() <= kValueBytesMax) return Status::OK();
  return Status::InvalidArgument("a value has up to 1 MiB");
}

/// All questions are put before anybody answers: what is written may wait for no more than one
/// answer (orphans.h), and is written by the map that the questions are of. A block of a server
/// that could not be written is lost, whatever another try would bring: the first one may come yet.
Status Writes::run(std::span<Change> changes, TimeUs until) {
  const TimeUs since = port_->now_us();
  Status all = choose(changes, until);
  if (made_.empty()) return all;
  Status written = make_blocks(until);
  if (written.ok()) written = write_blocks(until);
  if (!written.ok()) {
    let_rest(made_, since);
    return written;
  }
  std::vector<Asked> asked = questions();
  ask(asked, until);
  for (const Asked& one : asked) {
    Status taken = take(one, since, until);
    // What is not known goes before what was refused.
    if (all.ok() || (!all.IsIOError() && taken.IsIOError())) all = std::move(taken);
  }
  return all;
}

/// The first ones, as many as one question may have, of shards that can be met.
/// Errors  of a shard that cannot: what is of others is chosen.
Status Writes::choose(std::span<Change> changes, TimeUs until) {
  ShardSet known, missing;
  Status all;
  bool are_met = false;
  while (!are_met) {
    are_met = true;
    made_ = first_of(changes, missing);
    for (const Made& one : made_) {
      if (known.has(one.shard) || missing.has(one.shard)) continue;
      Status met = routes_->meet(one.shard, until);
      (met.ok() ? known : missing).add(one.shard);
      if (met.ok()) continue;
      are_met = false;
      all = std::move(met);
    }
  }
  const auto is_before = [](const Made& a, const Made& b) { return a.shard < b.shard; };
  const bool are_sorted = std::is_sorted(made_.begin(), made_.end(), is_before);
  if (!are_sorted) std::stable_sort(made_.begin(), made_.end(), is_before);
  return all;
}

std::vector<Writes::Made> Writes::first_of(std::span<Change> changes, ShardSet but) const {
  std::vector<Made> first;
  std::size_t question = 0, blocks = 0;
  for (Change& one : changes) {
    const bool are_enough =
        first.size() == kAtOnce || question > kQuestionBytes || blocks > kBlockBytes;
    if (are_enough) break;
    if (one.is_done) continue;
    const std::uint32_t shard = routes_->shard_of(one.key);
    if (but.has(shard)) continue;
    question += sizeof(Slot) + 2 * sizeof(std::uint32_t) + one.key.size();
    if (one.value.has_value()) blocks += block_bytes(one.key.size(), one.value->size());
    Made& made = first.emplace_back();
    made.of = &one;
    made.shard = shard;
  }
  return first;
}

/// Of each value a block, which is not there yet.
Status Writes::make_blocks(TimeUs until) {
  for (Made& one : made_) {
    if (!one.of->value.has_value()) continue;
    one.generation = static_cast<std::uint32_t>(random_.next());
    one.bytes = make_block(one.generation, one.of->key, *one.of->value);
    BRECCIA_TAKE(one.location, blocks_->take(class_of(one.bytes.size()), &random_, until));
  }
  return Status::OK();
}

/// Those of all nodes at once.
Status Writes::write_blocks(TimeUs until) {
  std::map<std::uint32_t, std::vector<Routes::BlockWrite>> of_node;
  for (const Made& one : made_) {
    if (!one.location.has_value()) continue;
    of_node[one.location->node].push_back({one.location->offset(), one.bytes});
  }
  std::vector<Routes::NodeWrites> writes;
  for (auto& [node, blocks] : of_node) {
    writes.push_back({.node = node, .writes = std::move(blocks)});
  }
  if (!writes.empty()) routes_->write_memory(writes, until);
  Status all;
  for (const Routes::NodeWrites& one : writes) {
    if (one.status.ok()) continue;
    lose_unwritten(one.node);
    all = one.status;
  }
  return all;
}

void Writes::lose_unwritten(std::uint32_t node) {
  for (Made& one : made_) {
    if (!one.location.has_value() || one.location->node != node) continue;
    blocks_->lose_unwritten(*one.location);
    one.location.reset();
  }
}

/// No entry leads to what was made for these, or will.
void Writes::let_rest(std::span<const Made> made, TimeUs since) {
  for (const Made& one : made) {
    if (one.location.has_value()) blocks_->let_rest(*one.location, since);
  }
}

/// One for each shard.
std::vector<Writes::Asked> Writes::questions() const {
  std::vector<Asked> all;
  for (std::size_t begin = 0, end = 0; begin < made_.size(); begin = end) {
    const std::uint32_t shard = made_[begin].shard;
    Asked& asked = all.emplace_back();
    asked.question.shard = shard;
    asked.member = routes_->hash_member(shard);
    asked.trusted_until_us = routes_->trusted_until_us(shard);
    for (; end < made_.size() && made_[end].shard == shard; ++end) {
      const Made& one = made_[end];
      asked.question.question.add(one.location.has_value() ? slot_of(0, *one.location) : Slot{0})
          .add(one.generation)
          .add_bytes(one.of->key);
    }
    asked.made = std::span(made_).subspan(begin, end - begin);
  }
  return all;
}

/// Who is busy is asked again for a while: behind that there may be another one in its place.
/// Behind the last question there is to be time for its answer.
void Writes::ask(std::span<Asked> all, TimeUs until) {
  for (const Made& one : made_) {
    if (one.location.has_value()) until = blocks_->ask_until(*one.location, until);
  }
  const TimeUs last = until - std::min(until, options_.answer_us);
  const TimeUs busy_until = std::min(last, port_->now_us() + options_.busy_us);
  std::vector<Asked*> left;
  for (Asked& one : all) left.push_back(&one);
  for (TimeUs pause = kPauseUs; !left.empty(); pause = std::min(2 * pause, kPauseUsMax)) {
    std::vector<Routes::ToShard> now;
    for (Asked* const one : left) now.push_back(std::move(one->question));
    routes_->ask_hash(Ask::kWrite, now, until);
    for (std::size_t i = 0; i < now.size(); ++i) left[i]->question = std::move(now[i]);
    std::erase_if(left, [](Asked* one) { return !one->question.answer.status().IsBusy(); });
    if (port_->now_us() >= busy_until) return;
    if (!left.empty()) (void)port_->poll(std::min(busy_until, port_->now_us() + pause));
  }
}

/// What came of a question.
Status Writes::take(const Asked& asked, TimeUs since, TimeUs until) {
  const auto replaced = replaced_in(asked, until);
  if (!replaced.ok() && !is_known_not(replaced.status())) {
    // Of each one: its own, or that which it has replaced.
    for (std::size_t i = 0; i < asked.made.size(); ++i) blocks_->lose();
    return replaced.status();
  }
  const std::size_t done = replaced.ok() ? replaced.value().size() : 0;
  let_rest(asked.made.subspan(done), since);
  for (std::size_t i = 0; i < done; ++i) note(asked.made[i], replaced.value()[i], since);
  return replaced.status();
}

/// What the first ones replaced, one at least.
/// Errors  what is_known_not(): nothing has happened. IOError: that is not known.
Result<std::vector<Slot>> Writes::replaced_in(const Asked& asked, TimeUs until) {
  const Routes::ToShard& question = asked.question;
  const Status& status = question.answer.status();
  if (!status.ok()) return is_known_not(status) ? status : not_known(status);
  WireReader reader(question.answer.value());
  std::vector<Slot> replaced;
  while (reader.left() > 0) replaced.push_back(reader.take<Slot>());
  const bool is_answer =
      reader.is_whole() && !replaced.empty() && replaced.size() <= asked.made.size() &&
      std::all_of(replaced.begin(), replaced.end(),
                  [](Slot slot) { return slot == 0 || is_block(location_in(slot)); });
  if (!is_answer) return not_known(Status::IOError("no answer to a write"));
  // Other shards may have answered long behind this one.
  const bool is_confirmed = question.answered_us < asked.trusted_until_us ||
                            routes_->confirm(question.shard, asked.member, until);
  if (!is_confirmed) {
    return not_known(Status::IOError("by then it may have been another hash server"));
  }
  return replaced;
}

/// It was done.
void Writes::note(const Made& made, Slot replaced, TimeUs since) {
  made.of->is_done = true;
  if (replaced != 0) blocks_->let_rest(location_in(replaced), since);
  const KeyId id = routes_->table(made.shard).seeds.id_of(made.of->key);
  if (made.location.has_value()) {
    cache_->keep(id, *made.location, made.generation);
  } else {
    cache_->forget(id);
  }
}

}  // namespace breccia::disagg
