#include "ordered/background/file_loader.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/own_threads.h"
#include "residency/listing.h"

namespace breccia::ordered {

namespace {

using residency::ListedFile;
using residency::ListedLevel;
using residency::ResidentFilePtr;

/// How often it is looked whether a compaction has changed files.
constexpr auto kLookAgain = std::chrono::milliseconds(100);
/// Files that are there serve lookups after that time, also if others are still to come.
constexpr std::uint64_t kPublishMicros = 300'000;
/// Whoever wanted the device's memory has it for so long at least.
constexpr std::chrono::milliseconds kRest{10'000};
/// So often in a row what a compaction replaced goes on to serve, though its outputs went as well.
constexpr int kGapsMax = 16;
/// In which batches are over that hold what was let go.
constexpr std::chrono::milliseconds kUntilFreed{300};
/// What is replaced, and serves below clean runs, keeps room of the disk: at most so much for so
/// many bytes of the tree's files.
constexpr std::uint64_t kReplacedOneIn = 8;
/// Files of a family: each is a mapping, of which Linux gives a process 65,530.
constexpr std::size_t kFilesMax = 16 << 10;

/// Counts files that were read, for figures, also where others are given up.
/// Threads one owner.
class Loaded {
 public:
  explicit Loaded(ResidentFiles* files) : files_(files) {}
  ~Loaded() {
    if (count_ > 0) files_->note_load(count_, bytes_, micros());
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  /// Null: it was not read.
  void note(const ResidentFilePtr& file) {
    count_ += file == nullptr ? 0 : 1;
    bytes_ += file == nullptr ? 0 : file->bytes->bytes();
  }
  [[nodiscard]] std::uint64_t micros() const { return watch_.micros(); }

 private:
  ResidentFiles* const files_;
  const base::Stopwatch watch_;
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

std::vector<ListedFile*> newest_first(std::vector<ListedLevel>* levels) {
  std::vector<ListedFile*> files;
  for (ListedLevel& level : *levels) {
    for (ListedFile& file : level) files.push_back(&file);
  }
  return files;
}

}  // namespace

FileLoader::FileLoader(const StoreParts& parts, Publisher* publisher)
    : parts_(parts), publisher_(publisher) {}

FileLoader::~FileLoader() { stop(); }

void FileLoader::start() {
  thread_ = std::thread([this] { run(); });
}

void FileLoader::stop() {
  stopping_ = true;
  parts_.files->bell().ring();
  if (thread_.joinable()) thread_.join();
}

void FileLoader::run() {
  while (!stopping_) {
    // Where memory is short, nothing is known of some files for a while.
    base::as_memory_allows([this] { step(); });
    parts_.files->bell().wait_for(kLookAgain);
  }
  families_.clear();  // holds files and device memory
}

void FileLoader::step() {
  const auto backend = parts_.files->backend();
  if (parts_.files->take_asked()) rests_until_ = std::chrono::steady_clock::now() + kRest;
  const bool rests = std::chrono::steady_clock::now() < rests_until_;
  std::vector<FamilyId> ids;
  bool keeps = false;
  {
    // No longer: it holds files, and memory of the device.
    const ViewPtr view = parts_.state->view();
    keeps = view->keeps_clean;
    for (const FamilyViewPtr& family : view->families) {
      if (!family->dropped && family->tree_is_cached) ids.push_back(family->id);
    }
  }
  if (backend == nullptr || rests || !keeps || !parts_.fault->get().ok()) return forget_all();
  while (readers_.size() < parts_.files->readers()) {
    if (unmapper_ == nullptr) unmapper_ = std::make_shared<residency::Unmapper>();
    readers_.push_back(std::make_unique<residency::FileReader>(
        backend.get(), residency::FileReader::kPieceBytes, unmapper_));
  }
  std::erase_if(families_, [&](const auto& one) {
    return std::find(ids.begin(), ids.end(), one.first) == ids.end();
  });
  for (const FamilyId id : ids) {
    if (!stopping_) look(id);
  }
}

/// Gives memory, files and the disk's room back, as far as nobody else has them.
void FileLoader::forget_all() {
  if (families_.empty()) return;
  publisher_->change([](View* next) {
    const auto families = next->families;
    for (const FamilyViewPtr& family : families) {
      if (family->files == nullptr && family->older_files == nullptr) continue;
      auto changed = std::make_shared<FamilyView>(*family);
      changed->set_files(nullptr);
      next->set_family(std::move(changed));
    }
  });
  families_.clear();
  readers_.clear();  // and what they read into
}

std::uint64_t FileLoader::version_of(const FamilyView& view) const {
  std::uint64_t version = 0;
  (void)parts_.below->db()->GetIntProperty(
      view.tree.get(), rocksdb::DB::Properties::kCurrentSuperVersionNumber, &version);
  return version;
}

bool FileLoader::is_known(FamilyId id, const Family& family) const {
  const ViewPtr view = parts_.state->view();
  const FamilyView* const now = view->family(id);
  return now == nullptr ||
         (family.is_whole && std::chrono::steady_clock::now() < family.look_again &&
          family.changes == now->tree_changes && family.version == version_of(*now));
}

void FileLoader::look(FamilyId id) {
  Family& family = families_[id];
  if (is_known(id, family)) return;
  std::optional<Listed> listed = list(id);
  if (listed.has_value()) load(id, &*listed, &family);
}

std::optional<FileLoader::Listed> FileLoader::list(FamilyId id) const {
  Listed listed;
  {
    // No ingest is under way: the newest view has the tree that is listed.
    const auto unchanged = parts_.below->keep_unchanged();
    const ViewPtr view = parts_.state->view();
    const FamilyView* const now = view->family(id);
    if (now == nullptr || now->dropped) return std::nullopt;
    listed.changes = now->tree_changes;
    listed.version = version_of(*now);
    listed.levels = residency::list_files(parts_.below->db(), now->tree.get());
  }
  if (parts_.filters->is_shut()) return std::nullopt;
  return listed;
}

void FileLoader::take_kept(Listed* listed, Family* family) {
  std::map<std::uint64_t, residency::ResidentFilePtr> kept;
  std::map<std::uint64_t, std::uint64_t> needs;
  for (ListedFile* const file : newest_first(&listed->levels)) {
    if (const auto of = family->needs.find(file->number); of != family->needs.end()) {
      needs.insert(*of);
    }
    const auto before = family->kept.find(file->number);
    if (before == family->kept.end()) continue;
    kept.insert(*before);
    file->resident = before->second;
  }
  for (const auto& [number, file] : family->kept) {
    const bool serves = file != nullptr && family->published.contains(number);
    if (serves && !kept.contains(number)) family->replaced.push_back(file);
  }
  family->kept = std::move(kept);
  family->needs = std::move(needs);
}

bool FileLoader::says_the_same(FamilyId id, const Listed& listed) const {
  const ViewPtr view = parts_.state->view();
  const FamilyView* const now = view->family(id);
  return now != nullptr && !now->dropped && view->keeps_clean &&
         now->tree_changes == listed.changes;
}

bool FileLoader::are_too_many(const std::vector<ResidentFilePtr>& replaced,
                              const Family& family) const {
  std::uint64_t kept = 0;
  for (const auto& [number, file] : family.kept) kept += file == nullptr ? 0 : file->bytes->bytes();
  std::uint64_t gone = 0;
  for (const ResidentFilePtr& file : replaced) gone += file->bytes->bytes();
  return gone > kept / kReplacedOneIn;
}

bool FileLoader::older_serve(FamilyId id) const {
  const ViewPtr view = parts_.state->view();
  const FamilyView* const now = view->family(id);
  return now != nullptr && now->files == nullptr && now->below_memory().files != nullptr;
}

void FileLoader::load(FamilyId id, Listed* listed, Family* family) {
  Loaded loaded(parts_.files);
  family->is_whole = false;
  family->has_let_go = false;
  take_kept(listed, family);
  // If only a compaction was there since, the files that it took away say what the new ones say.
  const bool replaced_serve = family->is_served && family->changes == listed->changes;
  const bool older_may = !are_too_many(family->replaced, *family);
  const auto others_serve = [&] {
    return (replaced_serve && !family->replaced.empty()) || (older_may && older_serve(id));
  };
  bool is_refused = false;
  // At once, but where all is served: memory of files that went is there for others when no view
  // has them any more.
  if (!others_serve() && !publish(id, *listed, &is_refused, family)) return;
  std::uint64_t published = 0;
  bool lacks_room = false;
  bool has_gap = false;
  const std::vector<ListedFile*> files = newest_first(&listed->levels);
  for (std::size_t next = 0;
       next < files.size() && !is_refused && family->kept.size() < kFilesMax;) {
    std::vector<Attempt> attempts = begin_next(files, &next, *family, &lacks_room);
    read_together(attempts);
    const std::size_t begin = next;
    for (std::size_t i = 0; i < attempts.size() && next == begin; ++i) {
      Read got = keep(&attempts[i], family);
      if (got == Read::kNoRoom && can_make_room(attempts[i], *family)) {
        // Those behind it are older, and are tried again, as what goes for it is.
        next = files.size() - attempts[i].older.size() + 1;
        attempts.resize(i + 1);
        got = read_instead(id, *listed, &attempts[i], family);
      }
      if (got == Read::kOver) return;
      lacks_room = lacks_room || got == Read::kNoRoom;
      has_gap = has_gap || got == Read::kGone;
      loaded.note(attempts[i].file->resident);
    }
    if (loaded.micros() - published < kPublishMicros) continue;
    published = loaded.micros();
    const bool goes_on =
        others_serve() ? says_the_same(id, *listed) : publish(id, *listed, &is_refused, family);
    if (!goes_on) return;
  }
  // Another compaction has come: its outputs are listed next, and what serves goes on.
  if (has_gap && others_serve() && family->gaps++ < kGapsMax) return;
  family->gaps = 0;
  family->is_whole = publish(id, *listed, &is_refused, family);
  family->is_served = family->is_whole && !is_refused && !has_gap;
  family->looks_soon = lacks_room && family->has_let_go && !family->looks_soon;
  const auto pause = family->looks_soon ? kUntilFreed : kRest;
  const bool may_be_more = lacks_room || has_gap;  // of a medium that failed, too
  family->look_again = may_be_more ? std::chrono::steady_clock::now() + pause : Time::max();
  family->version = listed->version;
  family->changes = listed->changes;
}

std::vector<FileLoader::Attempt> FileLoader::begin_next(Files files, std::size_t* next,
                                                        const Family& family,
                                                        bool* lacks_room) const {
  std::vector<Attempt> attempts;
  for (; *next < files.size() && attempts.size() < readers_.size(); ++*next) {
    ListedFile* const file = files[*next];
    const Files older = files.subspan(*next);
    if (family.kept.contains(file->number)) continue;
    const auto known = family.needs.find(file->number);
    if (known != family.needs.end() && !could_fit(known->second, older, family)) {
      *lacks_room = true;
      continue;
    }
    Attempt& attempt = attempts.emplace_back();
    attempt.file = file;
    attempt.older = older;
  }
  return attempts;
}

bool FileLoader::can_make_room(const Attempt& attempt, const Family& family) const {
  return could_fit(family.needs.at(attempt.file->number), attempt.older, family);
}

FileLoader::Read FileLoader::read_instead(FamilyId id, const Listed& listed, Attempt* attempt,
                                          Family* family) {
  // Of the budget what is missing; of a full device all that it needs.
  const std::uint64_t needed = family->needs[attempt->file->number];
  const std::uint64_t left = parts_.files->bytes_max() - bytes_kept();
  let_go(device_is_full(needed, 0) ? needed : needed - std::min(needed, left), attempt->older,
         family);
  bool is_refused = false;
  if (!publish(id, listed, &is_refused, family)) return Read::kOver;
  read_together(std::span(attempt, 1));
  return keep(attempt, family);
}

std::uint64_t FileLoader::bytes_kept() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, family] : families_) {
    for (const auto& [number, file] : family.kept) {
      bytes += file == nullptr ? 0 : file->memory_bytes();
    }
    for (const ResidentFilePtr& file : family.replaced) bytes += file->memory_bytes();
  }
  return bytes;
}

bool FileLoader::device_is_full(std::uint64_t needed, std::uint64_t could_go) const {
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return true;
  const exec::Device& device = backend->device();
  if (device.is_host()) return false;
  const std::uint64_t limit = device.memory_limit();
  const std::uint64_t free = limit - std::min(limit, needed + parts_.files->load_bytes());
  if (device.memory_held() > free) backend->tenant().pool().trim();
  return device.memory_held() > free + could_go;
}

/// Files, by a thread each.
void FileLoader::read_together(std::span<Attempt> attempts) {
  BRECCIA_ASSERT(attempts.size() <= readers_.size());
  std::atomic<std::uint64_t> taken{bytes_kept()};
  base::in_own_threads(attempts.size(),
                       [&](std::size_t i) { read(readers_[i].get(), &taken, &attempts[i]); });
}

/// *taken: of the budget, by all files that are kept and read.
void FileLoader::read(residency::FileReader* reader, std::atomic<std::uint64_t>* taken,
                      Attempt* attempt) {
  const std::uint64_t bytes_max = parts_.files->bytes_max();
  const auto take = [&](std::uint64_t bytes) {
    for (std::uint64_t before = *taken; bytes <= bytes_max && before <= bytes_max - bytes;) {
      if (taken->compare_exchange_weak(before, before + bytes)) return true;
    }
    return false;
  };
  bool is_begun = false;
  const auto goes_on = [&](std::uint64_t needed) {
    if (stopping_ || parts_.files->is_asked()) return Status::ShutdownInProgress();
    attempt->bytes_needed = needed;
    const bool begins = !std::exchange(is_begun, true);
    if (begins && !take(needed)) return Status::MemoryLimit();
    return device_is_full(begins ? needed : 0, 0) ? Status::MemoryLimit() : Status::OK();
  };
  attempt->why = base::or_error([&]() -> Status {
    BRECCIA_TAKE(attempt->resident, reader->read(attempt->file->path, goes_on));
    return Status::OK();
  });
}

/// What cannot be read here stays RocksDB's, for good.
FileLoader::Read FileLoader::keep(Attempt* attempt, Family* family) {
  ListedFile* const file = attempt->file;
  family->needs[file->number] = attempt->bytes_needed;
  const Status& why = attempt->why;
  if (why.ok()) {
    const ResidentFilePtr resident = std::move(attempt->resident);
    family->needs[file->number] = resident->memory_bytes();
    if (bytes_kept() + resident->memory_bytes() > parts_.files->bytes_max()) return Read::kNoRoom;
    file->resident = resident;
    family->kept.emplace(file->number, file->resident);
    return Read::kDone;
  }
  if (why.IsShutdownInProgress()) return Read::kOver;
  if (why.IsMemoryLimit()) return Read::kNoRoom;
  if (why.IsNotSupported() || why.IsCorruption()) family->kept.emplace(file->number, nullptr);
  if (why.IsCorruption() && !std::exchange(has_warned_, true)) {
    log(LogLevel::kWarning, "keys of " + file->path + " are not resident: " + why.ToString());
  }
  return why.IsIOError() ? Read::kGone : Read::kDone;
}

/// Whether there would be room if all older files of the family went, and those replaced.
bool FileLoader::could_fit(std::uint64_t needed, Files older, const Family& family) const {
  const std::uint64_t bytes_max = parts_.files->bytes_max();
  std::uint64_t could_go = 0;
  for (const ResidentFilePtr& file : family.replaced) could_go += file->memory_bytes();
  for (const ListedFile* const file : older) {
    could_go += file->resident == nullptr ? 0 : file->resident->memory_bytes();
  }
  return needed <= bytes_max && bytes_kept() - could_go <= bytes_max - needed &&
         !device_is_full(needed, could_go);
}

/// Of the oldest files so many bytes or all, with what is replaced already, become what goes when
/// the next set is published.
void FileLoader::let_go(std::uint64_t bytes, Files older, Family* family) {
  std::uint64_t gone = 0;
  for (const ResidentFilePtr& file : family->replaced) gone += file->memory_bytes();
  for (; !older.empty() && gone < bytes; older = older.first(older.size() - 1)) {
    ListedFile* const file = older.back();
    if (file->resident == nullptr) continue;
    gone += file->resident->memory_bytes();
    family->kept.erase(file->number);
    family->replaced.push_back(std::exchange(file->resident, nullptr));
  }
  family->has_let_go = family->has_let_go || gone > 0;
}

void FileLoader::give_up_older(FamilyId id) {
  publisher_->change([&](View* next) {
    const FamilyView* const before = next->family(id);
    if (before == nullptr || before->older_files == nullptr) return;
    auto changed = std::make_shared<FamilyView>(*before);
    changed->older_files = nullptr;
    next->set_family(std::move(changed));
  });
}

/// False: what is listed is not so any more, or was not published. *is_refused: no set can be made
/// of what is listed, and RocksDB alone is asked.
bool FileLoader::publish(FamilyId id, const Listed& listed, bool* is_refused, Family* family) {
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return false;
  auto set = residency::FileSet::make(backend, listed.levels, parts_.files->usage());
  *is_refused = set.status().IsNotSupported() || set.status().IsCorruption();
  if (!set.ok() && !*is_refused) {
    give_up_older(id);  // they may hold the memory that is not there
    return false;
  }
  const residency::FileSetPtr files = set.ok() ? set.take() : nullptr;
  bool is_published = false;
  publisher_->change([&](View* next) {
    const FamilyView* const before = next->family(id);
    if (before == nullptr || before->dropped || !next->keeps_clean) return;
    if (before->tree_changes != listed.changes) return;
    auto changed = std::make_shared<FamilyView>(*before);
    changed->set_files(files);
    next->set_family(std::move(changed));
    is_published = true;
  });
  if (is_published) {
    family->is_served = false;  // up to the last one
    family->replaced.clear();
    family->published.clear();
    for (const auto& level : listed.levels) {
      for (const ListedFile& file : level) family->published.insert(file.number);
    }
  }
  return is_published;
}

}  // namespace breccia::ordered
