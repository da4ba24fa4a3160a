#pragma once

#include <stdint.h>

/* A random program against RocksDB's C API, the same for both libraries. */

#ifdef __cplusplus
extern "C" {
#endif

/* Runs `steps` random operations on a new database in `folder` and returns what was seen, a line an
   operation, as a string to free(). Everything follows from the seed. */
char* run_rocksdb(uint64_t seed, int steps, const char* folder);
char* run_breccia(uint64_t seed, int steps, const char* folder);

/* Calls what breccia/c.h has of its own and much of what it shares; null, or a sentence that says
   what went wrong, not to be freed. */
const char* walk_breccia(const char* folder);

#ifdef __cplusplus
}
#endif
