#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "disagg/answers.h"
#include "disagg/hash_table.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// The hash index: clients read its buckets themselves, and ask it for changes.
/// Owner   the port outlives it.
/// Threads the port's.
/// Source  [hstore] 3.2, the HTS.
class HashServer {
 public:
  struct Options {
    std::uint32_t bucket_bits = 16;
    std::uint32_t more_buckets = 1 << 14;  // by which chains become longer
    KeySeeds seeds;
  };

  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<HashServer>> make(fabric::Port* port, const Options& options);
  HashServer(const HashServer&) = delete;
  HashServer& operator=(const HashServer&) = delete;

  /// Answers what comes until then.
  void serve(fabric::TimeUs until);
  [[nodiscard]] const HashTable& table() const { return table_; }

 private:
  HashServer(fabric::Port* port, const Options& options, const TableShape& shape,
             std::unique_ptr<fabric::Region> region);

  WireWriter answer(Ask ask, WireReader question);
  WireWriter put(WireReader question);
  WireWriter erase(WireReader question);

  const KeySeeds seeds_;
  const TableShape shape_;
  const std::unique_ptr<fabric::Region> region_;
  HashTable table_;
  Answers answers_;
};

}  // namespace breccia::disagg
