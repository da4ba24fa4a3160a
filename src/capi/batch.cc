#include "capi/boxes.h"

/// The C API: batches.

namespace {

using breccia::FamilyId;
using breccia::Slice;
using breccia::Status;
using breccia::capi::save_error;

FamilyId family_of(const breccia_column_family_handle_t* family) {
  return family == nullptr ? breccia::kDefaultFamily : family->rep->GetID();
}

breccia::Result<breccia::Rocks*> rocks_of(breccia_t* db) {
  auto* const rocks = dynamic_cast<breccia::Rocks*>(db->rep);
  if (rocks != nullptr) return rocks;
  return Status::InvalidArgument("a batch on a database that breccia did not open for writing",
                                 "open it with breccia_open() or breccia_open_column_families()");
}

/// Calls `add(i)` for each request until one fails.
template <class Add>
void add_all(std::size_t count, char** errptr, const Add& add) {
  for (std::size_t i = 0; i < count; ++i) {
    if (save_error(errptr, add(i))) return;
  }
}

breccia::BytesColumn arrays_of(const breccia_column_t* column, std::size_t count) {
  if (column->offsets32 != nullptr) {
    return breccia::BytesColumn::Variable(column->data, column->offsets32, count);
  }
  if (column->offsets64 != nullptr) {
    return breccia::BytesColumn::Variable(column->data, column->offsets64, count);
  }
  return breccia::BytesColumn::Fixed(column->data, count, column->width, column->stride);
}

breccia::BytesColumn column_of(const breccia_column_t* column, std::size_t count) {
  const breccia::BytesColumn arrays = arrays_of(column, count);
  return column->on_device == 0 ? arrays : breccia::BytesColumn::OnDevice(arrays, column->stream);
}

breccia::ValueArray values_of(const breccia_value_array_t* into) {
  return {.values = into->values,
          .width = into->width,
          .stride = into->stride,
          .found = into->found,
          .on_device = into->on_device != 0,
          .stream = into->stream};
}

breccia::BytesRoom room_of(const breccia_column_room_t* room) {
  if (room == nullptr) return {};
  if (room->offsets32 != nullptr) return breccia::BytesRoom::Variable(room->data, room->offsets32);
  if (room->offsets64 != nullptr) return breccia::BytesRoom::Variable(room->data, room->offsets64);
  return breccia::BytesRoom::Fixed(room->data, room->width, room->stride);
}

}  // namespace

extern "C" {

breccia_batch_t* breccia_batch_create(breccia_t* db, char** errptr) {
  auto rocks = rocks_of(db);
  if (save_error(errptr, rocks.status())) return nullptr;
  return new breccia_batch_t{rocks.take()->NewBatch()};
}

breccia_registration_t* breccia_register_memory(breccia_t* db, void* memory, std::size_t bytes,
                                                char** errptr) {
  auto rocks = rocks_of(db);
  if (save_error(errptr, rocks.status())) return nullptr;
  auto registration = std::make_unique<breccia_registration_t>();
  const auto status = rocks.take()->RegisterMemory(memory, bytes, &registration->rep);
  return save_error(errptr, status) ? nullptr : registration.release();
}

void breccia_registration_destroy(breccia_registration_t* registration) { delete registration; }

void breccia_batch_destroy(breccia_batch_t* batch) { delete batch; }

void breccia_batch_clear(breccia_batch_t* batch) { batch->rep.Clear(); }

void breccia_batch_put(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                       std::size_t count, const char* const* keys, const std::size_t* key_lengths,
                       const char* const* values, const std::size_t* value_lengths, char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.Put(id, {keys[i], key_lengths[i]}, {values[i], value_lengths[i]});
  });
}

void breccia_batch_merge(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                         std::size_t count, const char* const* keys, const std::size_t* key_lengths,
                         const char* const* operands, const std::size_t* operand_lengths,
                         char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.Merge(id, {keys[i], key_lengths[i]}, {operands[i], operand_lengths[i]});
  });
}

void breccia_batch_delete(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                          std::size_t count, const char* const* keys,
                          const std::size_t* key_lengths, char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.Delete(id, {keys[i], key_lengths[i]});
  });
}

void breccia_batch_single_delete(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                 std::size_t count, const char* const* keys,
                                 const std::size_t* key_lengths, char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.SingleDelete(id, {keys[i], key_lengths[i]});
  });
}

void breccia_batch_delete_range(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                std::size_t count, const char* const* begins,
                                const std::size_t* begin_lengths, const char* const* ends,
                                const std::size_t* end_lengths, char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.DeleteRange(id, {begins[i], begin_lengths[i]}, {ends[i], end_lengths[i]});
  });
}

void breccia_batch_get(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                       std::size_t count, const char* const* keys, const std::size_t* key_lengths,
                       char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.Get(id, {keys[i], key_lengths[i]});
  });
}

void breccia_batch_range(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                         std::size_t count, const char* const* begins,
                         const std::size_t* begin_lengths, const char* const* ends,
                         const std::size_t* end_lengths, const std::uint32_t* limits,
                         char** errptr) {
  const FamilyId id = family_of(family);
  add_all(count, errptr, [&](std::size_t i) {
    return batch->rep.Range(id, {begins[i], begin_lengths[i]}, {ends[i], end_lengths[i]},
                            limits[i]);
  });
}

void breccia_batch_put_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                               std::size_t count, const breccia_column_t* keys,
                               const breccia_column_t* values, char** errptr) {
  save_error(errptr,
             batch->rep.Put(family_of(family), column_of(keys, count), column_of(values, count)));
}

void breccia_batch_merge_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                 std::size_t count, const breccia_column_t* keys,
                                 const breccia_column_t* operands, char** errptr) {
  save_error(errptr, batch->rep.Merge(family_of(family), column_of(keys, count),
                                      column_of(operands, count)));
}

void breccia_batch_delete_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                  std::size_t count, const breccia_column_t* keys, char** errptr) {
  save_error(errptr, batch->rep.Delete(family_of(family), column_of(keys, count)));
}

void breccia_batch_get_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                               std::size_t count, const breccia_column_t* keys,
                               const breccia_value_array_t* into, char** errptr) {
  const FamilyId id = family_of(family);
  const breccia::BytesColumn columns = column_of(keys, count);
  if (into == nullptr) {
    save_error(errptr, batch->rep.Get(id, columns));
  } else {
    save_error(errptr, batch->rep.Get(id, columns, values_of(into)));
  }
}

void breccia_batch_range_columns(breccia_batch_t* batch, breccia_column_family_handle_t* family,
                                 std::size_t count, const breccia_column_t* begins,
                                 const breccia_column_t* ends, const std::uint32_t* limits,
                                 std::uint32_t limit, char** errptr) {
  const FamilyId id = family_of(family);
  const breccia::BytesColumn begin = column_of(begins, count);
  const breccia::BytesColumn end = column_of(ends, count);
  save_error(errptr, limits == nullptr ? batch->rep.Range(id, begin, end, limit)
                                       : batch->rep.Range(id, begin, end, {limits, count}));
}

void breccia_batch_set_values_in_place(breccia_batch_t* batch, unsigned char in_place) {
  batch->rep.SetValuesInPlace(in_place != 0);
}

void breccia_batch_set_columns_in_place(breccia_batch_t* batch, unsigned char in_place) {
  batch->rep.SetColumnsInPlace(in_place != 0);
}

void breccia_batch_submit(breccia_t* db, const breccia_writeoptions_t* options,
                          breccia_batch_t* batch, char** errptr) {
  auto rocks = rocks_of(db);
  if (save_error(errptr, rocks.status())) return;
  save_error(errptr, rocks.take()->Submit(options->rep, &batch->rep));
}

std::size_t breccia_batch_writes(const breccia_batch_t* batch) { return batch->rep.writes(); }
std::size_t breccia_batch_reads(const breccia_batch_t* batch) { return batch->rep.reads(); }
std::size_t breccia_batch_ranges(const breccia_batch_t* batch) { return batch->rep.ranges(); }

void breccia_batch_values(const breccia_batch_t* batch, std::size_t first, std::size_t count,
                          int* codes, const char** values, std::size_t* value_lengths) {
  for (std::size_t i = 0; i < count; ++i) {
    const Slice value = batch->rep.value(first + i);
    codes[i] = batch->rep.code(first + i);
    values[i] = value.data();
    value_lengths[i] = value.size();
  }
}

void breccia_batch_value_offsets32(const breccia_batch_t* batch, std::size_t first,
                                   std::size_t count, std::int32_t* offsets, std::uint8_t* found,
                                   char** errptr) {
  save_error(errptr, batch->rep.ValueOffsets(first, count, offsets, found));
}

void breccia_batch_value_offsets64(const breccia_batch_t* batch, std::size_t first,
                                   std::size_t count, std::int64_t* offsets, std::uint8_t* found,
                                   char** errptr) {
  save_error(errptr, batch->rep.ValueOffsets(first, count, offsets, found));
}

void breccia_batch_copy_values32(const breccia_batch_t* batch, std::size_t first, std::size_t count,
                                 const std::int32_t* offsets, void* bytes) {
  batch->rep.CopyValues(first, count, offsets, bytes);
}

void breccia_batch_copy_values64(const breccia_batch_t* batch, std::size_t first, std::size_t count,
                                 const std::int64_t* offsets, void* bytes) {
  batch->rep.CopyValues(first, count, offsets, bytes);
}

int breccia_batch_range_code(const breccia_batch_t* batch, std::size_t i) {
  return batch->rep.range_code(i);
}

std::size_t breccia_batch_range_size(const breccia_batch_t* batch, std::size_t i) {
  return batch->rep.range_size(i);
}

void breccia_batch_range_entries(const breccia_batch_t* batch, std::size_t i, std::size_t first,
                                 std::size_t count, const char** keys, std::size_t* key_lengths,
                                 const char** values, std::size_t* value_lengths) {
  for (std::size_t j = 0; j < count; ++j) {
    const auto [key, value] = batch->rep.range_entry(i, first + j);
    keys[j] = key.data();
    key_lengths[j] = key.size();
    values[j] = value.data();
    value_lengths[j] = value.size();
  }
}

void breccia_batch_range_offsets32(const breccia_batch_t* batch, std::size_t first,
                                   std::size_t count, std::int32_t* lists, std::uint8_t* found,
                                   char** errptr) {
  save_error(errptr, batch->rep.RangeOffsets(first, count, lists, found));
}

void breccia_batch_range_offsets64(const breccia_batch_t* batch, std::size_t first,
                                   std::size_t count, std::int64_t* lists, std::uint8_t* found,
                                   char** errptr) {
  save_error(errptr, batch->rep.RangeOffsets(first, count, lists, found));
}

void breccia_batch_entry_offsets32(const breccia_batch_t* batch, std::size_t first,
                                   std::size_t count, const std::int32_t* lists, std::int32_t* keys,
                                   std::int32_t* values, char** errptr) {
  save_error(errptr, batch->rep.EntryOffsets(first, count, lists, keys, values));
}

void breccia_batch_entry_offsets64(const breccia_batch_t* batch, std::size_t first,
                                   std::size_t count, const std::int64_t* lists, std::int64_t* keys,
                                   std::int64_t* values, char** errptr) {
  save_error(errptr, batch->rep.EntryOffsets(first, count, lists, keys, values));
}

void breccia_batch_copy_entries32(const breccia_batch_t* batch, std::size_t first,
                                  std::size_t count, const std::int32_t* lists,
                                  const breccia_column_room_t* keys,
                                  const breccia_column_room_t* values, char** errptr) {
  save_error(errptr, batch->rep.CopyEntries(first, count, lists, room_of(keys), room_of(values)));
}

void breccia_batch_copy_entries64(const breccia_batch_t* batch, std::size_t first,
                                  std::size_t count, const std::int64_t* lists,
                                  const breccia_column_room_t* keys,
                                  const breccia_column_room_t* values, char** errptr) {
  save_error(errptr, batch->rep.CopyEntries(first, count, lists, room_of(keys), room_of(values)));
}

}  // extern "C"
