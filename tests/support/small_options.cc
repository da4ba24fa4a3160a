#include "support/small_options.h"

#include "support/sparse_files.h"

namespace breccia::testing {

Options small_options() {
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.memtable_bytes = 256 << 20;
  options.clean_bytes = 0;  // what was flushed is read from the tree
  options.flush_threads = 1;
  options.rocksdb.env = sparse_env();
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.rocksdb.compression = rocksdb::kNoCompression;
  return options;
}

}  // namespace breccia::testing
