#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "wal/intake.h"
#include "wal/log_options.h"
#include "wal/segment_pool.h"

namespace breccia::wal {

/// A segment that lies below what is needed, and is kept for those who follow the log.
struct KeptSegment {
  std::uint64_t base = 0;
  std::uint64_t end = 0;
  std::string path;
};

/// A log after recovery and repair. Private to the log.
struct OpenedLog {
  std::unique_ptr<FolderLock> lock;
  std::shared_ptr<SegmentPool> pool;
  std::vector<SegmentPtr> segments;   // without gaps; the last is fresh
  std::vector<KeptSegment> released;  // those right below, without gaps
  std::uint64_t begin = 0;            // all below is released
  std::uint64_t end = 0;              // where the first new frame goes, in the last segment
};

/// Reads the log's folder, replays it, and only then changes it: what lies behind the chain's end
/// is removed, newest first, a fresh segment is made, the chain's last segment gets its closing
/// frame. A crash at any point leaves a log that recovers to the same frames.
/// Errors  as Log::open.
Result<OpenedLog> open_log(const LogOptions& options, std::uint64_t from,
                           const std::function<Status(const RecoveredFrame&)>& replay,
                           LogRecovery* recovery);
Result<OpenedLog> open_log(const LogOptions& options, std::uint64_t from, LogIntake* intake,
                           LogRecovery* recovery);

/// A log as it lies in its folder.
struct ReadLog {
  std::unique_ptr<FolderLock> lock;  // no store opens the log while it is held
  std::uint64_t store_id = 0;        // 0: there is no log
  std::vector<SegmentPtr> segments;  // all that there are, by ascending base
  std::vector<RecoveredFrame> frames;
  LogRecovery recovery;
};

/// Reads the log in options.dir as open_log does, and changes nothing: options.files should be
/// read_only_files().
/// Errors  as Log::open.
Result<ReadLog> read_log(const LogOptions& options, std::uint64_t from);

/// A random LogOptions::store_id.
std::uint64_t draw_store_id();

/// The identity of the log in `dir`, by the newest segment's header; 0: there is no log. Nothing is
/// changed.
/// Errors  IOError: a store has the log open, or the medium; Corruption: the header is not intact.
Result<std::uint64_t> log_identity(const std::string& dir);
/// The same of a log in `files`.
Result<std::uint64_t> log_identity(const std::string& dir, const std::shared_ptr<Files>& files);

}  // namespace breccia::wal
