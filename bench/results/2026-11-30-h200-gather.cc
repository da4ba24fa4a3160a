// Copies values of 100 bytes from random places of much memory, as a lookup by columns does, with
// other hints, groups, distances and orders, and prints how long one takes each thread.
// g++ -O2 -march=x86-64-v3 -static -o gather 2026-11-30-h200-gather.cc -lpthread; ./gather GIB
// THREADS

#include <emmintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kValues = 32768;  // whose places are known at a time
constexpr std::uint64_t kValueBytes = 100;
constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 2 << 20;
constexpr std::uint64_t kBuckets = 4096;

struct Way {
  bool is_anywhere;  // or at multiples of 128
  bool is_by_page;   // in the order of pages
  bool is_near;      // asked for into the first cache, or the second
  std::uint64_t ahead;
  std::uint64_t group;  // so many are asked for, then as many copied
};

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

std::uint64_t below(std::uint64_t random, std::uint64_t bound) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(random) * bound >> 64);
}

void fetch(const char* value, bool is_near) {
  const auto first = reinterpret_cast<std::uintptr_t>(value) / kLine;
  const auto last = (reinterpret_cast<std::uintptr_t>(value) + kValueBytes - 1) / kLine;
  for (std::uintptr_t line = first; line <= last; ++line) {
    const auto* const at = reinterpret_cast<const char*>(line * kLine);
    if (is_near) {
      _mm_prefetch(at, _MM_HINT_T0);
    } else {
      _mm_prefetch(at, _MM_HINT_T1);
    }
  }
}

/// Numbers of the values, those of a page, or of some, one behind the other.
std::vector<std::uint32_t> order_of(const std::vector<std::uint64_t>& places, std::uint64_t bytes) {
  const std::uint64_t bucket_bytes = std::max(kPage, bytes / kBuckets + 1);
  std::vector<std::uint32_t> begin(kBuckets + 2);
  std::vector<std::uint32_t> order(places.size());
  for (const std::uint64_t place : places) ++begin[place / bucket_bytes + 1];
  for (std::uint64_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  for (std::uint32_t i = 0; i < order.size(); ++i) order[begin[places[i] / bucket_bytes]++] = i;
  return order;
}

/// Nanoseconds a value; the making of places is not among them, their order is.
double run(const char* memory, std::uint64_t bytes, const Way& way, std::uint64_t seed) {
  std::vector<std::uint64_t> place(kValues);
  std::vector<std::uint32_t> order(kValues);
  std::vector<char> out(kValues * kValueBytes);
  double seconds = 0;
  std::uint64_t copied = 0;
  while (seconds < 0.7) {
    for (std::uint64_t i = 0; i < kValues; ++i) {
      const std::uint64_t random = mix(seed++);
      place[i] = way.is_anywhere ? below(random, bytes - 128) : below(random, bytes / 128) * 128;
      order[i] = static_cast<std::uint32_t>(i);
    }
    const auto begin = std::chrono::steady_clock::now();
    if (way.is_by_page) order = order_of(place, bytes);
    const auto ask = [&](std::uint64_t i) {
      if (i < kValues) fetch(memory + place[order[i]], way.is_near);
    };
    for (std::uint64_t i = 0; i < way.ahead; ++i) ask(i);
    for (std::uint64_t first = 0; first < kValues; first += way.group) {
      for (std::uint64_t i = first; i < first + way.group; ++i) ask(i + way.ahead);
      for (std::uint64_t i = first; i < first + way.group; ++i) {
        std::memcpy(out.data() + order[i] * kValueBytes, memory + place[order[i]], kValueBytes);
      }
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    copied += kValues;
  }
  return seconds / static_cast<double>(copied) * 1e9;
}

/// All threads at once.
double run_all(const char* memory, std::uint64_t bytes, const Way& way, std::uint64_t threads) {
  std::vector<double> taken(threads);
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] { taken[t] = run(memory, bytes, way, mix(t)); });
  }
  for (std::thread& thread : all) thread.join();
  double sum = 0;
  for (const double one : taken) sum += one;
  return sum / static_cast<double>(threads);
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t gib = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 16;
  const std::uint64_t threads = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 16;
  const std::uint64_t bytes = gib << 30;
  void* const mapped =
      mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 1;
  auto* const memory = reinterpret_cast<char*>(
      (reinterpret_cast<std::uintptr_t>(mapped) + kPage - 1) / kPage * kPage);
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  const Way ways[] = {
      {false, false, false, 24, 1},  {true, false, false, 24, 1},  {true, false, true, 24, 1},
      {true, false, false, 24, 256}, {true, false, false, 24, 64}, {true, false, false, 24, 32},
      {true, false, false, 48, 32},  {true, false, false, 24, 16}, {true, false, false, 12, 16},
      {true, true, false, 24, 1},    {true, true, false, 24, 32}};
  for (int round = 0; round < 3; ++round) {
    for (const Way& way : ways) {
      std::printf(
          "{\"values\": \"%s\", \"by_page\": %d, \"hint\": \"%s\", \"ahead\": %d, "
          "\"group\": %d, \"ns\": %.1f}\n",
          way.is_anywhere ? "anywhere" : "at 128", way.is_by_page ? 1 : 0,
          way.is_near ? "t0" : "t1", static_cast<int>(way.ahead), static_cast<int>(way.group),
          run_all(memory, bytes, way, threads));
      std::fflush(stdout);
    }
  }
  return 0;
}
