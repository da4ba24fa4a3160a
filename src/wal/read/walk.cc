#include "wal/read/walk.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "wal/frame.h"
#include "wal/read/runs.h"
#include "wal/recovery.h"

namespace breccia::wal {
namespace {

SegmentView view_of(const Segment& segment) {
  return {segment.base, segment.size, segment.file->image(), segment.path, segment.size};
}

Status no_frame(const SegmentView& view, std::uint64_t position) {
  return Status::Corruption(view.path + ", offset " + std::to_string(position - view.base) +
                            ": no frame begins here");
}

/// The frames of a segment that begin in [from, to).
Result<std::vector<FrameRun>> runs_of(const SegmentView& view, std::uint64_t from, std::uint64_t to,
                                      std::uint64_t run_bytes) {
  std::uint64_t store_id = 0;
  std::uint64_t first = 0;
  BRECCIA_TRY(check_segment(view, &store_id, &first));
  const std::uint64_t begin = std::max(first, from);
  BRECCIA_ASSERT(view.base < begin && view.base < to);
  SegmentHops hops = hop(view, {.first = begin, .from = begin, .to = to, .run_bytes = run_bytes});
  if (hops.end < to && !hops.closes) return no_frame(view, hops.end);
  return std::move(hops.runs);
}

}  // namespace

Status walk_frames(const SegmentTable& table, std::uint64_t from, std::uint64_t to,
                   const VisitFrame& visit) {
  for (const SegmentPtr& segment : table.segments()) {
    if (segment->end() <= from) continue;
    if (segment->base >= to) break;
    const SegmentView view = view_of(*segment);
    std::uint64_t store_id = 0;
    std::uint64_t first = 0;
    BRECCIA_TRY(check_segment(view, &store_id, &first));
    for (std::uint64_t position = std::max(first, from); position < to;) {
      FrameHeader header;
      if (!header_at(view, position, &header)) return no_frame(view, position);
      if (header.flags == kFrameCloses) break;
      const std::uint64_t end = position + FrameLayout::of(header).end;
      BRECCIA_ASSERT(end < view.end());
      BRECCIA_TRY(visit(recovered_frame(view.at(position)), end));
      position = end;
    }
  }
  return Status::OK();
}

Status take_in_frames(const SegmentTable& table, std::uint64_t from, std::uint64_t to,
                      LogIntake* intake) {
  BRECCIA_ASSERT(from <= to && intake != nullptr);
  std::vector<SegmentView> views;
  for (const SegmentPtr& segment : table.segments()) {
    if (segment->end() > from && segment->base < to) views.push_back(view_of(*segment));
  }
  std::vector<std::vector<FrameRun>> found(views.size());
  std::vector<Status> statuses(views.size());
  base::parallel_for(std::size_t{0}, views.size(), [&](std::size_t i) {
    auto runs = runs_of(views[i], from, to, run_bytes_for(to - from));
    statuses[i] = runs.status();
    if (runs.ok()) found[i] = runs.take();
  });
  for (const Status& status : statuses) BRECCIA_TRY(base::copy_of(status));
  std::vector<FrameRun> runs;
  for (const auto& some : found) runs.insert(runs.end(), some.begin(), some.end());
  const ReadEnd end =
      read_runs(runs, intake, table.places(), [](const FrameRun& run, LogIntake::Part* part) {
        add_frames(run, part);
        return run.end;
      });
  BRECCIA_ASSERT(end.run == runs.size());
  return Status::OK();
}

}  // namespace breccia::wal
