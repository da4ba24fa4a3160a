#include "slab/engine/transaction.h"

#include <utility>

#include "base/memory.h"

namespace breccia::slab {

Status SlabTransaction::Read(Batch* reads) {
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

Status SlabTransaction::Close(const WriteOptions& /*options*/) {
  if (std::exchange(is_closed_, true)) return Status::InvalidArgument("the transaction was closed");
  return engine_->submit(seen_, &batch_.requests());
}

}  // namespace breccia::slab
