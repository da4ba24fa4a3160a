#include <breccia/hash_store.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

// A table of embeddings in the host's memory, as it is where there is no GPU: rows that are missing
// get their first values, a step is flushed, and all is exported as it is then.
int main() {
  constexpr std::size_t kWords = 16;
  breccia::HashOptions options;
  options.create_if_missing = true;
  options.backend = breccia::BackendChoice::kHost;
  std::unique_ptr<breccia::HashStore> store;
  auto status = breccia::HashStore::Open(options, "/tmp/breccia-hash-rows", &store);

  std::vector<std::uint64_t> ids = {7, 11, 13};
  std::vector<double> rows(ids.size() * kWords);
  std::vector<std::uint8_t> found(ids.size());
  std::vector<std::uint32_t> missing(ids.size());
  std::uint64_t missing_count = 0;
  breccia::IdRows batch{.ids = ids.data(),
                        .count = ids.size(),
                        .rows = rows.data(),
                        .row_bytes = kWords * sizeof(double),
                        .found = found.data(),
                        .missing = missing.data(),
                        .missing_count = &missing_count};
  if (status.ok()) status = store->FindRows(batch);
  for (std::uint64_t i = 0; i < missing_count; ++i) {
    std::fill_n(rows.begin() + missing[i] * kWords, kWords, 0.5);
  }
  if (status.ok()) status = store->PutRows({}, batch);
  if (status.ok()) status = store->Flush(/*step=*/1);

  std::size_t exported = 0;
  std::unique_ptr<breccia::RowScan> scan;
  if (status.ok()) status = store->ScanRows({.row_bytes = batch.row_bytes}, &scan);
  if (status.ok()) status = scan->Next(ids.size(), ids.data(), rows.data(), &exported);
  scan.reset();
  if (status.ok()) std::cout << exported << " rows of step " << *store->FlushedStep() << '\n';

  if (!status.ok()) std::cerr << status.ToString() << '\n';
  return status.ok() && exported == ids.size() ? 0 : 1;
}
