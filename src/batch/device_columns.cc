#include "batch/device_columns.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace breccia::batch {

namespace {

std::byte* device_bytes(const void* at) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(at));
}

}  // namespace

Result<DeviceColumns::Bytes> DeviceColumns::make(std::uint64_t bytes) const {
  auto made = std::make_unique<exec::HostVector<std::byte>>(*memory_);
  // One byte more: strings of no bytes have an address, too.
  if (!made->reserve(bytes + 1)) return Status::MemoryLimit("no memory for columns of a device");
  (void)made->extend(bytes + 1);
  BRECCIA_ASSERT(made->data() != nullptr);
  return Result<Bytes>(std::move(made));
}

Status DeviceColumns::copy_in(const Bytes& to, const void* device, std::size_t bytes,
                              void* stream) const {
  BRECCIA_ASSERT(bytes < to->size());
  if (bytes == 0) return Status::OK();
  return memory_->copy_rows(exec::BusWay::kToHost,
                            {to->data(), device_bytes(device), 1, bytes, bytes}, stream);
}

Result<BytesColumn> DeviceColumns::bring(const BytesColumn& column) {
  if (!column.on_device()) return column;
  if (column.count() == 0) return BytesColumn::Fixed(nullptr, 0, 0);
  if (column.offsets32() != nullptr) return bring_variable(column, column.offsets32());
  if (column.offsets64() != nullptr) return bring_variable(column, column.offsets64());
  if (column.fixed()) return bring_fixed(column);
  return Status::InvalidArgument("slices on a device", "a fixed or a variable column can be there");
}

Result<BytesColumn> DeviceColumns::bring_fixed(const BytesColumn& column) {
  // A stride of 0 is one string for all.
  const std::size_t rows = column.stride() == 0 ? 1 : column.count();
  const std::size_t width = column.width();
  const auto stride = static_cast<std::size_t>(std::abs(column.stride()));
  if (rows > 1 && stride < width) {
    return Status::InvalidArgument("strings on a device overlap",
                                   "the stride is " + std::to_string(column.stride()));
  }
  const bool backwards = column.stride() < 0;
  const auto last = static_cast<std::ptrdiff_t>(rows - 1);
  const char* const lowest = column.data() + (backwards ? last * column.stride() : 0);
  BRECCIA_TAKE(Bytes copy, make(rows * width));
  if (width > 0) {
    const exec::BusRows all{copy->data(), device_bytes(lowest), rows, width,
                            std::max(stride, width)};
    BRECCIA_TRY(memory_->copy_rows(exec::BusWay::kToHost, all, column.stream()));
  }
  BRECCIA_ASSERT(copy->size() > rows * width);
  const auto step = static_cast<std::ptrdiff_t>(width);
  const std::byte* const first = copy->data() + (backwards ? last * step : 0);
  copies_.push_back(std::move(copy));
  return BytesColumn::Fixed(first, column.count(), width, rows == 1 ? 0 : backwards ? -step : step);
}

template <class Offset>
Result<BytesColumn> DeviceColumns::bring_variable(const BytesColumn& column,
                                                  const Offset* offsets) {
  const std::size_t count = column.count();
  BRECCIA_TAKE(Bytes places, make((count + 1) * sizeof(Offset)));
  BRECCIA_TRY(copy_in(places, offsets, (count + 1) * sizeof(Offset), column.stream()));
  const auto* const at = reinterpret_cast<const Offset*>(places->data());
  const Offset* const falls = std::is_sorted_until(at, at + count + 1);
  if (at[0] < 0 || falls != at + count + 1) {
    return Status::InvalidArgument("offsets of string " + std::to_string(falls - at - 1),
                                   "its end comes before its begin");
  }
  const auto bytes = static_cast<std::size_t>(at[count] - at[0]);
  BRECCIA_ASSERT(at[count] >= at[0]);
  BRECCIA_TAKE(Bytes strings, make(bytes));
  BRECCIA_TRY(copy_in(strings, column.data() + at[0], bytes, column.stream()));
  const std::byte* const begin = strings->data() - at[0];  // offsets count from there
  copies_.push_back(std::move(places));
  copies_.push_back(std::move(strings));
  return BytesColumn::Variable(begin, at, count);
}

Result<ValueArray> DeviceColumns::stage(const ValueArray& into, std::uint64_t count) {
  if (!into.on_device || count == 0) return into;
  if (into.stride < 0 || static_cast<std::size_t>(into.stride) < into.width) {
    return Status::InvalidArgument(
        "values of " + std::to_string(into.width) + " bytes on a device overlap",
        "the stride is " + std::to_string(into.stride));
  }
  Parcel parcel;
  parcel.into = into;
  parcel.count = count;
  BRECCIA_TAKE(parcel.values, make(count * into.width));
  BRECCIA_TAKE(parcel.found, make(count));
  ValueArray staged;
  staged.values = parcel.values->data();
  staged.width = into.width;
  staged.stride = static_cast<std::ptrdiff_t>(into.width);
  staged.found = reinterpret_cast<std::uint8_t*>(parcel.found->data());
  parcels_.push_back(std::move(parcel));
  BRECCIA_ASSERT(!staged.on_device && staged.found != nullptr);
  return staged;
}

void DeviceColumns::send_later(Reads* reads, std::uint64_t first) {
  BRECCIA_ASSERT(!parcels_.empty() && parcels_.back().reads == nullptr);
  BRECCIA_ASSERT(first + parcels_.back().count == reads->count());
  parcels_.back().reads = reads;
  parcels_.back().first = first;
}

Status DeviceColumns::send(const Parcel& parcel) const {
  BRECCIA_ASSERT(parcel.count > 0 && parcel.into.found != nullptr);
  const ValueArray& into = parcel.into;
  const exec::BusRows values{parcel.values->data(), device_bytes(into.values), parcel.count,
                             into.width, static_cast<std::size_t>(into.stride)};
  if (into.width > 0) {
    BRECCIA_TRY(memory_->copy_rows(exec::BusWay::kToDevice, values, into.stream));
  }
  const exec::BusRows found{parcel.found->data(), device_bytes(into.found), 1, parcel.count,
                            parcel.count};
  return memory_->copy_rows(exec::BusWay::kToDevice, found, into.stream);
}

void DeviceColumns::deliver() {
  for (const Parcel& parcel : parcels_) {
    BRECCIA_ASSERT(parcel.reads != nullptr);
    if (send(parcel).ok()) continue;
    std::uint8_t* const codes = parcel.reads->codes() + parcel.first;
    std::fill_n(codes, parcel.count, static_cast<std::uint8_t>(Status::Code::kIOError));
  }
}

void DeviceColumns::give_back(const Mark& mark) {
  BRECCIA_ASSERT(mark.copies <= copies_.size() && mark.parcels <= parcels_.size());
  copies_.resize(mark.copies);
  parcels_.resize(mark.parcels);
}

}  // namespace breccia::batch
