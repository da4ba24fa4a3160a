#include "disagg/memory/memory_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

constexpr std::uint32_t kLeaseMax = 4096;
/// Arrivals that are heard before changes are told the mirror: those that come together go
/// together.
constexpr int kArrivalsAtOnce = 64;
/// Blocks are looked at for so many times the bytes of a page: most have more than what is told.
constexpr std::uint64_t kLookedAt = 4;
/// Between two looks at whether a medium has what it was told.
constexpr fabric::TimeUs kKeepUs = 20;

WireWriter other_epoch() { return refusal(Code::kEpoch, "another map of the cluster"); }

}  // namespace

Result<std::unique_ptr<MemoryServer>> MemoryServer::make(fabric::Port* port,
                                                         const Options& options) {
  BRECCIA_ASSERT(options.bytes / kLineBytes <= kLinesOfNode);
  const std::uint64_t behind = options.place == nullptr ? 0 : Medium::bytes_behind(options.bytes);
  BRECCIA_TAKE(std::unique_ptr<fabric::Region> region,
               port->make_region(options.bytes + behind, fabric::Access::kReadWrite));
  std::unique_ptr<Medium> medium;
  if (options.place != nullptr) {
    BRECCIA_TAKE(medium, Medium::open(options.place, region->bytes(), options.bytes));
  }
  return std::unique_ptr<MemoryServer>(
      new MemoryServer(port, options, std::move(region), std::move(medium)));
}

MemoryServer::MemoryServer(fabric::Port* port, const Options& options,
                           std::unique_ptr<fabric::Region> region, std::unique_ptr<Medium> medium)
    : port_(port),
      options_(options),
      member_(options.member),
      names_{options.member},
      region_(std::move(region)),
      medium_(std::move(medium)),
      memory_(region_->bytes().first(options.bytes)),
      pool_(medium_ == nullptr ? PoolImage(options.bytes / kLineBytes / Pool::kChunkLines)
                               : medium_->values(&last_)),
      answers_(port),
      asking_(port, options.again_us),
      link_(port, &asking_, &answers_, &pool_,
            {.again_us = options.again_us, .page_bytes = options.part_bytes}),
      orphans_(
          port, &asking_, &pool_,
          {.hold_us = options.hold_us, .again_us = options.again_us, .meet_us = options.meet_us}) {
  BRECCIA_ASSERT(pool_.chunks() == options.bytes / kLineBytes / Pool::kChunkLines);
}

void MemoryServer::rename(const std::string& member) {
  member_ = member;
  note_name(member);
  if (mirror_ != nullptr) mirror_->rename(member);
}

Status MemoryServer::follow(const ClusterMap& map) {
  const auto mine = std::find_if(map.memory.begin(), map.memory.end(), [this](const auto& one) {
    return one.member == member_ || one.mirror.member == member_;
  });
  BRECCIA_ASSERT(mine != map.memory.end());
  BRECCIA_ASSERT(mine->node < kNodesMax);
  if (node_.value_or(mine->node) != mine->node) return Status::Aborted("it has another number");
  node_ = mine->node;
  epoch_ = map.epoch;
  placement_ = map.placement();
  is_in_use_ = mine->is_in_use;
  const bool is_founded = medium_ != nullptr && !map.shards.empty();
  if (is_founded && medium_->cluster().factor == 0) BRECCIA_TRY(medium_->be_of(placement_.seed));
  if (mine->member == member_) return be_server(*mine, map);
  if (mirror_ == nullptr && pool_.used_blocks() > 0) {
    return Status::Aborted("it has values of its own");
  }
  be_mirror(*mine, map);
  return Status::OK();
}

Status MemoryServer::be_server(const ClusterMap::Memory& mine, const ClusterMap& map) {
  if (mirror_ != nullptr) {
    // It takes its server's place.
    if (!mirror_->is_whole()) return Status::Aborted("it has not all values yet");
    pool_ = Pool(mirror_->take_image());
    mirror_.reset();
  }
  link_.follow(mine.mirror.member, epoch_);
  orphans_.follow(map, mine.node);
  return Status::OK();
}

void MemoryServer::be_mirror(const ClusterMap::Memory& mine, const ClusterMap& map) {
  if (mirror_ == nullptr) {
    mirror_ = std::make_unique<Mirror>(port_, &asking_, memory_, medium_.get(),
                                       Mirror::Options{.member = member_,
                                                       .again_us = options_.again_us,
                                                       .meet_us = options_.meet_us,
                                                       .read_us = options_.read_us,
                                                       .part_bytes = options_.part_bytes});
  }
  mirror_->follow(mine, map);
}

void MemoryServer::serve(fabric::TimeUs until) {
  do {
    auto arrival = port_->poll(std::min(until, wake()));
    for (int n = 0; arrival.has_value(); arrival = port_->poll(0)) {
      hear(*arrival);
      if (++n == kArrivalsAtOnce) break;
    }
    if (mirror_ != nullptr) {
      mirror_->tend();
    } else {
      if (link_.takes_changes()) take_orphans();
      link_.tend();
    }
    keep();
  } while (port_->now_us() < until);
}

/// Who waits for what is kept by now is answered.
void MemoryServer::keep() {
  if (medium_ == nullptr || !failure_.ok()) return;
  const bool is_new = keep_at_ == 0 && !has_kept_all();
  if (is_new) keep_at_ = port_->now_us() + options_.keep_us;
  const bool is_time = !held_.empty() || (keep_at_ != 0 && port_->now_us() >= keep_at_);
  failure_ = medium_->tend(is_time);
  if (has_kept_all() || medium_->is_under_way()) keep_at_ = 0;
  for (; !held_.empty() && held_.front().noted <= medium_->kept(); held_.pop_front()) {
    answers_.give(held_.front().asker, held_.front().answer);
  }
}

/// The answer that says that something is known here: it is to be so behind a power cut.
std::optional<WireWriter> MemoryServer::when_kept(const Answers::Asker& asker, WireWriter answer) {
  if (medium_ == nullptr) return answer;
  held_.push_back({.noted = medium_->noted(), .asker = asker, .answer = std::move(answer)});
  return std::nullopt;
}

void MemoryServer::note(const Location& block, std::uint64_t bytes) {
  if (medium_ != nullptr) medium_->note(block.offset(), bytes);
}

/// What lies behind the values is nobody else's.
fabric::RegionName MemoryServer::name_of_memory() const {
  fabric::RegionName name = region_->name();
  name.bytes = memory_.size();
  return name;
}

/// What is nobody's is given back.
void MemoryServer::take_orphans() {
  MirrorLink::Change change;
  const auto tell = [&] {
    if (!change.blocks.empty()) link_.tell(std::exchange(change, {}));
  };
  for (const auto& [size_class, line] : orphans_.tend()) {
    const bool was_used = free_block(size_class, line);
    BRECCIA_ASSERT(was_used);
    change.blocks.emplace_back(size_class, line);
    ++found_orphans_;
    if (change.blocks.size() == kLeaseMax) tell();
  }
  tell();
}

/// When there is something to do though nothing has come.
fabric::TimeUs MemoryServer::wake() const {
  const fabric::TimeUs of_peers = wake_of_peers();
  if (medium_ == nullptr || !failure_.ok()) return of_peers;
  const bool is_awaited = medium_->is_under_way() || !held_.empty();
  if (is_awaited) return std::min(of_peers, port_->now_us() + kKeepUs);
  return keep_at_ == 0 ? of_peers : std::min(of_peers, keep_at_);
}

fabric::TimeUs MemoryServer::wake_of_peers() const {
  if (mirror_ != nullptr) return mirror_->wake();
  return link_.takes_changes() ? std::min(link_.wake(), orphans_.wake()) : link_.wake();
}

void MemoryServer::hear(const fabric::Arrival& arrival) {
  link_.hear(arrival);
  orphans_.hear(arrival);
  if (mirror_ != nullptr) mirror_->hear(arrival);
  const bool is_answer = (arrival.header.kind & kAnswerBit) != 0;
  if (arrival.kind == fabric::Arrival::Kind::kMessage && is_answer) return;
  answers_.hear(arrival, [this](const Answers::Asker& asker, Ask ask, WireReader question) {
    return answer(asker, ask, question);
  });
}

std::optional<WireWriter> MemoryServer::answer(const Answers::Asker& asker, Ask ask,
                                               WireReader question) {
  if (!node_.has_value()) return refusal(Code::kBusy, "this server has no number yet");
  const bool is_of_epoch = asker.header.epoch == epoch_;
  switch (ask) {
    case Ask::kPool:
      return answer_of(Code::kOk).add(
          PoolInfo{.region = name_of_memory(), .node = *node_, .hold_us = options_.hold_us});
    case Ask::kLease:
    case Ask::kGiveBack:
      return change(asker, ask, question);
    case Ask::kCommit:
      return is_of_epoch ? when_kept(asker, commit(question)) : other_epoch();
    case Ask::kRetire:
      return is_of_epoch ? retire(question) : other_epoch();
    case Ask::kSettle:
      return is_of_epoch ? when_kept(asker, answer_of(Code::kOk)) : other_epoch();
    case Ask::kValues:
      // What is told is to be there for good: others are marked for it.
      return is_of_epoch && mirror_ == nullptr ? when_kept(asker, values(question)) : other_epoch();
    case Ask::kAgree:
      return is_of_epoch && mirror_ != nullptr ? when_kept(asker, agree(question)) : other_epoch();
    case Ask::kUse:
      return mirror_ == nullptr ? link_.use(asker, name_of_memory(), question)
                                : refusal(Code::kEpoch, "a mirror has no mirror");
    case Ask::kKeep:
      return mirror_ != nullptr ? mirror_->keep(asker, question)
                                : refusal(Code::kEpoch, "no mirror any more");
    default:
      return refusal(Code::kWrong, "a memory server does not do that");
  }
}

/// Who has another map may not write all servers that are to have what it writes.
std::optional<WireWriter> MemoryServer::change(const Answers::Asker& asker, Ask ask,
                                               WireReader question) {
  if (asker.header.epoch != epoch_) return other_epoch();
  if (mirror_ != nullptr) return refusal(Code::kEpoch, "it is the other server of its memory");
  if (!is_in_use_) return refusal(Code::kBusy, "values are to have two servers, and have one");
  if (!link_.takes_changes()) {
    return refusal(Code::kBusy, "the other server of this memory is to hear of it first");
  }
  MirrorLink::Change change{
      .asker = asker, .answer = {}, .is_lease = ask == Ask::kLease, .blocks = {}};
  change.answer = change.is_lease ? lease(question, &change) : take_back(question, &change);
  if (change.blocks.empty()) return change.answer;
  link_.tell(std::move(change));
  return std::nullopt;
}

WireWriter MemoryServer::lease(WireReader question, MirrorLink::Change* change) {
  const auto size_class = question.take<std::uint32_t>();
  const auto count = question.take<std::uint32_t>();
  if (!question.is_whole() || size_class >= kSizeClasses || count > kLeaseMax) {
    return refusal(Code::kWrong, "no such class, or too many blocks");
  }
  const std::vector<std::uint64_t> lines = pool_.take(size_class, count);
  if (lines.empty() && count > 0) return refusal(Code::kFull, "the memory server is full");
  if (medium_ != nullptr) failure_ = use_chunks(size_class, lines);
  if (!failure_.ok()) return refusal(Code::kBusy, "its medium fails");
  WireWriter answer = answer_of(Code::kOk);
  for (const std::uint64_t line : lines) {
    answer.add(line);
    change->blocks.emplace_back(size_class, line);
  }
  return answer;
}

/// A medium is to know of which class their chunks are.
Status MemoryServer::use_chunks(std::uint32_t size_class, std::span<const std::uint64_t> lines) {
  std::vector<Medium::Use> uses;
  for (const std::uint64_t line : lines) {
    const std::uint64_t chunk = line / Pool::kChunkLines;
    if (uses.empty() || uses.back().chunk != chunk) uses.push_back({chunk, size_class});
  }
  return medium_->use_chunks(uses);
}

/// What is no block in use is said, and the others are taken.
WireWriter MemoryServer::take_back(WireReader question, MirrorLink::Change* change) {
  constexpr std::size_t kBlockBytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);
  if (question.left() > kLeaseMax * kBlockBytes) return refusal(Code::kWrong, "too many blocks");
  bool are_all = true;
  while (question.left() > 0) {
    const auto size_class = question.take<std::uint32_t>();
    const auto line = question.take<std::uint64_t>();
    are_all = are_all && question.left() % kBlockBytes == 0;
    if (free_block(size_class, line)) {
      change->blocks.emplace_back(size_class, line);
    } else {
      are_all = false;
    }
  }
  return are_all ? answer_of(Code::kOk) : refusal(Code::kWrong, "a block that is not in use");
}

/// False: it is no block that is in use. What lies in one that was leased, and not written, is
/// nobody's value.
bool MemoryServer::free_block(std::uint32_t size_class, std::uint64_t line) {
  if (!pool_.give_back(size_class, line)) return false;
  const Location block{.node = 0, .size_class = size_class, .line = line};
  wipe_block(bytes_of(block));
  note(block, sizeof(BlockHeader));
  return true;
}

std::span<std::byte> MemoryServer::bytes_of(const Location& block) const {
  return memory_.subspan(block.offset(), block.bytes());
}

// ---- what writes blocks are of -----------------------------------------------------------------

void MemoryServer::note_write(std::uint64_t sequence) {
  last_ = std::max(last_, sequence);
  if (medium_ != nullptr) medium_->note_write(last_);
}

/// What is of another use by now is of a message that came late.
WireWriter MemoryServer::commit(WireReader question) {
  const auto shard = question.take<std::uint32_t>();
  while (question.left() > 0) {
    const Location block = location_in(question.take<Slot>());
    const auto generation = question.take<std::uint32_t>();
    const auto sequence = question.take<std::uint64_t>();
    const bool is_one = is_block_of(block, memory_.size()) && sequence > 0;
    if (!is_one) return refusal(Code::kWrong, "no block");
    note_write(sequence);
    if (mirror_ != nullptr) {
      mirror_->commit(shard, block, generation, sequence);
    } else if (pool_.has(block.size_class, block.line)) {
      const bool is_there = commit_block(bytes_of(block), generation, sequence);
      if (is_there) note(block, used_bytes(bytes_of(block)));
    }
  }
  return question.is_whole() ? answer_of(Code::kOk) : refusal(Code::kWrong, "no blocks");
}

/// A block that was given back may be of a later write by now, or of one that is not taken yet, or
/// of a key of another shard, whose writes have other numbers.
WireWriter MemoryServer::retire(WireReader question) {
  const auto shard = question.take<std::uint32_t>();
  while (question.left() > 0) {
    const Location block = location_in(question.take<Slot>());
    const auto sequence = question.take<std::uint64_t>();
    if (!is_block_of(block, memory_.size())) return refusal(Code::kWrong, "no block");
    note_write(sequence);
    if (mirror_ != nullptr) {
      mirror_->retire(shard, block, sequence);
    } else if (pool_.has(block.size_class, block.line)) {
      const bool is_one = retire_block(bytes_of(block), keys_of(shard), sequence);
      if (is_one) note(block, sizeof(BlockHeader));
    }
  }
  return question.is_whole() ? answer_of(Code::kOk) : refusal(Code::kWrong, "no blocks");
}

WireWriter MemoryServer::agree(WireReader question) {
  const auto shard = question.take<std::uint32_t>();
  const auto line = question.take<std::uint64_t>();
  const auto next = question.take<std::uint64_t>();
  const std::uint64_t lines = memory_.size() / kLineBytes;
  const bool is_one = line < lines && next < lines && mirror_->agree(shard, line, next, question);
  return is_one ? answer_of(Code::kOk) : refusal(Code::kWrong, "no values");
}

/// Whole blocks in use that no other value has replaced, of writes that were taken.
WireWriter MemoryServer::values(WireReader question) const {
  const ShardKeys of = keys_of(question.take<std::uint32_t>());
  const auto seeds = question.take<KeySeeds>();
  const auto line = question.take<std::uint64_t>();
  if (!question.is_whole()) return refusal(Code::kWrong, "no line");
  WireWriter entries;
  std::uint64_t looked_at = 0;
  const auto is_full = [&] {
    return entries.bytes().size() >= options_.part_bytes ||
           looked_at >= kLookedAt * options_.part_bytes;
  };
  for (std::uint64_t number = line / Pool::kChunkLines; number < pool_.chunks(); ++number) {
    const PoolImage::Chunk& chunk = pool_.chunk(number);
    // Where it goes on it gets on by a block at least.
    if (number * Pool::kChunkLines >= line) looked_at += chunk.is_used.size();
    for (std::uint64_t i = 0; i < chunk.is_used.size(); ++i) {
      if (!chunk.is_used[i]) continue;
      const Location block{.node = *node_,
                           .size_class = chunk.size_class,
                           .line = PoolImage::line_of(chunk.size_class, {number, i})};
      if (block.line < line) continue;
      if (is_full()) return answer_of(Code::kOk).add(block.line).add(last_).append(entries);
      looked_at += block.bytes();
      if (!of.has(key_in(bytes_of(block)))) continue;  // before all of it is read
      const auto view = whole_block(bytes_of(block));
      if (!view.has_value() || view->is_replaced || view->sequence == 0) continue;
      entries.add(ValueEntry{.id = seeds.id_of(view->key),
                             .slot = slot_of(0, block),
                             .sequence = view->sequence,
                             .generation = view->generation});
    }
  }
  return answer_of(Code::kOk).add(std::uint64_t{0}).add(last_).append(entries);
}

}  // namespace breccia::disagg
