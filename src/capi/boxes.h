#pragma once

#include <breccia/c.h>
#include <breccia/rocks.h>
#include <rocksdb/c.h>

#include <string>
#include <vector>

#include "base/result.h"

/// The C API's own part in terms of C++.
///
/// librocksdb's C functions reach a database through one pointer and call its virtual functions. So
/// a rocksdb_t that holds a breccia::Rocks is all that they need, and breccia's C API is
/// librocksdb's but for what opens. These are the types whose inside that takes, defined as
/// librocksdb 7.8 does; check_types() finds out whether the librocksdb that is loaded agrees.

struct rocksdb_t {
  rocksdb::DB* rep;
};
struct rocksdb_column_family_handle_t {
  rocksdb::ColumnFamilyHandle* rep;
};
struct rocksdb_options_t {
  rocksdb::Options rep;
};
struct rocksdb_writeoptions_t {
  rocksdb::WriteOptions rep;
};

struct breccia_engine_options_t {
  breccia::Options rep;
};
struct breccia_batch_t {
  breccia::Batch rep;
};
struct breccia_registration_t {
  breccia::MemoryRegistration rep;
};

namespace breccia::capi {

/// Errors  NotSupported: the loaded librocksdb defines the types above in another way.
Status check_types();

/// Puts an error into *errptr, in the place of one that is there; true if there was one.
bool save_error(char** errptr, const Status& status);

}  // namespace breccia::capi
