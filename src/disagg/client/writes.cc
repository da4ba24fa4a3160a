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

/// The first ones, as many as one question may have.
std::span<const Change> some_of(std::span<const Change> changes) {
  std::size_t n = 0;
  for (std::size_t question = 0, blocks = 0; n < std::min(kAtOnce, changes.size()); ++n) {
    if (question > kQuestionBytes || blocks > kBlockBytes) break;
    const Change& one = changes[n];
    question += sizeof(Slot) + 2 * sizeof(std::uint32_t) + one.key.size();
    if (one.value.has_value()) blocks += block_bytes(one.key.size(), one.value->size());
  }
  return changes.first(n);
}

}  // namespace

Status check(const Change& change) {
  if (change.key.empty() || change.key.size() > kKeyBytesMax) {
    return Status::InvalidArgument("a key has 1 to 65536 bytes");
  }
  if (!change.value.has_value() || change.value->size() <= kValueBytesMax) return Status::OK();
  return Status::InvalidArgument("a value has up to 1 MiB");
}

Result<std::size_t> Writes::run(std::span<const Change> changes, TimeUs until) {
  const TimeUs since = port_->now_us();
  const auto some = some_of(changes);
  BRECCIA_ASSERT(!some.empty());
  Status written = make_blocks(some, until);
  if (written.ok()) written = write_blocks(until);
  if (!written.ok()) {
    let_rest(0, since);
    return written;
  }
  const auto replaced = ask(some, until);
  if (!replaced.ok() && !is_known_not(replaced.status())) {
    // Of each one: its own, or that which it has replaced.
    for (std::size_t i = 0; i < made_.size(); ++i) blocks_->lose();
    return replaced.status();
  }
  const std::size_t done = replaced.ok() ? replaced.value().size() : 0;
  let_rest(done, since);
  if (!replaced.ok()) return replaced.status();
  for (std::size_t i = 0; i < done; ++i) note(some[i], made_[i], replaced.value()[i], since);
  return done;
}

/// Of each value a block, which is not there yet.
Status Writes::make_blocks(std::span<const Change> changes, TimeUs until) {
  made_.clear();
  for (const Change& one : changes) {
    Block& block = made_.emplace_back();
    if (!one.value.has_value()) continue;
    block.generation = static_cast<std::uint32_t>(random_.next());
    block.bytes = make_block(block.generation, one.key, *one.value);
    BRECCIA_TAKE(block.location, blocks_->take(class_of(block.bytes.size()), &random_, until));
  }
  return Status::OK();
}

/// Those of each node together.
Status Writes::write_blocks(TimeUs until) {
  std::map<std::uint32_t, std::vector<Routes::BlockWrite>> writes;
  for (const Block& one : made_) {
    if (one.location.has_value()) {
      writes[one.location->node].push_back({one.location->offset(), one.bytes});
    }
  }
  for (const auto& [node, of_node] : writes) {
    Status written = routes_->write_memory(node, of_node, until);
    if (written.ok()) continue;
    for (Block& one : made_) {
      if (!one.location.has_value() || one.location->node != node) continue;
      blocks_->lose_unwritten(*one.location);
      one.location.reset();
    }
    return written;
  }
  return Status::OK();
}

/// No entry leads to what was made for changes from that one on, or will.
void Writes::let_rest(std::size_t from, TimeUs since) {
  for (std::size_t i = from; i < made_.size(); ++i) {
    if (made_[i].location.has_value()) blocks_->let_rest(*made_[i].location, since);
  }
}

/// What the first ones replaced, one at least.
/// Errors  what is_known_not(): nothing has happened. IOError: that is not known.
Result<std::vector<Slot>> Writes::ask(std::span<const Change> changes, TimeUs until) {
  WireWriter question;
  TimeUs ask_until = until;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto& location = made_[i].location;
    question.add(location.has_value() ? slot_of(0, *location) : Slot{0})
        .add(made_[i].generation)
        .add_bytes(changes[i].key);
    if (location.has_value()) ask_until = blocks_->ask_until(*location, ask_until);
  }
  const std::string asked = routes_->hash_member();
  // Who is busy for long may have another one in its place; and behind the last question there is
  // to be time for its answer.
  const TimeUs last = ask_until - std::min(ask_until, options_.answer_us);
  const TimeUs busy_until = std::min(last, port_->now_us() + options_.busy_us);
  auto answer = routes_->ask_hash(Ask::kWrite, question, ask_until);
  for (TimeUs pause = kPauseUs; answer.status().IsBusy() && port_->now_us() < busy_until;) {
    (void)port_->poll(std::min(busy_until, port_->now_us() + pause));
    pause = std::min(2 * pause, kPauseUsMax);
    answer = routes_->ask_hash(Ask::kWrite, question, ask_until);
  }
  if (!answer.ok()) {
    return is_known_not(answer.status()) ? answer.status() : not_known(answer.status());
  }
  WireReader reader(answer.value());
  std::vector<Slot> replaced;
  while (reader.left() > 0) replaced.push_back(reader.take<Slot>());
  const bool is_answer =
      reader.is_whole() && !replaced.empty() && replaced.size() <= changes.size() &&
      std::all_of(replaced.begin(), replaced.end(),
                  [](Slot slot) { return slot == 0 || is_block(location_in(slot)); });
  if (!is_answer) return not_known(Status::IOError("no answer to a write"));
  if (!routes_->confirm(asked, until)) {
    return not_known(Status::IOError("by then it may have been another hash server"));
  }
  return replaced;
}

/// A change was made.
void Writes::note(const Change& change, const Block& block, Slot replaced, TimeUs since) {
  if (replaced != 0) blocks_->let_rest(location_in(replaced), since);
  const KeyId id = routes_->table().seeds.id_of(change.key);
  if (block.location.has_value()) {
    cache_->keep(id, *block.location, block.generation);
  } else {
    cache_->forget(id);
  }
}

}  // namespace breccia::disagg
