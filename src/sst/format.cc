#include "sst/format.h"

#include <array>
#include <utility>

namespace breccia::sst {

const char* name_of(EntryType type) {
  constexpr std::array kNames = {
      std::pair{EntryType::kDeletion, "delete"},
      std::pair{EntryType::kValue, "put"},
      std::pair{EntryType::kMerge, "merge"},
      std::pair{EntryType::kSingleDeletion, "single-delete"},
      std::pair{EntryType::kRangeDeletion, "range-delete"},
      std::pair{EntryType::kBlobIndex, "blob"},
      std::pair{EntryType::kWideColumns, "wide-columns"},
  };
  for (const auto& [known, name] : kNames) {
    if (known == type) return name;
  }
  return nullptr;
}

const char* name_of(Compression type) {
  constexpr std::array kNames = {"none", "snappy", "zlib",   "bzip2",
                                 "lz4",  "lz4hc",  "xpress", "zstd"};
  const auto at = static_cast<std::size_t>(type);
  return at < kNames.size() ? kNames[at] : nullptr;
}

}  // namespace breccia::sst
