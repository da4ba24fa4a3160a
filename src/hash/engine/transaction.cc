#include "hash/engine/transaction.h"

#include <utility>

#include "base/memory.h"
#include "hash/engine/answer.h"

namespace breccia::hash {

Status HashTransaction::Read(Batch* reads) {
  return base::or_memory_limit([&] {
    batch::Requests& requests = reads->requests();
    if (is_closed_) return Status::InvalidArgument("the transaction was closed");
    if (requests.write_count() > 0) {
      return Status::InvalidArgument("writes among what a transaction reads",
                                     "put them into its batch()");
    }
    Found found;
    BRECCIA_TRY(engine_->look(seen_, &requests, &found));
    seen_.push_back({&requests, std::move(found)});
    return Status::OK();
  });
}

Status HashTransaction::Close(const WriteOptions& options) {
  if (std::exchange(is_closed_, true)) return Status::InvalidArgument("the transaction was closed");
  return engine_->submit(options, seen_, &batch_.requests());
}

}  // namespace breccia::hash
