#include <array>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "crash/wal_region_files.h"
#include "support/seeds.h"
#include "unit/wal/records.h"
#include "wal/frame.h"
#include "wal/log.h"
#include "wal/recovery.h"
#include "wal/segment_pool.h"

namespace breccia::wal {
namespace {

using testing::append_record;
using testing::descriptors_of;
using testing::Directory;
using testing::Records;
using testing::RegionMedium;
using Image = std::vector<std::byte>;

constexpr std::uint64_t kWindow = limits::kLogWindowBytes;
const std::string kDir = "log";

/// How a batch is acknowledged: not at all, as handed over, as durable.
enum class Ack { kNone, kWritten, kSynced };
enum class Kind { kOne, kThree, kDelete, kWide };
struct Batch {
  Kind kind;
  Ack ack;
};
using Script = std::vector<Batch>;

constexpr std::array<Batch, 9> kBatches{{{Kind::kOne, Ack::kNone},
                                         {Kind::kOne, Ack::kWritten},
                                         {Kind::kOne, Ack::kSynced},
                                         {Kind::kThree, Ack::kNone},
                                         {Kind::kThree, Ack::kSynced},
                                         {Kind::kDelete, Ack::kNone},
                                         {Kind::kDelete, Ack::kSynced},
                                         {Kind::kWide, Ack::kNone},
                                         {Kind::kWide, Ack::kSynced}}};

std::string text_of(const Script& script) {
  std::string text;
  for (const Batch& batch : script) {
    text += {"13dW"[static_cast<int>(batch.kind)], "-ws"[static_cast<int>(batch.ack)], ' '};
  }
  return text;
}

/// All scripts of at most `batches_max` batches, shorter ones first.
std::vector<Script> all_scripts(std::size_t batches_max) {
  std::vector<Script> scripts{{}};
  for (std::size_t index = 0; index < scripts.size(); ++index) {
    if (scripts[index].size() == batches_max) break;
    for (const Batch& batch : kBatches) {
      Script longer = scripts[index];
      longer.push_back(batch);
      scripts.push_back(std::move(longer));
    }
  }
  return scripts;
}

/// The records of the batch at `index` of a script: no two frames of a script are alike.
Records records_of(Kind kind, std::size_t index) {
  base::Random random(index * 4 + static_cast<std::uint64_t>(kind));
  const auto text = [&](std::size_t bytes) {
    std::string made(bytes, ' ');
    for (char& c : made) c = static_cast<char>(1 + random.below(255));
    return made;
  };
  Records records;
  if (kind == Kind::kOne) append_record(&records, record::Op::kPut, text(8), text(8));
  if (kind == Kind::kDelete) append_record(&records, record::Op::kDelete, text(5), "");
  for (int record = 0; kind == Kind::kThree && record < 3; ++record) {
    append_record(&records, record::Op::kPut, text(3), text(static_cast<std::size_t>(4 * record)));
  }
  // The second record begins and ends inside a line, whole lines between.
  for (int record = 0; kind == Kind::kWide && record < 2; ++record) {
    append_record(&records, record::Op::kPut, text(8), text(90));
  }
  return records;
}

bool has_descriptors(Kind kind) { return kind == Kind::kThree; }

std::uint64_t frame_bytes(const Batch& batch) {
  const Records records = records_of(batch.kind, 0);
  const std::uint64_t descriptors = has_descriptors(batch.kind) ? records.count() : 0;
  return FrameLayout::of(0, 0, records.bytes.size(), descriptors).end;
}

/// What a power cut at one moment may leave: the first frames, at least `synced`, at most all.
struct Promise {
  struct One {
    std::uint64_t position;
    Records records;
    std::vector<std::uint32_t> descriptors;
  };
  std::vector<One> frames;
  std::size_t synced = 0;

  /// What is wrong with `frame`, found as number `index`; null if nothing.
  [[nodiscard]] const char* fault(std::size_t index, const RecoveredFrame& frame) const {
    if (index >= frames.size()) return "a frame that was not sealed";
    const One& one = frames[index];
    if (frame.records_position != one.position) return "a frame at another position";
    if (frame.record_count != one.records.count()) return "another number of records";
    if (frame.record_bytes != one.records.bytes.size()) return "another number of bytes";
    if (!frame.only_default_points) return "a frame of other operations";
    if (std::memcmp(frame.records, one.records.bytes.data(), frame.record_bytes) != 0) {
      return "records that were not written";
    }
    if ((frame.descriptors == nullptr) != one.descriptors.empty())
      return "no descriptors, or too many";
    const bool same = std::equal(one.descriptors.begin(), one.descriptors.end(), frame.descriptors);
    return same ? nullptr : "other descriptors";
  }
};

/// Takes what a recovery shows and holds it against the promise.
class Witness {
 public:
  explicit Witness(const Promise& promise) : promise_(promise) {}
  void see(const RecoveredFrame& frame) {
    const char* const fault = promise_.fault(count_++, frame);
    if (fault != nullptr && fault_.empty()) fault_ = fault;
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Empty if all is well.
  [[nodiscard]] std::string verdict(const Status& status) const {
    if (!status.ok()) return "recovery fails: " + status.ToString();
    if (!fault_.empty()) return "recovery shows " + fault_;
    if (count_ >= promise_.synced) return "";
    return "recovery shows " + std::to_string(count_) + " frames, but " +
           std::to_string(promise_.synced) + " were synced";
  }

 private:
  const Promise& promise_;
  std::size_t count_ = 0;
  std::string fault_;
};

struct Totals {
  std::uint64_t points = 0;
  std::uint64_t exhausted = 0;  // points all of whose images were seen
  std::uint64_t images = 0;
  std::uint64_t opens = 0;  // images that Log::open was called on; the others scan_log read
};

LogOptions options_on(RegionMedium* medium) {
  LogOptions options;
  options.dir = kDir;
  options.files = medium->files();
  options.prepare_ahead = 0;
  return options;
}

/// Reads crash images. scan_log, the part of Log::open that decides what is replayed, reads each;
/// Log::open itself every so many, as it makes files. The newest segment is cut to its head, or
/// the scan would look through 64 MiB of zero bytes behind the chain's end.
class Reader {
 public:
  Reader() {
    for (int index = 0; index < 3; ++index) {
      auto memory = pmem::PageMemory::allocate(kWindow);
      BRECCIA_ASSERT(memory.ok());
      buffers_.push_back(memory.take());
    }
  }

  /// A power cut left `directory`; position `from` and what lies above are needed.
  void arrive(const Directory& directory, std::uint64_t from) {
    directory_ = directory;
    from_ = from;
    slots_.clear();
    views_.clear();
    for (std::uint64_t base = from - from % kWindow;; base += kWindow) {
      const std::string path = kDir + "/" + segment_name(base);
      const auto found = directory_.find(path);
      if (found == directory_.end()) break;
      BRECCIA_ASSERT(found->second.bytes == kWindow && slots_.size() < buffers_.size());
      views_.push_back({base, kWindow, buffers_[slots_.size()].data(), path});
      slots_.push_back(found->second);
    }
    // The newest may hold the chain's end near its own, in a tail that costs nothing to scan.
    if (views_.size() > 1) views_.back().size = testing::kHeadBytes;
  }
  [[nodiscard]] bool can_scan() const { return !views_.empty(); }
  [[nodiscard]] bool is_cheap_to_open() const { return views_.size() < 2; }

  std::string scan(const Image& image, const Promise& promise) {
    for (std::size_t index = 0; index < slots_.size(); ++index) {
      testing::load_file(image, slots_[index], buffers_[index].data());
    }
    if (views_.size() > 1) shorten_newest();
    Witness witness(promise);
    auto scan = scan_log(views_, from_);
    if (!scan.ok()) return witness.verdict(scan.status());
    for (const std::byte* const at : scan.value().frames) {
      FrameHeader header;
      std::memcpy(&header, at, sizeof header);
      const FrameLayout layout = FrameLayout::of(header.position, header.flags, header.record_bytes,
                                                 header.descriptor_count);
      const auto* const descriptors =
          reinterpret_cast<const std::uint32_t*>(at + layout.descriptors);
      witness.see({header.position + layout.records, at + layout.records, header.record_bytes,
                   header.record_count, header.descriptor_count == 0 ? nullptr : descriptors,
                   (header.flags & kFrameMixed) == 0});
    }
    return witness.verdict(Status::OK());
  }

  std::string open(const Image& image, const Promise& promise) const {
    RegionMedium left(image, directory_);
    Witness witness(promise);
    LogRecovery recovery;
    const auto see = [&](const RecoveredFrame& frame) {
      witness.see(frame);
      return Status::OK();
    };
    return witness.verdict(Log::open(options_on(&left), from_, see, &recovery).status());
  }

 private:
  /// Makes the newest segment's header, if it is whole, agree with the shorter view. One that is
  /// not whole stays, for the scan to find.
  void shorten_newest() {
    SegmentView whole = views_.back();
    whole.size = kWindow;
    std::uint64_t store_id = 0;
    std::uint64_t first = 0;
    if (!check_segment(whole, &store_id, &first).ok()) return;
    SegmentHeader header;
    std::byte* const at = buffers_[views_.size() - 1].data();
    std::memcpy(&header, at, sizeof header);
    header.size = testing::kHeadBytes;
    finish(&header);
    std::memcpy(at, &header, sizeof header);
  }

  std::vector<pmem::PageMemory> buffers_;
  Directory directory_;
  std::uint64_t from_ = 0;
  std::vector<testing::Slot> slots_;
  std::vector<SegmentView> views_;
};

/// Writes one batch step by step; a power cut may come behind each.
Status write_batch(Log* log, RegionMedium* medium, const Batch& batch, std::size_t index,
                   Promise* promise) {
  const Records records = records_of(batch.kind, index);
  std::vector<std::uint32_t> descriptors;
  if (has_descriptors(batch.kind)) descriptors = descriptors_of(records);
  BRECCIA_TAKE(Frame frame, log->reserve(records.bytes.size(), records.count(),
                                         static_cast<std::uint32_t>(descriptors.size())));
  medium->crash_point();
  log->fill(&frame, records.bytes.data());
  medium->crash_point();
  std::copy(descriptors.begin(), descriptors.end(), frame.descriptors());
  if (!descriptors.empty()) medium->crash_point();
  promise->frames.push_back({frame.records_position(), records, descriptors});
  log->seal(&frame);
  medium->crash_point();
  if (batch.ack != Ack::kNone) BRECCIA_TRY(log->commit(frame.end(), batch.ack == Ack::kSynced));
  if (batch.ack == Ack::kSynced) promise->synced = promise->frames.size();
  medium->crash_point();
  return Status::OK();
}

/// One script on one medium. Its segment has room for the batches before number `roll` and no
/// more, so that this one goes to the next segment; if `roll` is the script's length, for all.
/// Only the last batch meets power cuts: those before have met them in a shorter script.
class Play {
 public:
  using OnPoint = std::function<void(const pmem::CrashImages& images, const Directory& directory,
                                     std::uint64_t from, const Promise& promise)>;

  Play(Script script, std::size_t roll, bool recycle, OnPoint on_point)
      : script_(std::move(script)), roll_(roll), recycle_(recycle), on_point_(std::move(on_point)) {
    const std::uint64_t first_bytes = recycle ? kWindow : 2 * kWindow;
    from_ = kWindow + first_bytes + kWindow - room();
  }

  Status run() {
    BRECCIA_TRY(live_before());
    if (script_.empty()) arm();
    LogRecovery recovery;
    const auto nothing = [](const RecoveredFrame&) { return Status::Aborted("nothing is needed"); };
    BRECCIA_TAKE(const auto log, Log::open(options_on(&medium_), from_, nothing, &recovery));
    for (std::size_t index = 0; index < script_.size(); ++index) {
      if (index + 1 == script_.size()) arm();
      BRECCIA_TRY(write_batch(log.get(), &medium_, script_[index], index, &promise_));
    }
    medium_.crash_point();
    return Status::OK();
  }

  [[nodiscard]] std::string text() const {
    return "script " + text_of(script_) + "roll " + std::to_string(roll_) +
           (recycle_ ? " into a recycled file" : " into a new file");
  }

 private:
  [[nodiscard]] std::uint64_t room() const {
    if (roll_ == script_.size()) return testing::kTailBytes;
    std::uint64_t bytes = kClosingFrameBytes;
    for (std::size_t index = 0; index < roll_; ++index) bytes += frame_bytes(script_[index]);
    // Less than a line is left, and a frame with its closing frame takes more.
    return base::round_up(bytes, 64);
  }

  /// An earlier life of the log, wholly released: its file is the one to be recycled, with intact
  /// frames where the new ones will come to lie. A file of another size is not recycled.
  Status live_before() {
    LogOptions options = options_on(&medium_);
    if (!recycle_) options.segment_bytes = 2 * kWindow;
    LogRecovery recovery;
    const auto replay = [](const RecoveredFrame&) { return Status::OK(); };
    BRECCIA_TAKE(const auto log, Log::open(options, 0, replay, &recovery));
    Promise past;
    for (const Kind kind : {Kind::kOne, Kind::kThree, Kind::kWide}) {
      BRECCIA_TRY(write_batch(log.get(), &medium_, {kind, Ack::kSynced}, 7, &past));
    }
    return Status::OK();
  }

  void arm() {
    medium_.on_crash_point([this](const pmem::CrashImages& images) {
      on_point_(images, medium_.directory(), from_, promise_);
    });
  }

  const Script script_;
  const std::size_t roll_;
  const bool recycle_;
  const OnPoint on_point_;
  RegionMedium medium_;
  std::uint64_t from_ = 0;
  Promise promise_;
};

/// Plays each script with a roll before each of its batches and with none.
void play_all(std::size_t batches_max, bool rolls, const Play::OnPoint& on_point) {
  std::uint64_t plays = 0;
  for (const Script& script : all_scripts(batches_max)) {
    for (std::size_t roll = rolls ? 0 : script.size(); roll <= script.size(); ++roll) {
      // The first batch has room always: opening makes the segment large enough.
      if (roll == 0 && !script.empty()) continue;
      Play play(script, roll, base::mix64(++plays) % 2 == 0, on_point);
      SCOPED_TRACE(play.text());
      const Status status = play.run();
      ASSERT_TRUE(status.ok()) << status.ToString();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

struct Effort {
  std::uint64_t exhaustive_max;
  std::uint64_t samples;
  std::uint64_t open_every;          // one image in so many goes through Log::open
  std::uint64_t open_every_if_slow;  // where that looks through 64 MiB
};

/// Shows `promise` to the images of one crash point.
void check_images(const pmem::CrashImages& images, const Promise& promise, const Effort& effort,
                  std::uint64_t seed, Reader* reader, Totals* totals) {
  if (::testing::Test::HasFailure()) return;
  const std::uint64_t point = ++totals->points;
  const std::uint64_t every =
      reader->is_cheap_to_open() ? effort.open_every : effort.open_every_if_slow;
  std::string fault;
  const auto visit = [&](const Image& image) {
    if (!fault.empty()) return;
    ++totals->images;
    if (reader->can_scan()) fault = reader->scan(image, promise);
    if (!fault.empty() || (reader->can_scan() && totals->images % every != 0)) return;
    ++totals->opens;
    fault = reader->open(image, promise);
  };
  if (images.count() <= effort.exhaustive_max) {
    ++totals->exhausted;
    images.for_each(seed, effort.samples, visit);
  } else {
    images.sampled(seed + point, effort.samples, visit);
  }
  EXPECT_EQ(fault, "") << "BRECCIA_SEED=" << seed << ", crash point " << point << ", image "
                       << totals->images;
}

void print(const Totals& totals, std::uint64_t seed) {
  std::cout << "seed " << seed << ": " << totals.images << " images of " << totals.points
            << " crash points, " << totals.exhausted << " of them exhausted; " << totals.opens
            << " opened by Log::open\n";
}

// Goal: every crash image of scripted batches holds all synced frames, and no frame is half there.
// Method: all scripts of at most three batches (two, where a small share of the tests is wanted) on
// a sim region; at each step and persist of the last batch the images, all if they are few, else
// samples, go through recovery.
// Mutation: a commit that skips the sync fails; so does a recovery that ignores the checksum.
TEST(WalRegionCrash, EveryImageHoldsAPrefix) {
  const std::uint64_t seed = breccia::testing::only_seed().value_or(1);
  Reader reader;
  Totals totals;
  const bool is_short = breccia::testing::share_of(100) < 10;
  for (const std::size_t batches_max : {1, is_short ? 2 : 3}) {
    // Short scripts see all images up to the enumerator's limit, long ones fewer.
    const bool all = batches_max == 1;
    const Effort effort{all ? pmem::CrashImages::kExhaustiveMax : 4'096, 16, 1'024, 16'384};
    play_all(batches_max, /*rolls=*/true,
             [&](const pmem::CrashImages& images, const Directory& directory, std::uint64_t from,
                 const Promise& promise) {
               reader.arrive(directory, from);
               check_images(images, promise, effort, seed, &reader, &totals);
             });
  }
  print(totals, seed);
  EXPECT_GE(totals.images, is_short ? 40'000U : 200'000U);
  EXPECT_GE(totals.exhausted, 100U);
  EXPECT_GE(totals.opens, 100U);
}

/// Recovers what a power cut left, under power cuts of its own: each leaves at least the frames
/// that this recovery has shown. Until it has returned, one that it did not show may come back:
/// where only the position in a frame's header was lost, a torn closing frame may bring just that
/// word. From then on exactly those that it has shown are left, and the next frame once sealed.
void recover_under_cuts(const Image& image, const Directory& directory, std::uint64_t from,
                        const Promise& promise, const Play::OnPoint& on_point) {
  RegionMedium left(image, directory);
  Witness witness(promise);
  Promise now = promise;
  const auto see = [&](const RecoveredFrame& frame) {
    witness.see(frame);
    now.synced = witness.count();
    return Status::OK();
  };
  left.on_crash_point(
      [&](const pmem::CrashImages& images) { on_point(images, left.directory(), from, now); });
  LogRecovery recovery;
  auto log = Log::open(options_on(&left), from, see, &recovery);
  ASSERT_EQ(witness.verdict(log.status()), "");
  now.frames.resize(witness.count());
  now.synced = witness.count();
  left.crash_point();
  const Status status = write_batch(log.value().get(), &left, {Kind::kOne, Ack::kSynced},
                                    now.frames.size() + 5, &now);
  ASSERT_TRUE(status.ok()) << status.ToString();
}

// Goal: a recovery may be cut anywhere: what it has shown stays, and the log goes on behind it.
// Method: samples of the crash images of scripts of at most two batches; each is opened and gets a
// synced frame more, and the images of every crash point on this way go through recovery.
// Mutation: no sync of what was replayed, or of a new segment's header, fails.
TEST(WalRegionCrash, RecoveryMayBeCut) {
  const std::uint64_t seed = breccia::testing::only_seed().value_or(2);
  Reader reader;
  Totals totals;
  std::uint64_t recoveries = 0;
  const std::uint64_t stride = breccia::testing::share_of(100) < 10 ? 4 : 1;
  std::uint64_t points = seed % stride;
  const Effort effort{256, 6, 4'096, 1ULL << 60};
  const auto check = [&](const pmem::CrashImages& images, const Directory& directory,
                         std::uint64_t from, const Promise& promise) {
    reader.arrive(directory, from);
    check_images(images, promise, effort, seed, &reader, &totals);
  };
  play_all(/*batches_max=*/2, /*rolls=*/false,
           [&](const pmem::CrashImages& images, const Directory& directory, std::uint64_t from,
               const Promise& promise) {
             if (points++ % stride != 0) return;
             images.sampled(seed + recoveries, /*samples=*/2, [&](const Image& image) {
               if (::testing::Test::HasFailure()) return;
               ++recoveries;
               recover_under_cuts(image, directory, from, promise, check);
             });
           });
  print(totals, seed);
  EXPECT_GE(recoveries, 1'000U / stride);
  EXPECT_GE(totals.images, 100'000U / stride);
}

}  // namespace
}  // namespace breccia::wal
