#include "wal/read/runs.h"

#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/parallel.h"
#include "wal/frame.h"

namespace breccia::wal {
namespace {

/// Below this many bytes of frames, one core is as fast as many.
constexpr std::uint64_t kParallelBytesMin = 1ULL << 20;

void add_frame(const FrameHeader& header, FrameRun* run) {
  BRECCIA_ASSERT(run->end == header.position);
  const FrameLayout layout = FrameLayout::of(header);
  ++run->frames;
  run->entries += header.record_count;
  run->record_bytes += header.record_bytes;
  run->end += layout.end;
}

std::uint64_t bytes_of(std::span<const FrameRun> runs) {
  std::uint64_t bytes = 0;
  for (const FrameRun& run : runs) {
    BRECCIA_ASSERT(run.begin < run.end);
    bytes += run.end - run.begin;
  }
  return bytes;
}

bool is_in_order(std::span<const FrameRun> runs) {
  const auto overlap = [](const FrameRun& a, const FrameRun& b) { return a.end > b.begin; };
  return std::adjacent_find(runs.begin(), runs.end(), overlap) == runs.end();
}

/// A run that was read.
struct RunRead {
  std::size_t index = 0;
  std::uint64_t end = 0;  // the first bad frame's position, or the run's end
  std::unique_ptr<LogIntake::Part> part;
};

/// read_runs() with an intake.
class Reading {
 public:
  using Read = std::function<std::uint64_t(const FrameRun& run, LogIntake::Part* part)>;

  Reading(std::span<const FrameRun> runs, LogIntake* intake, const SegmentTable::Places& log,
          const Read& read)
      : runs_(runs), intake_(intake), log_(log), read_(read), end_{runs.size(), 0} {}

  ReadEnd by_one_core() {
    for (std::size_t i = 0; i < end_.run; ++i) take_in(read(i));
    BRECCIA_ASSERT(is_over_ || taken_ == runs_.size());
    return end_;
  }

  /// Runs are read ahead of the one that is taken in.
  ReadEnd by_all_cores() {
    const std::size_t cores = std::max(2U, std::thread::hardware_concurrency());
    tbb::task_group_context context(tbb::task_group_context::isolated);
    std::size_t next = 0;
    // An arena of its own keeps the caller's tasks out, and lets whoever waits help with the loops
    // in take_in(), which isolation would not.
    tbb::task_arena arena;
    arena.execute([&] {
      tbb::parallel_pipeline(
          cores + cores / 2,
          tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order,
                                              [&](tbb::flow_control& flow) {
                                                if (next < runs_.size() && !is_over_) return next++;
                                                flow.stop();
                                                return next;
                                              }) &
              tbb::make_filter<std::size_t, std::shared_ptr<RunRead>>(
                  tbb::filter_mode::parallel,
                  [&](std::size_t i) { return std::make_shared<RunRead>(read(i)); }) &
              tbb::make_filter<std::shared_ptr<RunRead>, void>(
                  tbb::filter_mode::serial_in_order,
                  [&](const std::shared_ptr<RunRead>& run) { take_in(std::move(*run)); }),
          context);
    });
    BRECCIA_ASSERT(is_over_ || taken_ == runs_.size());
    return end_;
  }

 private:
  RunRead read(std::size_t i) const {
    RunRead run{i, 0, intake_->make_part(runs_[i].entries)};
    run.end = read_(runs_[i], run.part.get());
    BRECCIA_ASSERT(runs_[i].begin <= run.end && run.end <= runs_[i].end);
    return run;
  }

  void take_in(RunRead run) {
    if (is_over_) return;
    BRECCIA_ASSERT(run.index == taken_);
    ++taken_;
    if (run.end < runs_[run.index].end) {
      is_over_ = true;
      end_ = {run.index, run.end};
      const FrameRun right = runs_[run.index].up_to(run.end);
      run.part = intake_->make_part(right.entries);
      add_frames(right, run.part.get());
    }
    intake_->take_in(std::move(run.part), log_);
  }

  const std::span<const FrameRun> runs_;
  LogIntake* const intake_;
  const SegmentTable::Places& log_;
  const Read& read_;
  std::atomic<bool> is_over_ = false;  // a bad frame was found
  std::size_t taken_ = 0;              // runs that were taken in
  ReadEnd end_;
};

/// read_runs() without an intake.
ReadEnd read_all(std::span<const FrameRun> runs, const Reading::Read& read) {
  std::vector<std::uint64_t> ends(runs.size());
  std::atomic<std::size_t> first_bad{runs.size()};
  const auto read_one = [&](std::size_t index) {
    if (index >= first_bad.load(std::memory_order_relaxed)) return;
    ends[index] = read(runs[index], nullptr);
    BRECCIA_ASSERT(runs[index].begin <= ends[index] && ends[index] <= runs[index].end);
    if (ends[index] == runs[index].end) return;
    std::size_t known = first_bad.load(std::memory_order_relaxed);
    while (index < known && !first_bad.compare_exchange_weak(known, index)) {
    }
  };
  if (bytes_of(runs) < kParallelBytesMin) {
    for (std::size_t index = 0; index < runs.size(); ++index) read_one(index);
  } else {
    base::parallel_for(std::size_t{0}, runs.size(), read_one);
  }
  const std::size_t end = first_bad;
  return {end, end == runs.size() ? 0 : ends[end]};
}

}  // namespace

FrameRun FrameRun::up_to(std::uint64_t position) const {
  BRECCIA_ASSERT(begin <= position && position <= end);
  FrameRun part{at, begin, begin, 0, 0, 0};
  for_each([&](const FrameHeader& header, const std::byte*) {
    if (part.end + FrameLayout::of(header).end > position) return false;
    add_frame(header, &part);
    return true;
  });
  return part;
}

SegmentHops hop(const SegmentView& segment, const HopRange& range) {
  BRECCIA_ASSERT(segment.base < range.first && range.first % 8 == 0);
  SegmentHops hops;
  hops.begin = range.first;
  std::uint64_t position = range.first;
  while (position < range.to) {
    hops.joins = hops.joins || position == range.from;
    FrameHeader header;
    bool intact = header_at(segment, position, &header);
    if (!intact && position < range.from && range.first <= range.from &&
        header_at(segment, range.from, &header)) {
      // Damage below `from` loses nothing that is needed.
      BRECCIA_ASSERT(!hops.joins);
      position = hops.begin = range.from;
      intact = true;
    }
    if (!intact) break;
    // True of this frame and those behind it, whole or not: it was so when the header was written.
    hops.synced = std::max(hops.synced, header.synced);
    if (header.flags == kFrameCloses) {
      hops.fault = frame_fault(segment.at(position), header);
      hops.closes = hops.fault == nullptr;
      break;
    }
    const FrameLayout layout = FrameLayout::of(header);
    if (position + layout.descriptors > range.from) {
      const bool is_full =
          !hops.runs.empty() && hops.runs.back().end - hops.runs.back().begin >= range.run_bytes;
      if (hops.runs.empty() || is_full) {
        hops.runs.push_back({segment.at(position), position, position, 0, 0, 0});
      }
      add_frame(header, &hops.runs.back());
    }
    position += layout.end;
    BRECCIA_ASSERT(position < segment.end());
  }
  hops.end = position;
  return hops;
}

std::uint64_t run_bytes_for(std::uint64_t log_bytes) {
  constexpr std::uint64_t kRunBytesMax = 16 << 20;
  constexpr std::uint64_t kRunBytesMin = 256 << 10;
  constexpr std::uint64_t kRuns = 64;
  return std::clamp(log_bytes / kRuns, kRunBytesMin, kRunBytesMax);
}

ReadEnd read_runs(
    std::span<const FrameRun> runs, LogIntake* intake, const SegmentTable::Places& log,
    const std::function<std::uint64_t(const FrameRun& run, LogIntake::Part* part)>& read) {
  BRECCIA_INVARIANT(is_in_order(runs));
  if (intake == nullptr) return read_all(runs, read);
  Reading reading(runs, intake, log, read);
  const bool is_small = bytes_of(runs) < kParallelBytesMin || runs.size() == 1;
  return is_small ? reading.by_one_core() : reading.by_all_cores();
}

void add_frames(const FrameRun& run, LogIntake::Part* part) {
  BRECCIA_ASSERT(part != nullptr);
  run.for_each([&](const FrameHeader& header, const std::byte* at) {
    if (header.record_count > 0) part->add(span_of(at, header));
    return true;
  });
}

}  // namespace breccia::wal
