#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/memory.h"
#include "base/streamed_bytes.h"
#include "hash/engine/answer.h"
#include "hash/engine/engine.h"
#include "hash/engine/row_scan.h"

/// Ids and rows in the memory of the store's device. Where that has no part in it, as the index is
/// on the host, or there are keys that are no ids, they are batches like others.

namespace breccia::hash {

namespace {

/// Of rows that are to lie in whole lines, and that gain by it.
constexpr std::size_t kAlignedRowBytesMin = 2 * base::kLineBytes;

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

/// How PutRows writes rows: HashOptions::row_alignment. Records of a large frame begin at a line.
record::RecordHeader put_of(std::size_t row_bytes, std::size_t alignment) {
  constexpr std::size_t kGapBytes = base::kLineBytes - sizeof(record::RecordHeader) - kWordBytes;
  const bool is_aligned = alignment == base::kLineBytes && row_bytes % base::kLineBytes == 0 &&
                          row_bytes >= kAlignedRowBytesMin;
  return record::RecordHeader::make(record::Op::kPut, kWordBytes, row_bytes,
                                    is_aligned ? kGapBytes / kWordBytes : 0);
}

bool divides_by_8(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 8 == 0; }

/// Whether the ids of deletions may be taken.
/// Errors  InvalidArgument.
Status check_ids(const IdRows& ids) {
  if (ids.count == 0) return Status::OK();
  if (ids.ids == nullptr) return Status::InvalidArgument("ids that are nowhere");
  if (!divides_by_8(ids.ids) || !divides_by_8(ids.count_at)) {
    return Status::InvalidArgument("ids or count_at that do not lie at multiples of 8 bytes");
  }
  if (ids.count > limits::kBatchRequestsMax) {
    return Status::InvalidArgument("more ids than a batch may have", "divide them");
  }
  return Status::OK();
}

/// Whether ids and rows may be taken, which lie in a log at multiples of `alignment`.
/// Errors  InvalidArgument.
Status check(const IdRows& rows, std::size_t alignment) {
  if (rows.count == 0) return Status::OK();
  if (rows.ids == nullptr || rows.rows == nullptr) {
    return Status::InvalidArgument("ids or rows that are nowhere");
  }
  BRECCIA_TRY(check_row_bytes(rows.row_bytes));
  if (!divides_by_8(rows.ids) || !divides_by_8(rows.rows) || !divides_by_8(rows.count_at)) {
    return Status::InvalidArgument("ids, rows or count_at that do not lie at multiples of 8 bytes");
  }
  // A frame has room for its records and a page of what is around them.
  constexpr std::uint64_t kBytesMax = limits::kFrameBytesMax - 4096;
  if (rows.count > limits::kBatchRequestsMax ||
      rows.count > kBytesMax / put_of(rows.row_bytes, alignment).record_bytes()) {
    return Status::InvalidArgument("more ids or rows than a batch may have", "divide them");
  }
  return Status::OK();
}

/// Errors  InvalidArgument.
Status check_missing(const IdRows& rows) {
  if ((rows.missing == nullptr) != (rows.missing_count == nullptr) && rows.count > 0) {
    return Status::InvalidArgument("missing without missing_count, or that without missing");
  }
  if (reinterpret_cast<std::uintptr_t>(rows.missing) % sizeof *rows.missing != 0 ||
      !divides_by_8(rows.missing_count)) {
    return Status::InvalidArgument(
        "missing or missing_count that do not lie at multiples of "
        "their sizes");
  }
  return Status::OK();
}

/// Of rows that are counted.
IdsRef ids_of(const IdRows& rows) { return {rows.ids, rows.count, rows.stream}; }

/// What PinRows has work space for.
constexpr std::size_t kPinnedBytesAtOnce = 64 << 20;

/// Null: there is no cache, so all are refused.
class EnginePins final : public RowPins {
 public:
  EnginePins(std::unique_ptr<Pins> pins, std::uint64_t refused)
      : pins_(std::move(pins)), refused_(refused) {}

  [[nodiscard]] std::uint64_t Rows() const override { return pins_ == nullptr ? 0 : pins_->rows(); }
  [[nodiscard]] std::uint64_t Refused() const override {
    return refused_ + (pins_ == nullptr ? 0 : pins_->refused());
  }

 private:
  const std::unique_ptr<Pins> pins_;
  const std::uint64_t refused_;
};

}  // namespace

int Engine::Device() const {
  return device_->kind() == exec::DeviceKind::kCuda ? device_->number() : -1;
}

Status Engine::FindRows(const IdRows& given) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_lookup(given));
    BRECCIA_TAKE(const IdRows rows, counted(given));
    if (rows.count > 0) {
      Status found = find_on_device(rows);
      if (found.IsNotSupported()) found = find_by_batch(rows);
      BRECCIA_TRY(std::move(found));
    }
    return rows.missing_count == nullptr ? Status::OK() : list_missing(rows);
  });
}

Status Engine::FindCachedRows(const IdRows& rows) {
  const Status found = base::or_memory_limit([&] {
    BRECCIA_TRY(check_lookup(rows));
    return rows.count == 0 ? Status::NotSupported() : begin_to_find(rows);
  });
  return found.IsNotSupported() ? FindRows(rows) : base::copy_of(found);
}

Status Engine::PinRows(const IdRows& given, std::unique_ptr<RowPins>* pins) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_ids(given));
    if (given.count > 0) BRECCIA_TRY(check_row_bytes(given.row_bytes));
    BRECCIA_TAKE(const IdRows ids, counted(given));
    std::unique_ptr<Pins> made;
    std::size_t done = 0;
    if (ids.count > 0 && caches(ids.row_bytes)) made = backend_->make_pins(row_cache_);
    while (made != nullptr && done < ids.count) {
      const std::size_t piece = std::max<std::size_t>(kPinnedBytesAtOnce / ids.row_bytes, 1);
      const std::size_t count = std::min(piece, ids.count - done);
      const Status pinned = pin({ids.ids + done, count, ids.stream}, made.get());
      if (pinned.IsNotSupported()) break;
      BRECCIA_TRY(base::copy_of(pinned));
      done += count;
    }
    *pins = std::make_unique<EnginePins>(std::move(made), ids.count - done);
    return Status::OK();
  });
}

/// Errors  ShutdownInProgress, InvalidArgument.
Status Engine::check_lookup(const IdRows& rows) const {
  BRECCIA_TRY(check_open());
  BRECCIA_TRY(check(rows, kWordBytes));
  BRECCIA_TRY(check_missing(rows));
  if (rows.count > 0 && rows.found == nullptr) {
    return Status::InvalidArgument("found is nowhere");
  }
  return Status::OK();
}

/// With the number of ids as `count`.
Result<IdRows> Engine::counted(const IdRows& rows) {
  if (rows.count_at == nullptr || rows.count == 0) return rows;
  std::uint64_t count = 0;
  if (Device() >= 0 || state_->knows_ids()) {
    BRECCIA_TRY(base::with_patience([&] {
      BRECCIA_TAKE(count, backend_->read_number(rows.count_at, rows.stream));
      return Status::OK();
    }));
  } else {
    count = *rows.count_at;
  }
  IdRows counted = rows;
  counted.count_at = nullptr;
  counted.count = std::min<std::size_t>(count, rows.count);
  return counted;
}

/// Where the arrays lie on the host, and the device has no part in the lookup, it need not even be
/// there any more.
Status Engine::list_missing(const IdRows& rows) {
  if (Device() >= 0 || state_->knows_ids()) {
    // The device's memory may be another tenant's for a moment.
    return base::with_patience([&] {
      return backend_->list_missing(
          {rows.found, rows.count, rows.missing, rows.missing_count, rows.stream});
    });
  }
  std::uint64_t missing = 0;
  for (std::uint32_t i = 0; i < rows.count; ++i) {
    if (rows.found[i] == 0) rows.missing[missing++] = i;
  }
  *rows.missing_count = missing;
  return Status::OK();
}

Status Engine::PutRows(const WriteOptions& options, const IdRows& given) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check(given, options_.row_alignment));
    BRECCIA_TAKE(const IdRows rows, counted(given));
    if (rows.count == 0) return Status::OK();
    if (!state_->knows_ids()) return put_by_batch(options, rows);
    return write_on_device(options, {ids_of(rows), static_cast<const char*>(rows.rows),
                                     put_of(rows.row_bytes, options_.row_alignment)});
  });
}

Status Engine::DeleteRows(const WriteOptions& options, const IdRows& given) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_ids(given));
    BRECCIA_TAKE(const IdRows ids, counted(given));
    if (ids.count == 0) return Status::OK();
    if (state_->knows_ids()) {
      const auto header = record::RecordHeader::make(record::Op::kDelete, sizeof(std::uint64_t), 0);
      return write_on_device(options, {.ids = ids_of(ids), .header = header});
    }
    Batch batch = NewBatch();
    BRECCIA_TRY(batch.Delete(kDefaultFamily, column(ids, ids.ids, sizeof(std::uint64_t))));
    return Submit(options, &batch);
  });
}

/// Errors  NotSupported: the ids are not known on a device.
Status Engine::find_on_device(const IdRows& rows) {
  if (!state_->knows_ids()) return Status::NotSupported();
  const bool is_cached = caches(rows.row_bytes);
  // Kernels read the log of few rows alone.
  const bool is_read = are_few(rows.count, rows.row_bytes, ground_.few_ids);
  const auto common = is_read ? state_->common_put() : std::nullopt;
  const bool is_common = common.has_value() && common->value_bytes == rows.row_bytes;
  const LogWindowsPtr windows = is_read ? log_view_->get(log_->table()) : nullptr;
  const auto lookup = backend_->make_lookup(
      {.cache = is_cached ? row_cache_.get() : nullptr,
       .log = windows == nullptr ? LogRef() : windows->ref(),
       .logged = is_common ? *common : put_of(rows.row_bytes, options_.row_alignment),
       .few_ids = ground_.few_ids},
      {ids_of(rows), static_cast<char*>(rows.rows), rows.row_bytes, rows.found});
  RowPlaces places;
  BRECCIA_TRY(state_->find(lookup.get(), &places));
  BRECCIA_TRY(
      lookup->bring([&](std::span<const std::uint64_t> missing, char* to, std::uint8_t* found) {
        gather_rows(places, missing, rows.row_bytes, to, found);
      }));
  gets_ += rows.count;
  return Status::OK();
}

/// Errors  NotSupported: the ids are not known on a device, or there is no cache for such rows.
Status Engine::begin_to_find(const IdRows& rows) {
  if (!caches(rows.row_bytes) || !state_->knows_ids()) return Status::NotSupported();
  const auto lookup = backend_->make_begun_lookup(
      *row_cache_,
      {{rows.ids, rows.count, rows.stream, rows.count_at},
       static_cast<char*>(rows.rows),
       rows.row_bytes,
       rows.found},
      {rows.found, rows.count, rows.missing, rows.missing_count, rows.stream});
  RowPlaces places;
  BRECCIA_TRY(state_->find(lookup.get(), &places));
  gets_ += rows.count;
  return Status::OK();
}

/// Errors  NotSupported: the ids are not known on a device.
Status Engine::pin(const IdsRef& ids, Pins* pins) {
  if (!state_->knows_ids()) return Status::NotSupported();
  const auto lookup = backend_->make_pin_lookup(*pins, ids);
  // What was written between a look and its pins has another row by then: once more.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t visible = state_->visible();
    RowPlaces places;
    BRECCIA_TRY(state_->find(lookup.get(), &places));
    BRECCIA_TRY(
        lookup->bring([&](std::span<const std::uint64_t> missing, char* to, std::uint8_t* found) {
          gather_rows(places, missing, row_cache_->row_bytes(), to, found);
        }));
    if (state_->visible() == visible) break;
  }
  return Status::OK();
}

bool Engine::caches(std::size_t row_bytes) const {
  return row_cache_ != nullptr && row_cache_->row_bytes() == row_bytes && row_cache_->is_there();
}

Status Engine::write_on_device(const WriteOptions& options, const RowsInRef& rows) {
  if (may_wait(options)) cleaner_->help();
  BRECCIA_TAKE(const auto records, backend_->write_records(rows));
  WriteTicket ticket;
  ticket.durability = options.durability;
  ticket.records = records.get();
  ticket.aligned = rows.header.gap_words() > 0;
  BRECCIA_TRY(commits_->enter(&ticket, records->bytes(),
                              static_cast<std::uint32_t>(records->count()),
                              /*descriptors=*/0));
  BRECCIA_TRY(
      write_frame(log_.get(), commits_.get(), wal::RecordsInOnePiece(records->data()), &ticket));
  note_written(records->count(), records->bytes());
  if (!records->deletes() && caches(rows.header.value_bytes)) renew_cached(*records, rows);
  return Status::OK();
}

/// They are written, whatever becomes of this: what the cache has of before is not asked for.
void Engine::renew_cached(const RowRecords& records, const RowsInRef& rows) {
  const Status renewed = base::or_memory_limit([&] {
    const auto renewal = backend_->make_renewal(*row_cache_, records, rows);
    RowPlaces places;
    BRECCIA_TRY(state_->find(renewal.get(), &places));
    return renewal->bring({});
  });
  (void)renewed;
}

Status Engine::find_by_batch(const IdRows& rows) {
  Batch batch = NewBatch();
  BRECCIA_TRY(batch.Get(kDefaultFamily, column(rows, rows.ids, sizeof(std::uint64_t)),
                        {.values = rows.rows,
                         .width = rows.row_bytes,
                         .stride = static_cast<std::ptrdiff_t>(rows.row_bytes),
                         .found = rows.found,
                         .on_device = Device() >= 0,
                         .stream = rows.stream}));
  return Submit(WriteOptions(), &batch);
}

Status Engine::put_by_batch(const WriteOptions& options, const IdRows& rows) {
  Batch batch = NewBatch();
  BRECCIA_TRY(batch.Put(kDefaultFamily, column(rows, rows.ids, sizeof(std::uint64_t)),
                        column(rows, rows.rows, rows.row_bytes)));
  return Submit(options, &batch);
}

BytesColumn Engine::column(const IdRows& rows, const void* data, std::size_t width) const {
  const BytesColumn column = BytesColumn::Fixed(data, rows.count, width);
  return Device() >= 0 ? BytesColumn::OnDevice(column, rows.stream) : column;
}

}  // namespace breccia::hash
