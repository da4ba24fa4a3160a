#define _POSIX_C_SOURCE 200809L

#include "random_program.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Compiled twice. A program for rocksdb/c.h becomes one for breccia by its prefix. */
#ifdef ON_BRECCIA
#include <breccia/c.h>
#define KV(name) breccia_##name
#define RUN run_breccia
#else
#include <rocksdb/c.h>
#define KV(name) rocksdb_##name
#define RUN run_rocksdb
#endif

enum { kFamilies = 3, kKeys = 40, kSnapshots = 3 };

struct program {
  uint64_t random;
  FILE* seen;
  const char* folder;
  char path[512];
  KV(options_t) * options;
  KV(readoptions_t) * read;
  KV(writeoptions_t) * write;
  KV(t) * db;
  KV(column_family_handle_t) * families[kFamilies];
  const KV(snapshot_t) * snapshots[kSnapshots];
  int copies;
};

static const char* const kNames[kFamilies] = {"default", "one", "two"};

static uint32_t draw(struct program* p, uint32_t below) {
  p->random = p->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(p->random >> 33) % below;
}

static void draw_key(struct program* p, char key[16]) {
  snprintf(key, 16, "key%02u", draw(p, kKeys));
}

static void draw_value(struct program* p, char value[64]) {
  snprintf(value, 64, "value%u%.*s", draw(p, 1000000), (int)draw(p, 40),
           "........................................");
}

/* Notes an outcome: only that there was an error, as texts differ. */
static void note(struct program* p, const char* what, char* error) {
  fprintf(p->seen, "%s: %s\n", what, error == NULL ? "ok" : "error");
  free(error);
}

static void note_value(struct program* p, const char* what, const char* value, size_t length,
                       char* error) {
  fprintf(p->seen, "%s: %s %.*s\n", what,
          error != NULL   ? "error"
          : value == NULL ? "none"
                          : "value",
          value == NULL ? 0 : (int)length, value == NULL ? "" : value);
  free(error);
}

/* ---- a merge operator: operands joined by commas ---- */

static void no_state(void* state) { (void)state; }
static const char* operator_name(void* state) {
  (void)state;
  return "append";
}

static char* join(const char* first, size_t first_length, const char* const* rest,
                  const size_t* lengths, int count, size_t* length) {
  size_t bytes = first_length;
  for (int i = 0; i < count; ++i) bytes += lengths[i] + 1;
  char* const joined = malloc(bytes + 1);
  size_t at = 0;
  if (first != NULL) memcpy(joined, first, first_length);
  if (first != NULL) at = first_length;
  for (int i = 0; i < count; ++i) {
    if (i > 0 || first != NULL) joined[at++] = ',';
    memcpy(joined + at, rest[i], lengths[i]);
    at += lengths[i];
  }
  *length = at;
  return joined;
}

static char* full_merge(void* state, const char* key, size_t key_length, const char* existing,
                        size_t existing_length, const char* const* operands, const size_t* lengths,
                        int count, unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length;
  *success = 1;
  return join(existing, existing_length, operands, lengths, count, length);
}

static char* partial_merge(void* state, const char* key, size_t key_length,
                           const char* const* operands, const size_t* lengths, int count,
                           unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length;
  *success = 1;
  return join(NULL, 0, operands, lengths, count, length);
}

static void free_value(void* state, const char* value, size_t length) {
  (void)state, (void)length;
  free((void*)value);
}

/* ---- operations ---- */

static KV(column_family_handle_t) * family(struct program* p) {
  return p->families[draw(p, kFamilies)];
}

static void write_one(struct program* p) {
  char key[16], other[16], value[64];
  char* error = NULL;
  draw_key(p, key);
  draw_key(p, other);
  draw_value(p, value);
  KV(column_family_handle_t)* const at = family(p);
  switch (draw(p, 8)) {
    case 0:
      KV(delete_cf)(p->db, p->write, at, key, strlen(key), &error);
      break;
    case 1:
      KV(delete)(p->db, p->write, key, strlen(key), &error);
      break;
    case 2:
      /* RocksDB takes a range that ends before it begins, and its database is damaged by it. */
      if (strcmp(key, other) > 0) break;
      KV(delete_range_cf)(p->db, p->write, at, key, strlen(key), other, strlen(other), &error);
      break;
    case 3:
    case 4:
      KV(merge_cf)(p->db, p->write, at, key, strlen(key), value, strlen(value), &error);
      break;
    case 5:
      KV(put)(p->db, p->write, key, strlen(key), value, strlen(value), &error);
      break;
    default:
      KV(put_cf)(p->db, p->write, at, key, strlen(key), value, strlen(value), &error);
  }
  note(p, "write", error);
}

static void write_batch(struct program* p) {
  KV(writebatch_t)* const batch = KV(writebatch_create)();
  char key[16], value[64];
  const uint32_t count = draw(p, 300);
  for (uint32_t i = 0; i < count; ++i) {
    draw_key(p, key);
    draw_value(p, value);
    KV(column_family_handle_t)* const at = family(p);
    if (i == count / 2) KV(writebatch_set_save_point)(batch);
    switch (draw(p, 5)) {
      case 0:
        KV(writebatch_delete_cf)(batch, at, key, strlen(key));
        break;
      case 1:
        KV(writebatch_merge_cf)(batch, at, key, strlen(key), value, strlen(value));
        break;
      default:
        KV(writebatch_put_cf)(batch, at, key, strlen(key), value, strlen(value));
    }
  }
  char* error = NULL;
  if (count > 0 && draw(p, 3) == 0) KV(writebatch_rollback_to_save_point)(batch, &error);
  note(p, "rollback", error);
  error = NULL;
  fprintf(p->seen, "%d in batch\n", KV(writebatch_count)(batch));
  KV(write)(p->db, p->write, batch, &error);
  note(p, "batch", error);
  KV(writebatch_destroy)(batch);
}

/* Reads see the present, or one of the snapshots. */
static void choose_snapshot(struct program* p) {
  const uint32_t which = draw(p, 2 * kSnapshots);
  KV(readoptions_set_snapshot)(p->read, which < kSnapshots ? p->snapshots[which] : NULL);
}

static void read_one(struct program* p) {
  char key[16];
  draw_key(p, key);
  choose_snapshot(p);
  char* error = NULL;
  size_t length = 0;
  if (draw(p, 2) == 0) {
    char* const value = KV(get_cf)(p->db, p->read, family(p), key, strlen(key), &length, &error);
    note_value(p, key, value, length, error);
    KV(free)(value);
    return;
  }
  KV(pinnableslice_t)* const pinned =
      KV(get_pinned_cf)(p->db, p->read, family(p), key, strlen(key), &error);
  const char* const value = pinned == NULL ? NULL : KV(pinnableslice_value)(pinned, &length);
  note_value(p, key, value, length, error);
  if (pinned != NULL) KV(pinnableslice_destroy)(pinned);
}

static void read_many(struct program* p) {
  enum { kMost = 200 };
  static char keys[kMost][16];
  const char* pointers[kMost];
  size_t lengths[kMost], value_lengths[kMost];
  char *values[kMost], *errors[kMost];
  const KV(column_family_handle_t) * handles[kMost];
  const uint32_t count = 1 + draw(p, kMost);
  for (uint32_t i = 0; i < count; ++i) {
    draw_key(p, keys[i]);
    pointers[i] = keys[i];
    lengths[i] = strlen(keys[i]);
    handles[i] = family(p);
  }
  choose_snapshot(p);
  if (draw(p, 2) == 0) {
    KV(pinnableslice_t) * pinned[kMost];
    KV(batched_multi_get_cf)
    (p->db, p->read, family(p), count, pointers, lengths, pinned, errors, false);
    for (uint32_t i = 0; i < count; ++i) {
      size_t length = 0;
      const char* const value =
          pinned[i] == NULL ? NULL : KV(pinnableslice_value)(pinned[i], &length);
      note_value(p, keys[i], value, length, errors[i]);
      if (pinned[i] != NULL) KV(pinnableslice_destroy)(pinned[i]);
    }
    return;
  }
  KV(multi_get_cf)
  (p->db, p->read, handles, count, pointers, lengths, values, value_lengths, errors);
  for (uint32_t i = 0; i < count; ++i) {
    note_value(p, keys[i], values[i], value_lengths[i], errors[i]);
    KV(free)(values[i]);
  }
}

static void note_entry(struct program* p, const KV(iterator_t) * at) {
  size_t key_length = 0, value_length = 0;
  const char* const key = KV(iter_key)(at, &key_length);
  const char* const value = KV(iter_value)(at, &value_length);
  fprintf(p->seen, "%.*s=%.*s\n", (int)key_length, key, (int)value_length, value);
}

static void iterate(struct program* p) {
  char key[16], bound[16];
  draw_key(p, key);
  draw_key(p, bound);
  choose_snapshot(p);
  const int is_bounded = draw(p, 3) == 0;
  if (is_bounded) KV(readoptions_set_iterate_upper_bound)(p->read, bound, strlen(bound));
  KV(iterator_t)* const at = KV(create_iterator_cf)(p->db, p->read, family(p));
  const int goes_back = draw(p, 2) != 0;
  switch (draw(p, 4)) {
    case 0:
      KV(iter_seek_to_first)(at);
      break;
    case 1:
      KV(iter_seek_to_last)(at);
      break;
    case 2:
      KV(iter_seek)(at, key, strlen(key));
      break;
    default:
      KV(iter_seek_for_prev)(at, key, strlen(key));
  }
  for (uint32_t steps = draw(p, kKeys); KV(iter_valid)(at) && steps > 0; --steps) {
    note_entry(p, at);
    if (goes_back) {
      KV(iter_prev)(at);
    } else {
      KV(iter_next)(at);
    }
  }
  char* error = NULL;
  KV(iter_get_error)(at, &error);
  note(p, "iterate", error);
  KV(iter_destroy)(at);
  if (is_bounded) KV(readoptions_set_iterate_upper_bound)(p->read, NULL, 0);
}

static void change_snapshot(struct program* p) {
  const uint32_t which = draw(p, kSnapshots);
  if (p->snapshots[which] != NULL) {
    KV(release_snapshot)(p->db, p->snapshots[which]);
    p->snapshots[which] = NULL;
  } else {
    p->snapshots[which] = KV(create_snapshot)(p->db);
  }
}

static void indexed_batch(struct program* p) {
  KV(writebatch_wi_t)* const batch = KV(writebatch_wi_create)(0, 1);
  char key[16], value[64];
  char* error = NULL;
  for (int i = 0; i < 5; ++i) {
    draw_key(p, key);
    draw_value(p, value);
    KV(writebatch_wi_put)(batch, key, strlen(key), value, strlen(value));
  }
  KV(readoptions_set_snapshot)(p->read, NULL);
  draw_key(p, key);
  size_t length = 0;
  char* const found = KV(writebatch_wi_get_from_batch_and_db)(batch, p->db, p->read, key,
                                                              strlen(key), &length, &error);
  note_value(p, "indexed", found, length, error);
  KV(free)(found);
  error = NULL;
  KV(iterator_t)* const both =
      KV(writebatch_wi_create_iterator_with_base)(batch, KV(create_iterator)(p->db, p->read));
  for (KV(iter_seek_to_first)(both); KV(iter_valid)(both); KV(iter_next)(both)) note_entry(p, both);
  KV(iter_destroy)(both);
  KV(write_writebatch_wi)(p->db, p->write, batch, &error);
  note(p, "indexed batch", error);
  KV(writebatch_wi_destroy)(batch);
}

/* ---- files ---- */

static void open_again(struct program* p) {
  const KV(options_t) * options[kFamilies] = {p->options, p->options, p->options};
  char* error = NULL;
  p->db = KV(open_column_families)(p->options, p->path, kFamilies, kNames, options, p->families,
                                   &error);
  note(p, "open", error);
  assert(p->db != NULL);
}

static void close_all(struct program* p) {
  for (int i = 0; i < kSnapshots; ++i) {
    if (p->snapshots[i] != NULL) KV(release_snapshot)(p->db, p->snapshots[i]);
    p->snapshots[i] = NULL;
  }
  for (int i = 0; i < kFamilies; ++i) KV(column_family_handle_destroy)(p->families[i]);
  KV(close)(p->db);
}

static void maintain(struct program* p) {
  char* error = NULL;
  switch (draw(p, 4)) {
    case 0: {
      KV(flushoptions_t)* const flush = KV(flushoptions_create)();
      KV(flush)(p->db, flush, &error);
      KV(flushoptions_destroy)(flush);
      break;
    }
    case 1:
      KV(compact_range_cf)(p->db, family(p), NULL, 0, NULL, 0);
      break;
    case 2: {
      close_all(p);
      size_t count = 0;
      char** const names = KV(list_column_families)(p->options, p->path, &count, &error);
      for (size_t i = 0; i < count; ++i) fprintf(p->seen, "family %s\n", names[i]);
      KV(list_column_families_destroy)(names, count);
      open_again(p);
      break;
    }
    default:
      KV(flush_wal)(p->db, 1, &error);
  }
  note(p, "maintain", error);
}

static void copy(struct program* p) {
  char* error = NULL;
  char path[600];
  if (p->copies == 2) return;
  snprintf(path, sizeof(path), "%s/copy%d", p->folder, p->copies++);
  KV(checkpoint_t)* const checkpoint = KV(checkpoint_object_create)(p->db, &error);
  note(p, "checkpoint", error);
  error = NULL;
  KV(checkpoint_create)(checkpoint, path, 0, &error);
  note(p, "checkpoint made", error);
  KV(checkpoint_object_destroy)(checkpoint);
  error = NULL;
  KV(t)* const copied = KV(open_for_read_only)(p->options, path, 0, &error);
  note(p, "copy", error);
  KV(readoptions_set_snapshot)(p->read, NULL);
  KV(iterator_t)* const at = KV(create_iterator)(copied, p->read);
  for (KV(iter_seek_to_first)(at); KV(iter_valid)(at); KV(iter_next)(at)) note_entry(p, at);
  KV(iter_destroy)(at);
  KV(close)(copied);
}

static void step(struct program* p) {
  static void (*const kOften[])(struct program*) = {write_one, write_one, write_batch, read_one,
                                                    read_one,  read_many, iterate,     iterate};
  static void (*const kSeldom[])(struct program*) = {change_snapshot, indexed_batch, maintain,
                                                     copy};
  if (draw(p, 8) != 0) {
    kOften[draw(p, sizeof(kOften) / sizeof(kOften[0]))](p);
  } else {
    kSeldom[draw(p, sizeof(kSeldom) / sizeof(kSeldom[0]))](p);
  }
}

char* RUN(uint64_t seed, int steps, const char* folder) {
  struct program p;
  memset(&p, 0, sizeof(p));
  char* seen = NULL;
  size_t bytes = 0;
  p.random = seed;
  p.folder = folder;
  p.seen = open_memstream(&seen, &bytes);
  snprintf(p.path, sizeof(p.path), "%s/db", folder);
  p.options = KV(options_create)();
  KV(options_set_create_if_missing)(p.options, 1);
  KV(options_set_create_missing_column_families)(p.options, 1);
  KV(options_set_info_log_level)(p.options, 4);
  KV(options_set_compression)(p.options, KV(no_compression));
  KV(options_set_write_buffer_size)(p.options, 4 << 20);
  KV(options_set_merge_operator)
  (p.options,
   KV(mergeoperator_create)(NULL, no_state, full_merge, partial_merge, free_value, operator_name));
  p.read = KV(readoptions_create)();
  p.write = KV(writeoptions_create)();
  open_again(&p);
  for (int i = 0; i < steps; ++i) step(&p);
  close_all(&p);
  char* error = NULL;
  KV(destroy_db)(p.options, p.path, &error);
  note(&p, "destroy", error);
  KV(readoptions_destroy)(p.read);
  KV(writeoptions_destroy)(p.write);
  KV(options_destroy)(p.options);
  fclose(p.seen);
  return seen;
}
