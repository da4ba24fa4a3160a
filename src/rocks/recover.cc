#include "rocks/recover.h"

#include <algorithm>

#include "base/parallel.h"
#include "batch/key_columns.h"
#include "wal/format.h"

namespace breccia::rocks {

namespace {

/// Neighbouring frames that become one run.
struct Piece {
  std::size_t first;
  std::size_t last;  // inclusive
  bool sorted;       // one frame, in the order of its descriptors
};

/// A frame stays a run of its own if it has descriptors and a fair share of all entries; the others
/// are sorted together. So there are few runs, however many frames the log holds.
std::vector<Piece> cut_pieces(const std::vector<wal::RecoveredFrame>& frames) {
  constexpr std::uint64_t kSharesMax = 8;
  constexpr std::uint64_t kEntriesPerPieceMax = 1 << 20;
  std::uint64_t total = 0;
  for (const wal::RecoveredFrame& frame : frames) total += frame.record_count;
  const std::uint64_t share = (total + kSharesMax - 1) / kSharesMax;
  const std::uint64_t piece_max = std::max(share, kEntriesPerPieceMax);
  std::vector<Piece> pieces;
  std::uint64_t entries = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const bool sorted = frames[i].descriptors != nullptr && frames[i].record_count >= share;
    if (!sorted && !pieces.empty() && !pieces.back().sorted && entries < piece_max) {
      pieces.back().last = i;
    } else {
      pieces.push_back({i, i, sorted});
      entries = 0;
    }
    entries += frames[i].record_count;
  }
  return pieces;
}

/// The entries of a piece as a backend takes them.
class Collected {
 public:
  explicit Collected(exec::HostMemory& memory) : keys_(memory), payloads_(memory) {}

  [[nodiscard]] bool add(const std::byte* record, std::uint64_t position) {
    const wal::RecordHeader header = wal::record_header(record);
    if (!keys_.append(wal::record_key(record), header.key_bytes()) ||
        !payloads_.reserve(payloads_.size() + 1)) {
      return false;
    }
    payloads_.push(position | static_cast<std::uint64_t>(header.op()));
    return true;
  }
  [[nodiscard]] bool add_frame(const wal::RecoveredFrame& frame, bool sorted) {
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < frame.record_count; ++i) {
      if (sorted) offset = std::uint64_t{frame.descriptors[i]} * 8;
      const std::byte* const record = frame.records + offset;
      if (!add(record, frame.records_position + offset)) return false;
      if (!sorted) offset += wal::record_header(record).record_bytes();
    }
    return true;
  }

  [[nodiscard]] exec::KeyColumnsRef keys() const { return keys_.ref(); }
  [[nodiscard]] const std::uint64_t* payloads() const { return payloads_.data(); }
  [[nodiscard]] std::uint64_t count() const { return payloads_.size(); }

 private:
  batch::KeyColumns keys_;
  exec::HostVector<std::uint64_t> payloads_;
};

Result<memtable::MemRunPtr> build_piece(const std::vector<wal::RecoveredFrame>& frames,
                                        const Piece& piece, exec::Backend& backend) {
  Collected entries(exec::plain_host_memory());
  for (std::size_t i = piece.first; i <= piece.last; ++i) {
    if (!entries.add_frame(frames[i], piece.sorted)) {
      return Status::MemoryLimit("no memory to recover the log");
    }
  }
  auto run = std::make_shared<memtable::MemRun>();
  if (entries.count() == 0) return memtable::MemRunPtr(std::move(run));
  BRECCIA_TAKE(run->run, backend.build_run(entries.keys(), entries.payloads(), 0, piece.sorted,
                                           /*descriptors=*/nullptr));
  if (run->run->host_view() != nullptr) return memtable::MemRunPtr(std::move(run));
  if (piece.sorted) {
    run->descriptors = frames[piece.first].descriptors;
    run->records = frames[piece.first].records_position;
  } else {
    std::vector<std::uint64_t> payloads(entries.count());
    BRECCIA_TRY(backend.read_payloads(*run->run, payloads.data()));
    run->payloads = std::make_shared<const std::vector<std::uint64_t>>(std::move(payloads));
  }
  return memtable::MemRunPtr(std::move(run));
}

}  // namespace

Result<std::vector<memtable::MemRunPtr>> recover_runs(
    const std::vector<wal::RecoveredFrame>& frames, std::uint64_t applied, exec::Backend& backend) {
  const std::vector<Piece> pieces = cut_pieces(frames);
  std::vector<memtable::MemRunPtr> runs(pieces.size());
  std::vector<Status> statuses(pieces.size());
  base::parallel_for(std::size_t{0}, pieces.size(), [&](std::size_t i) {
    auto run = build_piece(frames, pieces[i], backend);
    if (run.ok()) {
      runs[i] = run.take();
    } else {
      statuses[i] = run.status();
    }
  });
  for (const Status& status : statuses) BRECCIA_TRY(status);
  // A run reaches from the end of the one before it to its own frames' end.
  std::vector<memtable::MemRunPtr> newest_first;
  std::uint64_t begin = applied;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (runs[i]->run == nullptr) continue;
    const wal::RecoveredFrame& last = frames[pieces[i].last];
    auto placed = std::make_shared<memtable::MemRun>(*runs[i]);
    placed->begin = begin;
    placed->end = last.records_position + last.record_bytes;
    begin = placed->end;
    newest_first.push_back(std::move(placed));
  }
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

}  // namespace breccia::rocks
