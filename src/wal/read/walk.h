#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "wal/intake.h"
#include "wal/log_options.h"
#include "wal/segment_table.h"

namespace breccia::wal {

using VisitFrame = std::function<Status(const RecoveredFrame& frame, std::uint64_t end)>;

/// Calls visit(frame, end) for the frames of a log's segments that begin in [from, to), in order;
/// `end`: the position behind it, from which a walk may go on.
/// Shape   both are ends of frames, or begins; all frames between them are committed, and lie in
///         segments of the table.
/// Errors  those of visit; Corruption: a header on the way is not intact.
/// Cost    a look at each header; what is in the frames was checked when it was written or read.
[[nodiscard]] Status walk_frames(const SegmentTable& table, std::uint64_t from, std::uint64_t to,
                                 const VisitFrame& visit);

/// Lets an intake take in the records of these frames, which many cores bring.
/// Shape   as walk_frames().
/// Errors  Corruption: a header on the way is not intact; std::bad_alloc.
[[nodiscard]] Status take_in_frames(const SegmentTable& table, std::uint64_t from, std::uint64_t to,
                                    LogIntake* intake);

}  // namespace breccia::wal
