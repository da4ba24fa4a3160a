#include <breccia/hash_options.h>
#include <breccia/store.h>

#include <cstdint>
#include <iostream>
#include <vector>

// A million counters by number, written and looked up as columns, in a store of the hash engine.
int main() {
  breccia::HashOptions options;
  options.create_if_missing = true;
  options.keys_expected = 1'000'000;
  std::unique_ptr<breccia::Store> store;
  auto status = breccia::Store::Open(options, "/tmp/breccia-hash-store", &store);

  std::vector<std::uint64_t> keys(options.keys_expected), values(keys.size()), found(keys.size());
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    keys[i] = i * 0x9e3779b97f4a7c15;  // in no order
    values[i] = i;
  }
  std::vector<std::uint8_t> is_found(keys.size());
  const auto column = breccia::BytesColumn::Fixed(keys.data(), keys.size(), 8);

  breccia::Batch batch = store ? store->NewBatch() : breccia::Batch();
  if (status.ok()) {
    status = batch.Put(breccia::kDefaultFamily, column,
                       breccia::BytesColumn::Fixed(values.data(), values.size(), 8));
  }
  if (status.ok()) status = store->Submit({}, &batch);
  batch.Clear();
  if (status.ok()) {
    status = batch.Get(breccia::kDefaultFamily, column,
                       {.values = found.data(), .width = 8, .stride = 8, .found = is_found.data()});
  }
  if (status.ok()) status = store->Submit({}, &batch);
  if (status.ok()) std::cout << "the last counter is " << found.back() << '\n';

  if (!status.ok()) std::cerr << status.ToString() << '\n';
  return status.ok() && found == values ? 0 : 1;
}
