#pragma once

#include <breccia/family.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace breccia::txn {

/// A key that a transaction depends on, or has locked.
struct TrackedKey {
  std::uint64_t since = 0;  // the oldest position from which on it must not have been written
  std::uint32_t reads = 0;  // how often it was tracked for a read, and for a write
  std::uint32_t writes = 0;
  bool exclusive = false;
};

/// The keys of one transaction, or of what it did since a save point.
/// Threads one owner.
class TrackedKeys {
 public:
  using Keys = std::unordered_map<std::string, TrackedKey>;

  void track(FamilyId family, const std::string& key, std::uint64_t since, bool read_only,
             bool exclusive);

  enum class Untracked { kNone, kOne, kLast };
  /// Takes one read of the key back: it was not tracked for one, was, or was and is tracked no
  /// more.
  Untracked untrack_read(FamilyId family, const std::string& key);

  /// Adds what `later` has tracked, all or nothing, or takes it back.
  void add(const TrackedKeys& later);
  void subtract(const TrackedKeys& later);
  /// Those keys that were tracked by what `later` has tracked, and by nothing else.
  [[nodiscard]] TrackedKeys only_in(const TrackedKeys& later) const;

  /// Null if it is not tracked.
  [[nodiscard]] const TrackedKey* find(FamilyId family, const std::string& key) const;
  [[nodiscard]] const std::map<FamilyId, Keys>& families() const { return families_; }
  [[nodiscard]] std::uint64_t count() const;
  void clear() { families_.clear(); }

 private:
  std::map<FamilyId, Keys> families_;
};

}  // namespace breccia::txn
