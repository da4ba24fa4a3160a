#include <algorithm>
#include <memory>
#include <utility>

#include "base/random.h"
#include "bench/hash/target.h"
#include "slab/backend.h"

namespace breccia::bench::tables {

namespace {

class SlabTarget final : public Target {
 public:
  SlabTarget(std::shared_ptr<slab::Backend> backend, slab::TablePtr table)
      : backend_(std::move(backend)), table_(std::move(table)) {}

  std::string engine() const override { return "breccia slabs"; }
  std::string place() const override { return backend_->device().describe(); }
  std::string keys_in() const override { return "slabs"; }
  std::string values_in() const override { return "slabs"; }
  std::uint64_t slots() const override {
    const slab::Table::Figures figures = table_->figures();
    return (figures.buckets + figures.chained - figures.chained_free) * slab::kSlabKeys;
  }
  std::uint64_t growths() const override { return 0; }
  bool is_growing() const override { return false; }

  std::vector<std::pair<std::string, std::uint64_t>> figures() const override {
    const slab::Table::Figures of = table_->figures();
    return {{"table_bytes", of.bytes},
            {"table_host_bytes", of.host_bytes},
            {"reserve_slabs", of.reserve},
            {"heads_risen", of.risen}};
  }

  Result<std::unique_ptr<Target>> make_other(const Room& room) const override {
    slab::TableOptions options = table_->options();
    options.keys_expected = room.keys;
    BRECCIA_TAKE(auto table, backend_->make_table(options));
    return std::unique_ptr<Target>(std::make_unique<SlabTarget>(backend_, std::move(table)));
  }

  Status run(const hash::ValueRequestsRef& given) override {
    hash::RequestsRef requests = given.requests;
    requests.value = reinterpret_cast<const std::uint64_t*>(given.value);
    requests.found = reinterpret_cast<std::uint64_t*>(given.found);
    return backend_->run_here(*table_, requests);
  }

 private:
  const std::shared_ptr<slab::Backend> backend_;
  const slab::TablePtr table_;
};

}  // namespace

Result<std::unique_ptr<Target>> make_slabs(hash::Backend& backend, const Shape& shape,
                                           std::uint64_t seed, const Room& room) {
  BRECCIA_TAKE(auto own, slab::make_backend(backend.tenant_ptr()->device_ptr(), {.name = "slab"}));
  base::Random random(seed);
  slab::TableOptions options;
  options.keys_expected = room.keys;
  if (room.bytes_max > 0) options.bytes_max = room.bytes_max;
  options.requests_of_head = room.requests_of_head;
  options.lanes = shape.lanes;
  options.keys_of_bucket = std::max<std::uint64_t>(shape.load_percent * slab::kSlabKeys / 100, 1);
  options.secret = {.add = random.next(), .factor = random.next() | 3};
  BRECCIA_TAKE(auto table, own->make_table(options));
  return std::unique_ptr<Target>(std::make_unique<SlabTarget>(std::move(own), std::move(table)));
}

}  // namespace breccia::bench::tables
