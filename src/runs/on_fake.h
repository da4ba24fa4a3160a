#pragma once

#include <memory>

#include "exec/fake/fake_faults.h"
#include "runs/backend.h"

namespace breccia::runs {

/// A device for tests of failures: it says that it is CUDA, its runs cannot be read by the host,
/// and it fails where `faults` says so. It computes as the simulator does, with a fixed seed.
std::unique_ptr<Backend> make_fake_device(exec::FakeFaults* faults);

}  // namespace breccia::runs
