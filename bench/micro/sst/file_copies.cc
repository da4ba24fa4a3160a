#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "pmem/posix_file.h"

/// What the kernel takes for copies into new files on tmpfs, and out of them, from and to memory of
/// so many bytes that is used again and again: a core's cache holds 512 KiB of it, none holds 64
/// MiB. Compactions do both with all that they read and write. Several threads, each with a file.

namespace breccia::sst {

namespace {

constexpr std::size_t kFileBytes = 64 << 20;
constexpr std::size_t kPieceBytes = 512 << 10;
constexpr const char* kFolder = "/dev/shm";
constexpr const char* kFull = "/dev/shm is full";

/// A file without a name, and memory.
class FileAndMemory {
 public:
  explicit FileAndMemory(std::size_t memory_bytes)
      : memory_(memory_bytes, 'm'), file_(::open(kFolder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600)) {
    if (file_.get() < 0) std::abort();
  }

  /// False: the folder is full.
  bool write() {
    for (std::size_t at = 0; at < kFileBytes; at += kPieceBytes) {
      const ssize_t done = ::pwrite(file_.get(), piece(at), kPieceBytes, static_cast<off_t>(at));
      if (done != static_cast<ssize_t>(kPieceBytes)) return false;
    }
    return true;
  }
  void read() {
    for (std::size_t at = 0; at < kFileBytes; at += kPieceBytes) {
      const ssize_t done = ::pread(file_.get(), piece(at), kPieceBytes, static_cast<off_t>(at));
      if (done != static_cast<ssize_t>(kPieceBytes)) std::abort();
    }
  }
  void clear() {
    if (::ftruncate(file_.get(), 0) != 0) std::abort();
  }

 private:
  char* piece(std::size_t at) { return memory_.data() + at % memory_.size(); }

  std::string memory_;
  const pmem::Descriptor file_;
};

void BM_WriteNewFile(benchmark::State& state) {
  FileAndMemory at(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    if (!at.write()) {
      state.SkipWithError(kFull);
      break;
    }
    state.PauseTiming();
    at.clear();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kFileBytes));
}

void BM_ReadFile(benchmark::State& state) {
  FileAndMemory at(static_cast<std::size_t>(state.range(0)));
  if (!at.write()) state.SkipWithError(kFull);
  for (auto _ : state) at.read();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kFileBytes));
}

void memory_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(512 << 10)->Arg(64 << 20)->Threads(1)->Threads(8)->UseRealTime();
}

BENCHMARK(BM_WriteNewFile)->Apply(memory_sizes);
BENCHMARK(BM_ReadFile)->Apply(memory_sizes);

}  // namespace

}  // namespace breccia::sst
