#pragma once

namespace breccia::testing {

/// Makes this process lose its GPU, for good: a kernel ends in a trap, and every later call of CUDA
/// fails. Returns when it has.
void lose_device();

}  // namespace breccia::testing
