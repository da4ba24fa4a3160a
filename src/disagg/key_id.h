#pragma once

#include <breccia/status.h>

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
  friend bool operator==(const KeySeeds& a, const KeySeeds& b) {
    return a.hash.start == b.hash.start && a.hash.factor == b.hash.factor &&
           a.proof.start == b.proof.start && a.proof.factor == b.proof.factor;
  }

  [[nodiscard]] static KeySeeds draw();

  [[nodiscard]] KeyId id_of(const Slice& key) const {
    return {.hash = record::keyed_hash(key.data(), key.size(), hash),
            .proof = record::keyed_hash(key.data(), key.size(), proof)};
  }
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
