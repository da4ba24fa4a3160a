#include <cstdlib>
#include <filesystem>

#include "base/assert.h"
#include "records.h"

namespace breccia::wal::testing {

TempDir::TempDir(const std::string& under) : path_(under + "/breccia_wal_XXXXXX") {
  BRECCIA_ASSERT(::mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace breccia::wal::testing
