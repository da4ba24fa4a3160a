#include "fabric/libfabric/regions.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/assert.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

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

std::optional<std::size_t> Regions::gather(std::span<const std::byte> question,
                                           std::span<std::byte> answer) const {
  GatherHead head;
  if (question.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, question.data(), sizeof head);
  const std::span<const std::byte> pieces = question.subspan(sizeof head);
  if (pieces.size() != head.pieces * sizeof(Piece)) return std::nullopt;
  GatheredHead said{.question = head.question, .is_refused = 0};
  std::size_t at = sizeof said;
  for (std::size_t i = 0; i < head.pieces && said.is_refused == 0; ++i) {
    Piece piece;
    std::memcpy(&piece, pieces.data() + i * sizeof piece, sizeof piece);
    if (piece.bytes > answer.size() - at) return std::nullopt;
    const auto found = all_.find(piece.key);
    const std::span<std::byte> all =
        found == all_.end() ? std::span<std::byte>() : found->second.memory->bytes();
    if (found == all_.end() || piece.offset > all.size() ||
        piece.bytes > all.size() - piece.offset) {
      said.is_refused = 1;
    } else {
      copy(all.subspan(piece.offset, piece.bytes), answer.data() + at);
      at += piece.bytes;
    }
  }
  if (said.is_refused != 0) at = sizeof said;
  std::memcpy(answer.data(), &said, sizeof said);
  return at;
}

}  // namespace breccia::fabric::libfabric
