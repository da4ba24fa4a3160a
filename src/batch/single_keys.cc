#include "batch/single_keys.h"

namespace breccia::batch {

Status check_single_keys(const Requests& requests, const std::string& engine) {
  // What a batch had before it was cleared may leave empty parts.
  const auto writes_other = [](const auto& part) {
    return part->family() != kDefaultFamily && part->record_count() > 0;
  };
  const auto reads_other = [](const auto& part) {
    return part->family() != kDefaultFamily && part->count() > 0;
  };
  if (std::any_of(requests.writes().begin(), requests.writes().end(), writes_other) ||
      std::any_of(requests.reads().begin(), requests.reads().end(), reads_other)) {
    return Status::InvalidArgument("no such column family",
                                   "a store of the " + engine + " engine has the default one only");
  }
  if (requests.range_count() > 0) {
    return Status::NotSupported("the " + engine + " engine has no order, so it has no ranges",
                                "use the ordered engine");
  }
  for (const auto& writes : requests.writes()) {
    if (writes->merges() > 0) {
      return Status::NotSupported("the " + engine + " engine has no merge operators",
                                  "put the value that the key is to have");
    }
    if (!writes->range_deletes().empty()) {
      return Status::NotSupported("the " + engine +
                                  " engine has no order, so it deletes no ranges");
    }
  }
  return Status::OK();
}

}  // namespace breccia::batch
