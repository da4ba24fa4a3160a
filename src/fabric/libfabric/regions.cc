#include "fabric/libfabric/regions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/assert.h"
#include "base/prefetch.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::size_t kLineBytes = 64;
/// Pieces whose lines are on their way while one is copied: they lie anywhere in gigabytes.
constexpr std::size_t kPiecesAhead = 16;
/// Of longer ones the processor sees itself what comes next.
constexpr std::size_t kLinesAhead = 4;

void fetch(std::span<const std::byte> piece) {
  const std::size_t bytes = std::min(piece.size(), kLinesAhead * kLineBytes);
  for (std::size_t at = 0; at < bytes; at += kLineBytes) base::prefetch(piece.data() + at);
}

void copy(std::span<std::byte> from, std::byte* to) {
  const auto at = reinterpret_cast<std::uintptr_t>(from.data());
  const std::size_t before = std::min(from.size(), (kWordBytes - at % kWordBytes) % kWordBytes);
  std::memcpy(to, from.data(), before);
  std::size_t i = before;
  for (; i + kWordBytes <= from.size(); i += kWordBytes) {
    auto* const source = reinterpret_cast<std::uint64_t*>(from.data() + i);
    const std::uint64_t word = std::atomic_ref(*source).load(std::memory_order_relaxed);
    std::memcpy(to + i, &word, sizeof word);
  }
  std::memcpy(to + i, from.data() + i, from.size() - i);
}

void copy(const std::byte* from, std::span<std::byte> to) {
  const auto at = reinterpret_cast<std::uintptr_t>(to.data());
  const std::size_t before = std::min(to.size(), (kWordBytes - at % kWordBytes) % kWordBytes);
  std::memcpy(to.data(), from, before);
  std::size_t i = before;
  for (; i + kWordBytes <= to.size(); i += kWordBytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + i, sizeof word);
    auto* const target = reinterpret_cast<std::uint64_t*>(to.data() + i);
    std::atomic_ref(*target).store(word, std::memory_order_relaxed);
  }
  std::memcpy(to.data() + i, from + i, to.size() - i);
}

}  // namespace

Result<Regions::Made> Regions::make(const Provider& provider, std::uint64_t bytes, Access access) {
  const bool may_write = access == Access::kReadWrite;
  const std::uint64_t rights = FI_REMOTE_READ | (may_write ? FI_REMOTE_WRITE : 0);
  BRECCIA_TAKE(auto memory, Memory::make(provider, bytes, rights));
  ended_.reserve(ended_.size() + all_.size() + 1);  // an end needs no memory
  const Made made{.name = {.key = memory->key(), .base = memory->base(), .bytes = bytes},
                  .bytes = memory->bytes()};
  One one{std::move(memory), may_write ? Rights::kReadWrite : Rights::kRead};
  BRECCIA_ASSERT(all_.emplace(made.name.key, std::move(one)).second);
  return made;
}

void Regions::end(std::uint64_t key) {
  const auto found = all_.find(key);
  BRECCIA_ASSERT(found != all_.end() && ended_.size() < ended_.capacity());
  found->second.memory->revoke();
  ended_.push_back(std::move(found->second.memory));
  all_.erase(found);
}

Facts Regions::facts(std::uint64_t key) const {
  const auto found = all_.find(key);
  if (found == all_.end()) return {.key = key, .bytes = 0, .rights = Rights::kNone};
  return {
      .key = key, .bytes = found->second.memory->bytes().size(), .rights = found->second.rights};
}

/// Null: there are no such bytes, or they may not be used so.
std::span<std::byte> Regions::find(const Piece& piece, Rights needs) const {
  const auto found = all_.find(piece.key);
  if (found == all_.end() || found->second.rights < needs) return {};
  const std::span<std::byte> all = found->second.memory->bytes();
  if (piece.offset > all.size() || piece.bytes > all.size() - piece.offset) return {};
  return all.subspan(piece.offset, piece.bytes);
}

std::optional<std::size_t> Regions::gather(std::span<const std::byte> question,
                                           std::span<std::byte> answer) const {
  GatherHead head;
  if (question.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, question.data(), sizeof head);
  const std::span<const std::byte> pieces = question.subspan(sizeof head);
  if (pieces.size() != head.pieces * sizeof(Piece)) return std::nullopt;
  GatheredHead said{.question = head.question, .is_refused = 0};
  if (head.pieces > kPiecesMax) return std::nullopt;
  std::array<std::span<std::byte>, kPiecesMax> all;  // who answers has no memory to ask for
  const std::span<std::span<std::byte>> sources = std::span(all).first(head.pieces);
  std::size_t room = answer.size() - sizeof said;
  for (std::size_t i = 0; i < head.pieces && said.is_refused == 0; ++i) {
    Piece piece;
    std::memcpy(&piece, pieces.data() + i * sizeof piece, sizeof piece);
    if (piece.bytes > room) return std::nullopt;
    room -= piece.bytes;
    sources[i] = find(piece, Rights::kRead);
    if (sources[i].data() == nullptr) said.is_refused = 1;
  }
  std::memcpy(answer.data(), &said, sizeof said);
  std::size_t at = sizeof said;
  if (said.is_refused != 0) return at;
  for (std::size_t i = 0; i < std::min(kPiecesAhead, sources.size()); ++i) fetch(sources[i]);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (i + kPiecesAhead < sources.size()) fetch(sources[i + kPiecesAhead]);
    copy(sources[i], answer.data() + at);
    at += sources[i].size();
  }
  return at;
}

std::optional<GatheredHead> Regions::scatter(std::span<const std::byte> question) {
  GatherHead head;
  if (question.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, question.data(), sizeof head);
  std::span<const std::byte> bytes = question.subspan(sizeof head);
  if (head.pieces > bytes.size() / sizeof(Piece)) return std::nullopt;
  const std::byte* const pieces = bytes.data();
  bytes = bytes.subspan(head.pieces * sizeof(Piece));
  const std::byte* from = bytes.data();
  std::vector<std::span<std::byte>> targets;
  GatheredHead said{.question = head.question, .is_refused = 0};
  for (std::size_t i = 0; i < head.pieces; ++i) {
    Piece piece;
    std::memcpy(&piece, pieces + i * sizeof piece, sizeof piece);
    if (piece.bytes > bytes.size()) return std::nullopt;
    bytes = bytes.subspan(piece.bytes);
    targets.push_back(find(piece, Rights::kReadWrite));
    if (targets.back().data() == nullptr) said.is_refused = 1;
  }
  if (!bytes.empty()) return std::nullopt;
  if (said.is_refused != 0) return said;
  for (const std::span<std::byte> target : targets) {
    copy(from, target);
    from += target.size();
  }
  return said;
}

}  // namespace breccia::fabric::libfabric
