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
  if (reader_ == nullptr) {
    reader_ =
        std::make_unique<residency::FileReader>(backend.get(), residency::FileReader::kPieceBytes);
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
  family->kept = std::move(kept);
  family->needs = std::move(needs);
}

void FileLoader::load(FamilyId id, Listed* listed, Family* family) {
  const base::Stopwatch watch;
  family->is_whole = false;
  take_kept(listed, family);
  // At once: memory of files that went is there for others when no view has them any more.
  bool is_refused = false;
  if (!publish(id, *listed, &is_refused)) return;
  std::uint64_t published = 0;
  std::uint64_t loads = 0;
  bool lacks_room = false;
  Files older = newest_first(&listed->levels);
  std::reverse(older.begin(), older.end());  // the next to be read is the last
  for (; !is_refused && !older.empty() && family->kept.size() < kFilesMax; older.pop_back()) {
    if (family->kept.contains(older.back()->number)) continue;
    const Read got = load_newest(id, older, *listed, family);
    if (got == Read::kOver) return;
    lacks_room = lacks_room || got == Read::kNoRoom;
    if (older.back()->resident == nullptr) continue;
    ++loads;
    if (watch.micros() - published < kPublishMicros) continue;
    published = watch.micros();
    if (!publish(id, *listed, &is_refused)) return;
  }
  if (loads > 0) parts_.files->note_load(loads, watch.micros());
  family->is_whole = publish(id, *listed, &is_refused);
  family->look_again = lacks_room ? std::chrono::steady_clock::now() + kRest : Time::max();
  family->version = listed->version;
  family->changes = listed->changes;
}

FileLoader::Read FileLoader::load_newest(FamilyId id, const Files& older, const Listed& listed,
                                         Family* family) {
  ListedFile* const file = older.back();
  const auto known = family->needs.find(file->number);
  if (known != family->needs.end() && !could_fit(known->second, older)) return Read::kNoRoom;
  const Read got = read(file, family);
  if (got != Read::kNoRoom) return got;
  // Whatever had no room, the budget or the device.
  const std::uint64_t needed = family->needs[file->number];
  if (!could_fit(needed, older)) return Read::kNoRoom;
  let_go(needed, older, family);
  bool is_refused = false;
  return publish(id, listed, &is_refused) ? read(file, family) : Read::kOver;
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
  const std::uint64_t free = limit - std::min(limit, needed + ResidentFiles::kLoadBytes);
  if (device.memory_held() > free) backend->tenant().pool().trim();
  return device.memory_held() > free;
}

/// What cannot be read here stays RocksDB's, for good.
FileLoader::Read FileLoader::read(ListedFile* file, Family* family) {
  const std::uint64_t bytes_max = parts_.files->bytes_max();
  residency::FileReader::Room room{bytes_max - std::min(bytes_max, bytes_kept())};
  bool is_begun = false;
  auto got = reader_->read(file->path, &room, [&] {
    const std::uint64_t ahead = std::exchange(is_begun, true) ? 0 : room.bytes_needed;
    return !stopping_ && !parts_.files->is_asked() && !device_is_full(ahead);
  });
  family->needs[file->number] = room.bytes_needed;
  if (got.ok()) {
    const std::uint64_t bytes = got.value()->memory_bytes();
    family->needs[file->number] = bytes;
    if (bytes > room.bytes_max) return Read::kNoRoom;
    file->resident = got.take();
    family->kept.emplace(file->number, file->resident);
    return Read::kDone;
  }
  const Status& why = got.status();
  if (why.IsShutdownInProgress() && (stopping_ || parts_.files->is_asked())) return Read::kOver;
  if (why.IsShutdownInProgress() || why.IsMemoryLimit()) return Read::kNoRoom;
  if (why.IsNotSupported() || why.IsCorruption()) family->kept.emplace(file->number, nullptr);
  if (why.IsCorruption() && !std::exchange(has_warned_, true)) {
    log(LogLevel::kWarning, "keys of " + file->path + " are not resident: " + why.ToString());
  }
  return Read::kDone;  // of IOError, too: a compaction may have taken the file away
}

/// Whether there would be room if all older files of the family went.
bool FileLoader::could_fit(std::uint64_t needed, const Files& older) const {
  const std::uint64_t bytes_max = parts_.files->bytes_max();
  std::uint64_t could_go = 0;
  for (const ListedFile* const file : older) {
    could_go += file->resident == nullptr ? 0 : file->resident->memory_bytes();
  }
  return needed <= bytes_max && bytes_kept() - could_go <= bytes_max - needed;
}

/// Lets go of the oldest files, so many bytes or all.
void FileLoader::let_go(std::uint64_t bytes, const Files& older, Family* family) {
  std::uint64_t gone = 0;
  for (ListedFile* const file : older) {
    if (gone >= bytes) return;
    if (file->resident == nullptr) continue;
    gone += file->resident->memory_bytes();
    family->kept.erase(file->number);
    file->resident = nullptr;
  }
}

/// False: what is listed is not so any more, or was not published. *is_refused: no set can be made
/// of what is listed, and RocksDB alone is asked.
bool FileLoader::publish(FamilyId id, const Listed& listed, bool* is_refused) {
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return false;
  auto set = residency::FileSet::make(backend, listed.levels, parts_.files->usage());
  *is_refused = set.status().IsNotSupported() || set.status().IsCorruption();
  if (!set.ok() && !*is_refused) return false;
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
  return is_published;
}

}  // namespace breccia::ordered
