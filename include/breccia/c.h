#pragma once

/* Breccia for C and for languages that call C.

   breccia/c_rocksdb.h has RocksDB's C API under the prefix breccia_: a program for rocksdb/c.h is
   one for breccia after `sed s/rocksdb_/breccia_/g`. The types are RocksDB's own, so rocksdb_
   functions take them, too. docs/c-api.md lists every function. This header adds what RocksDB has
   not.

   Errors as in rocksdb/c.h: *errptr is null, or a message from malloc that is replaced; where a
   function fails it is set, to be freed with breccia_free().
   Threads any number on a database; one at a time on anything else. */

#include <breccia/c_rocksdb.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- opening ---- */

/* Where batches run. */
enum { breccia_backend_auto = 0, breccia_backend_host = 1, breccia_backend_cuda = 2 };

/* Options of the engine; all else is in RocksDB's options. The fields are those of
   breccia::Options in breccia/options.h, with their units and defaults. */
typedef struct breccia_engine_options_t breccia_engine_options_t;

breccia_engine_options_t* breccia_engine_options_create(void);
void breccia_engine_options_destroy(breccia_engine_options_t* options);
void breccia_engine_options_set_backend(breccia_engine_options_t* options, int backend);
/* Batches of fewer requests take the CPU path. */
void breccia_engine_options_set_device_requests_min(breccia_engine_options_t* options,
                                                    uint32_t requests);
void breccia_engine_options_set_device(breccia_engine_options_t* options, int device);
void breccia_engine_options_set_device_bytes_max(breccia_engine_options_t* options, uint64_t bytes);
/* Folder of the log, for this database alone. */
void breccia_engine_options_set_log_dir(breccia_engine_options_t* options, const char* folder);
void breccia_engine_options_set_log_segment_bytes(breccia_engine_options_t* options,
                                                  uint64_t bytes);
void breccia_engine_options_set_log_preallocate_bytes(breccia_engine_options_t* options,
                                                      uint64_t bytes);
/* Flushed log that is kept for breccia_get_updates_since(); 0: RocksDB's WAL_size_limit_MB. */
void breccia_engine_options_set_log_keep_bytes(breccia_engine_options_t* options, uint64_t bytes);
/* 0: what RocksDB's options say of memtables. */
void breccia_engine_options_set_memtable_bytes(breccia_engine_options_t* options, uint64_t bytes);
/* Log whose entries stay in memory when they have been flushed; without a call as much as the line
 * above. */
void breccia_engine_options_set_clean_bytes(breccia_engine_options_t* options, uint64_t bytes);
/* How long a write waits for room before it fails; without a call as long as it takes. */
void breccia_engine_options_set_wait_us_max(breccia_engine_options_t* options, uint64_t us);
/* Memory for entries of files that are read often; 0: none. */
void breccia_engine_options_set_entry_cache_bytes(breccia_engine_options_t* options,
                                                  uint64_t bytes);
/* Memory for filters of the keys that files hold; 0: none. */
void breccia_engine_options_set_tree_filter_bytes(breccia_engine_options_t* options,
                                                  uint64_t bytes);
/* Device memory for the keys of files and the places of their values; 0: none. */
void breccia_engine_options_set_residency_bytes(breccia_engine_options_t* options, uint64_t bytes);
void breccia_engine_options_set_flush_threads(breccia_engine_options_t* options, int threads);
void breccia_engine_options_set_flush_at_close(breccia_engine_options_t* options,
                                               unsigned char flush);

/* As breccia_open() and breccia_open_column_families(). `engine_options` may be null. */
breccia_t* breccia_open_with(const breccia_options_t* options,
                             const breccia_engine_options_t* engine_options, const char* name,
                             char** errptr);
breccia_t* breccia_open_column_families_with(const breccia_options_t* options,
                                             const breccia_engine_options_t* engine_options,
                                             const char* name, int num_column_families,
                                             const char* const* column_family_names,
                                             const breccia_options_t* const* column_family_options,
                                             breccia_column_family_handle_t** column_family_handles,
                                             char** errptr);

/* ---- batches ---- */

/* Requests in arrival order, and their results. All writes of a batch are atomic; each read sees
   the writes before it in the batch and none behind it.

   Functions that add requests take arrays of `count` pointers and of `count` lengths in bytes and
   copy what they point to. `family` may be null: the default one. Where a request is wrong (a key
   above 64 KiB, a value above 1 GiB) those before it are in the batch and *errptr is set. */
typedef struct breccia_batch_t breccia_batch_t;

/* Outcomes of reads and ranges; others are RocksDB's Status::Code. */
enum { breccia_code_ok = 0, breccia_code_not_found = 1 };

/* An empty batch in memory that suits the database's backend; it may not outlive the database. */
breccia_batch_t* breccia_batch_create(breccia_t* db, char** errptr);
void breccia_batch_destroy(breccia_batch_t* batch);
/* Forgets requests and results and keeps the memory. */
void breccia_batch_clear(breccia_batch_t* batch);

void breccia_batch_put(breccia_batch_t* batch, breccia_column_family_handle_t* family, size_t count,
                       const char* const* keys, const size_t* key_lengths,
                       const char* const* values, const size_t* value_lengths, char** errptr);
void breccia_batch_merge(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                         size_t count, const char* const* keys, const size_t* key_lengths,
                         const char* const* operands, const size_t* operand_lengths, char** errptr);
void breccia_batch_delete(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                          size_t count, const char* const* keys, const size_t* key_lengths,
                          char** errptr);
void breccia_batch_single_delete(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                 size_t count, const char* const* keys, const size_t* key_lengths,
                                 char** errptr);
/* Deletes from each begin to below its end. */
void breccia_batch_delete_range(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                size_t count, const char* const* begins,
                                const size_t* begin_lengths, const char* const* ends,
                                const size_t* end_lengths, char** errptr);
/* Adds lookups: the first of a batch is read 0, the next read 1, and so on. */
void breccia_batch_get(breccia_batch_t* batch, breccia_column_family_handle_t* family, size_t count,
                       const char* const* keys, const size_t* key_lengths, char** errptr);
/* Adds ranges: the first limits[i] entries from begins[i] to below ends[i]. Numbered on their own.
 */
void breccia_batch_range(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                         size_t count, const char* const* begins, const size_t* begin_lengths,
                         const char* const* ends, const size_t* end_lengths, const uint32_t* limits,
                         char** errptr);

/* ---- columns ---- */

/* Byte strings in arrays of the caller, in one of two forms:
   fixed (both offsets are null): string i is the `width` bytes at data + i * stride; a stride of 0
   makes all strings the same one, and it may be negative;
   variable, as Arrow's binary or large_binary arrays: string i is the bytes from offsets[i] to
   below offsets[i + 1] of data, with `count` + 1 offsets that never fall, either of 32 or of 64
   bits. All in bytes. If `on_device` is not 0 the arrays lie in memory of a CUDA device, and are
   read behind what `stream`, a cudaStream_t, has to do by then; else both are 0. */
typedef struct breccia_column_t {
  const void* data;
  size_t width;
  ptrdiff_t stride;
  const int32_t* offsets32;
  const int64_t* offsets64;
  unsigned char on_device;
  void* stream;
} breccia_column_t;

/* Arrays of the caller that take the values of lookups: value i are the `width` bytes at values + i
   * stride, and found[i] is 1, or 0 where there is no value of just that width, whose bytes are as
   they were. Values must not overlap. `on_device` and `stream` as above: both arrays lie there, and
   values that are not found are of no sense. */
typedef struct breccia_value_array_t {
  void* values;
  size_t width;
  ptrdiff_t stride;
  uint8_t* found;
  unsigned char on_device;
  void* stream;
} breccia_value_array_t;

/* Memory of the caller that takes byte strings of results, in one of these two forms. Rows must not
   overlap; offsets are there already, as breccia gave them. */
typedef struct breccia_column_room_t {
  void* data;
  size_t width;
  ptrdiff_t stride;
  const int32_t* offsets32;
  const int64_t* offsets64;
} breccia_column_room_t;

/* Add `count` requests, as if one by one, but all or none: with an error the batch is as before.
   What columns and limits point to is copied. */
void breccia_batch_put_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                               size_t count, const breccia_column_t* keys,
                               const breccia_column_t* values, char** errptr);
void breccia_batch_merge_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                 size_t count, const breccia_column_t* keys,
                                 const breccia_column_t* operands, char** errptr);
void breccia_batch_delete_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                  size_t count, const breccia_column_t* keys, char** errptr);
/* `into` may be null: the values lie in the batch then. Else its arrays must live, and be left
   alone, until breccia_batch_submit returns and as long as breccia_batch_values is asked for these
   reads; if the submit fails, what is in them is of no sense. breccia_batch_values gives these
   reads' codes, too: RocksDB's kInvalidArgument where a value has another length than
   `into->width`. */
void breccia_batch_get_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                               size_t count, const breccia_column_t* keys,
                               const breccia_value_array_t* into, char** errptr);
/* `limits`: one for each range; null: all have `limit`. */
void breccia_batch_range_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                 size_t count, const breccia_column_t* begins,
                                 const breccia_column_t* ends, const uint32_t* limits,
                                 uint32_t limit, char** errptr);

/* 1: values of 64 bytes and more that lookups find may stay in the database's log, which the batch
   then keeps from being used again until it is cleared, submitted again or destroyed. */
void breccia_batch_set_values_in_place(breccia_batch_t* batch, unsigned char in_place);
/* 1: keys and values of puts and deletions by columns may stay in the caller's arrays, from which a
   submit copies them into the log, and keys of lookups, which a device reads there if their memory
   is registered. They must live, and be left alone, until the batch is cleared or destroyed. Said
   before the columns are added. */
void breccia_batch_set_columns_in_place(breccia_batch_t* batch, unsigned char in_place);
/* Lets the database's device, if it has one, read memory of the caller's where it lies: keys of 8
   or 16 bytes each, one behind the other, of lookups by columns in place. It is pinned until the
   registration is destroyed, before the memory is freed. Null, and an error: the system does not
   pin so much, or parts of it are pinned already. */
typedef struct breccia_registration_t breccia_registration_t;
breccia_registration_t* breccia_register_memory(breccia_t* db, void* memory, size_t bytes,
                                                char** errptr);
void breccia_registration_destroy(breccia_registration_t* registration);

/* Runs the batch. Without an error its results are there until it is cleared, submitted again or
   destroyed; with one, none of its writes happened, unless the log failed. */
void breccia_batch_submit(breccia_t* db, const breccia_writeoptions_t* options,
                          breccia_batch_t* batch, char** errptr);

size_t breccia_batch_writes(const breccia_batch_t* batch);
size_t breccia_batch_reads(const breccia_batch_t* batch);
size_t breccia_batch_ranges(const breccia_batch_t* batch);

/* Outcome and value of the reads first..first+count. Values lie in the batch; one whose code is not
   breccia_code_ok has length 0. */
void breccia_batch_values(const breccia_batch_t* batch, size_t first, size_t count, int* codes,
                          const char** values, size_t* value_lengths);
/* The same as an Arrow array of variable strings. First where each value will lie: value i from
   offsets[i] to below offsets[i + 1], of `count` + 1 offsets of which the first is 0, and found[i],
   1 or 0. Then, into offsets[count] bytes, the values, one behind the other. Offsets of 32 bits are
   an error where there are more bytes than they can tell. */
void breccia_batch_value_offsets32(const breccia_batch_t* batch, size_t first, size_t count,
                                   int32_t* offsets, uint8_t* found, char** errptr);
void breccia_batch_value_offsets64(const breccia_batch_t* batch, size_t first, size_t count,
                                   int64_t* offsets, uint8_t* found, char** errptr);
void breccia_batch_copy_values32(const breccia_batch_t* batch, size_t first, size_t count,
                                 const int32_t* offsets, void* bytes);
void breccia_batch_copy_values64(const breccia_batch_t* batch, size_t first, size_t count,
                                 const int64_t* offsets, void* bytes);
/* Outcome of range i, and how many entries it found. */
int breccia_batch_range_code(const breccia_batch_t* batch, size_t i);
size_t breccia_batch_range_size(const breccia_batch_t* batch, size_t i);
/* Entries first..first+count of range i. They lie in memory that the batch holds. */
void breccia_batch_range_entries(const breccia_batch_t* batch, size_t i, size_t first, size_t count,
                                 const char** keys, size_t* key_lengths, const char** values,
                                 size_t* value_lengths);
/* Entries of the ranges first..first+count as an Arrow array of lists. First which are whose: range
   i has entries lists[i] to below lists[i + 1], of `count` + 1 offsets of which the first is 0, and
   found[i], 1 or 0 where the range has an error. Then, where they are to be variable strings, the
   offsets of their keys and values, lists[count] + 1 each; null: not wanted. Then the entries,
   those of which a room is null left out. A key or value of another length than its room is an
   error, and that room is as it was. */
void breccia_batch_range_offsets32(const breccia_batch_t* batch, size_t first, size_t count,
                                   int32_t* lists, uint8_t* found, char** errptr);
void breccia_batch_range_offsets64(const breccia_batch_t* batch, size_t first, size_t count,
                                   int64_t* lists, uint8_t* found, char** errptr);
void breccia_batch_entry_offsets32(const breccia_batch_t* batch, size_t first, size_t count,
                                   const int32_t* lists, int32_t* keys, int32_t* values,
                                   char** errptr);
void breccia_batch_entry_offsets64(const breccia_batch_t* batch, size_t first, size_t count,
                                   const int64_t* lists, int64_t* keys, int64_t* values,
                                   char** errptr);
void breccia_batch_copy_entries32(const breccia_batch_t* batch, size_t first, size_t count,
                                  const int32_t* lists, const breccia_column_room_t* keys,
                                  const breccia_column_room_t* values, char** errptr);
void breccia_batch_copy_entries64(const breccia_batch_t* batch, size_t first, size_t count,
                                  const int64_t* lists, const breccia_column_room_t* keys,
                                  const breccia_column_room_t* values, char** errptr);

#ifdef __cplusplus
}
#endif
