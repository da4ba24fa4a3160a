#include "bench/machine_limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <latch>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/huge_pages.h"
#include "base/machine.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/streamed_bytes.h"
#include "bench/disk_reads.h"
#include "bench/key_choice.h"
#include "exec/choose.h"

namespace breccia::bench {

namespace {

using Clock = std::chrono::steady_clock;

// More than any last-level cache holds, and what 100 M records of 128 bytes take: on some machines
// rows of more memory come more slowly.
constexpr std::uint64_t kMemoryBytes = 16ULL << 30;
constexpr std::uint64_t kRowBytes = 128;
constexpr std::uint64_t kValueBytes = 100;
constexpr std::uint64_t kCopyPiece = 1ULL << 20;
constexpr std::uint64_t kGathered = 4096;  // rows between two looks at the clock
constexpr std::uint64_t kPrefetched = 24;  // rows that are on their way
constexpr std::uint64_t kWords = 1 << 16;  // words between two looks at the clock
constexpr std::chrono::milliseconds kPass{120};
constexpr int kPasses = 3;
constexpr std::uint64_t kDiskPiece = 16ULL << 20;
constexpr std::chrono::milliseconds kDiskTime{800};

unsigned cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// Memory on huge pages where the system has them, touched by the threads that will use it.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {
    void* const mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    at_ = static_cast<char*>(mapped);
    (void)madvise(at_, bytes, MADV_HUGEPAGE);
  }
  ~Memory() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] char* at() const { return at_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Thread `index`'s part.
  [[nodiscard]] char* part(unsigned index) const { return at_ + index * part_bytes(); }
  [[nodiscard]] std::uint64_t part_bytes() const {
    return bytes_ / cores() / (2 * kCopyPiece) * (2 * kCopyPiece);
  }

 private:
  std::uint64_t bytes_;
  char* at_ = nullptr;
};

// What all cores do in a second, in units of `step(thread, turn)`'s result; the best of some
// passes, as others only take from it.
template <class Step>
double rate_of(const Step& step) {
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<double> done(cores());
    std::vector<std::thread> threads;
    std::latch ready(cores());
    for (unsigned thread = 0; thread < cores(); ++thread) {
      threads.emplace_back([&, thread] {
        ready.arrive_and_wait();
        const Clock::time_point begin = Clock::now();
        Clock::time_point now = begin;
        std::uint64_t units = 0;
        for (std::uint64_t turn = 0; now - begin < kPass; ++turn, now = Clock::now()) {
          units += step(thread, turn);
        }
        done[thread] =
            static_cast<double>(units) / std::chrono::duration<double>(now - begin).count();
      });
    }
    double sum = 0;
    for (unsigned thread = 0; thread < cores(); ++thread) {
      threads[thread].join();
      sum += done[thread];
    }
    best = std::max(best, sum);
  }
  return best;
}

void touch(const Memory& memory) {
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < cores(); ++thread) {
    threads.emplace_back([&memory, thread] {
      std::memset(memory.part(thread), static_cast<int>(thread) + 1, memory.part_bytes());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The first half of each thread's part into its second half, in pieces.
double copy_bytes_per_s(const Memory& memory) {
  const std::uint64_t half = memory.part_bytes() / 2;
  return rate_of([&](unsigned thread, std::uint64_t turn) {
    char* const from = memory.part(thread) + turn * kCopyPiece % half;
    std::memcpy(from + half, from, kCopyPiece);
    return 2 * kCopyPiece;
  });
}

double gather_rows_per_s(const Memory& memory) {
  const std::uint64_t rows = memory.part_bytes() * cores() / kRowBytes;
  std::vector<std::vector<char>> gathered(cores(), std::vector<char>(kGathered * kRowBytes));
  return rate_of([&](unsigned thread, std::uint64_t turn) {
    const std::uint64_t first = (std::uint64_t{thread} << 40) + turn * kGathered;
    const auto row = [&](std::uint64_t i) {
      return memory.at() + below(base::mix64(first + i), rows) * kRowBytes;
    };
    for (std::uint64_t i = 0; i < kGathered; ++i) {
      const char* const ahead = row(i + kPrefetched);
      base::prefetch(ahead);
      base::prefetch(ahead + kRowBytes / 2);
      std::memcpy(gathered[thread].data() + i * kRowBytes, row(i), kRowBytes);
    }
    return kGathered;
  });
}

// Where columns begin: rows lie in four fifths of the memory, each thread's column in the last one.
std::uint64_t columns_at_of(const Memory& memory) {
  return memory.part_bytes() * cores() / 5 * 4 / kCopyPiece * kCopyPiece;
}

// Values into a column, past the caches: what a lookup by columns does with what a device has
// found. `value_of`: one that a random word says; `fetch`: asks for its lines.
template <class ValueOf, class Fetch>
double values_gathered_per_s(const Memory& memory, const ValueOf& value_of, const Fetch& fetch) {
  const std::uint64_t bytes = memory.part_bytes() * cores();
  const std::uint64_t columns_at = columns_at_of(memory);
  const std::uint64_t column_bytes = (bytes - columns_at) / cores() / kCopyPiece * kCopyPiece;
  const std::uint64_t pieces = column_bytes / (kGathered * kValueBytes);
  BRECCIA_ASSERT(pieces > 0);
  return rate_of([&](unsigned thread, std::uint64_t turn) {
    const std::uint64_t first = (std::uint64_t{thread} << 40) + turn * kGathered;
    const auto value = [&](std::uint64_t i) { return value_of(base::mix64(first + i)); };
    char* const column = memory.at() + columns_at + thread * column_bytes;
    base::StreamedBytes values(
        reinterpret_cast<std::byte*>(column + turn % pieces * kGathered * kValueBytes));
    for (std::uint64_t i = 0; i < kGathered; ++i) {
      fetch(value(i + kPrefetched));
      base::copy_inline(values.next(kValueBytes), value(i), kValueBytes);
    }
    return kGathered;
  });
}

// Those of rows, which have two lines each.
double values_of_rows_per_s(const Memory& memory, const char* rows_at, std::uint64_t bytes) {
  const auto value_of = [&](std::uint64_t word) {
    return rows_at + below(word, bytes / kRowBytes) * kRowBytes + (kRowBytes - kValueBytes);
  };
  return values_gathered_per_s(memory, value_of, [](const char* value) {
    base::prefetch_far(value);
    base::prefetch_far(value + kValueBytes - 1);
  });
}

// Those that begin at any byte, as in the blocks of a table.
double values_anywhere_per_s(const Memory& memory, const char* at, std::uint64_t bytes) {
  const auto value_of = [&](std::uint64_t word) { return at + below(word, bytes - kRowBytes); };
  return values_gathered_per_s(memory, value_of, [](const char* value) {
    base::prefetch_far(value);
    base::prefetch_far(value + base::kLineBytes);
    base::prefetch_far(value + kValueBytes - 1);
  });
}

double random_reads_per_s(const Memory& memory) {
  const std::uint64_t words = memory.part_bytes() * cores() / sizeof(std::uint64_t);
  const auto* const at = reinterpret_cast<const std::uint64_t*>(memory.at());
  std::vector<std::uint64_t> sums(cores());
  return rate_of([&](unsigned thread, std::uint64_t turn) {
    const std::uint64_t first = (std::uint64_t{thread} << 40) + turn * kWords;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < kWords; ++i) sum += at[below(base::mix64(first + i), words)];
    // Read by nobody, but no compiler knows that: each thread's is its own, once a turn.
    __atomic_store_n(&sums[thread], sum, __ATOMIC_RELAXED);
    return kWords;
  });
}

Status file_error(const char* what, const std::string& where) {
  return Status::IOError(fmt::format("{} in {}: {}", what, where, std::strerror(errno)));
}

// Such values of a file in the system's cache, which is written on to `bytes` for it.
Status measure_mapped_values(const Memory& memory, int file, std::uint64_t written,
                             std::uint64_t bytes, const std::vector<char>& piece,
                             MachineLimits* limits) {
  for (; written < bytes; written += piece.size()) {
    const auto at = static_cast<off_t>(written);
    if (pwrite(file, piece.data(), piece.size(), at) != static_cast<ssize_t>(piece.size())) {
      return file_error("cannot write", "the folder of the database");
    }
  }
  BRECCIA_TAKE(std::byte* const mapped, base::map_file(file, "a file", bytes, PROT_READ));
  base::fetch_pages(mapped, bytes);
  const auto* const at = reinterpret_cast<const char*>(mapped);
  limits->mapped_values_gathered_per_s = values_of_rows_per_s(memory, at, bytes);
  limits->mapped_values_anywhere_per_s = values_anywhere_per_s(memory, at, bytes);
  (void)munmap(mapped, bytes);
  return Status();
}

Status measure_disk(const std::string& folder, const Memory& memory, bool reads_files,
                    MachineLimits* limits) {
  const std::uint64_t bytes_max = limits->memory_bytes;
  std::filesystem::path where = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::is_directory(where, error) && where.has_relative_path()) {
    where = where.parent_path();
  }
  std::string name = (where / "breccia-disk-XXXXXX").string();
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return file_error("cannot make a file", where.string());
  (void)unlink(name.c_str());
  std::vector<char> piece(kDiskPiece);
  base::Random random(1);
  for (char& byte : piece) byte = static_cast<char>(random.next());
  const Clock::time_point begin = Clock::now();
  std::uint64_t bytes = 0;
  Status status;
  while (status.ok() && bytes < bytes_max && Clock::now() - begin < kDiskTime) {
    const ssize_t written = pwrite(file, piece.data(), piece.size(), static_cast<off_t>(bytes));
    if (written <= 0 || fdatasync(file) != 0) status = file_error("cannot write", where.string());
    bytes += static_cast<std::uint64_t>(std::max<ssize_t>(written, 0));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  limits->disk_bytes_per_s = static_cast<double>(bytes) / seconds;
  Result<double> reads = 0.0;
  if (status.ok() && reads_files) {
    status = measure_mapped_values(memory, file, bytes, bytes_max, piece, limits);
    if (status.ok()) reads = direct_reads_per_s(file, bytes_max);
  }
  ::close(file);
  BRECCIA_TRY(status);
  BRECCIA_TAKE(limits->disk_reads_per_s, std::move(reads));
  return Status();
}

Status measure_device(const EngineConfig& engine, MachineLimits* limits) {
  if (engine.backend == BackendChoice::kHost) return Status();
  StoreOptions options;
  options.backend = engine.backend;
  options.device = engine.device;
  std::string why_none;
  BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options, &why_none));
  if (device->kind() == exec::DeviceKind::kCuda) limits->device = device->calibration();
  return Status();
}

}  // namespace

Result<MachineLimits> measure_machine(const std::string& folder, const EngineConfig& engine) {
  MachineLimits limits;
  limits.memory_bytes = std::min(kMemoryBytes, base::usable_memory_bytes() / 8);
  {
    const Memory memory(limits.memory_bytes);
    if (memory.at() == nullptr || memory.part_bytes() == 0) {
      return Status::MemoryLimit("no memory to measure the machine with");
    }
    touch(memory);
    limits.copy_bytes_per_s = copy_bytes_per_s(memory);
    limits.gather_rows_per_s = gather_rows_per_s(memory);
    limits.values_gathered_per_s = values_of_rows_per_s(memory, memory.at(), columns_at_of(memory));
    limits.random_reads_per_s = random_reads_per_s(memory);
    BRECCIA_TRY(measure_disk(folder, memory, engine.residency_bytes > 0, &limits));
  }
  BRECCIA_TRY(measure_device(engine, &limits));
  return limits;
}

}  // namespace breccia::bench
