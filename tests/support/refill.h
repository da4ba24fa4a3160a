#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace breccia::testing {

/// Waits until a store that was just opened has filled its clean runs from the log.
template <class Store>
void wait_for_refill(Store* store) {
  std::string left;
  while (store->GetProperty("breccia.clean.refill-bytes", &left) && left != "0") {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace breccia::testing
