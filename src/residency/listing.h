#pragma once

#include <vector>

#include "residency/file_set.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace breccia::residency {

/// The live tables of a family, newest level first, none of them resident.
/// Errors  std::bad_alloc.
[[nodiscard]] std::vector<ListedLevel> list_files(rocksdb::DB* db,
                                                  rocksdb::ColumnFamilyHandle* family);

}  // namespace breccia::residency
