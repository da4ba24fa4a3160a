#include "residency/cold_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/bytes.h"

namespace breccia::residency {

namespace {

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Times that the calling thread has waited for a page of a file.
std::int64_t faults_of_thread() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

/// Where the page of a byte begins.
std::uintptr_t page_of(const char* byte) {
  return reinterpret_cast<std::uintptr_t>(byte) / page_bytes() * page_bytes();
}

}  // namespace

void ColdPages::look_anew(bool was_cold) {
  is_cold_ = was_cold;
  faults_ = faults_of_thread();
  is_counted_ = true;
  looked_ = std::chrono::steady_clock::now();
}

void ColdPages::look() {
  if (is_cold_) return;
  const auto before = std::exchange(looked_, std::chrono::steady_clock::now());
  const bool is_counted = std::exchange(is_counted_, looked_ - before >= kQuick);
  if (!is_counted_) return;
  const std::int64_t now = faults_of_thread();
  is_cold_ = is_counted && now - faults_ >= kFaultsMin;
  faults_ = now;
}

void ask_for_pages(const char* bytes, std::uint64_t count) {
  const std::uintptr_t begin = page_of(bytes);
  const std::uintptr_t end =
      base::round_up(reinterpret_cast<std::uintptr_t>(bytes) + count, page_bytes());
  // Advice: without it a read waits for its page.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void ColdPages::ask(const char* bytes, std::uint64_t count) {
  if (count == 0) return;
  const std::uint64_t page = page_bytes();
  auto* const first = reinterpret_cast<void*>(page_of(bytes));
  const bool is_first = asks_ < kFirstLooks;
  if (++asks_ % kAsksALook == 0 || is_first) {
    unsigned char flags[1] = {0};
    const bool is_known = ::mincore(first, page, flags) == 0;
    absent_ += is_known && (flags[0] & 1) == 0 ? 1 : 0;
    if (++looks_ == (is_first ? kFirstLooks : kLooksMin)) {
      if (absent_ == 0) look_anew(/*was_cold=*/false);
      looks_ = 0;
      absent_ = 0;
    }
  }
  ask_for_pages(bytes, count);
}

}  // namespace breccia::residency
