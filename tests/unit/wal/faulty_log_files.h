#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wal/files.h"

namespace breccia::wal::testing {

/// Which call of each kind fails, counted down from its value; 0: none. After a failure, calls of
/// the kind work again, so that a log that does not stop by itself shows.
struct Faults {
  bool after = false;  // the call does its work before it fails
  int create = 0;
  int write = 0;
  int sync = 0;
  int rename = 0;
  int sync_dir = 0;
  int remove = 0;
  bool no_removals = false;  // all of them fail
  bool are_stale = false;    // files say so

  /// Makes a call by work(), unless it is the one that fails.
  template <class Work>
  auto call(int* countdown, const Status& failure, const Work& work) const -> decltype(work()) {
    const bool strikes = *countdown > 0 && --*countdown == 0;
    if (!strikes) return work();
    if (after) (void)work();
    return failure;
  }
};

class FaultyFile final : public SegmentFile {
 public:
  FaultyFile(std::unique_ptr<SegmentFile> below, std::shared_ptr<Faults> faults)
      : below_(std::move(below)), faults_(std::move(faults)) {}
  [[nodiscard]] std::byte* image() override { return below_->image(); }
  [[nodiscard]] std::uint64_t size() const override { return below_->size(); }
  [[nodiscard]] bool mapped() const override { return below_->mapped(); }
  void rest() override { below_->rest(); }
  [[nodiscard]] Status wake(const std::string& path) override { return below_->wake(path); }
  [[nodiscard]] Status write(std::uint64_t offset, std::uint64_t bytes) override {
    return faults_->call(&faults_->write, Status::IOError("injected write error"),
                         [&] { return below_->write(offset, bytes); });
  }
  [[nodiscard]] Status sync(std::uint64_t offset, std::uint64_t bytes) override {
    return faults_->call(&faults_->sync, Status::IOError("injected sync error"),
                         [&] { return below_->sync(offset, bytes); });
  }
  [[nodiscard]] bool is_stale() const override { return faults_->are_stale || below_->is_stale(); }
  [[nodiscard]] Status renew(const std::string& path) override { return below_->renew(path); }
  [[nodiscard]] Result<std::uint64_t> load() override { return below_->load(); }

 private:
  const std::unique_ptr<SegmentFile> below_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyLogFiles final : public Files {
 public:
  FaultyLogFiles(std::shared_ptr<Files> below, std::shared_ptr<Faults> faults)
      : below_(std::move(below)), faults_(std::move(faults)) {}

  [[nodiscard]] Result<bool> create_dir(const std::string& dir) override {
    return below_->create_dir(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<FolderLock>> lock(const std::string& dir) override {
    return below_->lock(dir);
  }
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& dir) override {
    return below_->list(dir);
  }
  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> create(const std::string& path,
                                                            std::uint64_t bytes) override {
    return faults_->call(&faults_->create, Status::NoSpace("injected", "full"),
                         [&] { return wrap(below_->create(path, bytes)); });
  }
  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open(const std::string& path) override {
    return wrap(below_->open(path));
  }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    return faults_->call(&faults_->rename, Status::IOError("injected rename error"),
                         [&] { return below_->rename(from, to); });
  }
  [[nodiscard]] Status remove(const std::string& path) override {
    if (faults_->no_removals) return Status::IOError("injected: not permitted");
    return faults_->call(&faults_->remove, Status::IOError("injected remove error"),
                         [&] { return below_->remove(path); });
  }
  [[nodiscard]] Status sync_dir(const std::string& dir) override {
    return faults_->call(&faults_->sync_dir, Status::IOError("injected folder error"),
                         [&] { return below_->sync_dir(dir); });
  }
  [[nodiscard]] std::shared_ptr<Files> for_looking() override { return below_->for_looking(); }

 private:
  Result<std::unique_ptr<SegmentFile>> wrap(Result<std::unique_ptr<SegmentFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<SegmentFile>(std::make_unique<FaultyFile>(file.take(), faults_));
  }

  const std::shared_ptr<Files> below_;
  const std::shared_ptr<Faults> faults_;
};

}  // namespace breccia::wal::testing
