#include "batch/value_columns.h"

#include <limits>
#include <string>

#include "base/bytes.h"
#include "batch/chunks.h"

namespace breccia::batch {

template <class Offset>
Status value_offsets(const Requests& requests, std::uint64_t first, std::uint64_t count,
                     Offset* offsets, std::uint8_t* found) {
  BRECCIA_ASSERT(first <= requests.result_count() && count <= requests.result_count() - first);
  constexpr std::uint64_t kBytesMax = std::numeric_limits<Offset>::max();
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    offsets[i] = static_cast<Offset>(bytes);
    const ReadResult result = requests.result(first + i);
    const bool is_there = result.code == Status::Code::kOk;
    found[i] = is_there ? 1 : 0;
    bytes += is_there ? result.bytes : 0;
    if (bytes > kBytesMax) {
      return Status::InvalidArgument("values of more than " + std::to_string(kBytesMax) + " bytes",
                                     "take offsets of 64 bits, or fewer reads at once");
    }
  }
  offsets[count] = static_cast<Offset>(bytes);
  return Status::OK();
}

template <class Offset>
void copy_values(const Requests& requests, std::uint64_t first, std::uint64_t count,
                 const Offset* offsets, char* bytes) {
  BRECCIA_ASSERT(first <= requests.result_count() && count <= requests.result_count() - first);
  for_each_chunk(count, [&](std::uint64_t, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      const auto length = static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]);
      if (length == 0) continue;
      const ReadResult result = requests.result(first + i);
      BRECCIA_ASSERT(result.bytes == length);
      base::copy_inline(bytes + offsets[i], result.data, length);
    }
  });
}

template Status value_offsets(const Requests&, std::uint64_t, std::uint64_t, std::int32_t*,
                              std::uint8_t*);
template Status value_offsets(const Requests&, std::uint64_t, std::uint64_t, std::int64_t*,
                              std::uint8_t*);
template void copy_values(const Requests&, std::uint64_t, std::uint64_t, const std::int32_t*,
                          char*);
template void copy_values(const Requests&, std::uint64_t, std::uint64_t, const std::int64_t*,
                          char*);

}  // namespace breccia::batch
