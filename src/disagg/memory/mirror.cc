#include "disagg/memory/mirror.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

constexpr TimeUs kNever = std::numeric_limits<TimeUs>::max();
/// Who could not be reached is left alone for so many times as long as was waited.
constexpr TimeUs kPauses = 4;
constexpr TimeUs kBehindUs = 1000;

}  // namespace

void Mirror::follow(const ClusterMap::Memory& of, const ClusterMap& map) {
  BRECCIA_ASSERT(of.mirror.member == member_);
  if (of.address != address_) leave();
  address_ = of.address;
  epoch_ = map.epoch;
  placement_ = map.placement();
  may_copy_ = map.is_written(of.mirror);
}

/// What it has stays; what is in use it is told anew.
void Mirror::leave() {
  if (peer_.has_value()) port_->disconnect(*peer_);
  peer_.reset();
  request_ = 0;
  coming_.reset();
  has_image_ = false;
}

void Mirror::tend() {
  const TimeUs now = port_->now_us();
  if (peer_.has_value() && port_->is_gone(*peer_)) leave();
  if (!peer_.has_value()) {
    if (now < connect_again_) return;
    auto connected = port_->connect(address_, now + options_.meet_us);
    connect_again_ = port_->now_us() + kPauses * options_.meet_us;
    if (!connected.ok()) return;
    peer_ = connected.take();
    ask_again_ = 0;
  }
  if (port_->now_us() >= ask_again_) ask();
  if (has_image_ && !is_copied_ && may_copy_ && port_->now_us() >= copy_again_) {
    // A disk may be slower than the network, and what is written meanwhile waits behind it.
    if (medium_ != nullptr && medium_->is_behind()) {
      copy_again_ = port_->now_us() + kBehindUs;
    } else {
      copy();
    }
  }
}

TimeUs Mirror::wake() const {
  if (!peer_.has_value()) return connect_again_;
  return has_image_ && !is_copied_ && may_copy_ ? std::min(ask_again_, copy_again_) : ask_again_;
}

void Mirror::hear(const fabric::Arrival& arrival) {
  if (arrival.peer != peer_) return;
  if (arrival.kind == fabric::Arrival::Kind::kGone) return leave();
  constexpr std::uint8_t kTold = static_cast<std::uint8_t>(Ask::kUse) | kAnswerBit;
  const bool is_it =
      arrival.header.kind == kTold && request_ != 0 && arrival.header.request == request_;
  if (!is_it) return;
  request_ = 0;
  WireReader answer(arrival.payload);
  const bool is_told = take_code(&answer).ok();
  // Whom it does not tell any more is to begin anew, by another connection.
  if (has_image_) return is_told ? void() : leave();
  // Who does not tell yet is asked from the beginning.
  if (!is_told) return coming_.reset();
  take_page(answer);
}

// ---- what is in use ----------------------------------------------------------------------------

/// For the next page; behind the last one whether it still is told what changes.
void Mirror::ask() {
  BRECCIA_ASSERT(peer_.has_value());
  if (!has_image_ && !coming_.has_value()) {
    coming_.emplace(image_.chunks().size());
    next_chunk_ = 0;
    request_ = 0;
  }
  if (request_ == 0) request_ = asking_->draw_request();
  ask_again_ = port_->now_us() + options_.again_us;
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(Ask::kUse), .epoch = epoch_, .request = request_};
  const WireWriter question = WireWriter().add_bytes(member_).add(next_chunk_);
  (void)port_->send(*peer_, header, question.bytes(), ask_again_);
}

void Mirror::take_page(WireReader answer) {
  BRECCIA_ASSERT(coming_.has_value());
  const std::uint64_t chunks = image_.chunks().size();
  const auto head = answer.take<UseHead>();
  const std::uint64_t next = head.next;
  bool are_chunks = head.region.bytes == memory_.size() && next > next_chunk_ && next <= chunks;
  while (are_chunks && answer.left() > 0) are_chunks = take_chunk(&answer, &*coming_);
  // What makes no sense is asked for anew, behind a pause.
  if (!are_chunks || !answer.is_whole()) return coming_.reset();
  region_ = head.region;
  next_chunk_ = next;
  ask_again_ = 0;
  if (next == chunks) have_image();
}

/// What is not in use there any more is not copied; what has come to be in use since the server
/// was met for the first time is written here by whoever writes it.
void Mirror::have_image() {
  if (has_image_once_) wipe_what_went();
  image_ = std::move(*coming_);
  coming_.reset();
  std::vector<Medium::Use> uses;
  for (std::uint64_t i = 0; i < image_.chunks().size(); ++i) {
    if (!image_.chunks()[i].is_used.empty()) uses.push_back({i, image_.chunks()[i].size_class});
  }
  use_chunks(uses);
  has_image_ = true;
  ask_again_ = port_->now_us() + options_.again_us;
  if (!std::exchange(has_image_once_, true)) {
    to_copy_ = image_;
    return;
  }
  for (std::uint64_t i = 0; i < to_copy_.chunks().size(); ++i) {
    to_copy_.chunks()[i].keep_common(image_.chunks()[i]);
  }
}

/// Blocks that were given back while nobody told.
void Mirror::wipe_what_went() {
  for (std::uint64_t number = 0; number < image_.chunks().size(); ++number) {
    const PoolImage::Chunk& chunk = image_.chunks()[number];
    for (std::uint64_t i = 0; i < chunk.is_used.size(); ++i) {
      if (!chunk.is_used[i]) continue;
      const std::uint64_t line = PoolImage::line_of(chunk.size_class, {number, i});
      if (coming_->has(chunk.size_class, line)) continue;
      wipe({.node = 0, .size_class = chunk.size_class, .line = line});
    }
  }
}

void Mirror::note(const Location& block, std::uint64_t bytes) {
  if (medium_ != nullptr) medium_->note(block.offset(), bytes);
}

void Mirror::wipe(const Location& block) {
  wipe_block(bytes_of(block));
  note(block, sizeof(BlockHeader));
}

/// A medium that keeps nothing any more says so to its server.
void Mirror::use_chunks(std::span<const Medium::Use> uses) {
  if (medium_ != nullptr) (void)medium_->use_chunks(uses);
}

WireWriter Mirror::keep(const Answers::Asker& asker, WireReader question) {
  if (asker.peer != peer_) return refusal(Code::kEpoch, "another server's mirror");
  if (!has_image_) return refusal(Code::kBusy, "it is not known yet what is in use");
  while (question.left() > 0) {
    if (keep_one(&question)) continue;
    leave();
    return refusal(Code::kWrong, "no change of what is in use");
  }
  return answer_of(Code::kOk);
}

bool Mirror::keep_one(WireReader* question) {
  const bool is_lease = question->take<std::uint8_t>() != 0;
  const auto size_class = question->take<std::uint32_t>();
  const auto line = question->take<std::uint64_t>();
  if (is_lease) {
    if (!image_.take(size_class, line)) return false;
    const Medium::Use use{line / PoolImage::kChunkLines, size_class};
    use_chunks(std::span(&use, 1));
    return true;
  }
  (void)to_copy_.give_back(size_class, line);
  if (!image_.give_back(size_class, line)) return false;
  wipe({.node = 0, .size_class = size_class, .line = line});
  forget_news(line);
  return true;
}

// ---- what writes blocks are of -----------------------------------------------------------------

/// As far as is known.
bool Mirror::is_in_use(const Location& block) const {
  return !has_image_once_ || image_.has(block.size_class, block.line);
}

bool Mirror::is_copied_later(const Location& block) const {
  return !has_image_once_ || to_copy_.has(block.size_class, block.line);
}

void Mirror::forget_news(std::uint64_t line) {
  news_.erase(news_.lower_bound({line, 0}), news_.lower_bound({line + 1, 0}));
}

bool Mirror::agree(std::uint32_t shard, std::uint64_t line, std::uint64_t next, WireReader values) {
  if (next != 0 && next <= line) return false;
  std::set<std::uint64_t> lines;
  while (values.left() > 0) {
    const Location block = location_in(values.take<Slot>());
    const auto generation = values.take<std::uint32_t>();
    const auto sequence = values.take<std::uint64_t>();
    const bool is_one = is_block_of(block, memory_.size()) && sequence > 0 && block.line >= line &&
                        (next == 0 || block.line < next);
    if (!is_one) return false;
    lines.insert(block.line);
    news_.erase({block.line, shard});
    commit(shard, block, generation, sequence);
    // A mark of a client's next write is on the server first, so it would not tell this value.
    if (!is_in_use(block)) continue;
    revive_block(bytes_of(block), generation);
    note(block, sizeof(BlockHeader));
  }
  forget_values(shard, line, next, lines);
  return values.is_whole();
}

/// A hash server that went may have told this one of a write, and not its server.
void Mirror::forget_values(std::uint32_t shard, std::uint64_t line, std::uint64_t next,
                           const std::set<std::uint64_t>& but) {
  const auto is_in = [&](std::uint64_t of) {
    return of >= line && (next == 0 || of < next) && !but.contains(of);
  };
  auto news = news_.lower_bound({line, 0});
  while (news != news_.end() && (next == 0 || news->first.first < next)) {
    const bool is_one = news->first.second == shard && !but.contains(news->first.first);
    news = is_one ? news_.erase(news) : std::next(news);
  }
  const std::uint64_t chunks = image_.chunks().size();
  const std::uint64_t end =
      next == 0 ? chunks : std::min(chunks, next / PoolImage::kChunkLines + 1);
  for (std::uint64_t number = line / PoolImage::kChunkLines; number < end; ++number) {
    const PoolImage::Chunk& chunk = image_.chunks()[number];
    for (std::uint64_t i = 0; i < chunk.is_used.size(); ++i) {
      if (!chunk.is_used[i]) continue;
      const std::uint64_t of = PoolImage::line_of(chunk.size_class, {number, i});
      if (!is_in(of)) continue;
      retire_here({.node = 0, .size_class = chunk.size_class, .line = of}, shard,
                  std::numeric_limits<std::uint64_t>::max());
    }
  }
}

void Mirror::commit(std::uint32_t shard, const Location& block, std::uint32_t generation,
                    std::uint64_t sequence) {
  const bool is_there = is_in_use(block) && commit_block(bytes_of(block), generation, sequence);
  if (is_there) note(block, used_bytes(bytes_of(block)));
  if (!is_copied_later(block)) return;
  News& news = news_[{block.line, shard}];
  news.generation = generation;
  news.sequence = sequence;
}

void Mirror::retire(std::uint32_t shard, const Location& block, std::uint64_t sequence) {
  if (is_in_use(block)) retire_here(block, shard, sequence);
  if (is_copied_later(block)) news_[{block.line, shard}].retired = sequence;
}

void Mirror::retire_here(const Location& block, std::uint32_t shard, std::uint64_t sequence) {
  const ShardKeys of{.placement = placement_, .shard = shard};
  if (retire_block(bytes_of(block), of, sequence)) note(block, sizeof(BlockHeader));
}

// ---- what lies there ---------------------------------------------------------------------------

std::vector<Location> Mirror::next_part() {
  std::vector<Location> part;
  std::uint64_t bytes = 0;
  for (std::uint64_t number = copied_; number < to_copy_.chunks().size(); ++number) {
    const PoolImage::Chunk& chunk = to_copy_.chunks()[number];
    for (std::uint64_t block = 0; block < chunk.is_used.size(); ++block) {
      if (!chunk.is_used[block]) continue;
      if (bytes >= options_.part_bytes) return part;
      part.push_back(
          {.node = 0,
           .size_class = chunk.size_class,
           .line = PoolImage::line_of(chunk.size_class, {.chunk = number, .block = block})});
      bytes += part.back().bytes();
    }
    if (part.empty()) copied_ = number + 1;
  }
  return part;
}

/// Nothing is heard between the reads and what is done with them, so blocks that were in use are
/// nobody else's by then. A mark goes to the server first, and then here (HashServer::mark): what
/// was not marked there behind the copy is marked here behind it, too.
void Mirror::copy() {
  const std::vector<Location> part = next_part();
  std::uint64_t bytes = 0;
  for (const Location& block : part) bytes += block.bytes();
  std::vector<std::byte> all(bytes);
  std::vector<std::uint64_t> states(part.size());
  std::vector<fabric::Read> reads, again;
  std::size_t at = 0;
  for (std::size_t i = 0; i < part.size(); ++i) {
    reads.push_back({region_, part[i].offset(), std::span(all).subspan(at, part[i].bytes())});
    again.push_back({region_, part[i].offset() + BlockHeader::kStateOffset,
                     std::as_writable_bytes(std::span(states).subspan(i, 1))});
    at += part[i].bytes();
  }
  const auto read = [this](std::span<const fabric::Read> from) {
    return from.empty() || port_->read(*peer_, from, port_->now_us() + options_.read_us).ok();
  };
  const bool is_read = read(reads);
  if (is_read) {
    for (std::size_t i = 0; i < part.size(); ++i) put(part[i], reads[i].into);
  }
  const bool is_known = is_read && read(again);
  // Until it is copied once more, or if it is given back before, it may have been marked.
  if (!is_known) std::fill(states.begin(), states.end(), BlockHeader::kReplaced);
  for (std::size_t i = 0; i < part.size(); ++i) mark_as(part[i], states[i]);
  copy_again_ = is_known ? 0 : port_->now_us() + options_.again_us;
  if (!is_known) return;
  for (const Location& block : part) {
    const bool was_there = to_copy_.give_back(block.size_class, block.line);
    BRECCIA_ASSERT(was_there);
    forget_news(block.line);
  }
  is_copied_ = part.empty();
  if (is_copied_) news_.clear();
}

/// What is not whole was never written to the end, or by who was told that it is not known whether
/// it was: no entry leads there.
void Mirror::put(const Location& block, std::span<const std::byte> bytes) {
  BRECCIA_ASSERT(block.offset() + bytes.size() <= memory_.size());
  if (!whole_block(bytes).has_value()) return;
  std::memcpy(memory_.data() + block.offset(), bytes.data(), bytes.size());
  auto news = news_.lower_bound({block.line, 0});
  for (; news != news_.end() && news->first.first == block.line; ++news) {
    const News& one = news->second;
    if (one.sequence > 0) (void)commit_block(bytes_of(block), one.generation, one.sequence);
    retire_here(block, news->first.second, one.retired);
  }
  note(block, bytes.size());
}

/// It is replaced if it is so there.
void Mirror::mark_as(const Location& block, std::uint64_t state) {
  std::byte* const at = memory_.data() + block.offset() + BlockHeader::kStateOffset;
  if (std::memcmp(at, &state, sizeof state) == 0) return;
  constexpr std::uint64_t kState = BlockHeader::kReplaced;
  std::memcpy(at, &kState, sizeof kState);
  note(block, sizeof(BlockHeader));
}

}  // namespace breccia::disagg
