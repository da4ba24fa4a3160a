#include <memory>
#include <utility>

#include "base/random.h"
#include "bench/hash/target.h"

namespace breccia::bench::tables {

namespace {

class TableTarget final : public Target {
 public:
  TableTarget(hash::Backend& backend, hash::TablePtr table)
      : backend_(backend), table_(std::move(table)) {}

  std::string engine() const override { return "breccia"; }
  std::string place() const override { return backend_.device().describe(); }
  std::string keys_in() const override {
    return table_->options().keys_in_rows() ? "rows" : "slots";
  }
  std::string values_in() const override { return table_->options().has_rows() ? "rows" : "slots"; }
  std::uint64_t slots() const override { return table_->slot_count(); }
  std::uint64_t growths() const override { return table_->growths(); }
  bool is_growing() const override { return table_->is_growing(); }

  Result<std::unique_ptr<Target>> make_other(const Room& room) const override {
    hash::TableOptions options = table_->options();
    set_room(room, &options);
    BRECCIA_TAKE(auto table, backend_.make_table(options));
    return std::unique_ptr<Target>(std::make_unique<TableTarget>(backend_, std::move(table)));
  }

  Status run(const hash::ValueRequestsRef& given) override {
    if (table_->options().has_rows()) return backend_.run_values_here(*table_, given);
    hash::RequestsRef requests = given.requests;
    requests.value = reinterpret_cast<const std::uint64_t*>(given.value);
    requests.found = reinterpret_cast<std::uint64_t*>(given.found);
    return backend_.run_here(*table_, requests);
  }

  static void set_room(const Room& room, hash::TableOptions* options) {
    // Batches that write have a row for each request, and their old ones come back behind them.
    constexpr std::uint64_t kBatches = 4;
    options->slots_min = room.slots;
    options->slots_max = room.slots_max;
    options->rows = options->has_rows() ? room.keys + kBatches * room.batch : 0;
  }

 private:
  hash::Backend& backend_;
  const hash::TablePtr table_;
};

}  // namespace

Result<std::unique_ptr<Target>> make_table(hash::Backend& backend, const Shape& shape,
                                           std::uint64_t seed, const Room& room) {
  base::Random random(seed);
  hash::TableOptions options;
  options.key_bytes = shape.key_bytes;
  options.value_bytes = shape.value_bytes;
  options.lanes = shape.lanes;
  options.secret = {
      .add = random.next(), .factor = random.next() | 1, .second_factor = random.next() | 1};
  TableTarget::set_room(room, &options);
  BRECCIA_TAKE(auto table, backend.make_table(options));
  return std::unique_ptr<Target>(std::make_unique<TableTarget>(backend, std::move(table)));
}

}  // namespace breccia::bench::tables
