#include "fabric/libfabric/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/assert.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr const char* kFile = "libfabric.so.1";

/// Of the version that the headers describe: a newer library has others, of other structures.
template <class Function>
bool look_up(void* library, const char* name, const char* version, Function** into) {
  *into = reinterpret_cast<Function*>(::dlvsym(library, name, version));
  return *into != nullptr;
}

/// Null: it is not there, or not all of it.
const Library* load_once() {
  static Library functions{};
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  const bool has_all = library != nullptr &&
                       look_up(library, "fi_getinfo", "FABRIC_1.3", &functions.getinfo) &&
                       look_up(library, "fi_freeinfo", "FABRIC_1.3", &functions.freeinfo) &&
                       look_up(library, "fi_dupinfo", "FABRIC_1.3", &functions.dupinfo) &&
                       look_up(library, "fi_fabric", "FABRIC_1.1", &functions.fabric) &&
                       look_up(library, "fi_strerror", "FABRIC_1.0", &functions.strerror);
  return has_all ? &functions : nullptr;
}

const Library* library() {
  static const Library* const loaded = load_once();
  return loaded;
}

}  // namespace

Result<const Library*> Library::load() {
  const Library* const loaded = library();
  if (loaded != nullptr) return loaded;
  return Status::NotSupported(std::string(kFile) + " is not there", "install libfabric1");
}

void prepare_process() {
  ::setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", /*overwrite=*/0);
  ::setenv("FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000", /*overwrite=*/0);
}

std::string words_of(long code) {
  BRECCIA_ASSERT(library() != nullptr);
  return library()->strerror(static_cast<int>(std::abs(code)));
}

}  // namespace breccia::fabric::libfabric
