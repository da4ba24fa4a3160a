#include "cli/doctor_checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <linux/magic.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/cached_bytes.h"
#include "base/histogram.h"
#include "base/huge_pages.h"
#include "console/console.h"
#include "console/rocksdb_assertions.h"
#include "console/store_flags.h"
#include "residency/wanted.h"
#include "tree/read_defaults.h"

namespace breccia::cli {

namespace {

using Verdict = Finding::Verdict;

// The kernel's name for XFS; linux/magic.h lacks it.
constexpr long kXfsMagic = 0x58465342;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::filesystem::path nearest_folder(const std::string& path) {
  std::error_code ignored;
  auto folder = std::filesystem::absolute(path, ignored);
  while (!std::filesystem::is_directory(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

std::string file_system_name(long magic) {
  switch (magic) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case TMPFS_MAGIC:
      return "tmpfs";
    case RAMFS_MAGIC:
      return "ramfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlayfs";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case kXfsMagic:
      return "xfs";
    default:
      return fmt::format("file system 0x{:x}", magic);
  }
}

// The file itself says whether its file system maps it without a page cache.
bool is_dax(const std::filesystem::path& folder) {
  struct statx info {};
  return statx(AT_FDCWD, folder.c_str(), 0, STATX_BASIC_STATS, &info) == 0 &&
         (info.stx_attributes & STATX_ATTR_DAX) != 0;
}

// Version 13000 is CUDA 13.0.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

struct Driver {
  int version = 0;
  int devices = 0;
  std::string device;
};

// Asks the driver's library for its version and first device; no header or linked library needed.
std::string ask_driver(void* library, Driver* driver) {
  const auto call = [library](const char* name) { return dlsym(library, name); };
  const auto init = reinterpret_cast<int (*)(unsigned)>(call("cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(call("cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(call("cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(call("cuDeviceGetName"));
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr) {
    return "libcuda.so.1 lacks functions of the driver";
  }
  version(&driver->version);
  if (const int error = init(0); error != 0) {
    return fmt::format("the driver does not start: CUDA error {}", error);
  }
  count(&driver->devices);
  if (driver->devices == 0) return "the driver sees no device";
  std::array<char, 128> text{};
  name(text.data(), static_cast<int>(text.size()), 0);
  driver->device = text.data();
  return "";
}

/// Adds what of a file is cached, as far as that can be seen.
void count_cached(const std::string& path, base::CachedBytes* count) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)base::count_cached(file, path, count);
  close(file);
}

}  // namespace

Finding check_gpu() {
  constexpr int kVersionMin = 13'000;
  constexpr const char* kWithout =
      "none needed: batches run on the CPU; for a GPU, install the "
      "NVIDIA driver 580 or newer and see nvidia-smi";
  Finding finding{Verdict::kWarn, "gpu", "", kWithout};
  const std::unique_ptr<void, int (*)(void*)> library(dlopen("libcuda.so.1", RTLD_NOW), dlclose);
  if (library == nullptr) {
    finding.found = "no driver: libcuda.so.1 is not installed";
    return finding;
  }
  Driver driver;
  finding.found = ask_driver(library.get(), &driver);
  if (!finding.found.empty()) return finding;
  const std::string kernel = first_line("/sys/module/nvidia/version");
  finding.found = fmt::format("{}, {} device{}, driver {}for CUDA {}", driver.device,
                              driver.devices, driver.devices == 1 ? "" : "s",
                              kernel.empty() ? "" : kernel + " ", cuda_version(driver.version));
  if (driver.version >= kVersionMin) {
    finding.verdict = Verdict::kOk;
    finding.fix.clear();
  } else {
    finding.fix = "update the NVIDIA driver to one for CUDA 13 (580 or newer)";
  }
  return finding;
}

Finding check_rocksdb() {
  const console::RocksdbBuild build = console::rocksdb_build();
  switch (build.assertions) {
    case console::Assertions::kOff:
      return {Verdict::kOk, "rocksdb", build.library + ", built without assertions", ""};
    case console::Assertions::kOn:
      return {Verdict::kWarn, "rocksdb", build.library + ", built with assertions: slower",
              "./dev rocksdb-release builds a release library; use it for measurements"};
    case console::Assertions::kUnknown:
      break;
  }
  return {Verdict::kOk, "rocksdb", "linked statically: assertions unknown", ""};
}

Finding check_io_uring() {
  io_uring ring{};
  const int error = io_uring_queue_init(4, &ring, 0);
  if (error == 0) {
    io_uring_queue_exit(&ring);
    return {Verdict::kOk, "io_uring", "available", ""};
  }
  return {Verdict::kWarn, "io_uring", fmt::format("not available: {}", std::strerror(-error)),
          "allow it (sysctl kernel.io_uring_disabled=0, or the container's seccomp profile); "
          "without it, file writes take threads"};
}

Finding check_memory() {
  constexpr std::uint64_t kEnough = 4ULL << 30;
  struct sysinfo info {};
  sysinfo(&info);
  const std::uint64_t total = std::uint64_t{info.totalram} * info.mem_unit;
  Finding finding{
      Verdict::kOk, "memory",
      fmt::format("{} in all, {} free, {} cores", console::human_bytes(static_cast<double>(total)),
                  console::human_bytes(static_cast<double>(info.freeram) * info.mem_unit),
                  sysconf(_SC_NPROCESSORS_ONLN)),
      ""};
  if (total < kEnough) {
    finding.verdict = Verdict::kWarn;
    finding.fix = "set memtable_bytes and the block cache to less than the defaults";
  }
  return finding;
}

Finding check_huge_pages() {
  const std::string choice = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool on =
      choice.find("[always]") != std::string::npos || choice.find("[madvise]") != std::string::npos;
  if (on) return {Verdict::kOk, "huge_pages", "transparent: " + choice, ""};
  return {Verdict::kWarn, "huge_pages",
          choice.empty() ? "transparent huge pages are unknown here" : "transparent: " + choice,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)"};
}

Finding check_open_files() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  Finding finding{Verdict::kOk, "open_files", fmt::format("{} allowed", limit.rlim_cur), ""};
  if (limit.rlim_cur < kEnough) {
    finding.verdict = Verdict::kWarn;
    finding.fix =
        "ulimit -n 65536, or LimitNOFILE=65536 in the service: RocksDB keeps its files "
        "open";
  }
  return finding;
}

Finding check_locked_memory() {
  constexpr rlim_t kEnough = 64ULL << 20;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return {Verdict::kOk, "locked_memory", "unlimited", ""};
  Finding finding{Verdict::kOk, "locked_memory",
                  console::human_bytes(static_cast<double>(limit.rlim_cur)) + " allowed", ""};
  if (limit.rlim_cur < kEnough) {
    finding.verdict = Verdict::kWarn;
    finding.fix = "ulimit -l unlimited, or LimitMEMLOCK=infinity: io_uring's buffers are locked";
  }
  return finding;
}

Finding check_block_cache() {
  return {Verdict::kOk, "block_cache",
          fmt::format("{} for a store whose options choose none: an eighth of the memory",
                      console::human_bytes(static_cast<double>(tree::default_block_cache_bytes()))),
          ""};
}

Finding check_entry_cache() {
  return {Verdict::kOk, "entry_cache",
          fmt::format("{} for a store whose options choose none: a sixteenth of the memory",
                      console::human_bytes(static_cast<double>(tree::default_entry_cache_bytes()))),
          ""};
}

Finding check_filters(const std::string& db) {
  Finding finding{Verdict::kOk, "filters",
                  fmt::format("Bloom, {} bits a key, for a store whose options choose none",
                              tree::kBloomBitsPerKey),
                  ""};
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  if (!console::load_options(db, &options, &families).ok()) return finding;
  for (const rocksdb::ColumnFamilyDescriptor& family : families) {
    const auto* const table =
        family.options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    const bool has_filter = table != nullptr && table->filter_policy != nullptr;
    finding.found += fmt::format("; {} in {}: {}", family.name, db,
                                 has_filter ? table->filter_policy->GetId() : "none");
    if (has_filter) continue;
    finding.verdict = Verdict::kWarn;
    finding.fix =
        "set a filter_policy, or open it as a Store with read_defaults: files get filters when "
        "they are written anew";
  }
  return finding;
}

Finding check_residency(const std::string& db) {
  std::uint64_t files = 0;
  std::uint64_t kept = 0;
  residency::Wanted all;
  base::CachedBytes cached;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(db, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".sst") continue;
    const std::string path = entry->path().string();
    ++files;
    const auto wanted = residency::wanted_by(path);
    if (!wanted.ok()) continue;
    ++kept;
    all.keys += wanted.value().keys;
    all.memory_bytes += wanted.value().memory_bytes;
    count_cached(path, &cached);
  }
  if (files == 0) return {Verdict::kOk, "residency", "no tables whose keys could be resident", ""};
  const std::string bytes = console::human_bytes(static_cast<double>(all.memory_bytes));
  return {Verdict::kOk, "residency",
          fmt::format("{} of {} tables can be resident: {} keys in {} (Options::residency_bytes); "
                      "{:.0f} % of these tables are in the system's cache",
                      kept, files, all.keys, bytes, 100 * cached.share()),
          ""};
}

Finding check_file_system(const std::string& name, const std::string& path) {
  const auto folder = nearest_folder(path);
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0 || access(folder.c_str(), W_OK) != 0) {
    return {Verdict::kFail, name, fmt::format("{}: {}", folder.string(), std::strerror(errno)),
            "choose a folder that this user may write"};
  }
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_bsize);
  const std::string kind = file_system_name(info.f_type);
  const bool memory = info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
  Finding finding{Verdict::kOk, name,
                  fmt::format("{}: {}{}, {} free", folder.string(), kind,
                              is_dax(folder) ? " with DAX" : "", console::human_bytes(free)),
                  ""};
  if (memory) {
    finding.verdict = Verdict::kWarn;
    finding.fix = "tmpfs is lost with the power; use it for benchmarks only";
    const bool huge = base::gives_huge_pages(folder.string());
    if (info.f_type == TMPFS_MAGIC) finding.found += huge ? ", huge pages" : ", small pages";
    if (info.f_type == TMPFS_MAGIC && !huge) {
      finding.fix +=
          "; a kernel of 6.1 or newer with transparent huge pages gives the log's new files huge "
          "pages, which make batches faster";
    }
  } else if (info.f_type == NFS_SUPER_MAGIC || info.f_type == OVERLAYFS_SUPER_MAGIC) {
    finding.verdict = Verdict::kWarn;
    finding.fix = "use a local ext4 or xfs: locks and fdatasync mean less here";
  } else if (free < static_cast<double>(1ULL << 30)) {
    finding.verdict = Verdict::kWarn;
    finding.fix = "make room: a flush or a compaction needs space for its output";
  }
  return finding;
}

Finding check_sync_latency(const std::string& name, const std::string& path) {
  constexpr int kWrites = 100;
  constexpr std::uint64_t kSlowNs = 5'000'000;
  const std::string folder = nearest_folder(path).string();
  std::string file = folder + "/breccia-doctor-XXXXXX";
  const int fd = mkostemp(file.data(), O_CLOEXEC);
  if (fd < 0) {
    return {Verdict::kFail, name, fmt::format("{}: {}", folder, std::strerror(errno)),
            "choose a folder that this user may write"};
  }
  unlink(file.c_str());
  base::Histogram latency;
  const std::array<char, 512> block{};
  bool failed = false;
  for (int i = 0; i < kWrites && !failed; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    failed = write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
             fdatasync(fd) != 0;
    latency.record(static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()));
  }
  const std::string cause = std::strerror(errno);
  close(fd);
  if (failed) return {Verdict::kFail, name, folder + ": " + cause, "see the kernel's log: dmesg"};
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  Finding finding{Verdict::kOk, name,
                  fmt::format("{}: {} writes with fdatasync, p50 {:.0f} us, p99 {:.0f} us", folder,
                              kWrites, us(latency.percentile(50)), us(latency.percentile(99))),
                  ""};
  if (latency.percentile(50) > kSlowNs) {
    finding.verdict = Verdict::kWarn;
    finding.fix = "put --wal_dir on a faster device, or write large batches";
  }
  return finding;
}

}  // namespace breccia::cli
