#pragma once

#include <breccia/options.h>

#include <cstdlib>
#include <string_view>

namespace breccia::testing {

/// The backend that tests run beside the simulator: the host, or, where BRECCIA_TEST_BACKEND says
/// `cuda`, the device.
inline BackendChoice backend_under_test() {
  const char* const wanted = std::getenv("BRECCIA_TEST_BACKEND");
  return wanted != nullptr && std::string_view(wanted) == "cuda" ? BackendChoice::kCuda
                                                                 : BackendChoice::kHost;
}

}  // namespace breccia::testing
