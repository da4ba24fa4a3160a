#include "exec/fake/fake_executor.h"

namespace breccia::exec::fake {

Status FakeExecutor::begin(When reports) {
  const bool fails = faults_.next_fails();
  const Status lost = Status::IOError("fake device", "device lost");
  if (lost_) return lost;
  if (!fails) return Status::OK();
  switch (faults_.fault()) {
    case Fault::kOutOfMemory:
      return Status::MemoryLimit("fake device", "out of memory");
    case Fault::kLaunchFailure:
      return Status::IOError("fake device", "launch failure");
    case Fault::kDeviceLost:
      lost_ = true;
  }
  return reports == When::kAtOnce ? lost : Status::OK();
}

}  // namespace breccia::exec::fake
