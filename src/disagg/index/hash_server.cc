#include "disagg/index/hash_server.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "base/assert.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

/// Arrivals that are heard before writes are shipped: those that come together go together.
constexpr int kArrivalsAtOnce = 64;
/// Clients ask again behind that time, if not before.
constexpr fabric::TimeUs kTrustUsMax = 1'000'000;
/// Keys whose buckets are on their way into the cache while one goes into its, and those of them
/// whose buckets are there, and say what else is needed.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kPlacesAhead = 8;
/// Of an answer's with keys, about.
constexpr std::size_t kBytesOfAKey = 24;
/// Marks of one turn.
constexpr std::size_t kMarksAtOnce = 1024;

/// What a write that waits takes, its key beside it once more.
std::uint64_t bytes_of(const LoggedWrite& write) {
  constexpr std::uint64_t kAsker = sizeof(Answers::Asker);
  return sizeof write + kAsker + 2 * write.key.size();
}

/// Whether a server that may have been read is none any more.
bool has_lost_memory(const ClusterMap& before, const ClusterMap& now) {
  const auto is_read = [&now](const std::string& member) {
    return std::any_of(now.memory.begin(), now.memory.end(), [&](const auto& one) {
      return !one.is_lost && (one.member == member || one.mirror.member == member);
    });
  };
  return std::any_of(before.memory.begin(), before.memory.end(), [&](const auto& one) {
    if (!one.is_in_use || one.is_lost) return false;
    return !is_read(one.member) || (one.mirror.is_whole && !is_read(one.mirror.member));
  });
}

/// In about the order of their hashes, which is that of their buckets: what is needed of page
/// tables for one of them is near for the next.
void append_by_hash(std::span<const std::pair<KeyId, Slot>> keys,
                    std::vector<std::pair<KeyId, Slot>>* to) {
  constexpr std::uint32_t kBits = 10;
  const auto part_of = [](const KeyId& id) { return id.hash >> (64 - kBits); };
  std::array<std::size_t, (1 << kBits) + 1> at{};
  for (const auto& [id, slot] : keys) ++at[part_of(id) + 1];
  std::partial_sum(at.begin(), at.end(), at.begin());
  const std::size_t before = to->size();
  to->resize(before + keys.size());
  for (const auto& one : keys) (*to)[before + at[part_of(one.first)]++] = one;
}

/// Of slots with keys.
Slice last_key_of(WireReader keys) {
  Slice last;
  while (keys.left() > 0) {
    (void)keys.take<Slot>();
    last = keys.take_bytes();
  }
  return last;
}

bool is_key(const Slice& key) { return !key.empty() && key.size() <= kKeyBytesMax; }

WireWriter other_epoch() { return refusal(Code::kEpoch, "another map of the cluster"); }

}  // namespace

Result<std::unique_ptr<HashServer>> HashServer::make(fabric::Port* port, const Options& options) {
  BRECCIA_ASSERT(options.read_us < options.rest_us);
  BRECCIA_TAKE(auto table, GrowingTable::make(port, options.table));
  return std::unique_ptr<HashServer>(new HashServer(port, options, std::move(table)));
}

HashServer::HashServer(fabric::Port* port, const Options& options,
                       std::unique_ptr<GrowingTable> table)
    : port_(port),
      options_(options),
      seeds_(options.seeds.has_value() ? *options.seeds : KeySeeds::draw()),
      table_(std::move(table)),
      answers_(port),
      asking_(port, options.again_us),
      memory_(port, &asking_, {.again_us = options.again_us, .meet_us = options.meet_us}),
      ordered_(port, &asking_, {.again_us = options.again_us, .meet_us = options.meet_us}),
      telling_(port, &asking_, &memory_, options.again_us),
      marking_(port, &asking_, &memory_, options.again_us) {
  asking_.let_hear_others([this](const fabric::Arrival& arrival) { others_.push_back(arrival); });
}

/// Clients that were told so before read memory servers that this map does not have any more, where
/// nothing is marked or written from here on. Until their time is over nothing changes for them.
Status HashServer::follow(const ClusterMap& map, std::uint32_t shard) {
  BRECCIA_ASSERT(shard < map.shards.size() && (epoch_ == 0 || shard == shard_));
  if (map.epoch < epoch_) return Status::InvalidArgument("a map of the past");
  epoch_ = map.epoch;
  asking_.set_epoch(epoch_);
  if (has_lost_memory(map_, map)) holds_until_ = told_until_;
  map_ = map;
  shard_ = shard;
  memory_.follow(map);
  telling_.follow(epoch_);
  marking_.follow(epoch_);
  if (build_ != nullptr) build_->follow(map, shard);
  ordered_.follow(map.shards[shard].ordered, epoch_);
  return Status::OK();
}

Status HashServer::serve(fabric::TimeUs until) {
  do {
    for (; !others_.empty(); others_.pop_front()) BRECCIA_TRY(hear(others_.front()));
    auto arrival = port_->poll(std::min(until, wake()));
    for (int n = 0; arrival.has_value(); arrival = port_->poll(0)) {
      BRECCIA_TRY(hear(*arrival));
      if (++n == kArrivalsAtOnce) break;
    }
    memory_.tend(port_->now_us() + kServersOfANode * options_.meet_us);
    ordered_.tend({.from = applied_, .is_whole = is_whole_ ? 1U : 0U, .seeds = seeds_});
    // The log takes longest, so it goes first.
    BRECCIA_TRY(ship());
    commit();
    mark();
    // What another ordered server is told of it is to stay so until that one answers.
    const bool may_apply = has_log() && port_->now_us() >= holds_until_;
    BRECCIA_ASSERT(marked_ <= committed_);
    if (may_apply) apply_through(std::min(logged_, marked_));
    table_->tend(is_whole_ ? told_until_ : 0);
    BRECCIA_TRY(gather());
  } while (port_->now_us() < until);
  return Status::OK();
}

/// When there is something to do though nothing has come.
fabric::TimeUs HashServer::wake() const {
  fabric::TimeUs first =
      std::min({memory_.wake(), ordered_.wake(), table_->wake(), telling_.wake(), marking_.wake()});
  if (build_ != nullptr) first = std::min(first, build_->wake());
  if (!waiting_.empty() && mark_again_ > 0) first = std::min(first, mark_again_);
  if (!waiting_.empty() && holds_until_ > port_->now_us()) first = std::min(first, holds_until_);
  if (may_ship()) first = 0;  // a mark of this turn has made room
  return first;
}

Status HashServer::hear(const fabric::Arrival& arrival) {
  const bool is_ordered = ordered_.is_peer(arrival.peer);
  if (arrival.kind == fabric::Arrival::Kind::kGone && is_ordered) {
    ordered_.leave();
    if (has_begun_ && !is_whole_) return Status::IOError("what it is built from is gone");
  }
  if ((arrival.header.kind & kAnswerBit) == 0) {
    answers_.hear(arrival, [this](const Answers::Asker& asker, Ask ask, WireReader question) {
      return answer(asker, ask, question);
    });
    return Status::OK();
  }
  if (!is_ordered) {
    telling_.hear(arrival);
    marking_.hear(arrival);
    if (build_ != nullptr) build_->hear(arrival);
    return Status::OK();
  }
  WireReader answer(arrival.payload);
  const Status code = take_code(&answer);
  const auto what = ordered_.hear(arrival.header, code.ok());
  if (!what.has_value()) return Status::OK();
  if (code.IsTryAgain() || code.IsBusy()) {
    // It has another map, or this one has; who is right will be seen.
    if (*what != Ask::kFollow) ordered_.leave();
    return Status::OK();
  }
  BRECCIA_TRY(code);
  if (*what == Ask::kShip) return note_logged(answer);
  if (*what == Ask::kKeysBehind) return take_keys(answer);
  return begin(answer);
}

std::optional<WireWriter> HashServer::answer(const Answers::Asker& asker, Ask ask,
                                             WireReader question) {
  const bool is_of_epoch = asker.header.epoch == epoch_;
  switch (ask) {
    case Ask::kTable:
      return answer_of(Code::kOk).add(TableInfo{.region = table_->region(),
                                                .number = table_->number(),
                                                .shape = table_->shape(),
                                                .seeds = seeds_,
                                                .read_us = options_.read_us,
                                                .rest_us = options_.rest_us});
    case Ask::kState:
      return answer_of(Code::kOk).add(IndexState{.sequence = applied_,
                                                 .waiting = waiting_.size(),
                                                 .keys = table_->size(),
                                                 .is_whole = is_whole_ ? 1U : 0U});
    case Ask::kTrust:
      return is_of_epoch ? trust() : other_epoch();
    case Ask::kChains:
      return is_of_epoch ? chains(asker, question) : other_epoch();
    case Ask::kPlaces:
      return is_of_epoch ? places(question) : other_epoch();
    case Ask::kWrite:
      return is_of_epoch ? write(asker, question) : other_epoch();
    default:
      return refusal(Code::kWrong, "a hash server does not do that");
  }
}

WireWriter HashServer::trust() {
  const fabric::TimeUs now = port_->now_us();
  if (now >= trust_until_) return refusal(Code::kBusy, "it may not be the hash server any more");
  // Lookups ask the ordered server by and by.
  if (lets_go_) return answer_of(Code::kOk).add(Trust{.table = table_->number()});
  const fabric::TimeUs until = std::min(trust_until_, now + kTrustUsMax);
  told_until_ = std::max(told_until_, until);
  return answer_of(Code::kOk).add(
      Trust{.for_us = until - now, .is_whole = is_whole_ ? 1U : 0U, .table = table_->number()});
}

bool HashServer::is_believed() const {
  return port_->now_us() < std::max(told_until_, holds_until_);
}

/// Writes are refused when nobody believes its buckets any more, and not before, so they wait for
/// no more than what is under way then.
bool HashServer::has_let_go() const {
  return lets_go_ && is_whole_ && !is_believed() && waiting_.empty();
}

/// Entries of whole chains, as of now: all writes through this moment are in the asker's log.
WireWriter HashServer::chains(const Answers::Asker& asker, WireReader question) const {
  const auto position = question.take<std::uint64_t>();
  const bool is_asker = ordered_.is_met() && ordered_.is_peer(asker.peer);
  if (!question.is_whole()) return refusal(Code::kWrong, "no chain");
  if (!is_asker || !is_whole_) return refusal(Code::kBusy, "chains are the ordered server's");
  std::vector<std::pair<KeyId, Slot>> entries;
  const std::uint64_t next =
      table_->append_chains(position, options_.page_bytes / sizeof(ChainEntry), &entries);
  WireWriter answer = answer_of(Code::kOk);
  answer.add(next);
  for (const auto& [id, slot] : entries) answer.add(ChainEntry{.id = id, .slot = slot});
  return answer;
}

/// Where entries of whole chains lead on a server, and behind the first ones what waits.
WireWriter HashServer::places(WireReader question) const {
  const auto node = question.take<std::uint32_t>();
  const auto position = question.take<std::uint64_t>();
  if (!question.is_whole()) return refusal(Code::kWrong, "no chain");
  if (!is_whole_) return refusal(Code::kBusy, "the hash index is being built");
  const std::uint64_t places_max = options_.page_bytes / sizeof(Slot);
  if (position == 0 && waiting_.size() > places_max) {
    return refusal(Code::kBusy, "many writes wait");
  }
  std::vector<Slot> places;
  const auto note = [&](Slot slot) {
    if (slot != 0 && location_in(slot).node == node) places.push_back(slot);
  };
  if (position == 0) {
    for (const Waiting& one : waiting_) note(one.write.slot);
  }
  std::vector<std::pair<KeyId, Slot>> entries;
  const std::uint64_t next = table_->append_chains(position, places_max, &entries);
  for (const auto& [id, slot] : entries) note(slot);
  WireWriter answer = answer_of(Code::kOk);
  answer.add(next);
  for (const Slot slot : places) answer.add(slot);
  return answer;
}

// ---- writes ------------------------------------------------------------------------------------

/// Takes as many of the first ones as there is room for; the answer comes when these are done.
std::optional<WireWriter> HashServer::write(const Answers::Asker& asker, WireReader question) {
  struct One {
    Slot slot;
    std::uint32_t generation;
    Slice key;
  };
  std::vector<One> writes;
  do {
    const auto slot = question.take<Slot>();
    const auto generation = question.take<std::uint32_t>();
    const Slice key = question.take_bytes();
    if (!is_key(key)) return refusal(Code::kWrong, "no key");
    writes.push_back({slot, generation, key});
  } while (question.left() > 0);
  if (!question.is_whole()) return refusal(Code::kWrong, "no writes");
  std::optional<WireWriter> refused;
  std::size_t taken = 0;
  for (const auto& [slot, generation, key] : writes) {
    refused = refusal_of(slot, key);
    if (refused.has_value()) break;
    take(slot, generation, key);
    ++taken;
  }
  if (taken == 0) return refused;
  waiting_.back().asker = asker;
  return std::nullopt;
}

void HashServer::take(Slot slot, std::uint32_t generation, const Slice& key) {
  LoggedWrite write{.sequence = last_ + 1,
                    .slot = slot == 0 ? 0 : slot_of(0, location_in(slot)),
                    .generation = generation,
                    .key = key.ToString()};
  std::optional<Slot> before;
  if (is_whole_) {
    before = last_of(write.key);
  } else {
    written_.add(seeds_.id_of(key));
  }
  last_of_key_[write.key] = {.sequence = write.sequence, .slot = write.slot};
  waiting_.push_back({.write = std::move(write), .before = before, .asker = {}});
  ++last_;
  waiting_bytes_ += bytes_of(waiting_.back().write);
  if (slot != 0) ++waiting_puts_;
}

/// Where a key's value lies when all that waits is done; 0: nowhere.
Slot HashServer::last_of(const std::string& key) const {
  BRECCIA_ASSERT(is_whole_);
  const auto waiting = last_of_key_.find(key);
  if (waiting != last_of_key_.end()) return waiting->second.slot;
  const auto now = table_->find(seeds_.id_of(key));
  return now.has_value() ? slot_of(0, *now) : 0;
}

/// What is logged is in the index before long, so it must have room by then: each put may want a
/// bucket.
std::optional<WireWriter> HashServer::refusal_of(Slot slot, const Slice& key) const {
  // What is taken before is lost with either server.
  const bool takes_writes = has_begun_ && map_.shards[shard_].has_begun && has_log();
  if (!takes_writes) return refusal(Code::kBusy, "no ordered server yet");
  if (!ShardKeys{map_.placement(), shard_}.has(key)) {
    return refusal(Code::kWrong, "a key of another shard");
  }
  if (lets_go_ && !is_believed())
    return refusal(Code::kEpoch, "another server is to have the index");
  if (waiting_bytes_ > options_.log_bytes_max) {
    return refusal(Code::kBusy, "too many writes wait for the ordered server");
  }
  if (slot == 0) return std::nullopt;
  const Location location = location_in(slot);
  if (memory_.is_lost(location.node)) return refusal(Code::kEpoch, "a memory server that is lost");
  if (memory_.find_all(location.node).empty()) {
    return refusal(Code::kBusy, "a memory server that this one has not reached yet");
  }
  if (!memory_.is_place(location)) return refusal(Code::kWrong, "a place that no server has");
  if (table_->free_buckets() > waiting_puts_) return std::nullopt;
  if (!is_whole_) return refusal(Code::kBusy, "keys come that the index may be full with");
  if (waiting_puts_ > 0) return refusal(Code::kBusy, "puts wait that the index may be full with");
  if (!table_->wants_bucket(seeds_.id_of(key))) return std::nullopt;
  if (table_->will_grow()) return refusal(Code::kBusy, "the hash index grows");
  return refusal(Code::kFull, "the hash index is full");
}

/// Tells memory servers which blocks are of writes that were taken, so that these are found when
/// both indexes are lost.
void HashServer::commit() {
  if (options_.is_alone) committing_ = committed_ = last_;
  telling_.tend();
  if (!has_begun_ || !telling_.is_over()) return;
  if (!has_ended_before_) go_on_with_writes_of_before();
  if (!has_ended_before_) return;
  committed_ = committing_;
  // Of what is committed and not logged both values may be there when all is lost.
  const std::uint64_t through = std::min(last_, logged_ + kLastWrites);
  if (through <= committed_) return;
  committing_ = through;
  const std::size_t first = waiting_.size() - (last_ - committed_);
  Telling::News news;
  for (std::size_t i = first; i < first + (committing_ - committed_); ++i) {
    const Waiting& one = waiting_[i];
    if (one.write.slot == 0) continue;
    const std::uint32_t node = location_in(one.write.slot).node;
    Telling::news_for(node, shard_, &news)
        .add(one.write.slot)
        .add(one.write.generation)
        .add(one.write.sequence);
  }
  telling_.begin(Ask::kCommit, std::move(news));
  if (telling_.is_over()) committed_ = committing_;
}

std::uint64_t HashServer::ship_through() const {
  return std::min(last_, std::min(committed_, marked_) + kLastWrites);
}

bool HashServer::may_ship() const {
  return has_ended_before_ && ordered_.is_met() && !ordered_.is_asked(Ask::kShip) &&
         ship_through() > logged_;
}

/// Brings what waits to the ordered server, one message after the other was answered. That one
/// knows the last writes, so no more may be there of which memory servers do not know all.
Status HashServer::ship() {
  if (options_.is_alone) logged_ = last_;
  if (!may_ship()) return Status::OK();
  const std::uint64_t through = ship_through();
  const std::size_t first = waiting_.size() - (last_ - logged_);
  const std::size_t limit = first + (through - logged_);
  std::size_t end = first;
  bool tells = false;
  for (std::size_t bytes = 0; end < limit && bytes < options_.page_bytes; ++end) {
    BRECCIA_ASSERT(waiting_[end].write.sequence == logged_ + 1 + (end - first));
    bytes += sizeof(LoggedWrite) + waiting_[end].write.key.size();
    tells = tells || !waiting_[end].before.has_value();
  }
  WireWriter writes;
  writes.add(static_cast<std::uint8_t>(tells ? 1 : 0));
  for (std::size_t i = first; i < end; ++i) waiting_[i].write.add_to(&writes);
  ordered_.ask(Ask::kShip, writes.bytes());
  return Status::OK();
}

/// Behind the log's end, if the ordered server was asked, where values lie that were replaced.
Status HashServer::note_logged(WireReader answer) {
  const auto logged = answer.take<Logged>();
  if (logged.through <= logged_ || logged.through > last_) {
    return Status::IOError("the ordered server does not log what it is sent");
  }
  const std::size_t first = waiting_.size() - (last_ - logged_);
  for (std::size_t i = first; answer.left() > 0; ++i) {
    const auto before = answer.take<Slot>();
    if (i >= waiting_.size() || waiting_[i].write.sequence > logged.through) break;
    if (before != 0 && !is_block(location_in(before))) break;
    if (!waiting_[i].before.has_value()) waiting_[i].before = before;
  }
  if (!answer.is_whole()) return Status::IOError("no answer of an ordered server");
  logged_ = logged.through;
  mark_again_ = 0;
  return Status::OK();
}

/// Blocks say that they are replaced before their writes are in the buckets, or acknowledged: who
/// remembers such a block looks for the key anew, and finds its value in the buckets, the same as
/// long as the write is not there.
///
/// Only what is logged is marked. Whoever takes this server's place has such a write, so the block
/// that it replaces is used again only when this server lets it be: a mark that comes late, or when
/// there is another hash server, hits nobody else's block. And only what is committed is, or where
/// both indexes are lost neither of the two values is there.
///
/// A medium's server is told of them. A value that was replaced is known by its number, but none is
/// higher than a deleted one's: so before such a mark is told media have all those before it, or a
/// power cut may leave it there and an older value without one; and before it is done they have it.
void HashServer::mark() {
  marking_.tend();
  if (!marking_.is_over()) return;
  if (std::exchange(are_deletions_told_, false) && !settle(&marking_)) return;
  if (marking_through_ > marked_) {
    marked_ = marking_through_;
    mark_again_ = 0;
  }
  if (marked_ >= known() || port_->now_us() < mark_again_) return;
  Marks marks;
  const std::uint64_t through = markable(&marks);
  if (marks.are_deletions && !settle(&marking_)) return;
  const bool are_all = write_marks(marks, through);
  // With the next turn, if this one was full; else somebody is waited for.
  const bool was_full = through == marked_ + kMarksAtOnce;
  mark_again_ = port_->now_us() + (are_all && was_full ? 0 : options_.again_us);
  if (are_all) {
    marking_through_ = through;
    are_deletions_told_ = marks.are_deletions && !marks.told.empty();
    for (const auto& [node, news] : marks.told) unsettled_.insert(node);
    marking_.begin(Ask::kRetire, std::move(marks.told));
    if (marking_.is_over() && !are_deletions_told_) {
      if (through > marked_) mark_again_ = 0;
      marked_ = through;
    }
  }
  if (marked_ >= known()) mark_again_ = 0;
}

/// Those that are written. False: not all are there.
bool HashServer::write_marks(const Marks& marks, std::uint64_t through) {
  bool are_all = true;
  const fabric::TimeUs until = port_->now_us() + options_.mark_us;
  for (const auto& [node, offsets] : marks.written) {
    if (mark(node, offsets, until)) continue;
    are_all = false;
    // Once more, then. As the first ones may come yet, nobody may use these blocks again.
    for (Waiting& one : waiting_) {
      const bool is_one = one.write.sequence > marked_ && one.write.sequence <= through;
      if (is_one && location_in(*one.before).node == node) one.is_marked_late = true;
    }
  }
  return are_all;
}

/// False: it is under way that media have all marks that were told.
bool HashServer::settle(Telling* by) {
  if (!unsettled_.empty()) by->begin(Ask::kSettle, take_unsettled());
  return by->is_over();
}

/// Another hash server may have told any of them.
void HashServer::note_unsettled() {
  for (const ClusterMap::Memory& one : map_.memory) {
    if (!one.is_lost && one.has_medium()) unsettled_.insert(one.node);
  }
}

Telling::News HashServer::take_unsettled() {
  Telling::News news;
  for (const std::uint32_t node : std::exchange(unsettled_, {})) {
    Telling::news_for(node, shard_, &news);
  }
  return news;
}

bool HashServer::has_media() const {
  return std::any_of(map_.memory.begin(), map_.memory.end(),
                     [](const auto& one) { return !one.is_lost && one.has_medium(); });
}

bool HashServer::has_medium(std::uint32_t node) const {
  return std::any_of(map_.memory.begin(), map_.memory.end(),
                     [node](const auto& one) { return one.node == node && one.has_medium(); });
}

/// On a server before its mirror, which may be copying it (Mirror::copy). False: not all are there.
bool HashServer::mark(std::uint32_t node, std::span<const std::uint64_t> offsets,
                      fabric::TimeUs until) {
  static constexpr std::uint64_t kState = BlockHeader::kReplaced;
  bool are_all = true;
  for (const MemoryPeer* const of : memory_.find_all(node)) {
    std::vector<fabric::Write> writes;
    for (const std::uint64_t offset : offsets) {
      writes.push_back({of->region, offset, std::as_bytes(std::span(&kState, 1))});
    }
    are_all = are_all && port_->write(of->peer, writes, until).ok();
  }
  return are_all;
}

/// Through which write blocks can be marked now, and what is to be written, or told: of deletions,
/// or of other writes, if there are media.
std::uint64_t HashServer::markable(Marks* marks) const {
  const bool are_apart = has_media();
  std::uint64_t through = marked_;
  const std::size_t first = waiting_.size() - (last_ - marked_);
  for (std::size_t i = first; i < waiting_.size() && i < first + kMarksAtOnce; ++i) {
    const Waiting& one = waiting_[i];
    BRECCIA_ASSERT(one.write.sequence == through + 1);
    if (one.write.sequence > known() || !one.before.has_value()) break;
    if (through == marked_) marks->are_deletions = are_apart && one.write.slot == 0;
    if (are_apart && marks->are_deletions != (one.write.slot == 0)) break;
    const Location block = location_in(*one.before);
    if (*one.before != 0 && !memory_.is_lost(block.node)) {
      if (memory_.find_all(block.node).empty()) break;
      if (are_apart && has_medium(block.node)) {
        Telling::news_for(block.node, shard_, &marks->told)
            .add(*one.before)
            .add(one.write.sequence);
      } else {
        marks->written[block.node].push_back(block.offset() + BlockHeader::kStateOffset);
      }
    }
    ++through;
  }
  return through;
}

void HashServer::apply_through(std::uint64_t sequence) {
  while (!waiting_.empty() && waiting_.front().write.sequence <= sequence) {
    const LoggedWrite& first = waiting_.front().write;
    if (first.slot != 0 && !table_->takes(seeds_.id_of(first.key))) return;
    const Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= bytes_of(one.write);
    if (one.write.slot != 0) --waiting_puts_;
    const auto last = last_of_key_.find(one.write.key);
    if (last->second.sequence == one.write.sequence) last_of_key_.erase(last);
    replaced_.push_back(apply(one));
    applied_ = one.write.sequence;
    // Who has the answer finds what it says, and no scan shows it any more before a lookup.
    table_->set_watermark(applied_);
    if (!one.asker.has_value()) continue;
    WireWriter answer = answer_of(Code::kOk);
    for (const Slot slot : std::exchange(replaced_, {})) answer.add(slot);
    answers_.give(*one.asker, answer);
  }
}

/// What the asker is told that it replaces.
Slot HashServer::apply(const Waiting& one) {
  const KeyId id = seeds_.id_of(one.write.key);
  std::optional<Location> before;
  if (one.write.slot == 0) {
    before = table_->erase(id);
  } else {
    auto put = table_->put(id, location_in(one.write.slot));
    BRECCIA_ASSERT(put.ok());  // write() has seen to that
    before = put.value();
  }
  // While it is built, the value before may not be there.
  BRECCIA_ASSERT(!is_whole_ || (before.has_value() ? slot_of(0, *before) : 0) == *one.before);
  return one.is_marked_late ? 0 : *one.before;
}

// ---- built from the ordered server -------------------------------------------------------------

/// The ordered server has met this one. What it has not logged is shipped to it, also what another
/// one had logged.
Status HashServer::begin(WireReader answer) {
  const auto followed = answer.take<Followed>();
  if (answer.left() % sizeof(LastWrite) != 0 || followed.is_whole > 1) {
    return Status::IOError("no answer of an ordered server");
  }
  if (has_begun_ && !is_whole_) return Status::IOError("what it is built from was gone");
  if (!has_begun_) {
    if (followed.is_whole == 0) return Status::IOError("neither index is whole");
    BRECCIA_ASSERT(waiting_.empty() && table_->size() == 0);
    last_ = committing_ = committed_ = logged_ = marked_ = applied_ = followed.through;
    has_begun_ = true;
    end_writes_of_before(answer);
    return Status::OK();
  }
  if (followed.through < applied_ || followed.through > last_) {
    return Status::IOError("the ordered server's log is another one's");
  }
  logged_ = followed.through;
  return Status::OK();
}

/// The server before may have had no time to tell memory servers of these. Nobody is told that they
/// are in an index before they know.
void HashServer::end_writes_of_before(WireReader last) {
  Telling::News committed;
  const bool are_apart = has_media();
  while (last.left() > 0) {
    const auto one = last.take<LastWrite>();
    const Location block = location_in(one.slot), before = location_in(one.replaced);
    if (is_block(block) && one.sequence > 0) {
      Telling::news_for(block.node, shard_, &committed)
          .add(one.slot)
          .add(static_cast<std::uint32_t>(one.generation))
          .add(one.sequence);
    }
    if (!is_block(before)) continue;
    const bool is_deletion = are_apart && one.slot == 0;
    if (marks_of_before_.empty() || marks_of_before_.back().are_deletions != is_deletion) {
      marks_of_before_.emplace_back().are_deletions = is_deletion;
    }
    Telling::news_for(before.node, shard_, &marks_of_before_.back().told)
        .add(one.replaced)
        .add(one.sequence);
  }
  has_ended_before_ = false;
  note_unsettled();
  telling_.begin(Ask::kCommit, std::move(committed));
}

void HashServer::go_on_with_writes_of_before() {
  BRECCIA_ASSERT(!has_ended_before_ && telling_.is_over());
  // As mark() does; somebody may see deletions from here on.
  const bool is_last = marks_of_before_.empty();
  if ((is_last || marks_of_before_.front().are_deletions) && !settle(&telling_)) return;
  if (!is_last) {
    Telling::News told = std::move(marks_of_before_.front().told);
    marks_of_before_.pop_front();
    for (const auto& [node, news] : told) {
      if (has_medium(node)) unsettled_.insert(node);
    }
    return telling_.begin(Ask::kRetire, std::move(told));
  }
  has_ended_before_ = true;
  table_->set_watermark(applied_);
}

/// Asks for the next keys, until there are no more; it is whole when all that was written meanwhile
/// is in the buckets.
Status HashServer::gather() {
  if (build_ != nullptr) return gather_from_memory();
  if (is_whole_ || !has_begun_ || !ordered_.is_met()) return Status::OK();
  if (!has_ended_before_) return Status::OK();
  BRECCIA_TRY(put_gathered());
  if (!to_put_.empty()) return Status::OK();
  if (has_gathered_) {
    if (applied_ >= whole_at_) be_whole();
  } else if (!ordered_.is_asked(Ask::kKeysBehind)) {
    ask_for_keys_behind(gathered_);
  }
  return Status::OK();
}

void HashServer::ask_for_keys_behind(const Slice& key) {
  ordered_.ask(Ask::kKeysBehind, WireWriter().add_bytes(key).bytes());
}

/// From here on it knows itself what writes replace, also those that wait.
void HashServer::be_whole() {
  is_whole_ = true;
  written_ = WrittenKeys();
  std::unordered_map<std::string, Slot> last;
  for (Waiting& one : waiting_) {
    const auto waiting = last.find(one.write.key);
    const auto now = table_->find(seeds_.id_of(one.write.key));
    const Slot in_table = now.has_value() ? slot_of(0, *now) : 0;
    if (!one.before.has_value()) one.before = waiting == last.end() ? in_table : waiting->second;
    last[one.write.key] = one.write.slot;
  }
}

/// While these are looked at, and go into the buckets, the next ones are on their way, if there is
/// room. It does not matter when they are asked for: what is written meanwhile is in `written_`.
Status HashServer::take_keys(WireReader answer) {
  const bool are_all = answer.left() == 0;
  if (!are_all && !table_->will_grow()) ask_for_keys_behind(last_key_of(answer));
  std::vector<ToPut> keys;
  keys.reserve(answer.left() / kBytesOfAKey);
  Slice last = gathered_;
  while (answer.left() > 0) {
    const auto slot = answer.take<Slot>();
    const Slice key = answer.take_bytes();
    const bool is_one = is_block(location_in(slot)) && is_key(key);
    if (!is_one || key.compare(last) <= 0) return Status::IOError("no keys in their order");
    keys.emplace_back(seeds_.id_of(key), slot);
    last = key;
  }
  if (!are_all) gathered_ = last.ToString();
  append_by_hash(keys, &to_put_);
  if (are_all) {
    has_gathered_ = true;
    whole_at_ = last_;
  }
  return put_gathered();
}

/// As many as there is room for; keys that were written since this server began are in the buckets,
/// or on their way there.
Status HashServer::put_gathered() {
  for (; put_ < to_put_.size(); ++put_) {
    if (put_ + kAhead < to_put_.size()) table_->prefetch(to_put_[put_ + kAhead].first);
    if (put_ + kPlacesAhead < to_put_.size()) {
      table_->prefetch_place(to_put_[put_ + kPlacesAhead].first);
    }
    const auto& [id, slot] = to_put_[put_];
    if (written_.has(id)) continue;
    // Writes that wait have been promised theirs.
    if (table_->free_buckets() <= waiting_puts_ && table_->wants_bucket(id)) {
      if (table_->will_grow()) return Status::OK();
      return Status::MemoryLimit("the hash index is too small", "make it larger");
    }
    BRECCIA_TRY(table_->put(id, location_in(slot)).status());
  }
  to_put_.clear();
  put_ = 0;
  return Status::OK();
}

// ---- built from memory servers -----------------------------------------------------------------

void HashServer::begin_from_memory() {
  BRECCIA_ASSERT(!has_begun_ && build_ == nullptr && table_->size() == 0);
  build_ = std::make_unique<MemoryBuild>(
      port_, &asking_, &memory_, table_.get(),
      MemoryBuild::Options{
          .again_us = options_.again_us, .read_us = options_.mark_us, .seeds = seeds_});
}

/// It is whole when nothing but that is left where it was built from. Its writes come behind all
/// that there were, also those that no memory server has heard of.
Status HashServer::gather_from_memory() {
  BRECCIA_TRY(build_->tend());
  if (!build_->is_over() || !telling_.is_over()) return Status::OK();
  Telling::News losers = build_->take_losers();
  if (!losers.empty()) {
    telling_.begin(Ask::kRetire, std::move(losers));
    return Status::OK();
  }
  last_ = committing_ = committed_ = logged_ = marked_ = applied_ = build_->last() + kWritesLost;
  table_->set_watermark(applied_);
  note_unsettled();
  has_begun_ = is_whole_ = true;
  build_.reset();
  return Status::OK();
}

}  // namespace breccia::disagg
