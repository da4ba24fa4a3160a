#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "pmem/disk.h"
#include "wal/files.h"
#include "wal/sim/sim_files.h"

namespace breccia::crash {

/// A simulated disk as marks of the hash engine are written to it.
/// Threads one.
class SimMarkDisk final : public pmem::Disk {
 public:
  explicit SimMarkDisk(wal::SimDisk* disk) : disk_(disk), files_(disk->files()) {}

  Result<std::unique_ptr<pmem::DiskFile>> open(const std::string& path) override {
    BRECCIA_TAKE(auto file, disk_->open(path));
    return std::unique_ptr<pmem::DiskFile>(std::make_unique<File>(std::move(file)));
  }
  Result<std::unique_ptr<pmem::DiskFile>> create(const std::string& path,
                                                 std::uint64_t /*bytes*/) override {
    BRECCIA_TAKE(auto file, disk_->create(path));
    return std::unique_ptr<pmem::DiskFile>(std::make_unique<File>(std::move(file)));
  }
  Status rename(const std::string& from, const std::string& to) override {
    return files_->rename(from, to);
  }
  Status sync_folder_of(const std::string& path) override {
    return files_->sync_dir(wal::folder_above(path));
  }

 private:
  class File final : public pmem::DiskFile {
   public:
    explicit File(std::unique_ptr<wal::SimGrowing> file) : file_(std::move(file)) {}
    Result<std::uint64_t> size() override { return file_->size(); }
    Status read(std::uint64_t offset, std::span<std::byte> into) override {
      const std::size_t got =
          file_->read(offset, into.size(), reinterpret_cast<char*>(into.data()));
      return got == into.size() ? Status::OK() : Status::IOError("the file ends early");
    }
    Status write(std::uint64_t offset, std::span<const std::byte> from) override {
      EXPECT_EQ(offset, file_->size());
      return file_->append({reinterpret_cast<const char*>(from.data()), from.size()});
    }
    Status sync() override { return file_->sync(); }

   private:
    const std::unique_ptr<wal::SimGrowing> file_;
  };

  wal::SimDisk* const disk_;
  const std::shared_ptr<wal::Files> files_;
};

}  // namespace breccia::crash
