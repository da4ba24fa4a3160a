#include "wal/walk.h"

#include "base/assert.h"
#include "wal/frame.h"
#include "wal/recovery.h"

namespace breccia::wal {

Status walk_frames(const SegmentTable& table, std::uint64_t from, std::uint64_t to,
                   const std::function<Status(const RecoveredFrame&)>& visit) {
  for (const SegmentPtr& segment : table.segments()) {
    if (segment->end() <= from) continue;
    if (segment->base >= to) break;
    const SegmentView view{segment->base, segment->size, segment->file->image(), segment->path,
                           segment->size};
    std::uint64_t store_id = 0;
    std::uint64_t position = 0;
    BRECCIA_TRY(check_segment(view, &store_id, &position));
    while (position < to) {
      FrameHeader header;
      if (!header_at(view, position, &header)) {
        return Status::Corruption(view.path + ", offset " + std::to_string(position - view.base) +
                                  ": no frame begins here");
      }
      if (header.flags == kFrameCloses) break;
      if (position >= from) BRECCIA_TRY(visit(recovered_frame(view.at(position))));
      position += FrameLayout::of(header).end;
      BRECCIA_ASSERT(position < view.end());
    }
  }
  return Status::OK();
}

}  // namespace breccia::wal
