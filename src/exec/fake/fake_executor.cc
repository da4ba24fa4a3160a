#include "exec/fake/fake_executor.h"

namespace breccia::exec::fake {

Status FakeExecutor::begin(When reports) {
  const bool fails = faults_.next_fails();
  BRECCIA_TRY(device_.lost());
  const Status lost = Status::IOError("fake device", "device lost");
  if (!is_lost_silently_) {
    if (!fails) return Status::OK();
    if (faults_.fault() == Fault::kOutOfMemory) {
      return Status::MemoryLimit("fake device", "out of memory");
    }
    if (faults_.fault() == Fault::kLaunchFailure) {
      return Status::IOError("fake device", "launch failure");
    }
    is_lost_silently_ = reports == When::kLater;
    if (is_lost_silently_) return Status::OK();
  }
  device_.lose(lost);
  return lost;
}

}  // namespace breccia::exec::fake
