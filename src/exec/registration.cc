#include "exec/registration.h"

#include <memory>
#include <string>

namespace breccia::exec {

namespace {

struct Adopted {
  Adopted() = default;
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;
  ~Adopted() {
    if (memory != nullptr) device->disown(memory);
  }

  DevicePtr device;
  void* memory = nullptr;
};

}  // namespace

Status register_memory(const DevicePtr& device, void* memory, std::size_t bytes,
                       MemoryRegistration* registration) {
  const auto adopted = std::make_shared<Adopted>();
  adopted->device = device;
  if (bytes > 0 && !device->adopt(memory, bytes)) {
    return Status::MemoryLimit("the device cannot reach " + std::to_string(bytes) + " bytes",
                               "register less, or memory that nobody has pinned");
  }
  if (bytes > 0) adopted->memory = memory;
  *registration = adopted;
  return Status::OK();
}

}  // namespace breccia::exec
