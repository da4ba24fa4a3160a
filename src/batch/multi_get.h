#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "base/memory.h"
#include "batch/requests.h"
#include "batch/results.h"

namespace breccia::batch {

/// Store::MultiGet by a batch of lookups. submit(requests): runs them.
template <class Submit>
std::vector<Status> multi_get(std::span<const Slice> keys, std::vector<std::string>* values,
                              const Submit& submit) {
  std::vector<Status> statuses(keys.size(), Status::NotFound());
  const Status status = base::or_memory_limit([&] {
    values->assign(keys.size(), std::string());
    Requests requests(exec::shared_plain_host_memory());
    std::vector<std::size_t> places;  // of those that can be there
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].size() > limits::kKeyBytesMax) continue;
      BRECCIA_TRY(requests.add_read(kDefaultFamily, keys[i]));
      places.push_back(i);
    }
    BRECCIA_TRY(submit(&requests));
    BRECCIA_ASSERT(places.size() == requests.read_count());
    for (std::size_t j = 0; j < places.size(); ++j) {
      const ReadResult result = requests.result(j);
      statuses[places[j]] = status_of(result.code);
      if (result.code == Status::Code::kOk) (*values)[places[j]].assign(result.data, result.bytes);
    }
    return Status::OK();
  });
  if (status.ok()) return statuses;
  for (Status& one : statuses) one = base::copy_of(status);
  return statuses;
}

}  // namespace breccia::batch
