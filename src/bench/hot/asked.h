#pragma once

#include <breccia/store.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace breccia::bench::hot {

/// What is asked for single keys of 8 bytes.
/// Threads any.
class Asked {
 public:
  Asked() = default;
  virtual ~Asked() = default;
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  virtual Status put(std::uint64_t key, const std::string& value) = 0;
  virtual Status get(std::uint64_t key, std::string* value) = 0;
  /// Errors  NotSupported: it takes none.
  virtual Result<Batch> new_batch() = 0;
  virtual Status submit(Batch* batch) = 0;
  /// A figure of the tier; 0 if there is none.
  virtual std::uint64_t figure(const std::string& name) = 0;
  /// What was put so far leaves the memory of writes.
  virtual Status settle() = 0;
};

std::unique_ptr<Asked> ask_store(std::unique_ptr<Store> store);
/// Whether this build has it.
bool has_flat_map();
/// boost::concurrent_flat_map, made as large as it will be.
/// Errors  NotSupported: this build has none.
Result<std::unique_ptr<Asked>> ask_flat_map(std::uint64_t keys);

}  // namespace breccia::bench::hot
