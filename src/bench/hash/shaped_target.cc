#include <memory>
#include <utility>

#include "base/random.h"
#include "bench/hash/target.h"
#include "hash/shapes/shaped_table.h"

namespace breccia::bench::tables {

namespace {

using hash::shapes::ShapedOptions;
using hash::shapes::ShapedTable;

class ShapedTarget final : public Target {
 public:
  ShapedTarget(hash::Backend& backend, const ShapedOptions& options,
               std::unique_ptr<ShapedTable> table)
      : backend_(backend), options_(options), table_(std::move(table)) {}

  static Result<std::unique_ptr<Target>> make(hash::Backend& backend, ShapedOptions options,
                                              const Room& room) {
    options.slots_min = room.slots;
    BRECCIA_TAKE(auto table, hash::shapes::make_shaped_table(backend.tenant_ptr(), options));
    return std::unique_ptr<Target>(
        std::make_unique<ShapedTarget>(backend, options, std::move(table)));
  }

  std::string engine() const override { return "shape " + options_.shape.name(); }
  std::string place() const override { return backend_.device().describe(); }
  std::string keys_in() const override { return "slots"; }
  std::string values_in() const override { return "slots"; }
  std::uint64_t slots() const override { return table_->slot_count(); }
  std::uint64_t growths() const override { return 0; }
  bool is_growing() const override { return false; }

  Result<std::unique_ptr<Target>> make_other(const Room& room) const override {
    return make(backend_, options_, room);
  }

  Status run(const hash::ValueRequestsRef& given) override {
    hash::RequestsRef requests = given.requests;
    requests.value = reinterpret_cast<const std::uint64_t*>(given.value);
    requests.found = reinterpret_cast<std::uint64_t*>(given.found);
    return table_->run_here(requests);
  }

 private:
  hash::Backend& backend_;
  const ShapedOptions options_;
  const std::unique_ptr<ShapedTable> table_;
};

}  // namespace

Result<std::unique_ptr<Target>> make_shaped(hash::Backend& backend, const Shape& shape,
                                            std::uint64_t seed, const Room& room) {
  base::Random random(seed);
  return ShapedTarget::make(backend,
                            {.shape = shape.buckets,
                             .lanes = shape.lanes,
                             .secret = {.add = random.next(),
                                        .factor = random.next() | 1,
                                        .second_factor = random.next() | 1}},
                            room);
}

}  // namespace breccia::bench::tables
