#pragma once

#include <breccia/moment.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "batch/writes.h"
#include "hot/copies.h"
#include "hot/roads.h"
#include "record/key_columns.h"
#include "record/keyed_hash.h"

namespace breccia::hot {

/// What a batch leaves of hot keys. Up to the moment at which it happens in the store below, copies
/// have what was there before it, and from there on what it leaves, all of them at once; those that
/// were not there come.
///
/// Owner   the copies outlive it.
/// Threads one owner. Of all exchanges of some copies one at a time is between Begin() and End().
class Exchange final : public Moment {
 public:
  explicit Exchange(Copies* copies) : copies_(copies) {}
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Room for what threads add, each to a part of its own.
  /// Shape   once, before add().
  /// Errors  false: out of memory, and this must not be used.
  [[nodiscard]] bool open(std::size_t parts);
  /// What the batch leaves of a key; no value: it deletes it. `may_come`: lookups of it go by
  /// copies, so that it may have one that it had not.
  /// Shape   before Begin(); a key once.
  /// Errors  as open().
  [[nodiscard]] bool add(std::size_t part, std::uint64_t hash, const Slice& key,
                         const std::optional<Slice>& value, bool may_come);

  void Begin() noexcept override;
  void End(bool happens) noexcept override;

 private:
  template <class Work>
  void for_each(const Work& work);

  Copies* const copies_;
  Copies::Happening* happening_ = nullptr;
  std::vector<std::vector<Copies::Change>> parts_;
  bool has_begun_ = false;
};

/// A write of a key that is told of.
struct ToldWrite {
  std::uint64_t hash;
  std::uint64_t write;  // its number
};

/// All of them, in their order, in lists one behind the other. By many cores, if there are many.
/// Errors  throws std::bad_alloc.
[[nodiscard]] std::vector<std::vector<ToldWrite>> told_of(const Roads::Way& way,
                                                          const record::KeyColumnsRef& keys,
                                                          const record::HashSeed& seed);

/// Adds what writes leave of the keys that are told of. By many cores, if there are many.
/// Shape   once an exchange.
/// Errors  false: that is not known, or more than `value_bytes_max` a value; or there is no memory.
///         The exchange must not be used.
[[nodiscard]] bool add_writes(const Roads::Way& way, const batch::Writes& writes,
                              const record::HashSeed& seed, std::uint64_t value_bytes_max,
                              Exchange* exchange);

}  // namespace breccia::hot
