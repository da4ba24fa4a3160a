#include <breccia/rocks.h>

#include "facade/db/core.h"

/// Rocks: what is the tree's alone, once the database is known to be open.

namespace breccia {

Status Rocks::SetDBOptions(const std::unordered_map<std::string, std::string>& options) {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().SetDBOptions(options);
}

Status Rocks::GetDbIdentity(std::string& identity) const {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().GetDbIdentity(identity);
}

Status Rocks::GetDbSessionId(std::string& session_id) const {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().GetDbSessionId(session_id);
}

Status Rocks::GetCreationTimeOfOldestFile(std::uint64_t* creation_time) {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().GetCreationTimeOfOldestFile(creation_time);
}

Status Rocks::GetLiveFilesChecksumInfo(rocksdb::FileChecksumList* checksums) {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().GetLiveFilesChecksumInfo(checksums);
}

Status Rocks::VerifyChecksum(const rocksdb::ReadOptions& options) {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().VerifyChecksum(options);
}

Status Rocks::DisableFileDeletions() {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().DisableFileDeletions();
}

Status Rocks::EnableFileDeletions(bool force) {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().EnableFileDeletions(force);
}

Status Rocks::ResetStats() {
  BRECCIA_TRY(core_->check_open());
  return core_->tree().ResetStats();
}

void Rocks::EnableManualCompaction() {
  if (core_->check_open().ok()) core_->tree().EnableManualCompaction();
}

void Rocks::DisableManualCompaction() {
  if (core_->check_open().ok()) core_->tree().DisableManualCompaction();
}

}  // namespace breccia
