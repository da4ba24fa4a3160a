#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <string>

#include "wal/files.h"

namespace breccia::wal {

/// An Env of RocksDB's that has the log's files, too. A store whose Options::rocksdb.env is one
/// keeps its whole state there; with any other, its log lies in files of the operating system.
/// Owner   lives longer than the stores.
class FilesEnv : public rocksdb::EnvWrapper {
 public:
  static const char* kClassName() { return "breccia.FilesEnv"; }

  /// `env` has the tree's files.
  FilesEnv(std::unique_ptr<rocksdb::Env> env, std::shared_ptr<Files> files)
      : EnvWrapper(std::move(env)), files_(std::move(files)) {
    pass_through();
  }
  /// The same, and `env` is the caller's and lives longer.
  FilesEnv(rocksdb::Env* env, std::shared_ptr<Files> files)
      : EnvWrapper(env), files_(std::move(files)) {
    pass_through();
  }

  [[nodiscard]] const std::shared_ptr<Files>& files() const { return files_; }
  [[nodiscard]] const char* Name() const override { return kClassName(); }

 private:
  /// RocksDB asks for these rather than for the Env's own functions.
  void pass_through() {
    file_system_ = target()->GetFileSystem();
    system_clock_ = target()->GetSystemClock();
  }

  const std::shared_ptr<Files> files_;
};

/// The files of logs of stores whose Env is `env`; null where `env` has none, or is null. RocksDB's
/// wrappers give the name of what they wrap for their own, so the type is asked, too; not of
/// others' Envs, which may be compiled without types.
inline std::shared_ptr<Files> files_of(rocksdb::Env* env) {
  const bool is_named_so = env != nullptr && env->IsInstanceOf(FilesEnv::kClassName());
  const auto* with_files = is_named_so ? dynamic_cast<FilesEnv*>(env) : nullptr;
  return with_files == nullptr ? nullptr : with_files->files();
}

}  // namespace breccia::wal
