#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "hash/engine/key_map.h"
#include "wal/intake.h"

namespace breccia::hash {

/// Takes the records of a log into a key map, while the log is read: many cores make numbers and
/// payloads of them, and the map's backend takes them in, part by part.
class MapIntake final : public wal::LogIntake {
 public:
  explicit MapIntake(KeyMap* map);
  ~MapIntake() override;

  [[nodiscard]] std::unique_ptr<Part> make_part(std::uint64_t records) override;
  void take_in(std::unique_ptr<Part> part, const wal::SegmentTable::Places& log) override;
  /// How it went; to be asked when all was taken in.
  /// Errors  Corruption: records that no store of the hash engine writes; those of
  ///         KeyMap::take_in, and the map is of no use then.
  [[nodiscard]] Status status() const;

 private:
  class Columns;
  Status take_in(Columns& part, const wal::SegmentTable::Places& log);

  KeyMap* const map_;
  std::atomic<bool> failed_{false};  // parts need no records any more
  Status status_;
  std::mutex mutex_;                             // guards spare_
  std::vector<std::unique_ptr<Columns>> spare_;  // parts to be used again: their pages are there
};

}  // namespace breccia::hash
