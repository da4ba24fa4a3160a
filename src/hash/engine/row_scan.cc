#include "hash/engine/row_scan.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/memory.h"
#include "hash/engine/answer.h"
#include "hash/engine/engine.h"
#include "record/record.h"

namespace breccia::hash {

namespace {

std::uint64_t id_of_key(const Slice& key) {
  std::uint64_t id;
  BRECCIA_ASSERT(key.size() == sizeof id);
  std::memcpy(&id, key.data(), sizeof id);
  return id;
}

bool is_in(const RowRange& range, const Slice& key) {
  if (key.size() != sizeof(std::uint64_t)) return false;
  const std::uint64_t id = id_of_key(key);
  return range.first_id <= id && id <= range.last_id;
}

}  // namespace

Status check_row_bytes(std::size_t row_bytes) {
  if (row_bytes != 0 && row_bytes % 8 == 0 && row_bytes <= limits::kValueBytesMax) {
    return Status::OK();
  }
  return Status::InvalidArgument("rows of another size than 8, 16, ... bytes",
                                 "pad them to a multiple of 8; a row has 1 GiB at most");
}

std::uint64_t id_of(const std::byte* record) { return id_of_key(key_of(record)); }

LiveRows::LiveRows(State* state, const RowRange& range, std::uint64_t records_at_once)
    : range_(range), records_(state, state->view(), records_at_once, [range](const Slice& key) {
        return is_in(range, key);
      }) {}

Status LiveRows::next(std::vector<std::uint64_t>* payload) {
  const std::size_t before = payload->size();
  for (bool is_more = true; is_more && payload->size() == before;) {
    std::vector<std::uint64_t> found;
    BRECCIA_TRY(records_.next(&found));
    is_more = !found.empty();
    std::copy_if(found.begin(), found.end(), std::back_inserter(*payload), [&](std::uint64_t one) {
      return record::record_header(records_.record(one)).value_bytes == range_.row_bytes;
    });
  }
  return Status::OK();
}

Status LiveRows::copy(std::span<const std::uint64_t> payload, std::uint64_t* ids,
                      char* rows) const {
  std::vector<std::uint8_t> found(payload.size());
  gather_rows({records_.table_ptr(), std::nullopt}, payload, range_.row_bytes, rows, found.data());
  for (std::size_t i = 0; i < payload.size(); ++i) {
    BRECCIA_ASSERT(found[i] != 0);
    ids[i] = id_of(records_.record(payload[i]));
  }
  return Status::OK();
}

Status EngineRowScan::Next(std::size_t count_max, std::uint64_t* ids, void* rows,
                           std::size_t* count) {
  *count = 0;
  if (count_max == 0) return Status::OK();
  if (ids == nullptr || rows == nullptr) {
    return Status::InvalidArgument("ids or rows that are nowhere");
  }
  if (reinterpret_cast<std::uintptr_t>(rows) % 8 != 0) {
    return Status::InvalidArgument("rows that do not lie at a multiple of 8 bytes");
  }
  BRECCIA_TRY(base::copy_of(failed_));
  // What a call that fails has read is lost to the next one.
  failed_ = base::or_memory_limit([&] {
    BRECCIA_TRY(check_());
    return take(count_max, ids, static_cast<char*>(rows), count);
  });
  return base::copy_of(failed_);
}

Status EngineRowScan::take(std::size_t count_max, std::uint64_t* ids, char* rows,
                           std::size_t* count) {
  std::size_t done = 0;
  while (done < count_max) {
    if (taken_ == found_.size()) {
      found_.clear();
      taken_ = 0;
      if (!is_over_) BRECCIA_TRY(rows_.next(&found_));
      is_over_ = found_.empty();
      if (is_over_) break;
    }
    const std::size_t n = std::min(count_max - done, found_.size() - taken_);
    BRECCIA_TRY(
        rows_.copy({found_.data() + taken_, n}, ids + done, rows + done * range_.row_bytes));
    taken_ += n;
    done += n;
  }
  *count = done;
  return Status::OK();
}

Status Engine::ScanRows(const RowRange& range, std::unique_ptr<RowScan>* scan) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    BRECCIA_TRY(check_row_bytes(range.row_bytes));
    *scan =
        std::make_unique<EngineRowScan>(range, live_rows(range), [this] { return check_open(); });
    return Status::OK();
  });
}

}  // namespace breccia::hash
