#include "slab/engine/table_on.h"

#include "base/assert.h"
#include "base/secret.h"

namespace breccia::slab {

namespace {

std::uint64_t bytes_or_all(std::uint64_t bytes) { return bytes == 0 ? ~std::uint64_t{0} : bytes; }

}  // namespace

Result<TableOn> TableOn::make(const Ground& ground) {
  BRECCIA_ASSERT(ground.device != nullptr);
  const bool is_host = ground.device->is_host();
  // A quarter of what it may have of a device is for batches.
  const std::uint64_t device_bytes = ground.device_bytes_max / 4 * 3;
  BRECCIA_TAKE(auto backend,
               make_backend(ground.device,
                            {.name = "slab", .bytes_max = is_host ? 0 : ground.device_bytes_max}));
  BRECCIA_TAKE(
      auto table,
      backend->make_table(
          {.keys_expected = ground.keys_expected,
           .bytes_max = bytes_or_all(is_host ? ground.host_bytes_max : device_bytes),
           .host_bytes_max = is_host ? 0 : bytes_or_all(ground.host_bytes_max),
           .secret = {.add = base::draw_secret_word(), .factor = base::draw_secret_word() | 3}}));
  return TableOn(std::move(backend), std::move(table));
}

Status TableOn::run(const hash::RequestsRef& requests) const {
  BRECCIA_ASSERT(requests.count <= kRequestsAtOnce);
  Status status = backend_->run(*table_, requests);
  if (!status.IsMemoryLimit() || !device().is_lost()) return status;
  return backend_->device().lost();
}

}  // namespace breccia::slab
