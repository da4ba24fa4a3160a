#include <breccia/options.h>
#include <breccia/store.h>

#include <iostream>

int main() {
  breccia::Options options;
  options.create_if_missing = true;
  std::unique_ptr<breccia::Store> store;
  auto status = breccia::Store::Open(options, "/tmp/breccia-first-steps", &store);

  breccia::Batch batch = store ? store->NewBatch() : breccia::Batch();
  if (status.ok()) status = batch.Put("granite", "igneous");
  if (status.ok()) status = batch.Put("marble", "metamorphic");
  if (status.ok()) status = batch.Get("granite");  // sees the Put before it
  if (status.ok()) status = store->Submit({}, &batch);
  if (status.ok()) std::cout << "granite is " << batch.value(0).ToString() << '\n';

  if (!status.ok()) std::cerr << status.ToString() << '\n';
  return status.ok() ? 0 : 1;
}
