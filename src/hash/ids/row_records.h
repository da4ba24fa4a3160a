#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "exec/clear.h"
#include "exec/device.h"
#include "exec/executor.h"
#include "exec/host_vector.h"
#include "hash/algo/ids.cuh"
#include "hash/ids/ids.h"
#include "record/record.h"

namespace breccia::hash {

/// Records that a device has written.
class PoolRowRecords final : public RowRecords {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  template <class X>
  static Result<std::unique_ptr<PoolRowRecords>> make(X& x, exec::Device& device,
                                                      const RowsInRef& rows) {
    const std::uint64_t n = rows.ids.count;
    const std::uint64_t row_bytes = rows.header.value_bytes;
    const std::uint64_t record_bytes = rows.header.record_bytes();
    auto made = std::unique_ptr<PoolRowRecords>(new PoolRowRecords(device, n, rows.header));
    BRECCIA_ASSERT(rows.ids.asked == nullptr);
    BRECCIA_ASSERT(record_bytes == rows.header.value_offset() + row_bytes);
    const std::uint64_t piece = std::clamp<std::uint64_t>(kPieceBytes / record_bytes, 1, n);
    BRECCIA_TAKE(const auto records, exec::make_array<std::byte>(x, piece * record_bytes));
    BRECCIA_TAKE(made->number_, exec::make_array<std::uint64_t>(x, n));
    for (exec::Array<std::uint64_t>* const column : {&made->payload_, &made->before_}) {
      BRECCIA_TAKE(*column, exec::make_array<std::uint64_t>(x, made->deletes() ? 0 : n));
    }
    BRECCIA_TAKE(made->code_, exec::make_array<Code>(x, n));
    BRECCIA_TAKE(made->met_, exec::make_array<std::uint64_t>(x, algo::CountCodes::kCounts));
    if (!made->host_.reserve(made->bytes())) {
      return Status::MemoryLimit("no memory for the records of a batch");
    }
    std::byte* const host = made->host_.extend(made->bytes());
    const exec::Finish finish(x);
    BRECCIA_TRY(x.follow(rows.ids.stream));
    BRECCIA_TRY(x.template launch<32>(
        n, algo::NumberIds{rows.ids.id, made->number_.data(), n, nullptr, nullptr}));
    algo::WriteRecords write;
    std::memcpy(&write.header, &rows.header, sizeof rows.header);
    write.record = reinterpret_cast<std::uint64_t*>(records.data());
    write.words_before =
        static_cast<std::uint32_t>(rows.header.value_offset() / sizeof(std::uint64_t));
    write.row_words = static_cast<std::uint32_t>(row_bytes / sizeof(std::uint64_t));
    // One room for all pieces: what runs does so in order.
    for (std::uint64_t begin = 0; begin < n; begin += piece) {
      write.id = rows.ids.id + begin;
      if (!made->deletes()) {
        write.row = reinterpret_cast<const std::uint64_t*>(rows.row + begin * row_bytes);
      }
      write.count = std::min(piece, n - begin);
      BRECCIA_TRY(x.template launch<32>(write.words(), write));
      BRECCIA_TRY(
          x.copy_out(host + begin * record_bytes, records.data(), write.count * record_bytes));
    }
    BRECCIA_TRY(x.finish());
    return Result<std::unique_ptr<PoolRowRecords>>(std::move(made));
  }

  [[nodiscard]] const std::byte* data() const override { return host_.data(); }

  /// What raises them in an index, when the first one's payload is this.
  template <class X>
  Result<RequestsRef> place(X& x, std::uint64_t first_payload) {
    first_payload_ = first_payload;
    BRECCIA_TRY(x.template launch<32>(
        count(),
        algo::PlaceRecords{first_payload, header().record_bytes(), payload_.data(), count()}));
    return RequestsRef{.all = Operation::kRaise,
                       .key = number_.data(),
                       .value = payload_.data(),
                       .found = before_.data(),
                       .code = code_.data(),
                       .count = count()};
  }
  /// Of the keys, when they were raised: *absent were not there before.
  /// Errors  MemoryLimit: some found no room.
  template <class X>
  Status settle(X& x, std::uint64_t* absent) {
    BRECCIA_TAKE(const Met met, count_codes(x));
    *absent = met[static_cast<int>(Code::kAbsent)];
    has_ids_twice_ = met[algo::CountCodes::kAgain] > 0;
    have_replaced_ = met[static_cast<int>(Code::kPresent)] > 0;
    if (met[static_cast<int>(Code::kNoRoom)] == 0) return Status::OK();
    return Status::MemoryLimit("the index finds no room to grow");
  }

  // ---- when they were raised: what they were, in the backend's memory ----

  /// Whether the index had anything of some before that.
  [[nodiscard]] bool have_replaced() const { return have_replaced_; }
  [[nodiscard]] const std::uint64_t* number() const { return number_.data(); }
  /// What the index had of each before that, where code() says kPresent.
  [[nodiscard]] const std::uint64_t* before() const { return before_.data(); }
  [[nodiscard]] const Code* code() const { return code_.data(); }
  [[nodiscard]] std::uint64_t first_payload() const { return first_payload_; }
  /// Whether some are of one id.
  [[nodiscard]] bool has_ids_twice() const { return has_ids_twice_; }

  /// What takes the keys of deletions out of an index.
  [[nodiscard]] RequestsRef removal() {
    BRECCIA_ASSERT(deletes());
    return {
        .all = Operation::kDelete, .key = number_.data(), .code = code_.data(), .count = count()};
  }
  /// Behind that: how many were there.
  template <class X>
  Status count_gone(X& x, std::uint64_t* gone) {
    BRECCIA_TAKE(const Met met, count_codes(x));
    *gone = met[static_cast<int>(Code::kPresent)];
    return Status::OK();
  }

 private:
  using Met = std::array<std::uint64_t, algo::CountCodes::kCounts>;

  template <class X>
  Result<Met> count_codes(X& x) {
    Met met{};
    BRECCIA_TRY(exec::clear(x, met_.data(), met_.count()));
    BRECCIA_TRY(x.template launch<32>(
        count(),
        algo::CountCodes{code_.data(), before_.data(), count(), first_payload_, met_.data()}));
    BRECCIA_TRY(x.copy_out(met.data(), met_.data(), met.size()));
    BRECCIA_TRY(x.finish());
    return Result<Met>(met);
  }

  static constexpr std::uint64_t kPieceBytes = 64 << 20;

  PoolRowRecords(exec::Device& device, std::uint64_t count, const record::RecordHeader& header)
      : RowRecords(count, header), host_(device.host_memory()) {}

  exec::HostVector<std::byte> host_;
  exec::Array<std::uint64_t> number_, payload_, met_;
  exec::Array<std::uint64_t> before_;  // what the index had of each key
  std::uint64_t first_payload_ = 0;
  bool have_replaced_ = false;
  bool has_ids_twice_ = false;
  exec::Array<Code> code_;
};

}  // namespace breccia::hash
