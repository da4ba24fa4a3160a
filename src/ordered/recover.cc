#include "ordered/recover.h"

#include <algorithm>

#include "base/parallel.h"
#include "ordered/state.h"
#include "record/entry_columns.h"
#include "wal/format.h"

/// 1. cut each frame where its family changes, and take its range deletions out
/// 2. group the parts of a family into pieces that become a run each
/// 3. build the runs in parallel, and give each the positions from the one before it to its own end

namespace breccia::ordered {

namespace {

/// The records of one family in one frame.
struct Part {
  const wal::RecoveredFrame* frame;
  std::uint64_t offset;              // of its first record, from frame->records
  std::uint32_t records;             // point operations and range deletions
  const std::uint32_t* descriptors;  // of its records in run order; null if there are none

  [[nodiscard]] std::uint64_t end() const { return frame->records_position + frame->record_bytes; }
};
using Parts = std::map<FamilyId, std::vector<Part>>;

void cut_frame(const wal::RecoveredFrame& frame, Parts* parts, RecoveredFamilies* families) {
  if (frame.record_count == 0) return;
  if (frame.only_default_points) {
    (*parts)[kDefaultFamily].push_back({&frame, 0, frame.record_count, frame.descriptors});
    return;
  }
  FamilyId family = kDefaultFamily;
  Part part{&frame, 0, 0, frame.descriptors};
  const auto close = [&] {
    if (part.records > 0) (*parts)[family].push_back(part);
  };
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < frame.record_count; ++i) {
    const std::byte* const record = frame.records + offset;
    const record::RecordHeader header = record::record_header(record);
    offset += header.record_bytes();
    if (header.op() == record::Op::kFamily) {
      close();
      std::memcpy(&family, record::record_value(record), sizeof family);
      // Behind the name's own descriptor.
      const std::uint32_t* const descriptors =
          frame.descriptors == nullptr ? nullptr : frame.descriptors + i + 1;
      part = {&frame, offset, 0, descriptors};
      continue;
    }
    ++part.records;
    if (header.op() != record::Op::kDeleteRange) continue;
    const memtable::Tombstone tombstone{
        {record::record_key(record), header.key_bytes()},
        {record::record_value(record), header.value_bytes},
        frame.records_position + static_cast<std::uint64_t>(record - frame.records)};
    if (tombstone.begin.compare(tombstone.end) < 0) {
      (*families)[family].tombstones.push_back(tombstone);
    }
  }
  close();
}

/// Neighbouring parts that become one run.
struct Piece {
  std::size_t first;
  std::size_t last;  // inclusive
  bool sorted;       // one part, in the order of its descriptors
};

/// A part stays a run of its own if it has descriptors and a fair share of all entries; the others
/// are sorted together. So there are few runs, however many frames the log holds.
std::vector<Piece> cut_pieces(const std::vector<Part>& parts) {
  constexpr std::uint64_t kSharesMax = 8;
  constexpr std::uint64_t kEntriesPerPieceMax = 1 << 20;
  std::uint64_t total = 0;
  for (const Part& part : parts) total += part.records;
  const std::uint64_t share = (total + kSharesMax - 1) / kSharesMax;
  const std::uint64_t piece_max = std::max(share, kEntriesPerPieceMax);
  std::vector<Piece> pieces;
  std::uint64_t entries = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool sorted = parts[i].descriptors != nullptr && parts[i].records >= share;
    if (!sorted && !pieces.empty() && !pieces.back().sorted && entries < piece_max) {
      pieces.back().last = i;
    } else {
      pieces.push_back({i, i, sorted});
      entries = 0;
    }
    entries += parts[i].records;
  }
  return pieces;
}

/// Adds the point operations of `part`: in run order if `sorted`, else in the log's.
/// Errors  false: out of memory.
bool add_part(const Part& part, bool sorted, record::EntryColumns* columns) {
  std::uint64_t offset = part.offset;
  for (std::uint32_t i = 0; i < part.records; ++i) {
    if (sorted) offset = std::uint64_t{part.descriptors[i]} * 8;
    const std::byte* const record = part.frame->records + offset;
    const record::RecordHeader header = record::record_header(record);
    const std::uint64_t position = part.frame->records_position + offset;
    if (record::is_point(header.op()) &&
        !columns->append(record, position | static_cast<std::uint64_t>(header.op()))) {
      return false;
    }
    if (!sorted) offset += header.record_bytes();
  }
  return true;
}

Result<MemRunPtr> build_piece(const std::vector<Part>& parts, const Piece& piece,
                              runs::Backend& backend) {
  record::EntryColumns entries(exec::plain_host_memory());
  for (std::size_t i = piece.first; i <= piece.last; ++i) {
    if (!add_part(parts[i], piece.sorted, &entries)) {
      return Status::MemoryLimit("no memory to recover the log");
    }
  }
  auto run = std::make_shared<MemRun>();
  if (entries.count() == 0) return MemRunPtr(std::move(run));
  BRECCIA_TAKE(run->run, backend.build_run(entries.ref(piece.sorted), /*descriptors=*/nullptr));
  run->has_merges = entries.has_merges();
  Order order;
  if (piece.sorted && run->run->host_view() == nullptr) {
    order.descriptors = parts[piece.first].descriptors;
    order.records = parts[piece.first].frame->records_position;
  } else {
    BRECCIA_TAKE(order, read_order(backend, run->run));
  }
  run->set_order(std::move(order));
  return MemRunPtr(std::move(run));
}

Result<std::vector<MemRunPtr>> recover_runs(const std::vector<Part>& parts, std::uint64_t applied,
                                            runs::Backend& backend) {
  const std::vector<Piece> pieces = cut_pieces(parts);
  std::vector<MemRunPtr> runs(pieces.size());
  std::vector<Status> statuses(pieces.size());
  base::parallel_for(std::size_t{0}, pieces.size(), [&](std::size_t i) {
    auto run = build_piece(parts, pieces[i], backend);
    if (run.ok()) {
      runs[i] = run.take();
    } else {
      statuses[i] = run.status();
    }
  });
  for (const Status& status : statuses) BRECCIA_TRY(status);
  // A run reaches from the end of the one before it to its own parts' end.
  std::vector<MemRunPtr> newest_first;
  std::uint64_t begin = applied;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (runs[i]->run == nullptr) continue;
    auto placed = std::make_shared<MemRun>(*runs[i]);
    placed->begin = begin;
    placed->end = parts[pieces[i].last].end();
    placed->set_order(runs[i]->orders.front());
    begin = placed->end;
    newest_first.push_back(std::move(placed));
  }
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

}  // namespace

Result<RecoveredFamilies> recover_families(const std::vector<wal::RecoveredFrame>& frames,
                                           std::uint64_t applied, runs::Backend& backend) {
  RecoveredFamilies families;
  Parts parts;
  for (const wal::RecoveredFrame& frame : frames) cut_frame(frame, &parts, &families);
  for (const auto& [family, own] : parts) {
    BRECCIA_TAKE(families[family].runs, recover_runs(own, applied, backend));
  }
  return families;
}

}  // namespace breccia::ordered
