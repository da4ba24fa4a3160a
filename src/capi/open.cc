#include <cstdlib>
#include <cstring>
#include <functional>

#include "capi/boxes.h"
#include "facade/db/options.h"
#include "tree/tree.h"

/// The C API: what opens, and what must know of breccia's hidden family and log.

namespace {

using breccia::Rocks;
using breccia::Status;
using breccia::capi::save_error;
using breccia::facade::Descriptors;

using Handles = std::vector<rocksdb::ColumnFamilyHandle*>;

breccia::Options engine_options(const breccia_engine_options_t* given,
                                const rocksdb::DBOptions& options, const std::string& name,
                                const Descriptors& families) {
  breccia::Options engine = breccia::facade::engine_options(options, name, families);
  if (given == nullptr) return engine;
  const breccia::Options& from = given->rep;
  engine.backend = from.backend;
  engine.device = from.device;
  engine.device_requests_min = from.device_requests_min;
  engine.device_bytes_max = from.device_bytes_max;
  engine.entry_cache_bytes = from.entry_cache_bytes;
  engine.tree_filter_bytes = from.tree_filter_bytes;
  engine.residency_bytes = from.residency_bytes;
  engine.log_segment_bytes = from.log_segment_bytes;
  engine.log_preallocate_bytes = from.log_preallocate_bytes;
  engine.wait_us_max = from.wait_us_max;
  engine.flush_threads = from.flush_threads;
  engine.flush_at_close = from.flush_at_close;
  if (!from.wal_dir.empty()) engine.wal_dir = from.wal_dir;
  if (from.log_keep_bytes != 0) engine.log_keep_bytes = from.log_keep_bytes;
  if (from.clean_bytes.has_value()) engine.clean_bytes = from.clean_bytes;
  if (from.memtable_bytes != 0) engine.memtable_bytes = from.memtable_bytes;
  return engine;
}

Descriptors default_family(const rocksdb::Options& options) {
  return {{rocksdb::kDefaultColumnFamilyName, options}};
}

Descriptors descriptors(int count, const char* const* names,
                        const breccia_options_t* const* options) {
  Descriptors families;
  for (int i = 0; i < count; ++i) families.emplace_back(names[i], options[i]->rep);
  return families;
}

/// The boxes of what was opened, or null and an error.
breccia_t* boxed(const Status& status, rocksdb::DB* db, const Handles& handles,
                 breccia_column_family_handle_t** boxes, char** errptr) {
  if (save_error(errptr, status)) return nullptr;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    boxes[i] = new rocksdb_column_family_handle_t{handles[i]};
  }
  return new rocksdb_t{db};
}

Status open_families(const breccia_options_t* options, const breccia_engine_options_t* engine,
                     const char* name, const Descriptors& families, Handles* handles,
                     rocksdb::DB** db) {
  BRECCIA_TRY(breccia::capi::check_types());
  return Rocks::Open(engine_options(engine, options->rep, name, families), name, families, handles,
                     db);
}

Status open_default(const breccia_options_t* options, const breccia_engine_options_t* engine,
                    const char* name, rocksdb::DB** db) {
  BRECCIA_TRY(breccia::capi::check_types());
  return Rocks::Open(engine_options(engine, options->rep, name, default_family(options->rep)), name,
                     db);
}

Status open_read_only(const breccia_options_t* options, const char* name, bool error_if_wal_exists,
                      rocksdb::DB** db) {
  BRECCIA_TRY(breccia::capi::check_types());
  return Rocks::OpenForReadOnly(options->rep, name, db, error_if_wal_exists);
}

Status open_read_only_families(const breccia_options_t* options, const char* name,
                               const Descriptors& families, bool error_if_wal_exists,
                               Handles* handles, rocksdb::DB** db) {
  BRECCIA_TRY(breccia::capi::check_types());
  return Rocks::OpenForReadOnly(options->rep, name, families, handles, db, error_if_wal_exists);
}

/// Takes breccia's own families out of `names`, and what `drop` has at their places.
void take_out_own(char** names, std::size_t* count, const std::function<void(std::size_t)>& drop) {
  for (std::size_t place = 0; place < *count;) {
    if (!breccia::tree::is_reserved(names[place])) {
      ++place;
      continue;
    }
    drop(place);
    std::free(names[place]);
    std::memmove(names + place, names + place + 1, (*count - place - 1) * sizeof(char*));
    --*count;
  }
}

/// Gives families of an OPTIONS file the triggers that the user gave them.
void restore_given(char** names, breccia_options_t** options, std::size_t count) {
  breccia::facade::Descriptors families;
  for (std::size_t i = 0; i < count; ++i) families.emplace_back(names[i], options[i]->rep);
  breccia::facade::restore_given(&families);
  for (std::size_t i = 0, given = 0; i < count; ++i) {
    if (breccia::tree::is_reserved(names[i])) continue;
    static_cast<rocksdb::ColumnFamilyOptions&>(options[i]->rep) = families[given++].options;
  }
}

}  // namespace

extern "C" {

breccia_t* breccia_open_with(const breccia_options_t* options,
                             const breccia_engine_options_t* engine, const char* name,
                             char** errptr) {
  rocksdb::DB* db = nullptr;
  const Status status = open_default(options, engine, name, &db);
  return boxed(status, db, {}, nullptr, errptr);
}

breccia_t* breccia_open(const breccia_options_t* options, const char* name, char** errptr) {
  return breccia_open_with(options, nullptr, name, errptr);
}

breccia_t* breccia_open_column_families_with(const breccia_options_t* options,
                                             const breccia_engine_options_t* engine,
                                             const char* name, int num_column_families,
                                             const char* const* column_family_names,
                                             const breccia_options_t* const* column_family_options,
                                             breccia_column_family_handle_t** column_family_handles,
                                             char** errptr) {
  rocksdb::DB* db = nullptr;
  Handles handles;
  const Descriptors families =
      descriptors(num_column_families, column_family_names, column_family_options);
  const Status status = open_families(options, engine, name, families, &handles, &db);
  return boxed(status, db, handles, column_family_handles, errptr);
}

breccia_t* breccia_open_column_families(const breccia_options_t* options, const char* name,
                                        int num_column_families,
                                        const char* const* column_family_names,
                                        const breccia_options_t* const* column_family_options,
                                        breccia_column_family_handle_t** column_family_handles,
                                        char** errptr) {
  return breccia_open_column_families_with(options, nullptr, name, num_column_families,
                                           column_family_names, column_family_options,
                                           column_family_handles, errptr);
}

breccia_t* breccia_open_for_read_only(const breccia_options_t* options, const char* name,
                                      unsigned char error_if_wal_file_exists, char** errptr) {
  rocksdb::DB* db = nullptr;
  const Status status = open_read_only(options, name, error_if_wal_file_exists != 0, &db);
  return boxed(status, db, {}, nullptr, errptr);
}

breccia_t* breccia_open_for_read_only_column_families(
    const breccia_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names, const breccia_options_t* const* column_family_options,
    breccia_column_family_handle_t** column_family_handles, unsigned char error_if_wal_file_exists,
    char** errptr) {
  rocksdb::DB* db = nullptr;
  Handles handles;
  const Descriptors families =
      descriptors(num_column_families, column_family_names, column_family_options);
  const Status status = open_read_only_families(options, name, families,
                                                error_if_wal_file_exists != 0, &handles, &db);
  return boxed(status, db, handles, column_family_handles, errptr);
}

char** breccia_list_column_families(const breccia_options_t* options, const char* name,
                                    std::size_t* count, char** errptr) {
  char** const names = rocksdb_list_column_families(options, name, count, errptr);
  if (names != nullptr) take_out_own(names, count, [](std::size_t) {});
  return names;
}

void breccia_load_latest_options(const char* name, breccia_env_t* env, bool ignore_unknown_options,
                                 breccia_cache_t* cache, breccia_options_t** db_options,
                                 std::size_t* count, char*** names, breccia_options_t*** options,
                                 char** errptr) {
  rocksdb_load_latest_options(name, env, ignore_unknown_options, cache, db_options, count, names,
                              options, errptr);
  if (*errptr != nullptr) return;
  restore_given(*names, *options, *count);
  take_out_own(*names, count, [&](std::size_t place) {
    rocksdb_options_destroy((*options)[place]);
    std::memmove(*options + place, *options + place + 1,
                 (*count - place - 1) * sizeof(breccia_options_t*));
  });
}

void breccia_destroy_db(const breccia_options_t* options, const char* name, char** errptr) {
  save_error(errptr, Rocks::DestroyDB(name, options->rep));
}

void breccia_repair_db(const breccia_options_t* options, const char* name, char** errptr) {
  if (!breccia::facade::is_store(options->rep, name)) {
    rocksdb_repair_db(options, name, errptr);
    return;
  }
  save_error(errptr,
             Status::NotSupported(std::string("a repair of ") + name + ", which is a store",
                                  "the order of its files is in the MANIFEST alone, which a repair "
                                  "makes anew; restore a backup"));
}

// ---- options of the engine ---------------------------------------------------------------------

breccia_engine_options_t* breccia_engine_options_create() { return new breccia_engine_options_t; }

void breccia_engine_options_destroy(breccia_engine_options_t* options) { delete options; }

void breccia_engine_options_set_backend(breccia_engine_options_t* options, int backend) {
  options->rep.backend = backend == breccia_backend_host   ? breccia::BackendChoice::kHost
                         : backend == breccia_backend_cuda ? breccia::BackendChoice::kCuda
                                                           : breccia::BackendChoice::kAuto;
}

void breccia_engine_options_set_device_requests_min(breccia_engine_options_t* options,
                                                    std::uint32_t requests) {
  options->rep.device_requests_min = requests;
}

void breccia_engine_options_set_device(breccia_engine_options_t* options, int device) {
  options->rep.device = device;
}
void breccia_engine_options_set_device_bytes_max(breccia_engine_options_t* options,
                                                 std::uint64_t bytes) {
  options->rep.device_bytes_max = bytes;
}

void breccia_engine_options_set_log_dir(breccia_engine_options_t* options, const char* folder) {
  options->rep.wal_dir = folder;
}

void breccia_engine_options_set_log_segment_bytes(breccia_engine_options_t* options,
                                                  std::uint64_t bytes) {
  options->rep.log_segment_bytes = bytes;
}

void breccia_engine_options_set_log_keep_bytes(breccia_engine_options_t* options,
                                               std::uint64_t bytes) {
  options->rep.log_keep_bytes = bytes;
}

void breccia_engine_options_set_wait_us_max(breccia_engine_options_t* options, std::uint64_t us) {
  options->rep.wait_us_max = us;
}

void breccia_engine_options_set_clean_bytes(breccia_engine_options_t* options,
                                            std::uint64_t bytes) {
  options->rep.clean_bytes = bytes;
}

void breccia_engine_options_set_entry_cache_bytes(breccia_engine_options_t* options,
                                                  std::uint64_t bytes) {
  options->rep.entry_cache_bytes = bytes;
}

void breccia_engine_options_set_tree_filter_bytes(breccia_engine_options_t* options,
                                                  std::uint64_t bytes) {
  options->rep.tree_filter_bytes = bytes;
}

void breccia_engine_options_set_residency_bytes(breccia_engine_options_t* options,
                                                std::uint64_t bytes) {
  options->rep.residency_bytes = bytes;
}

void breccia_engine_options_set_log_preallocate_bytes(breccia_engine_options_t* options,
                                                      std::uint64_t bytes) {
  options->rep.log_preallocate_bytes = bytes;
}

void breccia_engine_options_set_memtable_bytes(breccia_engine_options_t* options,
                                               std::uint64_t bytes) {
  options->rep.memtable_bytes = bytes;
}

void breccia_engine_options_set_flush_threads(breccia_engine_options_t* options, int threads) {
  options->rep.flush_threads = threads;
}

void breccia_engine_options_set_flush_at_close(breccia_engine_options_t* options,
                                               unsigned char flush) {
  options->rep.flush_at_close = flush != 0;
}

}  // extern "C"
