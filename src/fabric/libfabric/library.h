#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace breccia::fabric::libfabric {

/// The functions of libfabric that are not inline, from the library that this computer has. It is
/// loaded when the first port opens, and by no program that opens none: two of the libraries that
/// it needs measure the clock for a tenth of a second each when they are loaded.
struct Library {
  int (*getinfo)(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
                 const fi_info* hints, fi_info** info);
  void (*freeinfo)(fi_info* info);
  fi_info* (*dupinfo)(const fi_info* info);
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** fabric, void* context);
  const char* (*strerror)(int code);

  /// Errors  NotSupported: it is not there.
  /// Threads any.
  static Result<const Library*> load();
};

/// Gives the variables of the environment that make ports over TCP smaller, and connections there
/// quicker, their values, but for those that have one. The library reads them when it is loaded:
/// this is for programs, before they open a port.
/// Threads there is no other one yet.
void prepare_process();

/// What a code of a call that failed says. Behind a load().
[[nodiscard]] std::string words_of(long code);

}  // namespace breccia::fabric::libfabric
