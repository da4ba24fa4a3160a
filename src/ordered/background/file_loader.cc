#include "ordered/background/file_loader.h"

#include <rocksdb/db.h>

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "residency/listing.h"

namespace breccia::ordered {

namespace {

/// How often it is looked whether a compaction has changed files.
constexpr auto kLookAgain = std::chrono::milliseconds(100);
/// Files that are there serve lookups after that time, also if others are still to come.
constexpr std::uint64_t kPublishMicros = 300'000;

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
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return;
  reader_ = std::make_unique<residency::FileReader>(backend.get());
  while (!stopping_) {
    // Where memory is short, nothing is known of some files for a while.
    base::as_memory_allows([&] {
      const ViewPtr view = parts_.state->view();
      std::erase_if(families_, [&](const auto& one) {
        const FamilyView* const own = view->family(one.first);
        return own == nullptr || own->dropped;
      });
      for (const FamilyViewPtr& family : view->families) {
        if (stopping_ || !parts_.fault->get().ok() || parts_.files->backend() == nullptr) return;
        if (family->dropped || !family->tree_is_cached || !view->keeps_clean) continue;
        look(*family);
      }
    });
    parts_.files->bell().wait_for(kLookAgain);
  }
  families_.clear();  // holds files and device memory
}

std::uint64_t FileLoader::version_of(const StoreParts& parts, const FamilyView& view) {
  std::uint64_t version = 0;
  (void)parts.below->db()->GetIntProperty(
      view.tree.get(), rocksdb::DB::Properties::kCurrentSuperVersionNumber, &version);
  return version;
}

void FileLoader::look(const FamilyView& view) {
  Family& family = families_[view.id];
  const bool is_known = family.is_published && family.changes == view.tree_changes &&
                        family.version == version_of(parts_, view);
  if (is_known) return;
  std::optional<Listed> listed = list(view);
  if (listed.has_value()) (void)load(view.id, &*listed, &family);
}

std::optional<FileLoader::Listed> FileLoader::list(const FamilyView& view) const {
  Listed listed;
  {
    // No ingest is under way: the newest view has the tree that is listed.
    const auto unchanged = parts_.below->keep_unchanged();
    const FamilyView* const now = parts_.state->view()->family(view.id);
    if (now == nullptr || now->dropped) return std::nullopt;
    listed.changes = now->tree_changes;
    listed.version = version_of(parts_, *now);
    listed.levels = residency::list_files(parts_.below->db(), now->tree.get());
  }
  if (parts_.filters->is_shut()) return std::nullopt;
  return listed;
}

bool FileLoader::load(FamilyId id, Listed* listed, Family* family) {
  const base::Stopwatch watch;
  std::uint64_t published = 0;
  std::uint64_t loads = 0;
  Kept kept;
  for (residency::ListedLevel& level : listed->levels) {
    for (residency::ListedFile& file : level) {
      const auto before = family->kept.find(file.number);
      if (before == family->kept.end()) continue;
      kept.insert(*before);
      file.resident = before->second;
    }
  }
  const bool went = kept.size() < family->kept.size();
  family->kept = std::move(kept);
  // Memory of files that went is there for others, when no view has them any more.
  if (went && !publish(id, *listed, family)) return false;
  is_full_ = false;
  for (residency::ListedLevel& level : listed->levels) {
    for (residency::ListedFile& file : level) {
      if (stopping_) return false;
      if (is_full_ || family->kept.contains(file.number)) continue;
      read(file.path, file.number, &family->kept);
      const auto now = family->kept.find(file.number);
      if (now == family->kept.end()) continue;
      ++loads;
      file.resident = now->second;
      if (watch.micros() - published < kPublishMicros) continue;
      published = watch.micros();
      if (!publish(id, *listed, family)) return false;
    }
  }
  if (loads > 0) parts_.files->note_load(loads, watch.micros());
  return publish(id, *listed, family);
}

/// What cannot be read here stays RocksDB's, for good; what did not fit is tried again when files
/// have changed.
void FileLoader::read(const std::string& path, std::uint64_t number, Kept* kept) {
  auto file = reader_->read(path);
  if (file.ok()) {
    const auto backend = parts_.files->backend();
    if (backend != nullptr && backend->tenant().used() > parts_.files->bytes_max()) {
      is_full_ = true;
    } else {
      kept->emplace(number, file.take());
    }
    return;
  }
  const Status& why = file.status();
  if (why.IsMemoryLimit()) {
    is_full_ = true;
    return;
  }
  if (why.IsNotSupported() || why.IsCorruption()) kept->emplace(number, nullptr);
  if (why.IsNotSupported() || why.IsIOError()) return;  // a compaction may have taken it away
  log(LogLevel::kWarning, "keys of " + path + " are not resident: " + why.ToString());
}

bool FileLoader::publish(FamilyId id, const Listed& listed, Family* family) {
  const auto backend = parts_.files->backend();
  if (backend == nullptr) return false;
  auto set = residency::FileSet::make(backend, listed.levels, parts_.files->usage());
  if (!set.ok()) {
    log(LogLevel::kWarning, "files are not resident: " + set.status().ToString());
  }
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
  family->is_published = is_published;
  family->version = listed.version;
  family->changes = listed.changes;
  return is_published;
}

}  // namespace breccia::ordered
