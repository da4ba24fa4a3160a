#pragma once

#include <rocksdb/sst_file_writer.h>

#include "tree/tree.h"

namespace breccia::tree {

template <class Next>
Status Tree::write_file(rocksdb::ColumnFamilyHandle* family, int number, const Next& next,
                        std::string* path) const {
  Entry entry;
  path->clear();
  if (!next(&entry)) return Status::OK();
  *path = data_path(family->GetName(), number);
  const rocksdb::Options options = file_options(family);
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options), options, family,
                                /*invalidate_page_cache=*/false);
  BRECCIA_TRY(writer.Open(*path));
  std::string behind;
  do {
    BRECCIA_ASSERT(entry.hides_older || entry.op != record::Op::kSingleDelete);
    if (entry.hides_older) {
      behind.assign(entry.key.data(), entry.key.size());
      behind.push_back('\0');
      BRECCIA_TRY(writer.DeleteRange(entry.key, behind));
    }
    switch (entry.op) {
      case record::Op::kPut:
        BRECCIA_TRY(writer.Put(entry.key, entry.value));
        break;
      case record::Op::kMerge:
        BRECCIA_TRY(writer.Merge(entry.key, entry.value));
        break;
      case record::Op::kSingleDelete:
        break;
      default:
        BRECCIA_ASSERT(entry.op == record::Op::kDelete);
        BRECCIA_TRY(writer.Delete(entry.key));
    }
  } while (next(&entry));
  return writer.Finish();
}

}  // namespace breccia::tree
