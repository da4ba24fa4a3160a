#include "ordered/background/file_loader.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "residency/listing.h"

namespace breccia::ordered {

namespace {

using residency::ListedFile;
using residency::ListedLevel;

/// How often it is looked whether a compaction has changed files.
constexpr auto kLookAgain = std::chrono::milliseconds(100);
/// Files that are there serve lookups after that time, also if others are still to come.
constexpr std::uint64_t kPublishMicros = 300'000;
/// Whoever wanted the device's memory has it for so long at least.
constexpr auto kRest = std::chrono::seconds(10);
/// Files of a family: each is a mapping, of which Linux gives a process 65,530.
constexpr std::size_t kFilesMax = 16 << 10;

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
  const ViewPtr view = parts_.state->view();
  if (parts_.files->take_asked()) rests_until_ = std::chrono::steady_clock::now() + kRest;
  const bool rests = std::chrono::steady_clock::now() < rests_until_;
  if (backend == nullptr || rests || !view->keeps_clean || !parts_.fault->get().ok()) {
    return forget_all();
  }
  if (reader_ == nullptr) {
    reader_ =
        std::make_unique<residency::FileReader>(backend.get(), residency::FileReader::kPieceBytes);
  }
  std::erase_if(families_, [&](const auto& one) {
    const FamilyView* const own = view->family(one.first);
    return own == nullptr || own->dropped;
  });
  for (const FamilyViewPtr& family : view->families) {
    if (stopping_) return;
    if (!family->dropped && family->tree_is_cached) look(*family);
  }
}

/// Gives memory, files and the disk's room back, as far as nobody else has them.
void FileLoader::forget_all() {
  if (families_.empty()) return;
  publisher_->change([](View* next) {
    const auto families = next->families;
    for (const FamilyViewPtr& family : families) {
      if (family->files == nullptr) continue;
      auto changed = std::make_shared<FamilyView>(*family);
      changed->files = nullptr;
      next->set_family(std::move(changed));
    }
  });
  families_.clear();
}

std::uint64_t FileLoader::version_of(const FamilyView& view) const {
  std::uint64_t version = 0;
  (void)parts_.below->db()->GetIntProperty(
      view.tree.get(), rocksdb::DB::Properties::kCurrentSuperVersionNumber, &version);
  return version;
}

void FileLoader::look(const FamilyView& view) {
  Family& family = families_[view.id];
  const bool is_known =
      family.is_whole && family.changes == view.tree_changes && family.version == version_of(view);
  if (is_known) return;
  std::optional<Listed> listed = list(view.id);
  if (listed.has_value()) load(view.id, &*listed, &family);
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

/// True if some that were kept are no more among those that are listed.
bool FileLoader::take_kept(Listed* listed, Family* family) {
  std::map<std::uint64_t, residency::ResidentFilePtr> kept;
  for (ListedFile* const file : newest_first(&listed->levels)) {
    const auto before = family->kept.find(file->number);
    if (before == family->kept.end()) continue;
    kept.insert(*before);
    file->resident = before->second;
  }
  const bool went = kept.size() < family->kept.size();
  family->kept = std::move(kept);
  return went;
}

void FileLoader::load(FamilyId id, Listed* listed, Family* family) {
  const base::Stopwatch watch;
  family->is_whole = false;
  // Memory of files that went is there for others, when no view has them any more.
  if (take_kept(listed, family) && !publish(id, *listed, family)) return;
  std::uint64_t published = 0;
  std::uint64_t loads = 0;
  std::vector<ListedFile*> older = newest_first(&listed->levels);
  std::reverse(older.begin(), older.end());  // the next to be read is the last
  for (; !older.empty() && family->kept.size() < kFilesMax; older.pop_back()) {
    ListedFile* const file = older.back();
    if (family->kept.contains(file->number)) continue;
    std::uint64_t needed = 0;
    Read got = read(file, family, &needed);
    if (got == Read::kNoRoom && make_room(needed, older, family)) {
      if (!publish(id, *listed, family)) return;
      got = read(file, family, &needed);
    }
    if (got == Read::kOver) return;
    if (file->resident == nullptr) continue;
    ++loads;
    if (watch.micros() - published < kPublishMicros) continue;
    published = watch.micros();
    if (!publish(id, *listed, family)) return;
  }
  if (loads > 0) parts_.files->note_load(loads, watch.micros());
  family->is_whole = publish(id, *listed, family);
  family->version = listed->version;
  family->changes = listed->changes;
}

std::uint64_t FileLoader::bytes_kept() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, family] : families_) {
    for (const auto& [number, file] : family.kept) {
      bytes += file == nullptr ? 0 : file->memory_bytes();
    }
  }
  return bytes;
}

/// True if the device would ask others for memory.
bool FileLoader::device_is_full(std::uint64_t needed) const {
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return true;
  const exec::Device& device = backend->device();
  if (device.is_host()) return false;
  const std::uint64_t limit = device.memory_limit();
  return device.memory_held() > limit - std::min(limit, needed + ResidentFiles::kLoadBytes);
}

/// What cannot be read here stays RocksDB's, for good.
FileLoader::Read FileLoader::read(ListedFile* file, Family* family, std::uint64_t* needed) {
  const std::uint64_t bytes_max = parts_.files->bytes_max();
  residency::FileReader::Room room{bytes_max - std::min(bytes_max, bytes_kept())};
  auto got = reader_->read(file->path, &room,
                           [&] { return !stopping_ && !device_is_full(room.bytes_needed); });
  *needed = room.bytes_needed;
  if (got.ok()) {
    if (bytes_kept() + got.value()->memory_bytes() > bytes_max) return Read::kNoRoom;
    file->resident = got.take();
    family->kept.emplace(file->number, file->resident);
    return Read::kDone;
  }
  const Status& why = got.status();
  if (why.IsShutdownInProgress() && stopping_) return Read::kOver;
  if (why.IsMemoryLimit()) return Read::kNoRoom;
  if (why.IsNotSupported() || why.IsCorruption()) family->kept.emplace(file->number, nullptr);
  if (why.IsCorruption() && !std::exchange(has_warned_, true)) {
    log(LogLevel::kWarning, "keys of " + file->path + " are not resident: " + why.ToString());
  }
  return Read::kDone;  // of IOError, too: a compaction may have taken the file away
}

/// Lets go of the oldest files among `older`, which has the oldest first and last the one that
/// needs room. False: not even without all of them there is any.
bool FileLoader::make_room(std::uint64_t needed, const std::vector<ListedFile*>& older,
                           Family* family) {
  const std::uint64_t bytes_max = parts_.files->bytes_max();
  std::uint64_t kept = bytes_kept();
  std::uint64_t could_go = 0;
  for (const ListedFile* const file : older) {
    could_go += file->resident == nullptr ? 0 : file->resident->memory_bytes();
  }
  if (needed > bytes_max || kept - could_go > bytes_max - needed) return false;
  for (ListedFile* const file : older) {
    if (kept <= bytes_max - needed) break;
    if (file->resident == nullptr) continue;
    kept -= file->resident->memory_bytes();
    family->kept.erase(file->number);
    file->resident = nullptr;
  }
  return true;
}

/// False: what is listed is not so any more, or was not published.
bool FileLoader::publish(FamilyId id, const Listed& listed, Family* family) {
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return false;
  auto set = residency::FileSet::make(backend, listed.levels, parts_.files->usage());
  if (!set.ok() && !set.status().IsNotSupported() && !set.status().IsCorruption()) return false;
  const residency::FileSetPtr files = set.ok() ? set.take() : nullptr;
  bool is_published = false;
  publisher_->change([&](View* next) {
    const FamilyView* const before = next->family(id);
    if (before == nullptr || before->dropped || !next->keeps_clean) return;
    if (before->tree_changes != listed.changes) return;
    auto changed = std::make_shared<FamilyView>(*before);
    changed->files = files;
    next->set_family(std::move(changed));
    is_published = true;
  });
  if (files == nullptr) family->kept.clear();
  return is_published;
}

}  // namespace breccia::ordered
