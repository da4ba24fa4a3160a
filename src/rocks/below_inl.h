#pragma once

#include <rocksdb/sst_file_writer.h>

#include "rocks/below.h"

namespace breccia::rocks {

template <class Next>
Status Below::write_file(int number, const Next& next, std::string* path) const {
  *path = staging_path("data-" + std::to_string(ingests_) + "-" + std::to_string(number) + ".sst");
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options_), options_, data_,
                                /*invalidate_page_cache=*/false);
  Entry entry;
  if (!next(&entry)) {
    path->clear();
    return Status::OK();
  }
  BRECCIA_TRY(writer.Open(*path));
  do {
    BRECCIA_TRY(entry.is_delete ? writer.Delete(entry.key) : writer.Put(entry.key, entry.value));
  } while (next(&entry));
  return writer.Finish();
}

}  // namespace breccia::rocks
