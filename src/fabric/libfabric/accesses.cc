#include "fabric/libfabric/accesses.h"

#include <algorithm>
#include <cstring>

#include "fabric/libfabric/packet.h"

namespace breccia::fabric::libfabric {

namespace {

bool is_small(const Read& read) { return read.into.size() <= kGatheredBytesMax; }

/// How many of the first reads one answer holds.
std::size_t count_of_question(std::span<const Read> reads) {
  std::size_t count = 0, bytes = 0;
  while (count < reads.size() && count < kPiecesMax) {
    bytes += reads[count].into.size();
    if (bytes > kGatheredBytesMax) break;
    ++count;
  }
  return count;
}

bool is_small(const Write& write) { return sizeof(Piece) + write.from.size() <= kScatterBytesMax; }

/// How many of the first writes one question holds.
std::size_t count_of_question(std::span<const Write> writes) {
  std::size_t count = 0, bytes = 0;
  for (; count < writes.size(); ++count) {
    bytes += sizeof(Piece) + writes[count].from.size();
    if (bytes > kScatterBytesMax) break;
  }
  return count;
}

std::size_t bytes_of(const Read& read) { return read.into.size(); }
std::size_t bytes_of(const Write& write) { return write.from.size(); }

/// What is to be gathered; of a scatter the bytes follow.
template <class Access>
std::vector<std::byte> pieces_of(std::uint32_t number, std::span<const Access> all) {
  const GatherHead head{.question = number, .pieces = static_cast<std::uint32_t>(all.size())};
  std::vector<std::byte> question(sizeof head + all.size() * sizeof(Piece));
  std::memcpy(question.data(), &head, sizeof head);
  std::byte* at = question.data() + sizeof head;
  for (const Access& one : all) {
    const Piece piece{.key = one.region.key, .offset = one.offset, .bytes = bytes_of(one)};
    std::memcpy(at, &piece, sizeof piece);
    at += sizeof piece;
  }
  return question;
}

std::vector<std::byte> scatter_of(std::uint32_t number, std::span<const Write> writes) {
  std::vector<std::byte> question = pieces_of(number, writes);
  for (const Write& write : writes) {
    question.insert(question.end(), write.from.begin(), write.from.end());
  }
  return question;
}

}  // namespace

Accesses::Accesses(Engine* engine, PeerId peer, std::span<const Read> reads)
    : engine_(engine), peer_(peer), batch_(engine) {
  if (are_small(reads.size())) reads_.reserve(reads.size());
  for (const Read& read : reads) {
    if (are_small(reads.size()) && is_small(read)) {
      reads_.push_back(read);
      continue;
    }
    checks_.push_back({read.region, read.offset, read.into.size(), Rights::kRead});
    add_transfers(read.region, read.offset, read.into, {});
  }
}

Accesses::Accesses(Engine* engine, PeerId peer, std::span<const Write> writes)
    : engine_(engine), peer_(peer), batch_(engine) {
  for (const Write& write : writes) {
    checks_.push_back({write.region, write.offset, write.from.size(), Rights::kReadWrite});
    if (are_small(writes.size()) && is_small(write)) {
      writes_.push_back(write);
    } else {
      add_transfers(write.region, write.offset, {}, write.from);
    }
  }
}

bool Accesses::are_small(std::size_t count) const {
  return engine_->provider().is_software() && count > 1;
}

void Accesses::add_transfers(const RegionName& region, std::uint64_t offset,
                             std::span<std::byte> into, std::span<const std::byte> from) {
  const std::size_t all = std::max(into.size(), from.size());
  for (std::size_t at = 0; at < all; at += kPacketBytes) {
    const std::size_t bytes = std::min(kPacketBytes, all - at);
    transfers_.push_back({.key = region.key,
                          .remote = region.base + offset + at,
                          .into = into.empty() ? into : into.subspan(at, bytes),
                          .from = from.empty() ? from : from.subspan(at, bytes)});
  }
}

Status Accesses::status() const { return status_.value_or(Status::TimedOut("memory of a peer")); }

bool Accesses::is_done() const {
  return checked_ == checks_.size() && asked_ == reads_.size() + writes_.size() &&
         posted_ == transfers_.size() && batch_.under_way == 0;
}

void Accesses::go_on() {
  if (is_over()) return;
  if (batch_.is_refused) {
    status_ = Status::InvalidArgument("no such region, or not so long");
  } else if (batch_.is_lost) {
    status_ = Status::IOError("an access was refused, or lost");
  } else if (is_done()) {
    status_ = Status::OK();
  } else {
    Link* const link = engine_->find(peer_);
    status_ = link == nullptr ? Status::IOError("the peer is gone") : step(link);
  }
}

/// None: it goes on.
std::optional<Status> Accesses::step(Link* link) {
  if (auto wrong = check(link)) return wrong;
  if (checked_ < checks_.size()) return std::nullopt;
  if (!ask(link)) return Status::IOError("the peer is gone");
  while (posted_ < transfers_.size()) {
    if (!engine_->post(link, transfers_[posted_], &batch_)) break;
    ++posted_;
  }
  if (is_done()) return Status::OK();
  return std::nullopt;
}

/// As far as it is known what regions are; what is not is asked for.
std::optional<Status> Accesses::check(Link* link) {
  for (; checked_ < checks_.size(); ++checked_) {
    const Check& one = checks_[checked_];
    const auto [found, is_new] = link->regions.try_emplace(one.region.key);
    if (!found->second.has_value()) {
      const auto key = std::as_bytes(std::span(&one.region.key, 1));
      if (is_new && !engine_->say(link, Kind::kAsk, key)) {
        return Status::IOError("the peer is gone");
      }
      return std::nullopt;
    }
    const Facts facts = *found->second;
    if (facts.rights == Rights::kNone) {
      link->regions.erase(found);
      return Status::InvalidArgument("no such region");
    }
    if (facts.rights < one.needs) return Status::InvalidArgument("a region that is only read");
    const bool is_within = one.offset <= facts.bytes && one.bytes <= facts.bytes - one.offset;
    if (!is_within) return Status::InvalidArgument("beyond the end of a region");
  }
  return std::nullopt;
}

/// As much as the peer takes now. False: it is gone.
bool Accesses::ask(Link* link) {
  const bool are_reads = !reads_.empty();
  const std::size_t all = reads_.size() + writes_.size();
  while (asked_ < all && link->questions.size() < kQuestionsMax) {
    const std::uint32_t number = link->next_question++;
    const auto reads = std::span<const Read>(reads_).subspan(are_reads ? asked_ : 0);
    const auto writes = std::span<const Write>(writes_).subspan(are_reads ? 0 : asked_);
    const std::size_t count = are_reads ? count_of_question(reads) : count_of_question(writes);
    const auto question =
        are_reads ? pieces_of(number, reads.first(count)) : scatter_of(number, writes.first(count));
    Link::Question asked{.batch = batch_.id,
                         .answer = are_reads ? Kind::kGathered : Kind::kScattered,
                         .reads = are_reads ? reads.first(count) : std::span<const Read>()};
    link->questions.emplace(number, asked);
    try {
      if (!engine_->say(link, are_reads ? Kind::kGather : Kind::kScatter, question)) return false;
    } catch (...) {
      link->questions.erase(number);
      throw;
    }
    ++batch_.under_way;
    asked_ += count;
  }
  return true;
}

}  // namespace breccia::fabric::libfabric
