#include "tree/whole_page_env.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/huge_pages.h"
#include "base/memory.h"

namespace breccia::tree {

namespace {

using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr std::uint64_t kPageBytes = base::kHugePageBytes;

/// A table that is written page by page.
/// Threads one owner.
class WholePages final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WholePages(std::unique_ptr<FSWritableFile> file, std::unique_ptr<char[]> page,
             base::Precedence* disk)
      : FSWritableFileOwnerWrapper(std::move(file)), page_(std::move(page)), disk_(disk) {}
  /// Who neither syncs nor closes a file has what he appended, as ever.
  ~WholePages() override {
    base::as_memory_allows(
        [&] { write_held(IOOptions(), /*debug=*/nullptr).PermitUncheckedError(); });
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    if (has_failed_) return failed_before();
    for (std::uint64_t at = 0; at < data.size();) {
      const std::uint64_t room = kPageBytes - (written_ + held_) % kPageBytes;
      const std::uint64_t bytes = std::min<std::uint64_t>(room, data.size() - at);
      BRECCIA_ASSERT(held_ + bytes <= kPageBytes);
      std::memcpy(page_.get() + held_, data.data() + at, bytes);
      held_ += bytes;
      at += bytes;
      if (bytes < room) break;
      if (IOStatus status = write_held(options, debug); !status.ok()) return status;
      // It goes to the disk now, not all at once with the sync, which somebody waits for.
      if (IOStatus status = sync_range(written_, options, debug); !status.ok()) return status;
    }
    return IOStatus::OK();
  }
  /// What is to be compared on its way goes as it comes.
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& sums, IODebugContext* debug) override {
    if (IOStatus status = write_held(options, debug); !status.ok()) return status;
    IOStatus status = target()->Append(data, options, sums, debug);
    has_failed_ = !status.ok();
    written_ += data.size();
    return status;
  }
  IOStatus Truncate(std::uint64_t bytes, const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus status = write_held(options, debug); !status.ok()) return status;
    IOStatus status = target()->Truncate(bytes, options, debug);
    has_failed_ = !status.ok();
    written_ = bytes;
    range_synced_ = std::min(range_synced_, written_);
    return status;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = write_held(options, debug);
    IOStatus closed = target()->Close(options, debug);
    return status.ok() ? closed : status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus status = write_held(options, debug); !status.ok()) return status;
    return target()->Sync(options, debug);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus status = write_held(options, debug); !status.ok()) return status;
    return target()->Fsync(options, debug);
  }
  /// Of what is written already; the rest with the next one.
  IOStatus RangeSync(std::uint64_t offset, std::uint64_t bytes, const IOOptions& options,
                     IODebugContext* debug) override {
    return sync_range(std::min(offset + bytes, written_), options, debug);
  }
  bool IsSyncThreadSafe() const override { return false; }
  std::uint64_t GetFileSize(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return written_ + held_;
  }
  void SetIOPriority(rocksdb::Env::IOPriority priority) override {
    gives_way_ = priority == rocksdb::Env::IO_LOW;
    target()->SetIOPriority(priority);
  }
  rocksdb::Env::IOPriority GetIOPriority() override { return target()->GetIOPriority(); }

 private:
  IOStatus write_held(const IOOptions& options, IODebugContext* debug) {
    if (has_failed_) return failed_before();
    if (held_ == 0) return IOStatus::OK();
    if (gives_way_ && disk_ != nullptr) disk_->give_way(held_);
    IOStatus status = target()->Append(Slice(page_.get(), held_), options, debug);
    // How much of it is there is unknown: it cannot be written again behind that.
    has_failed_ = !status.ok();
    written_ += std::exchange(held_, 0);
    return status;
  }
  /// Of what is written, up to `end`, what was not begun to be synced before.
  IOStatus sync_range(std::uint64_t end, const IOOptions& options, IODebugContext* debug) {
    if (end <= range_synced_) return IOStatus::OK();
    IOStatus status = target()->RangeSync(range_synced_, end - range_synced_, options, debug);
    if (status.ok()) range_synced_ = end;
    // The system may have told all that it knows of what failed.
    has_failed_ = has_failed_ || !status.ok();
    return status;
  }
  /// A write failed before. Without words, which would want memory: who closes a file hears it,
  /// too.
  static IOStatus failed_before() { return IOStatus::IOError(); }

  const std::unique_ptr<char[]> page_;
  base::Precedence* const disk_;
  std::uint64_t written_ = 0;
  std::uint64_t held_ = 0;  // in page_, behind what is written
  std::uint64_t range_synced_ = 0;
  bool has_failed_ = false;
  bool gives_way_ = false;  // nobody waits for what is written
};

class WholePageFiles final : public rocksdb::FileSystemWrapper {
 public:
  static const char* kClassName() { return "breccia.WholePageFiles"; }

  WholePageFiles() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  [[nodiscard]] const char* Name() const override { return kClassName(); }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    IOStatus status = target()->NewWritableFile(name, options, file, debug);
    if (!status.ok() || !name.ends_with(".sst") || (*file)->use_direct_io()) return status;
    // Without the memory it is written as it comes.
    base::as_memory_allows([&] { write_by_whole_pages(file, base::Precedence::of_file(name)); });
    return status;
  }
  Status RegisterDbPaths(const std::vector<std::string>& paths) override {
    return target()->RegisterDbPaths(paths);
  }
  Status UnregisterDbPaths(const std::vector<std::string>& paths) override {
    return target()->UnregisterDbPaths(paths);
  }
};

}  // namespace

void write_by_whole_pages(std::unique_ptr<rocksdb::FSWritableFile>* file, base::Precedence* disk) {
  std::unique_ptr<char[]> page(new char[kPageBytes]);
  *file = std::make_unique<WholePages>(std::move(*file), std::move(page), disk);
}

rocksdb::Env* whole_page_env(rocksdb::Env* env) {
  if (env != rocksdb::Env::Default()) return env;
  // It never ends, as RocksDB's own: a database may be read that outlives everything else.
  static rocksdb::Env* const pages =
      rocksdb::NewCompositeEnv(std::make_shared<WholePageFiles>()).release();
  return pages;
}

bool is_whole_page_env(const rocksdb::Env* env) {
  if (env == nullptr) return false;
  const std::string_view files = env->GetFileSystem()->Name();
  return files == WholePageFiles::kClassName();
}

bool is_system_env(const rocksdb::Env* env) {
  return env == rocksdb::Env::Default() || is_whole_page_env(env);
}

}  // namespace breccia::tree
