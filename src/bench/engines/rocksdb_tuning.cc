#include "bench/engines/rocksdb_tuning.h"

#include <fmt/format.h>

namespace breccia::bench {

std::string RocksdbTuning::words() const {
  std::string words =
      write_batch == 0 ? "WriteBatch of all" : fmt::format("WriteBatch of {}", write_batch);
  words += writers == Writers::kPipelined   ? ", pipelined_write"
           : writers == Writers::kUnordered ? ", unordered_write"
                                            : ", one write queue";
  words += merge_by_reading ? ", read-modify-write" : ", Merge";
  words += fmt::format(", MultiGet of {}", multi_get);
  if (sorted) words += " sorted";
  if (async_io) words += ", async_io";
  if (transacting == Transacting::kSnapshot) {
    words += ", transactions as a snapshot and a WriteBatch, not validated";
  }
  if (hash_index) words += ", hash index";
  if (row_cache_bytes > 0) words += ", row cache";
  if (loading == Loading::kVector) words += ", loading by VectorRep";
  if (loading == Loading::kFiles) words += ", loading by SST files";
  return words;
}

}  // namespace breccia::bench
