#include <breccia/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_program.h"

/* Each part gets a new database and returns null, or what went wrong. */

#define CHECK(condition)                                         \
  do {                                                           \
    if (!(condition)) return __FILE__ ": not true: " #condition; \
  } while (0)
#define CHECK_PART(call)                 \
  do {                                   \
    const char* const failed_ = (call);  \
    if (failed_ != NULL) return failed_; \
  } while (0)
/* `call` sets `error` if and only if it should. */
#define CHECK_OK(call)    \
  do {                    \
    call;                 \
    CHECK(error == NULL); \
  } while (0)
#define CHECK_FAILS(call) \
  do {                    \
    call;                 \
    CHECK(error != NULL); \
    breccia_free(error);  \
    error = NULL;         \
  } while (0)

struct walk {
  char path[512];
  char beside[512];
  breccia_options_t* options;
  breccia_engine_options_t* engine;
  breccia_readoptions_t* read;
  breccia_writeoptions_t* write;
};

/* True if `value` is that text; frees it. */
static int is_text(char* value, size_t length, const char* text) {
  const int same = value != NULL && length == strlen(text) && memcmp(value, text, length) == 0;
  breccia_free(value);
  return same;
}

static int has(const struct walk* w, breccia_t* db, const char* key, const char* text) {
  char* error = NULL;
  size_t length = 0;
  char* const value = breccia_get(db, w->read, key, strlen(key), &length, &error);
  if (text == NULL) return value == NULL && error == NULL;
  return is_text(value, length, text) && error == NULL;
}

static const char* put(const struct walk* w, breccia_t* db, const char* key, const char* value) {
  char* error = NULL;
  CHECK_OK(breccia_put(db, w->write, key, strlen(key), value, strlen(value), &error));
  return NULL;
}

/* ---- batches ---- */

enum { kRequests = 500 };
static char keys[kRequests][16], values[kRequests][32];
static const char *key_pointers[kRequests], *value_pointers[kRequests];
static size_t key_lengths[kRequests], value_lengths[kRequests];

static void make_requests(void) {
  for (int i = 0; i < kRequests; ++i) {
    snprintf(keys[i], sizeof(keys[i]), "key%04d", i);
    snprintf(values[i], sizeof(values[i]), "value of %d", i);
    key_pointers[i] = keys[i];
    value_pointers[i] = values[i];
    key_lengths[i] = strlen(keys[i]);
    value_lengths[i] = strlen(values[i]);
  }
}

/* Reads 0..count are the values of the keys from `first` on. */
static const char* check_values(const breccia_batch_t* batch, size_t first, size_t count) {
  int codes[kRequests];
  const char* found[kRequests];
  size_t lengths[kRequests];
  breccia_batch_values(batch, 0, count, codes, found, lengths);
  for (size_t i = 0; i < count; ++i) {
    CHECK(codes[i] == breccia_code_ok);
    CHECK(lengths[i] == value_lengths[first + i]);
    CHECK(memcmp(found[i], values[first + i], lengths[i]) == 0);
  }
  return NULL;
}

static const char* check_range(const breccia_batch_t* batch, size_t range, size_t first,
                               size_t count) {
  const char *found_keys[kRequests], *found_values[kRequests];
  size_t found_key_lengths[kRequests], found_value_lengths[kRequests];
  CHECK(breccia_batch_range_code(batch, range) == breccia_code_ok);
  CHECK(breccia_batch_range_size(batch, range) == count);
  breccia_batch_range_entries(batch, range, 0, count, found_keys, found_key_lengths, found_values,
                              found_value_lengths);
  for (size_t i = 0; i < count; ++i) {
    CHECK(found_key_lengths[i] == key_lengths[first + i]);
    CHECK(memcmp(found_keys[i], keys[first + i], found_key_lengths[i]) == 0);
    CHECK(memcmp(found_values[i], values[first + i], found_value_lengths[i]) == 0);
  }
  return NULL;
}

static const char* walk_reads_of_batch(const struct walk* w, breccia_t* db,
                                       breccia_batch_t* batch) {
  char* error = NULL;
  const char* begins[] = {"key0010", "key0400"};
  const char* ends[] = {"key0020", "z"};
  const size_t begin_lengths[] = {7, 7}, end_lengths[] = {7, 1};
  const uint32_t limits[] = {5, 200};
  breccia_batch_clear(batch);
  breccia_batch_set_values_in_place(batch, 1);
  breccia_batch_set_columns_in_place(batch, 1);
  CHECK_OK(breccia_batch_get(batch, NULL, 100, key_pointers + 7, key_lengths + 7, &error));
  CHECK_OK(breccia_batch_range(batch, NULL, 2, begins, begin_lengths, ends, end_lengths, limits,
                               &error));
  CHECK(breccia_batch_reads(batch) == 100 && breccia_batch_ranges(batch) == 2);
  CHECK_OK(breccia_batch_submit(db, w->write, batch, &error));
  CHECK_PART(check_values(batch, 7, 100));
  CHECK_PART(check_range(batch, 0, 10, 5));
  CHECK_PART(check_range(batch, 1, 400, 100));
  return NULL;
}

/* ---- columns ---- */

struct row {
  char key[8];
  int32_t number;
  char value[12];
};
static struct row rows[kRequests], found_rows[kRequests + 1];
static uint8_t found_flags[kRequests + 1];
static char row_bytes[32 * kRequests];

static void make_rows(int32_t* offsets32, int64_t* offsets64) {
  offsets32[0] = 0;
  for (int i = 0; i < kRequests; ++i) {
    snprintf(rows[i].key, sizeof(rows[i].key), "r%06d", i);
    rows[i].number = i;
    memset(rows[i].value, 'a' + i % 26, sizeof(rows[i].value));
    const int length = i % 20;
    memset(row_bytes + offsets32[i], 'A' + i % 26, (size_t)length);
    offsets32[i + 1] = offsets32[i] + length;
  }
  for (int i = 0; i <= kRequests; ++i) offsets64[i] = offsets32[i];
}

/* Rows `first` to kRequests are found as Arrow's strings under the keys from read 0 on. */
static const char* check_arrow(const breccia_batch_t* batch, const int32_t* expected) {
  static char bytes32[sizeof row_bytes], bytes64[sizeof row_bytes];
  static int32_t offsets32[kRequests + 1];
  static int64_t offsets64[kRequests + 1];
  char* error = NULL;
  CHECK_OK(breccia_batch_value_offsets32(batch, 0, kRequests, offsets32, found_flags, &error));
  CHECK(memcmp(offsets32, expected, sizeof offsets32) == 0);
  for (int i = 0; i < kRequests; ++i) CHECK(found_flags[i] == 1);
  breccia_batch_copy_values32(batch, 0, kRequests, offsets32, bytes32);
  CHECK(memcmp(bytes32, row_bytes, (size_t)expected[kRequests]) == 0);
  CHECK_OK(breccia_batch_value_offsets64(batch, 1, kRequests - 1, offsets64, found_flags, &error));
  for (int i = 1; i <= kRequests; ++i) CHECK(offsets64[i - 1] == expected[i] - expected[1]);
  breccia_batch_copy_values64(batch, 1, kRequests - 1, offsets64, bytes64);
  CHECK(memcmp(bytes64, row_bytes + expected[1], (size_t)offsets64[kRequests - 1]) == 0);
  return NULL;
}

/* Ranges 2 and 3 of the batch have the first 3 + 4 entries from rows 0 and 1 on. */
static const char* check_lists(const breccia_batch_t* batch) {
  static const int expected[] = {0, 1, 2, 1, 2, 3, 4};
  int32_t lists32[3], keys32[8], values32[8];
  int64_t lists64[5], keys64[8], values64[8];
  uint8_t found[4];
  char key_bytes[7 * 7], value_bytes[7 * sizeof rows[0].value], key_rows[7][8];
  char* error = NULL;
  CHECK_OK(breccia_batch_range_offsets32(batch, 2, 2, lists32, found, &error));
  CHECK(lists32[0] == 0 && lists32[1] == 3 && lists32[2] == 7 && found[0] == 1 && found[1] == 1);
  CHECK_OK(breccia_batch_range_offsets64(batch, 0, 4, lists64, found, &error));
  CHECK(lists64[2] == 0 && lists64[3] == 3 && lists64[4] == 7 && found[3] == 1);
  CHECK_OK(breccia_batch_entry_offsets32(batch, 2, 2, lists32, keys32, values32, &error));
  CHECK(keys32[7] == sizeof key_bytes && values32[7] == sizeof value_bytes);
  CHECK_OK(breccia_batch_entry_offsets64(batch, 0, 4, lists64, keys64, NULL, &error));
  CHECK_OK(breccia_batch_entry_offsets64(batch, 0, 4, lists64, NULL, values64, &error));
  CHECK(keys64[7] == sizeof key_bytes && values64[7] == sizeof value_bytes);
  const breccia_column_room_t keys_in = {.data = key_bytes, .offsets32 = keys32};
  const breccia_column_room_t values_in = {.data = value_bytes, .offsets64 = values64};
  const breccia_column_room_t rows_in = {.data = key_rows, .width = 7, .stride = 8};
  const breccia_column_room_t narrow = {.data = key_rows, .width = 6, .stride = 8};
  CHECK_OK(breccia_batch_copy_entries32(batch, 2, 2, lists32, &keys_in, &values_in, &error));
  CHECK_OK(breccia_batch_copy_entries64(batch, 0, 4, lists64, &rows_in, NULL, &error));
  CHECK_FAILS(breccia_batch_copy_entries64(batch, 0, 4, lists64, &narrow, NULL, &error));
  for (int i = 0; i < 7; ++i) {
    const struct row* const row = &rows[expected[i]];
    CHECK(memcmp(key_bytes + 7 * i, row->key, 7) == 0 && memcmp(key_rows[i], row->key, 7) == 0);
    CHECK(memcmp(value_bytes + sizeof row->value * (size_t)i, row->value, sizeof row->value) == 0);
  }
  return NULL;
}

/* Keys of 8 bytes, one behind the other in registered memory, are put and found. */
static const char* walk_registered_keys(const struct walk* w, breccia_t* db, breccia_batch_t* batch,
                                        breccia_column_family_handle_t* family) {
  static uint64_t own_keys[kRequests];
  char* error = NULL;
  const size_t value_bytes = sizeof rows[0].value;
  const breccia_column_t key_column = {.data = own_keys, .width = 8, .stride = 8};
  const breccia_column_t row_values = {
      .data = rows[0].value, .width = value_bytes, .stride = sizeof rows[0]};
  const breccia_value_array_t into = {.values = found_rows[0].value,
                                      .width = value_bytes,
                                      .stride = sizeof rows[0],
                                      .found = found_flags};
  for (uint64_t i = 0; i < kRequests; ++i) own_keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
  breccia_registration_t* const registration =
      breccia_register_memory(db, own_keys, sizeof own_keys, &error);
  CHECK(error == NULL && registration != NULL);
  for (int lookups = 0; lookups < 2; ++lookups) {
    breccia_batch_clear(batch);
    breccia_batch_set_columns_in_place(batch, 1);
    if (lookups == 0) {
      CHECK_OK(breccia_batch_put_columns(batch, family, kRequests, &key_column, &row_values, &error));
    } else {
      CHECK_OK(breccia_batch_get_columns(batch, family, kRequests, &key_column, &into, &error));
    }
    CHECK_OK(breccia_batch_submit(db, w->write, batch, &error));
  }
  for (int i = 0; i < kRequests; ++i) {
    CHECK(found_flags[i] == 1 && memcmp(found_rows[i].value, rows[i].value, value_bytes) == 0);
  }
  breccia_batch_clear(batch);
  breccia_registration_destroy(registration);
  return NULL;
}

/* Lookups of fixed rows, one of them of a key that is not there, and ranges. */
static const char* walk_reads_of_columns(const struct walk* w, breccia_t* db,
                                         breccia_batch_t* batch,
                                         breccia_column_family_handle_t* family) {
  char* error = NULL;
  const breccia_column_t row_keys = {.data = rows, .width = 7, .stride = sizeof rows[0]};
  const breccia_column_t one_key = {.data = "nothing", .width = 7, .stride = 0};
  const breccia_column_t above_all = {.data = "z", .width = 1, .stride = 0};
  const breccia_value_array_t into = {.values = found_rows[0].value,
                                      .width = sizeof rows[0].value,
                                      .stride = sizeof rows[0],
                                      .found = found_flags};
  const breccia_value_array_t beside = {.values = found_rows[kRequests].value,
                                        .width = sizeof rows[0].value,
                                        .found = found_flags + kRequests};
  const breccia_value_array_t too_close = {
      .values = found_rows, .width = 12, .stride = 4, .found = found_flags};
  const breccia_column_t on_device = {
      .data = rows, .width = 7, .stride = sizeof rows[0], .on_device = 1};
  const uint32_t limits[] = {3, 4};
  breccia_batch_clear(batch);
  memset(found_flags, 7, sizeof found_flags);
  CHECK_FAILS(breccia_batch_get_columns(batch, family, 2, &row_keys, &too_close, &error));
  /* There is no device here, or these rows are not on it. */
  CHECK_FAILS(breccia_batch_get_columns(batch, family, 2, &on_device, &into, &error));
  CHECK_OK(breccia_batch_get_columns(batch, family, kRequests, &row_keys, &into, &error));
  CHECK_OK(breccia_batch_get_columns(batch, family, 1, &one_key, &beside, &error));
  CHECK_OK(breccia_batch_range_columns(batch, family, 2, &row_keys, &one_key, NULL, 5, &error));
  CHECK_OK(breccia_batch_range_columns(batch, family, 2, &row_keys, &above_all, limits, 0, &error));
  CHECK(breccia_batch_reads(batch) == kRequests + 1 && breccia_batch_ranges(batch) == 4);
  CHECK_OK(breccia_batch_submit(db, w->write, batch, &error));
  for (int i = 0; i < kRequests; ++i) {
    CHECK(found_flags[i] == 1);
    CHECK(memcmp(found_rows[i].value, rows[i].value, sizeof rows[i].value) == 0);
    CHECK(found_rows[i].number == 0);
  }
  CHECK(found_flags[kRequests] == 0);
  CHECK(breccia_batch_range_size(batch, 0) == 0 && breccia_batch_range_size(batch, 1) == 0);
  CHECK(breccia_batch_range_size(batch, 2) == 3 && breccia_batch_range_size(batch, 3) == 4);
  CHECK_PART(check_lists(batch));
  return NULL;
}

static const char* walk_columns(const struct walk* w) {
  static int32_t offsets32[kRequests + 1];
  static int64_t offsets64[kRequests + 1];
  char* error = NULL;
  make_rows(offsets32, offsets64);
  const breccia_column_t row_keys = {.data = rows, .width = 7, .stride = sizeof rows[0]};
  const breccia_column_t row_values = {
      .data = rows[0].value, .width = sizeof rows[0].value, .stride = sizeof rows[0]};
  const breccia_column_t texts = {.data = row_bytes, .offsets32 = offsets32};
  const breccia_column_t same_texts = {.data = row_bytes, .offsets64 = offsets64};
  breccia_t* const db = breccia_open_with(w->options, w->engine, w->path, &error);
  CHECK(error == NULL && db != NULL);
  breccia_column_family_handle_t* const family =
      breccia_create_column_family(db, w->options, "rows", &error);
  CHECK(error == NULL);
  breccia_batch_t* const batch = breccia_batch_create(db, &error);
  CHECK(error == NULL && batch != NULL);
  CHECK_OK(breccia_batch_put_columns(batch, NULL, kRequests, &row_keys, &row_values, &error));
  CHECK_OK(breccia_batch_put_columns(batch, NULL, kRequests, &row_keys, &same_texts, &error));
  CHECK_OK(breccia_batch_delete_columns(batch, NULL, 100, &row_keys, &error));
  CHECK_OK(breccia_batch_put_columns(batch, NULL, 100, &row_keys, &texts, &error));
  CHECK_OK(breccia_batch_get_columns(batch, NULL, kRequests, &row_keys, NULL, &error));
  CHECK_OK(breccia_batch_put_columns(batch, family, kRequests, &row_keys, &row_values, &error));
  offsets64[10] = offsets64[12] + 1;
  CHECK_FAILS(breccia_batch_put_columns(batch, NULL, kRequests, &row_keys, &same_texts, &error));
  CHECK(breccia_batch_writes(batch) == 3 * kRequests + 200);
  CHECK_OK(breccia_batch_submit(db, w->write, batch, &error));
  CHECK_PART(check_arrow(batch, offsets32));
  CHECK_PART(walk_reads_of_columns(w, db, batch, family));
  CHECK_PART(walk_registered_keys(w, db, batch, family));
  breccia_batch_clear(batch);
  CHECK_FAILS(breccia_batch_merge_columns(batch, family, 2, &row_keys, &row_values, &error);
              breccia_batch_submit(db, w->write, batch, &error));
  breccia_batch_destroy(batch);
  CHECK_OK(breccia_drop_column_family(db, family, &error));
  breccia_column_family_handle_destroy(family);
  breccia_close(db);
  CHECK_OK(breccia_destroy_db(w->options, w->path, &error));
  return NULL;
}

static const char* walk_batches(const struct walk* w) {
  char* error = NULL;
  make_requests();
  breccia_t* const db = breccia_open_with(w->options, w->engine, w->path, &error);
  CHECK(error == NULL && db != NULL);
  breccia_column_family_handle_t* const family =
      breccia_create_column_family(db, w->options, "other", &error);
  CHECK(error == NULL);
  breccia_batch_t* const batch = breccia_batch_create(db, &error);
  CHECK(error == NULL && batch != NULL);
  CHECK_OK(breccia_batch_put(batch, NULL, kRequests, key_pointers, key_lengths, value_pointers,
                             value_lengths, &error));
  CHECK_OK(breccia_batch_put(batch, family, 3, key_pointers, key_lengths, value_pointers + 1,
                             value_lengths + 1, &error));
  CHECK_OK(breccia_batch_delete(batch, family, 1, key_pointers, key_lengths, &error));
  CHECK_OK(breccia_batch_single_delete(batch, family, 1, key_pointers + 2, key_lengths, &error));
  CHECK_OK(breccia_batch_get(batch, family, 3, key_pointers, key_lengths, &error));
  CHECK(breccia_batch_writes(batch) == kRequests + 5);
  CHECK_OK(breccia_batch_submit(db, w->write, batch, &error));
  int codes[3] = {-1, -1, -1};
  const char* found[3];
  size_t lengths[3];
  breccia_batch_values(batch, 0, 3, codes, found, lengths);
  CHECK(codes[0] == breccia_code_not_found && lengths[0] == 0);
  CHECK(codes[1] == breccia_code_ok && codes[2] == breccia_code_not_found);
  CHECK_PART(walk_reads_of_batch(w, db, batch));
  breccia_batch_clear(batch);
  CHECK_OK(breccia_batch_delete_range(batch, NULL, 1, key_pointers + 100, key_lengths + 100,
                                      key_pointers + 200, key_lengths + 200, &error));
  CHECK_FAILS(breccia_batch_delete_range(batch, NULL, 1, key_pointers + 200, key_lengths + 200,
                                         key_pointers + 100, key_lengths + 100, &error));
  CHECK_FAILS(breccia_batch_merge(batch, family, 1, key_pointers, key_lengths, value_pointers,
                                  value_lengths, &error);
              breccia_batch_submit(db, w->write, batch, &error));
  CHECK(has(w, db, "key0150", "value of 150"));
  breccia_batch_clear(batch);
  CHECK_OK(breccia_batch_delete_range(batch, NULL, 1, key_pointers + 100, key_lengths + 100,
                                      key_pointers + 200, key_lengths + 200, &error));
  CHECK_OK(breccia_batch_submit(db, w->write, batch, &error));
  CHECK(has(w, db, "key0150", NULL) && has(w, db, "key0200", "value of 200"));
  breccia_batch_destroy(batch);
  breccia_column_family_handle_destroy(family);
  breccia_close(db);
  return NULL;
}

/* ---- families, copies, figures ---- */

static const char* walk_families(const struct walk* w) {
  char* error = NULL;
  size_t count = 0;
  char** names = breccia_list_column_families(w->options, w->path, &count, &error);
  CHECK(error == NULL && count == 2 && strcmp(names[1], "other") == 0);
  breccia_list_column_families_destroy(names, count);
  breccia_env_t* const env = breccia_create_default_env();
  breccia_cache_t* const cache = breccia_cache_create_lru(1 << 20);
  breccia_options_t *loaded = NULL, **family_options = NULL;
  CHECK_OK(breccia_load_latest_options(w->path, env, false, cache, &loaded, &count, &names,
                                       &family_options, &error));
  CHECK(count == 2);
  breccia_column_family_handle_t* handles[2];
  breccia_t* const db = breccia_open_column_families_with(
      loaded, w->engine, w->path, 2, (const char* const*)names,
      (const breccia_options_t* const*)family_options, handles, &error);
  CHECK(error == NULL && db != NULL);
  size_t length = 0;
  char* const value =
      breccia_get_cf(db, w->read, handles[1], keys[1], key_lengths[1], &length, &error);
  CHECK(is_text(value, length, values[2]));
  CHECK_OK(breccia_drop_column_family(db, handles[1], &error));
  for (int i = 0; i < 2; ++i) breccia_column_family_handle_destroy(handles[i]);
  breccia_close(db);
  breccia_load_latest_options_destroy(loaded, names, family_options, count);
  breccia_cache_destroy(cache);
  breccia_env_destroy(env);
  return NULL;
}

static const char* walk_backups(const struct walk* w, breccia_t* db) {
  char* error = NULL;
  breccia_backup_engine_t* const backups =
      breccia_backup_engine_open(w->options, w->beside, &error);
  CHECK(error == NULL);
  CHECK_OK(breccia_backup_engine_create_new_backup(backups, db, &error));
  CHECK_PART(put(w, db, "behind the backup", "x"));
  breccia_close(db);
  CHECK_OK(breccia_destroy_db(w->options, w->path, &error));
  breccia_restore_options_t* const how = breccia_restore_options_create();
  CHECK_OK(
      breccia_backup_engine_restore_db_from_latest_backup(backups, w->path, w->path, how, &error));
  breccia_restore_options_destroy(how);
  breccia_backup_engine_close(backups);
  breccia_t* const again = breccia_open_with(w->options, w->engine, w->path, &error);
  CHECK(error == NULL && has(w, again, "key0200", "value of 200"));
  CHECK(has(w, again, "behind the backup", NULL));
  breccia_close(again);
  return NULL;
}

static const char* walk_figures(const struct walk* w) {
  char* error = NULL;
  breccia_t* const db = breccia_open_with(w->options, w->engine, w->path, &error);
  CHECK(error == NULL && db != NULL);
  char* const backend = breccia_property_value(db, "breccia.backend");
  CHECK(backend != NULL && strstr(backend, "host") != NULL);
  breccia_free(backend);
  uint64_t snapshots = 9;
  CHECK(breccia_property_int(db, "rocksdb.num-snapshots", &snapshots) == 0 && snapshots == 0);
  const breccia_snapshot_t* const snapshot = breccia_create_snapshot(db);
  CHECK(breccia_property_int(db, "rocksdb.num-snapshots", &snapshots) == 0 && snapshots == 1);
  CHECK_PART(put(w, db, "key0200", "new"));
  breccia_readoptions_set_snapshot(w->read, snapshot);
  CHECK(has(w, db, "key0200", "value of 200"));
  breccia_readoptions_set_snapshot(w->read, NULL);
  CHECK(has(w, db, "key0200", "new"));
  breccia_release_snapshot(db, snapshot);
  CHECK_PART(put(w, db, "key0200", "value of 200"));
  breccia_compact_range(db, NULL, 0, NULL, 0);
  const breccia_livefiles_t* const files = breccia_livefiles(db);
  CHECK(breccia_livefiles_count(files) > 0);
  breccia_livefiles_destroy(files);
  const uint64_t before = breccia_get_latest_sequence_number(db);
  CHECK_PART(put(w, db, "one more", "x"));
  CHECK(breccia_get_latest_sequence_number(db) > before);
  return walk_backups(w, db);
}

/* ---- what is refused ---- */

static int compare(void* state, const char* a, size_t a_length, const char* b, size_t b_length) {
  (void)state;
  const size_t shorter = a_length < b_length ? a_length : b_length;
  const int order = memcmp(b, a, shorter);
  return order != 0 ? order : (a_length < b_length) - (a_length > b_length);
}
static void no_state(void* state) { (void)state; }
static const char* comparator_name(void* state) {
  (void)state;
  return "reverse";
}

static const char* walk_refusals(const struct walk* w) {
  char* error = NULL;
  CHECK_FAILS(breccia_repair_db(w->options, w->path, &error));
  breccia_comparator_t* const reverse =
      breccia_comparator_create(NULL, no_state, compare, comparator_name);
  breccia_options_t* const options = breccia_options_create_copy(w->options);
  breccia_options_set_comparator(options, reverse);
  CHECK_FAILS((void)breccia_open(options, w->path, &error));
  breccia_options_destroy(options);
  breccia_comparator_destroy(reverse);
  breccia_t* const db = breccia_open_for_read_only(w->options, w->path, 0, &error);
  CHECK(error == NULL && has(w, db, "key0200", "value of 200"));
  CHECK_FAILS((void)breccia_batch_create(db, &error));
  breccia_close(db);
  CHECK_OK(breccia_destroy_db(w->options, w->path, &error));
  CHECK_FAILS((void)breccia_open_for_read_only(w->options, w->path, 0, &error));
  return NULL;
}

/* ---- options of the engine ---- */

/* Writes values of 900 KiB until one is refused. */
static const char* check_refusal(const struct walk* w, breccia_t* db) {
  enum { kBytes = 900 << 10, kTries = 100 };
  char* error = NULL;
  char* const large = calloc(1, kBytes);
  for (int i = 0; i < kTries && error == NULL; ++i) {
    breccia_put(db, w->write, "large", 5, large, kBytes, &error);
  }
  free(large);
  CHECK(error != NULL && strstr(error, "Result incomplete") != NULL);
  breccia_free(error);
  return NULL;
}

static const char* walk_engine_options(const struct walk* w) {
  char* error = NULL;
  breccia_engine_options_t* const engine = breccia_engine_options_create();
  breccia_engine_options_set_backend(engine, breccia_backend_host);
  breccia_engine_options_set_memtable_bytes(engine, 1 << 20);
  breccia_engine_options_set_log_segment_bytes(engine, 128 << 20);
  breccia_engine_options_set_log_keep_bytes(engine, 1 << 20);
  breccia_engine_options_set_clean_bytes(engine, 0);
  breccia_engine_options_set_entry_cache_bytes(engine, 0);
  breccia_engine_options_set_tree_filter_bytes(engine, 1 << 20);
  breccia_engine_options_set_residency_bytes(engine, 1 << 20);
  breccia_engine_options_set_wait_us_max(engine, 0);
  breccia_t* const db = breccia_open_with(w->options, engine, w->path, &error);
  CHECK(error == NULL && db != NULL);
  breccia_engine_options_destroy(engine);
  const uint64_t begin = breccia_get_latest_sequence_number(db);
  CHECK_PART(put(w, db, "kept", "x"));
  breccia_flushoptions_t* const flush = breccia_flushoptions_create();
  CHECK_OK(breccia_flush(db, flush, &error));
  breccia_flushoptions_destroy(flush);
  char* const clean = breccia_property_value(db, "breccia.clean.bytes");
  CHECK(clean != NULL && strcmp(clean, "0") == 0);
  breccia_free(clean);
  for (int i = 0; i < 4; ++i) CHECK(has(w, db, "kept", "x"));
  char* const hits = breccia_property_value(db, "breccia.entry-cache.hits");
  CHECK(hits != NULL && strcmp(hits, "0") == 0);
  breccia_free(hits);
  breccia_wal_iterator_t* const updates = breccia_get_updates_since(db, begin + 1, NULL, &error);
  CHECK(error == NULL && breccia_wal_iter_valid(updates));
  breccia_wal_iter_destroy(updates);
  CHECK_PART(check_refusal(w, db));
  breccia_close(db);
  CHECK_OK(breccia_destroy_db(w->options, w->path, &error));
  return NULL;
}

const char* walk_breccia(const char* folder) {
  struct walk w;
  snprintf(w.path, sizeof(w.path), "%s/db", folder);
  snprintf(w.beside, sizeof(w.beside), "%s/backups", folder);
  w.options = breccia_options_create();
  breccia_options_set_create_if_missing(w.options, 1);
  breccia_options_set_info_log_level(w.options, 4);
  w.engine = breccia_engine_options_create();
  breccia_engine_options_set_backend(w.engine, breccia_backend_host);
  breccia_engine_options_set_device_requests_min(w.engine, 64);
  breccia_engine_options_set_memtable_bytes(w.engine, 256 << 20);
  breccia_engine_options_set_flush_threads(w.engine, 1);
  breccia_engine_options_set_flush_at_close(w.engine, 1);
  w.read = breccia_readoptions_create();
  w.write = breccia_writeoptions_create();
  static const char* (*const kParts[])(const struct walk*) = {
      walk_columns, walk_batches, walk_families, walk_figures, walk_refusals, walk_engine_options};
  const char* failed = NULL;
  for (size_t i = 0; failed == NULL && i < sizeof(kParts) / sizeof(kParts[0]); ++i) {
    failed = kParts[i](&w);
  }
  breccia_writeoptions_destroy(w.write);
  breccia_readoptions_destroy(w.read);
  breccia_engine_options_destroy(w.engine);
  breccia_options_destroy(w.options);
  return failed;
}
