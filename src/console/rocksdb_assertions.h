#pragma once

#include <string>

namespace breccia::console {

/// Whether the RocksDB library of this process was built with assertions.
enum class Assertions { kOff, kOn, kUnknown };

struct RocksdbBuild {
  Assertions assertions = Assertions::kUnknown;
  std::string library;  // its file, as the dynamic linker knows it; empty if it is linked in
};

/// Looks whether the loaded librocksdb imports `__assert_fail`: a build with NDEBUG has no use for
/// it. Distributions ship builds with assertions, and those are slower than a release build.
/// Errors  kUnknown: RocksDB is linked statically, or its symbol table could not be read.
RocksdbBuild rocksdb_build();

/// A sentence that warns of assertions and says what to do; empty if they are off.
std::string assertions_warning(const RocksdbBuild& build);

}  // namespace breccia::console
