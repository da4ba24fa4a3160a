#pragma once

#include <breccia/status.h>

#include <bit>
#include <cstdint>

#include "record/keyed_hash.h"

/// By what an index knows keys, and where readers find them.

namespace breccia::disagg {

/// Which key an entry is of: two hashes that nobody can foresee, which two keys share once in 2^128
/// pairs. Buckets have 12 bits of the first and its highest ones, by their place.
struct KeyId {
  std::uint64_t hash = 0;
  std::uint64_t proof = 0;
  friend bool operator==(const KeyId&, const KeyId&) = default;
};

/// By which a table's keys are hashed, and readers find buckets.
struct KeySeeds {
  record::HashSeed hash, proof;
  friend bool operator==(const KeySeeds&, const KeySeeds&) = default;

  [[nodiscard]] static KeySeeds draw();

  [[nodiscard]] KeyId id_of(const Slice& key) const {
    return {.hash = record::keyed_hash(key.data(), key.size(), hash),
            .proof = record::keyed_hash(key.data(), key.size(), proof)};
  }
};

/// How keys are divided into shards, each of which has indexes of its own: the same for as long as
/// the cluster lives. Nobody can foresee it, so nobody can make up keys of one shard alone.
struct Placement {
  record::HashSeed seed;
  std::uint32_t shards = 1;

  [[nodiscard]] std::uint32_t shard_of(const Slice& key) const {
    if (shards <= 1) return 0;
    const std::uint64_t hash = record::keyed_hash(key.data(), key.size(), seed);
    return static_cast<std::uint32_t>(static_cast<unsigned __int128>(hash) * shards >> 64);
  }
};

/// Of a cluster, at most.
constexpr std::uint32_t kShardsMax = 16;

/// Some shards of a cluster.
class ShardSet {
 public:
  static ShardSet all(std::uint32_t shards) {
    ShardSet set;
    set.bits_ = (std::uint32_t{1} << shards) - 1;
    return set;
  }
  static ShardSet one(std::uint32_t shard) {
    ShardSet set;
    set.add(shard);
    return set;
  }

  void add(std::uint32_t shard) { bits_ |= std::uint32_t{1} << shard; }
  void add(ShardSet others) { bits_ |= others.bits_; }
  void remove(ShardSet others) { bits_ &= ~others.bits_; }
  [[nodiscard]] bool has(std::uint32_t shard) const { return (bits_ >> shard & 1) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  [[nodiscard]] std::uint32_t size() const {
    return static_cast<std::uint32_t>(std::popcount(bits_));
  }
  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  /// The first one from that one on; kShardsMax: there is none.
  [[nodiscard]] std::uint32_t next(std::uint32_t from) const {
    if (from >= kShardsMax || bits_ >> from == 0) return kShardsMax;
    return from + static_cast<std::uint32_t>(std::countr_zero(bits_ >> from));
  }

 private:
  std::uint32_t bits_ = 0;
};

/// The keys of one shard.
struct ShardKeys {
  Placement placement;
  std::uint32_t shard = 0;

  [[nodiscard]] bool has(const Slice& key) const { return placement.shard_of(key) == shard; }
};

/// What readers need to know of a table.
struct TableShape {
  std::uint32_t bucket_bits = 0;  // 2^so many buckets begin chains; others go on with them
  std::uint32_t buckets = 0;      // all of them

  /// Where the chain of a key begins.
  [[nodiscard]] std::uint32_t first_bucket(std::uint64_t hash) const {
    return bucket_bits == 0 ? 0 : static_cast<std::uint32_t>(hash >> (64 - bucket_bits));
  }
};

}  // namespace breccia::disagg
