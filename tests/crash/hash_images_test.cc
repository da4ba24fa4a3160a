#include <breccia/hash_options.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "hash/engine/engine.h"
#include "sim_mark_disk.h"
#include "support/seeds.h"
#include "wal/sim/sim_files.h"

/// Crash images of the hash engine: what power cuts leave of a store's two disks.
///
///   1. a script plays batches, cleaning, openings and closings on disks that are watched: before
///      each of their steps, and behind each operation, is a moment
///   2. at a moment the disks are copied and cut, in all ways there are if these are few, else in
///      some by seed; each cut is an image
///   3. an image whose bytes were not seen before is opened as a store and all of it is read; what
///      was found is remembered by the bytes' checksum
///   4. what an image holds must be one of the contents that may be there at its moment, whether it
///      was opened there or before: the same bytes are right before an acknowledgement, and wrong
///      behind it
///   5. of some images the opening is watched as well, and cut at each of its steps
///   6. the script goes on with one of the images, drawn from all of them

namespace breccia::crash {
namespace {

constexpr std::uint64_t kImages = 1'000'000;  // of all seeds
constexpr std::uint64_t kCutsOfMomentMax = 64;
constexpr std::uint64_t kImagesPerRecovery = 40;  // of so many one has its recovery watched
constexpr std::uint64_t kMomentsPerKill = 40;     // and of so many moments a kill's
constexpr int kLives = 4;
constexpr int kOperations = 20;
constexpr int kKeys = 12;

using Content = std::map<std::string, std::string>;
/// Contents by numbers. kBroken: none could be read.
using ContentId = std::size_t;
constexpr ContentId kBroken = ~ContentId{0};

std::string key(int i) {
  return i % 2 == 0 ? std::string(8, static_cast<char>('a' + i)) : std::string(i, 'k');
}

/// All ways through what asks which way to go, one after the other.
class AllWays {
 public:
  std::uint64_t choose(std::uint64_t ways) {
    if (at_ == forks_.size()) forks_.push_back({0, ways});
    EXPECT_EQ(forks_[at_].ways, ways);
    return forks_[at_++].way;
  }
  /// The next way through. False: there is none.
  bool next() {
    at_ = 0;
    while (!forks_.empty() && forks_.back().way + 1 == forks_.back().ways) forks_.pop_back();
    if (forks_.empty()) return false;
    ++forks_.back().way;
    return true;
  }
  /// Whether there are at most so many, as far as the forks of this way tell.
  [[nodiscard]] bool are_at_most(std::uint64_t most) const {
    std::uint64_t ways = 1;
    for (const Fork& fork : forks_) {
      ways *= fork.ways;
      if (ways > most) return false;
    }
    return true;
  }

 private:
  struct Fork {
    std::uint64_t way;
    std::uint64_t ways;
  };
  std::vector<Fork> forks_;
  std::size_t at_ = 0;
};

/// The disks of a store, of its log and of its mark, at one moment.
struct Disks {
  std::unique_ptr<wal::SimDisk> log;
  std::unique_ptr<wal::SimDisk> mark;

  static Disks make() {
    return {std::make_unique<wal::SimDisk>(wal::SimKind::kBuffered),
            std::make_unique<wal::SimDisk>(wal::SimKind::kBuffered)};
  }
  [[nodiscard]] Disks clone() const { return {log->clone(), mark->clone()}; }
  void cut(const wal::SimDisk::Choose& choose) {
    log->power_cut(choose);
    mark->power_cut(choose);
  }
  void cut(base::Random* random, wal::Survives survives) {
    log->power_cut(random->next(), survives);
    mark->power_cut(random->next(), survives);
  }
  [[nodiscard]] std::uint64_t digest() const { return base::mix64(log->digest()) ^ mark->digest(); }
  /// Calls look(disks) with a copy of both before each step of one.
  void watch(const std::function<void(const Disks&)>& look) {
    log->watch_steps([this, look](std::unique_ptr<wal::SimDisk> before) {
      look({std::move(before), mark->clone()});
    });
    mark->watch_steps([this, look](std::unique_ptr<wal::SimDisk> before) {
      look({log->clone(), std::move(before)});
    });
  }
  void watch_no_more() {
    log->watch_steps(nullptr);
    mark->watch_steps(nullptr);
  }
};

/// How the stores of a script are opened.
struct Setting {
  explicit Setting(base::Random* random) {
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.keys_expected = random->below(64);
    options.wal_dir = random->one_in(2) ? "log" : "folder/for/log";
    if (random->one_in(4)) options.log_keep_bytes = std::uint64_t{2} << 26;
    number_mask = random->one_in(2) ? ~std::uint64_t{0} : 7;
    const std::uint64_t sizes[] = {200, 500, 1500};
    roll_bytes = sizes[random->below(3)];
  }
  [[nodiscard]] Status open(const Disks& disks, std::unique_ptr<hash::Engine>* engine) const {
    const hash::Ground ground{disks.log->files(), std::make_shared<SimMarkDisk>(disks.mark.get()),
                              number_mask, roll_bytes, /*is_scripted=*/true};
    return hash::Engine::open(options, "store", ground, engine);
  }

  HashOptions options;
  std::uint64_t number_mask;
  std::uint64_t roll_bytes;
};

struct Counts {
  std::uint64_t cuts = 0;                    // that were checked, and kills
  std::uint64_t moments = 0;                 // at which disks were cut
  std::uint64_t recoveries = 0;              // that were watched
  std::uint64_t nested = 0;                  // images of those
  std::unordered_set<std::uint64_t> images;  // that were opened, by their checksums
};

/// A store under a script, and the images of its crashes.
class Script {
 public:
  Script(std::uint64_t seed, Counts* counts) : random_(seed), setting_(&random_), counts_(counts) {
    next_.disks = Disks::make();
    next_.contents = {id_of({})};
    const auto files = next_.disks.mark->files();
    EXPECT_TRUE(files->create_dir("store").ok());
    EXPECT_TRUE(files->sync_dir(wal::folder_above("store")).ok());
  }

  /// Plays all of it, or until an image is wrong. Returns what is wrong; empty: nothing.
  std::string run() {
    for (int life = 0; life < kLives && failure_.empty(); ++life) {
      live();
      engine_.reset();
    }
    return failure_;
  }

 private:
  /// Contents of which a store may have any, oldest first.
  using May = std::span<const ContentId>;
  /// A crash that the script may go on from, and what may be found.
  struct Crash {
    Disks disks;
    std::vector<ContentId> contents;
  };

  // ---- the script ----

  void live() {
    disks_ = std::move(next_.disks);
    contents_ = std::move(next_.contents);
    synced_ = 0;
    written_ = contents_.size() - 1;
    candidates_ = 0;
    syncs_often_ = random_.one_in(2);
    cleans_often_ = random_.one_in(2);
    disks_.watch([this](const Disks& before) { look(before); });
    if (!open()) return;
    for (int i = 0; i < kOperations && failure_.empty(); ++i) {
      const Status done = operate();
      if (!done.ok()) fail(done.ToString());
      look_behind();
    }
    doing_ = "closing";
    engine_.reset();
    disks_.watch_no_more();
  }

  bool open() {
    doing_ = "opening";
    const Status opened = setting_.open(disks_, &engine_);
    if (!opened.ok()) {
      fail(opened.ToString());
      return false;
    }
    const ContentId found = read(engine_.get());
    if (!is_one_of(found, may_survive(written_))) {
      fail("the store that is opened has another content");
      return false;
    }
    contents_ = {found};
    synced_ = written_ = 0;
    look_behind();
    return failure_.empty();
  }

  Status operate() {
    const std::uint64_t action = random_.below(10);
    if (action == 0) return reopen();
    if (action == 1 && syncs_often_) return sync();
    if (action > 3) return write();
    if (cleans_often_) return clean(1);
    return random_.one_in(5) ? clean(16) : write();
  }

  Status reopen() {
    doing_ = "closing";
    engine_.reset();
    // Also what was written without a log.
    written_ = contents_.size() - 1;
    look_behind();
    return failure_.empty() && open() ? Status::OK() : Status::Aborted("see above");
  }

  Status sync() {
    doing_ = "a sync of the log";
    BRECCIA_TRY(engine_->SyncLog());
    synced_ = written_ = contents_.size() - 1;
    return Status::OK();
  }

  Status clean(std::uint64_t segments) {
    doing_ = "cleaning";
    bool was_done = true;
    for (std::uint64_t i = 0; i < segments && was_done; ++i) {
      BRECCIA_TRY(engine_->cleaner().clean_one(&was_done));
      // Copies were synced, and all before them.
      if (was_done) synced_ = written_ = contents_.size() - 1;
    }
    return Status::OK();
  }

  Status write() {
    Batch batch = engine_->NewBatch();
    Content next = *known_[contents_.back()];
    for (std::uint64_t left = 1 + random_.below(4); left > 0; --left) {
      const std::string one = key(static_cast<int>(random_.below(kKeys)));
      if (random_.one_in(3)) {
        BRECCIA_TRY(batch.Delete(one));
        next.erase(one);
        continue;
      }
      const std::uint64_t bytes = random_.one_in(12) ? 700 : random_.below(40);
      next[one] = std::to_string(random_.next()) + std::string(bytes, 'v');
      BRECCIA_TRY(batch.Put(one, next[one]));
    }
    contents_.push_back(id_of(next));  // it may be there, whatever is said of it
    WriteOptions options;
    options.durability = random_.one_in(3) ? Durability::kNone : Durability::kDefault;
    if (random_.one_in(syncs_often_ ? 3 : 25)) options.durability = Durability::kSync;
    doing_ = "a batch of durability " + std::to_string(static_cast<int>(options.durability));
    BRECCIA_TRY(engine_->Submit(options, &batch));
    if (options.durability != Durability::kNone) written_ = contents_.size() - 1;
    if (options.durability == Durability::kSync) synced_ = contents_.size() - 1;
    return Status::OK();
  }

  // ---- images ----

  /// What may be there now, if all up to contents_[least] must survive.
  [[nodiscard]] May may_survive(std::size_t least) const { return May(contents_).subspan(least); }

  void look_behind() {
    is_behind_ = true;
    look(disks_.clone());
    is_behind_ = false;
  }

  /// Both disks, at a moment of the script.
  void look(const Disks& now) {
    if (!failure_.empty()) return;
    cut(now, may_survive(synced_), /*is_nested=*/false);
    // A kill leaves all that was written, and the next process meets it unsynced.
    const ContentId found = check(now, may_survive(written_));
    if (found == kBroken) return;
    const May may = up_to(may_survive(synced_), found);
    note_crash(now, may);
    if (random_.one_in(kMomentsPerKill)) recover(now.clone(), may, found);
  }

  /// Cuts the power of copies, in all ways if there are few.
  void cut(const Disks& now, May may, bool is_nested) {
    ++counts_->moments;
    AllWays ways;
    const wal::SimDisk::Choose choose = [&](std::uint64_t n) { return ways.choose(n); };
    bool are_few = true;
    bool are_more = true;
    for (std::uint64_t i = 0; i < kCutsOfMomentMax && are_more && failure_.empty(); ++i) {
      Disks image = now.clone();
      if (are_few) {
        image.cut(choose);
        are_few = ways.are_at_most(kCutsOfMomentMax);
        are_more = ways.next();
      } else {
        image.cut(&random_, i == 1 ? wal::Survives::kEverything : wal::Survives::kSome);
      }
      check_cut(image, may, is_nested);
    }
  }

  void check_cut(const Disks& image, May may, bool is_nested) {
    const std::size_t known = found_.size();
    const ContentId found = check(image, may);
    if (found == kBroken) return;
    note_crash(image, {&found, 1});
    const bool is_new = found_.size() > known;
    if (is_new && !is_nested && ++new_images_ % kImagesPerRecovery == 0) {
      recover(image.clone(), {&found, 1}, found);
    }
  }

  /// What an image holds, which must be one of `may`. kBroken: it is not.
  ContentId check(const Disks& image, May may) {
    ++counts_->cuts;
    const std::uint64_t digest = image.digest();
    const auto [at, is_new] = found_.try_emplace(digest, kBroken);
    if (is_new) {
      const bool is_first = counts_->images.insert(digest).second;
      if (is_first && !nested_.empty()) ++counts_->nested;
      at->second = read(image.clone());
    }
    if (is_one_of(at->second, may)) return at->second;
    fail(at->second == kBroken ? "an image cannot be read: " + why_broken_
                               : "an image has none of the contents that it may have");
    return kBroken;
  }

  /// Opens an image whose content is known, and cuts the power at each step of that. Before the end
  /// a store may have any of `may`, and then what was found.
  void recover(Disks image, May may, ContentId found) {
    ++counts_->recoveries;
    nested_ = "a recovery from ";
    image.watch([&](const Disks& before) {
      if (failure_.empty()) cut(before, may, /*is_nested=*/true);
    });
    std::unique_ptr<hash::Engine> engine;
    const Status opened = setting_.open(image, &engine);
    if (!opened.ok()) return fail("it fails with " + opened.ToString());
    if (read(engine.get()) != found) return fail("it finds another content");
    engine.reset();
    image.watch_no_more();
    cut(image, {&found, 1}, /*is_nested=*/true);
    if (failure_.empty()) nested_.clear();
  }

  ContentId read(const Disks& image) {
    std::unique_ptr<hash::Engine> engine;
    const Status opened = setting_.open(image, &engine);
    if (opened.ok()) return read(engine.get());
    why_broken_ = opened.ToString();
    return kBroken;
  }

  ContentId read(hash::Engine* engine) {
    std::vector<std::string> values;
    const std::vector<Status> statuses = engine->MultiGet(keys_.slices, &values);
    Content content;
    for (int i = 0; i < kKeys; ++i) {
      if (statuses[i].ok()) {
        content[keys_.names[i]] = values[i];
      } else if (!statuses[i].IsNotFound()) {
        why_broken_ = statuses[i].ToString();
        return kBroken;
      }
    }
    return id_of(content);
  }

  /// Of all crashes so far each is as likely as any other to be what the script goes on from.
  void note_crash(const Disks& disks, May may) {
    if (!random_.one_in(++candidates_)) return;
    next_ = {disks.clone(), {may.begin(), may.end()}};
  }

  // ---- contents ----

  ContentId id_of(const Content& content) {
    const auto [at, is_new] = ids_.try_emplace(content, known_.size());
    if (is_new) known_.push_back(&at->first);
    return at->second;
  }
  static bool is_one_of(ContentId found, May may) {
    return std::find(may.begin(), may.end(), found) != may.end();
  }
  /// Up to the last that is like `found`, which is among them.
  static May up_to(May may, ContentId found) {
    const auto behind = std::find(may.rbegin(), may.rend(), found).base();
    return {may.begin(), behind};
  }

  void fail(const std::string& what) {
    if (!failure_.empty()) return;
    failure_ = nested_ + (is_behind_ ? "behind " : "") + doing_ + ": " + what + " (" +
               std::to_string(counts_->images.size()) + " images so far, contents " +
               std::to_string(synced_) + ", " + std::to_string(written_) + ", " +
               std::to_string(contents_.size()) + ")";
  }

  struct Keys {
    Keys() {
      for (int i = 0; i < kKeys; ++i) names.push_back(key(i));
      slices.assign(names.begin(), names.end());
    }
    std::vector<std::string> names;
    std::vector<Slice> slices;
  };

  base::Random random_;
  const Setting setting_;
  Counts* const counts_;
  const Keys keys_;
  std::map<Content, ContentId> ids_;
  std::vector<const Content*> known_;                   // by their numbers
  std::unordered_map<std::uint64_t, ContentId> found_;  // by images' checksums
  std::string why_broken_;

  Crash next_;
  std::uint64_t candidates_ = 0;
  std::uint64_t new_images_ = 0;

  Disks disks_;
  std::unique_ptr<hash::Engine> engine_;
  bool syncs_often_ = false, cleans_often_ = false;
  std::vector<ContentId> contents_;       // one behind the other
  std::size_t synced_ = 0, written_ = 0;  // among them: what must survive a cut, and a kill
  std::string doing_, nested_;
  bool is_behind_ = false;
  std::string failure_;
};

}  // namespace

// Goal: every crash image of every operation (writes of all durabilities, cleaning, opening, which
//   is recovery, and closing) recovers to before or after it, with all that was acknowledged as
//   durable; so does every image of that recovery, and so on for four lives.
// Method: above, at the head of the file.
// Mutation: within 2,000 images a commit that does not sync, copies of cleaning that are not synced
//   before the mark, a mark that is not synced before it gets its name, or whose name is not, a
//   segment that is removed before the mark, frames whose checksums nobody looks at; within 40,000
//   a mark that is not written again when it is read; within 100,000, two or three times of three,
//   a folder that is not synced before segments are removed, a closing frame that is believed
//   behind a torn one.
TEST(HashImages, EachIsBeforeOrAfter) {
  set_log_level(LogLevel::kError);
  // Stores of some kilobytes: threads would wait for each other.
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t wanted = testing::only_seed().has_value() ? 1 : testing::share_of(kImages);
  Counts counts;
  std::uint64_t seeds = 0;
  for (std::uint64_t seed = testing::seeds_to_run(1).front(); counts.images.size() < wanted;
       ++seed) {
    ++seeds;
    ASSERT_EQ(Script(seed, &counts).run(), "") << testing::replay_command(seed);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "crash images: %lu distinct of %lu at %lu moments, %lu of them of %lu recoveries, "
      "%lu seeds, %.1f s\n",
      counts.images.size(), counts.cuts, counts.moments, counts.nested, counts.recoveries, seeds,
      seconds);
  // Nor may any kind of them become rare unnoticed.
  EXPECT_GE(counts.images.size(), wanted);
  if (wanted >= 10'000) {
    EXPECT_GE(counts.nested, wanted / 5);
    EXPECT_GE(counts.cuts, 2 * wanted);
  }
}

}  // namespace breccia::crash
