#include <breccia/hash_options.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "sim_mark_disk.h"
#include "support/seeds.h"
#include "wal/sim/sim_files.h"

/// The hash engine on disks that lose what a power cut may lose.

namespace breccia::crash {
namespace {

using Content = std::map<std::string, std::string>;

/// A store under a script that ends in a crash, and the contents that it may have afterwards: those
/// behind one of its batches, none before the last that must survive.
class Story {
 public:
  Story(std::uint64_t seed, wal::SimKind kind) : random_(seed), log_disk_(kind) {
    options_.create_if_missing = true;
    options_.backend = random_.one_in(8) ? BackendChoice::kSimulator : BackendChoice::kHost;
    options_.simulator_seed = random_.next();
    options_.keys_expected = random_.below(64);
    ground_ = {log_disk_.files(), std::make_shared<SimMarkDisk>(&mark_disk_),
               random_.one_in(2) ? ~std::uint64_t{0} : 7, 500, /*is_scripted=*/true};
    options_.wal_dir = "log";
    EXPECT_TRUE(make_mark_folder("store"));
  }

  /// Opens the store, which has one of the contents that it may have. False: it met the crash.
  bool open() {
    const Status opened = hash::Engine::open(options_, "store", ground_, &engine_);
    if (!opened.ok()) {
      EXPECT_TRUE(log_disk_.failed() || mark_disk_.failed()) << opened.ToString();
      return false;
    }
    const Content found = content_of(engine_.get());
    // That of the last flush that was acknowledged, or of one behind it.
    const auto flush =
        std::find_if(flushes_.begin() + static_cast<std::ptrdiff_t>(flushed_), flushes_.end(),
                     [&](const FlushTried& one) { return one.step == engine_->FlushedStep(); });
    if (flush == flushes_.end()) {
      ADD_FAILURE() << "a step that was not flushed, or is older than one that was";
      return false;
    }
    at_least_ = std::max(at_least_, flush->contents);
    for (std::size_t i = at_least_; i < contents_.size(); ++i) {
      if (contents_[i] != found) continue;
      contents_ = {found};
      at_least_ = synced_ = written_ = flushed_ = 0;
      flushes_ = {{flush->step, 0}};
      return true;
    }
    ADD_FAILURE() << "none of the contents behind batches " << at_least_ << " to "
                  << contents_.size() - 1;
    return false;
  }

  /// Whether a snapshot that was acknowledged is there, and one that was not is whole or no store.
  void check_snapshot() {
    if (snapshot_.folder.empty()) return;
    HashOptions options = options_;
    options.create_if_missing = false;
    options.wal_dir = snapshot_.folder + "/log";
    std::unique_ptr<hash::Engine> opened;
    const Status status = hash::Engine::open(options, snapshot_.folder, ground_, &opened);
    if (!snapshot_.is_done && status.IsInvalidArgument()) {
      snapshot_ = {};
      return;
    }
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(content_of(opened.get()), snapshot_.content);
    EXPECT_EQ(opened->FlushedStep(), snapshot_.step);
    ++snapshots_read_;
    snapshot_ = {};
  }
  [[nodiscard]] std::uint64_t snapshots_read() const { return snapshots_read_; }

  /// Batches, cleaning and openings until the crash, or until `count` are done.
  void play(int count) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t action = random_.below(10);
      if (action == 0) {
        engine_.reset();
        if (log_disk_.failed() || mark_disk_.failed()) return;
        at_least_ = contents_.size() - 1;
        if (!open()) return;
      } else if (action < 3) {
        bool was_done = false;
        if (!engine_->cleaner().clean_one(&was_done).ok()) return;
        // Copies were synced, and all before them.
        if (was_done) synced_ = written_ = contents_.size() - 1;
      } else if (action == 3) {
        if (!flush()) return;
      } else if (action == 4) {
        if (random_.one_in(12) && !take_snapshot()) return;
      } else if (!write()) {
        return;
      }
    }
  }

  /// From now on the disk of the log, or of the mark, fails.
  void fail_at(bool of_log, std::uint64_t step, std::uint64_t seed) {
    wal::SimDisk& disk = of_log ? log_disk_ : mark_disk_;
    disk.fail_at(disk.steps() + step, seed);
  }
  void crash(bool power_cut, std::uint64_t seed) {
    engine_.reset();
    at_least_ = power_cut ? synced_ : std::max(synced_, written_);
    for (wal::SimDisk* disk : {&log_disk_, &mark_disk_}) {
      power_cut ? disk->power_cut(seed) : disk->kill();
    }
  }

 private:
  static constexpr int kKeys = 24;

  struct FlushTried {
    std::optional<std::uint64_t> step;
    std::size_t contents = 0;  // that it has, at least
  };
  struct SnapshotTried {
    std::string folder;  // empty: there is none to look at
    Content content;
    std::optional<std::uint64_t> step;
    bool is_done = false;
  };

  bool make_mark_folder(const std::string& folder) {
    const auto files = mark_disk_.files();
    return files->create_dir(folder).ok() && files->sync_dir(wal::folder_above(folder)).ok();
  }
  static Content content_of(hash::Engine* engine) {
    Content content;
    for (int i = 0; i < kKeys; ++i) {
      std::string value;
      const Status status = engine->Get(key(i), &value);
      if (status.ok()) content[key(i)] = value;
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    }
    return content;
  }
  bool flush() {
    flushes_.push_back({random_.below(100), contents_.size() - 1});
    if (!engine_->Flush(*flushes_.back().step).ok()) return false;
    flushed_ = flushes_.size() - 1;
    synced_ = written_ = contents_.size() - 1;
    return true;
  }
  /// Instead of the one before it, which is not looked at any more.
  bool take_snapshot() {
    snapshot_ = {};
    const std::string folder = "copy" + std::to_string(snapshots_++);
    if (!make_mark_folder(folder)) return false;
    snapshot_ = {folder, contents_.back(), flushes_.back().step, false};
    snapshot_.is_done = engine_->Snapshot(folder).ok();
    return snapshot_.is_done;
  }

  static std::string key(int i) {
    return i % 2 == 0 ? std::string(8, static_cast<char>('a' + i)) : std::string(i, 'k');
  }
  bool write() {
    Batch batch = engine_->NewBatch();
    Content next = contents_.back();
    for (std::uint64_t i = 0; i < 1 + random_.below(6); ++i) {
      const std::string one = key(static_cast<int>(random_.below(kKeys)));
      if (random_.one_in(4)) {
        EXPECT_TRUE(batch.Delete(one).ok());
        next.erase(one);
      } else {
        next[one] = std::to_string(random_.next()) + std::string(random_.below(40), 'v');
        EXPECT_TRUE(batch.Put(one, next[one]).ok());
      }
    }
    contents_.push_back(std::move(next));  // it may be there, whatever is said of it
    const Durability durabilities[] = {Durability::kNone, Durability::kDefault, Durability::kSync};
    WriteOptions options;
    options.durability = durabilities[random_.below(3)];
    if (!engine_->Submit(options, &batch).ok()) return false;
    if (options.durability != Durability::kNone) written_ = contents_.size() - 1;
    if (options.durability == Durability::kSync) synced_ = contents_.size() - 1;
    return true;
  }

  base::Random random_;
  wal::SimDisk log_disk_;
  wal::SimDisk mark_disk_{wal::SimKind::kBuffered};
  HashOptions options_;
  hash::Ground ground_;
  std::unique_ptr<hash::Engine> engine_;
  std::vector<Content> contents_ = {{}};
  std::size_t at_least_ = 0, synced_ = 0, written_ = 0;  // among them
  std::vector<FlushTried> flushes_ = {{}};
  std::size_t flushed_ = 0;  // the last of them that was acknowledged
  SnapshotTried snapshot_;
  std::uint64_t snapshots_ = 0, snapshots_read_ = 0;
};

}  // namespace

// Goal: after a power cut or a kill in any step of the log's or the mark's disk a store has what it
// had behind one of its batches, and none that was acknowledged as durable is missing. The step
// that it says is the last one that was acknowledged, or a later one, and has its batches. A
// snapshot that was acknowledged is there, and any other is whole, or no store.
// Method: scripts of batches, cleaning, flushes, snapshots and openings on simulated disks that end
// in a crash, four times each; then the store and the last snapshot are opened and all is read.
// Mutation: a segment that is given back before its copies are synced, or before the mark says so;
// a mark that is not synced before it gets its name; a step that is written before the log is
// synced, or whose name is not durable when it is read; a snapshot whose log is not synced, or
// whose mark comes first.
TEST(HashPowerCut, LosesNothingDurable) {
  std::uint64_t snapshots = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(1'500)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Story story(random.next(), random.one_in(2) ? wal::SimKind::kMapped : wal::SimKind::kBuffered);
    if (!story.open()) FAIL();
    for (int life = 0; life < 4; ++life) {
      const bool of_log = random.below(4) != 0;
      story.fail_at(of_log, 1 + random.below(of_log ? 60 : 12), random.next());
      story.play(25);
      story.crash(/*power_cut=*/random.below(4) != 0, random.next());
      if (!story.open()) FAIL();
      story.check_snapshot();
      if (::testing::Test::HasFatalFailure()) return;
    }
    snapshots += story.snapshots_read();
  }
  EXPECT_GT(snapshots, 0U);
}

}  // namespace breccia::crash
