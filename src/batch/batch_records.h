#pragma once

#include <cstddef>
#include <cstdint>

#include "batch/requests.h"
#include "wal/log.h"

namespace breccia::batch {

/// A batch's records, as the log takes them.
/// Shape   after Requests::lay_out().
/// Owner   the requests live longer.
class BatchRecords final : public wal::RecordSource {
 public:
  explicit BatchRecords(const Requests& requests) : requests_(requests) {}
  [[nodiscard]] const std::byte* bytes(std::uint64_t begin, std::uint64_t end,
                                       std::byte* room) const override {
    return requests_.bytes(begin, end, room);
  }

 private:
  const Requests& requests_;
};

}  // namespace breccia::batch
