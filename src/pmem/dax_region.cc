#include <fcntl.h>
#include <libpmem2.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "pmem/lines.h"
#include "pmem/posix_file.h"
#include "pmem/region.h"

namespace breccia::pmem {
namespace {

struct ConfigDelete {
  void operator()(pmem2_config* config) const { pmem2_config_delete(&config); }
};
struct SourceDelete {
  void operator()(pmem2_source* source) const { pmem2_source_delete(&source); }
};
struct MapDelete {
  void operator()(pmem2_map* map) const { pmem2_map_delete(&map); }
};
using Config = std::unique_ptr<pmem2_config, ConfigDelete>;
using Source = std::unique_ptr<pmem2_source, SourceDelete>;
using Map = std::unique_ptr<pmem2_map, MapDelete>;

Status status_of_pmem2(const char* what, int code) {
  if (code == PMEM2_E_GRANULARITY_NOT_SUPPORTED || code == PMEM2_E_NOSUPP) {
    return Status::NotSupported(what, pmem2_errormsg());
  }
  return Status::IOError(what, pmem2_errormsg());
}

/// Maps the whole file, such that flushing cache lines (or nothing at all) makes stores durable.
/// Errors  NotSupported: stores to this file become durable by pages only.
Result<Map> map_file(int file) {
  BRECCIA_ASSERT(file >= 0);
  pmem2_config* raw_config = nullptr;
  if (const int code = pmem2_config_new(&raw_config); code != 0) {
    return status_of_pmem2("pmem2_config_new", code);
  }
  const Config config(raw_config);
  // "Required" is the coarsest that will do: byte granularity is accepted as well.
  const int set =
      pmem2_config_set_required_store_granularity(raw_config, PMEM2_GRANULARITY_CACHE_LINE);
  BRECCIA_ASSERT(set == 0);
  pmem2_source* raw_source = nullptr;
  if (const int code = pmem2_source_from_fd(&raw_source, file); code != 0) {
    return status_of_pmem2("pmem2_source_from_fd", code);
  }
  const Source source(raw_source);
  pmem2_map* raw_map = nullptr;
  if (const int code = pmem2_map_new(&raw_map, raw_config, raw_source); code != 0) {
    return status_of_pmem2("pmem2_map_new", code);
  }
  Map map(raw_map);
  BRECCIA_ASSERT(pmem2_map_get_store_granularity(raw_map) <= PMEM2_GRANULARITY_CACHE_LINE);
  return map;
}

class DaxRegion final : public Region {
 public:
  DaxRegion(std::optional<Descriptor> lock, Map map)
      : lock_(std::move(lock)),
        map_(std::move(map)),
        data_(static_cast<std::byte*>(pmem2_map_get_address(map_.get()))),
        size_(pmem2_map_get_size(map_.get())),
        flush_(pmem2_get_flush_fn(map_.get())),
        drain_(pmem2_get_drain_fn(map_.get())) {
    BRECCIA_ASSERT(reinterpret_cast<std::uintptr_t>(data_) % kPageBytes == 0);
    BRECCIA_ASSERT(flush_ != nullptr && drain_ != nullptr && size_ > 0);
  }

  RegionKind kind() const override { return RegionKind::kDax; }
  std::byte* data() override { return data_; }
  std::uint64_t size() const override { return size_; }

  using Region::persist;
  // Flushes and fences are the calling thread's own.
  Status persist(std::span<const Range> ranges) override {
    for (const Range& range : ranges) {
      BRECCIA_ASSERT(range.offset <= size_ && range.bytes <= size_ - range.offset);
      if (range.bytes > 0) flush_(data_ + range.offset, range.bytes);
    }
    drain_();
    return Status::OK();
  }

 private:
  // Declared first, so that the lock outlives the mapping.
  std::optional<Descriptor> lock_;
  Map map_;
  std::byte* data_;
  std::uint64_t size_;
  pmem2_flush_fn flush_;
  pmem2_drain_fn drain_;
};

/// Makes a file under another name and gives it its own once it is whole: a crash leaves no file
/// of the wrong size, and a file system without DAX no file at all.
Result<std::unique_ptr<Region>> create_dax_region(const std::string& path, std::uint64_t bytes) {
  if (bytes == 0) return Status::NotFound(path, "no such region, and no size to create it with");
  const std::string fresh = path + ".new";
  BRECCIA_TAKE(Descriptor file, create_locked(fresh, bytes));
  auto mapped = map_file(file.get());
  if (!mapped.ok()) {
    ::unlink(fresh.c_str());
    return mapped.status();
  }
  BRECCIA_ASSERT(pmem2_map_get_size(mapped.value().get()) == bytes);
  if (::fsync(file.get()) != 0) return status_of_errno("sync " + fresh, errno);
  BRECCIA_TRY(rename_file(fresh, path));
  BRECCIA_TRY(sync_folder_of_file(path));
  return std::unique_ptr<Region>(std::make_unique<DaxRegion>(std::move(file), mapped.take()));
}

}  // namespace

Result<std::unique_ptr<Region>> open_dax_region(const std::string& path, std::uint64_t bytes) {
  auto opened = open_locked(path);
  if (!opened.ok()) {
    if (opened.status().IsNotFound()) return create_dax_region(path, bytes);
    return opened.status();
  }
  Descriptor file = opened.take();
  // Whoever created it may have died between the rename and the sync that makes it durable.
  BRECCIA_TRY(sync_folder_of_file(path));
  BRECCIA_TAKE(Map map, map_file(file.get()));
  auto region = std::make_unique<DaxRegion>(std::move(file), std::move(map));
  if (bytes != 0 && region->size() != bytes) {
    return Status::InvalidArgument(path, "the region has another size");
  }
  return std::unique_ptr<Region>(std::move(region));
}

Result<std::unique_ptr<Region>> map_dax_file(int file) {
  BRECCIA_TAKE(Map map, map_file(file));
  return std::unique_ptr<Region>(std::make_unique<DaxRegion>(std::nullopt, std::move(map)));
}

bool supports_dax(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() < 0) return false;
  if (::ftruncate(file.get(), kPageBytes) != 0) return false;
  return map_file(file.get()).ok();
}

}  // namespace breccia::pmem
