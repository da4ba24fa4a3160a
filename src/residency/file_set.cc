#include "residency/file_set.h"

#include <rocksdb/slice.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "base/limits.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "exec/crew.h"
#include "record/key_columns.h"
#include "record/one_key.h"
#include "residency/cold_pages.h"
#include "sst/decompress.h"

namespace breccia::residency {

namespace {

/// So many keys a device seeks in one launch, and the crew answers them.
constexpr std::size_t kFewKeys = 16 << 10;

bool overlap(const ListedFile& a, const ListedFile& b) {
  return a.first_key <= b.last_key && b.first_key <= a.last_key;
}

/// A part without keys. No key of a store's lies between one that is longer and what is left of it.
LevelPart stub_of(const std::string& first_key, const std::string& last_key) {
  return {nullptr, first_key.substr(0, limits::kKeyBytesMax),
          last_key.substr(0, limits::kKeyBytesMax)};
}

void add_parts(const ListedFile& file, Level* level) {
  if (file.resident == nullptr) return level->push_back(stub_of(file.first_key, file.last_key));
  for (const PiecePtr& piece : file.resident->pieces) {
    level->push_back({piece, piece->first_key(), piece->last_key()});
  }
}

bool has_range_deletions(const ListedLevel& level) {
  return std::any_of(level.begin(), level.end(), [](const ListedFile& file) {
    return file.resident != nullptr && !file.resident->deleted.empty();
  });
}

/// What range deletions of a level's files cover, as far as RocksDB lets them: within their file's
/// keys. They hide what the files themselves have, too. `most`: such spans.
Level deleted_in(const ListedLevel& level, std::size_t most) {
  std::vector<KeySpan> spans;
  for (const ListedFile& file : level) {
    if (file.resident == nullptr) continue;
    for (const KeySpan& span : file.resident->deleted) {
      KeySpan own{std::max(span.first, file.first_key), std::min(span.last, file.last_key)};
      if (own.first <= own.last) spans.push_back(std::move(own));
    }
  }
  join_spans(&spans, most);
  Level stubs;
  for (const KeySpan& span : spans) stubs.push_back(stub_of(span.first, span.last));
  return stubs;
}

Status check(const Level& level) {
  for (const LevelPart& part : level) {
    if (std::max(part.first_key.size(), part.last_key.size()) > limits::kKeyBytesMax) {
      return Status::NotSupported("a key of a file is too long");
    }
    if (part.last_key < part.first_key) return Status::Corruption("a file ends before it begins");
  }
  for (std::size_t i = 0; i < level.size(); ++i) {
    if (i > 0 && level[i].first_key < level[i - 1].last_key) {
      return Status::Corruption("files of a level overlap");
    }
  }
  return Status::OK();
}

}  // namespace

std::vector<ListedLevel> levels_of_overlapping(std::vector<ListedFile> newest_first) {
  std::vector<ListedLevel> levels;
  for (ListedFile& file : newest_first) {
    const auto overlaps = [&](const ListedFile& other) { return overlap(file, other); };
    if (levels.empty() || std::any_of(levels.back().begin(), levels.back().end(), overlaps)) {
      levels.emplace_back();
    }
    levels.back().push_back(std::move(file));
  }
  for (ListedLevel& level : levels) {
    std::sort(level.begin(), level.end(),
              [](const ListedFile& a, const ListedFile& b) { return a.first_key < b.first_key; });
  }
  return levels;
}

Result<FileSetPtr> FileSet::make(std::shared_ptr<Backend> backend, std::vector<ListedLevel> levels,
                                 std::shared_ptr<Usage> usage) {
  return base::or_memory_limit([&]() -> Result<FileSetPtr> {
    std::shared_ptr<FileSet> set(
        new FileSet(std::move(backend), std::move(levels), std::move(usage)));
    std::vector<Level> parts;
    set->deleted_.reserve(set->levels_.size());
    const auto deletes = static_cast<std::size_t>(
        std::count_if(set->levels_.begin(), set->levels_.end(), has_range_deletions));
    const std::size_t spans_max =
        std::max<std::size_t>(1, kDeletedSpansMax / std::max<std::size_t>(1, deletes));
    for (const ListedLevel& level : set->levels_) {
      if (Level deleted = deleted_in(level, spans_max); !deleted.empty()) {
        parts.push_back(deleted);
        set->deleted_.push_back(std::move(deleted));
        for (const LevelPart& stub : set->deleted_.back()) set->list_stub(stub.first_key);
        set->level_end_.push_back(set->parts_.size());
      }
      Level& own = parts.emplace_back();
      for (const ListedFile& file : level) {
        add_parts(file, &own);
        set->list_parts(file);
      }
      set->level_end_.push_back(set->parts_.size());
    }
    for (const Level& level : parts) BRECCIA_TRY(check(level));
    BRECCIA_TAKE(set->table_, set->backend_->make_table(parts));
    return FileSetPtr(std::move(set));
  });
}

void FileSet::list_stub(const Slice& first_key) {
  parts_.emplace_back().first_key = first_key;
  plain_.emplace_back();
}

void FileSet::list_parts(const ListedFile& file) {
  if (file.resident == nullptr) return list_stub(file.first_key);
  const ResidentFile& resident = *file.resident;
  Plain plain;
  if (!resident.is_packed) plain = {resident.bytes->data(), resident.bytes->bytes()};
  plain_.insert(plain_.end(), resident.pieces.size(), plain);
  for (std::size_t i = 0; i < resident.pieces.size(); ++i) {
    const std::vector<sst::Handle>& blocks = resident.blocks[i];
    const std::uint64_t bytes = blocks.empty() ? 0 : blocks.back().end() - blocks.front().offset;
    const std::uint64_t keys = std::max<std::uint64_t>(1, resident.pieces[i]->count());
    parts_.push_back({resident.bytes.get(), &blocks, resident.is_packed, bytes / keys,
                      resident.pieces[i]->first_key()});
  }
}

Result<std::unique_ptr<const FileSet::Starts>> FileSet::seek(
    const record::KeyColumnsRef& keys) const {
  return base::or_memory_limit([&]() -> Result<std::unique_ptr<const Starts>> {
    std::unique_ptr<Starts> starts(new Starts(backend_->device().host_memory(), keys.count));
    const std::uint64_t n = keys.count * level_end_.size();
    if (!starts->place_.reserve(n) || !starts->part_.reserve(n)) {
      return Status::MemoryLimit("memory for ranges is exhausted");
    }
    const FoundRef found{starts->place_.extend(n), starts->part_.extend(n)};
    BRECCIA_TAKE(const SearchPtr search, backend_->seek(*table_, keys, found));
    BRECCIA_TRY(search->finish());
    usage_->note_ranges(keys.count);
    return Result<std::unique_ptr<const Starts>>(std::move(starts));
  });
}

Slice FileSet::plain_value(std::uint64_t place, std::uint32_t part) const {
  const Plain& file = plain_[part];
  BRECCIA_ASSERT(offset_of(place) + bytes_of(place) <= file.bytes);
  return {file.data + offset_of(place), bytes_of(place)};
}

Status FileSet::value(std::uint64_t place, std::uint32_t part, Unpacked* unpacked,
                      Slice* value) const {
  BRECCIA_ASSERT(is_value(place) && part < parts_.size());
  const sst::Handle* const block = packed_block_of(place, part);
  if (block == nullptr) {
    *value = plain_value(place, part);
    return Status::OK();
  }
  const std::uint64_t end = packed_at(place) + bytes_of(place);
  BRECCIA_TRY(unpack(parts_[part], *block, end, unpacked));
  if (end > unpacked->contents.size()) {
    return Status::Corruption("a block is shorter than it was");
  }
  *value = Slice(unpacked->contents.data() + packed_at(place), bytes_of(place));
  return Status::OK();
}

Status FileSet::unpack(const Part& part, const sst::Handle& block, std::uint64_t wanted,
                       Unpacked* unpacked) {
  BRECCIA_ASSERT(block.end() <= part.file->bytes());
  const char* const stored = part.file->data() + block.offset;
  const bool has_it = unpacked->is_whole || unpacked->contents.size() >= wanted;
  if (unpacked->stored == stored && has_it) return Status::OK();
  unpacked->stored = nullptr;
  const auto type = static_cast<sst::Compression>(stored[block.bytes]);
  BRECCIA_TRY(sst::decompress(type, Slice(stored, block.bytes), &unpacked->room,
                              &unpacked->contents, wanted));
  unpacked->stored = stored;
  unpacked->is_whole = wanted == sst::kBlockBytesMax;
  return Status::OK();
}

Status FileSet::open_block(const Part& part, std::size_t block, Unpacked* unpacked,
                           Slice* contents) {
  const sst::Handle& handle = (*part.blocks)[block];
  if (part.is_packed) {
    BRECCIA_TRY(unpack(part, handle, sst::kBlockBytesMax, unpacked));
    *contents = unpacked->contents;
    return Status::OK();
  }
  BRECCIA_ASSERT(handle.end() <= part.file->bytes());
  *contents = Slice(part.file->data() + handle.offset, handle.bytes);
  return Status::OK();
}

std::optional<Status> FileSet::get(const Slice& key, rocksdb::PinnableSlice* value,
                                   bool* was_packed) const {
  *was_packed = false;
  if (!host_reads()) return std::nullopt;
  const record::OneKey sought(key);
  std::uint32_t part = 0;
  const std::uint64_t place = find_one(sought.ref(), &part);
  Unpacked unpacked;
  Slice found;
  const bool is_known =
      place != kAsk && (!is_value(place) || this->value(place, part, &unpacked, &found).ok());
  usage_->note(is_known ? 1 : 0, is_known ? 0 : 1);
  if (!is_known) return std::nullopt;
  if (!is_value(place)) return Status::NotFound();
  value->PinSelf(found);
  *was_packed = unpacked.was_packed();
  return Status::OK();
}

/// What a worker finds, so many keys at a time as its device is best at.
class FileSet::Finder {
 public:
  Finder(const FileSet& set, const record::KeyColumnsRef& keys)
      : set_(set), keys_(keys), sought_{Sought(memory()), Sought(memory())} {}

  /// What was found of places, in their order.
  struct Found {
    std::span<const std::uint32_t> places;
    const std::uint64_t* place = nullptr;
    const std::uint32_t* part = nullptr;

    [[nodiscard]] Found part_of(std::size_t begin, std::size_t count) const {
      return {places.subspan(begin, count), place + begin, part + begin};
    }
  };

  /// Some of the places, and what is found of them.
  struct Sought {
    explicit Sought(exec::HostMemory& memory) : which(memory), place(memory), part(memory) {}
    [[nodiscard]] bool make_room(std::size_t count) {
      return which.reserve(count) && place.reserve(count) && part.reserve(count);
    }
    [[nodiscard]] bool finish() const { return search != nullptr && search->finish().ok(); }
    /// Shape   finish()
    [[nodiscard]] Found found() const { return {places, place.data(), part.data()}; }

    std::span<const std::uint32_t> places;
    exec::HostVector<std::uint32_t> which;
    exec::HostVector<std::uint64_t> place;
    exec::HostVector<std::uint32_t> part;
    SearchPtr search;  // null: it could not begin. Last, as it fills the others
  };

  /// Answers what is known of `places`, and leaves the others there.
  void look_up(std::uint64_t worker, std::vector<std::uint32_t>* places, const Answer& answer) {
    cold_.look_anew(set_.is_cold_.load(std::memory_order_relaxed));
    const std::size_t step = set_.host_reads() ? kKeysOnHost : kKeysOnDevice;
    std::size_t left = 0;
    std::size_t begun = 0;
    for (std::size_t begin = 0; begin < places->size(); begin += step) {
      // A device is at the next ones meanwhile.
      for (; begun < places->size() && begun <= begin + step; begun += step) {
        seek(std::span(*places).subspan(begun, std::min(step, places->size() - begun)),
             &sought_[begun / step % sought_.size()]);
      }
      const Sought& sought = sought_[begin / step % sought_.size()];
      if (sought.finish()) {
        left = tell(sought.found(), worker, places, left, answer);
      } else {
        std::copy(sought.places.begin(), sought.places.end(), places->data() + left);
        left += sought.places.size();
      }
    }
    end(left, places);
  }

  /// The same of what was found already.
  void look_up(const Found& found, std::uint64_t worker, std::vector<std::uint32_t>* places,
               const Answer& answer) {
    cold_.look_anew(set_.is_cold_.load(std::memory_order_relaxed));
    end(tell(found, worker, places, 0, answer), places);
  }

  /// Begins to look for `places`, which last until it is finished.
  void seek(std::span<const std::uint32_t> places, Sought* sought) const {
    sought->places = places;
    sought->search = nullptr;
    if (!sought->make_room(places.size())) return;
    auto search = find(sought);
    if (search.ok()) sought->search = search.take();
  }

 private:
  /// `left` of the places are left.
  void end(std::size_t left, std::vector<std::uint32_t>* places) {
    cold_.look();
    if (set_.is_cold_.load(std::memory_order_relaxed) != cold_.is_cold()) {
      set_.is_cold_.store(cold_.is_cold(), std::memory_order_relaxed);
    }
    set_.usage_->note(places->size() - left, left);
    places->resize(left);
  }

  /// What was found is still in the cache when it is looked at.
  static constexpr std::size_t kKeysOnHost = 4096;
  /// A launch costs as much as some thousand lookups; nobody does anything during the first one.
  static constexpr std::size_t kKeysOnDevice = 32 << 10;
  /// Far enough ahead to hide a miss of main memory behind the copies of the values before it.
  static constexpr std::size_t kAhead = 24;
  static constexpr std::size_t kLineBytes = 64;
  /// Lookups that are answered at once; their values stay in the second cache until then.
  static constexpr std::size_t kKnown = 256;
  /// Of a longer value the processor fetches the rest by itself.
  static constexpr std::uint64_t kFetchedBytes = 256;
  /// A block takes a microsecond to unpack.
  static constexpr std::size_t kBlocksAhead = 2;
  static constexpr std::uint64_t kFetchedOfBlock = 1024;

  /// A value in a block that is compressed.
  struct Packed {
    const sst::Handle* block;
    std::uint64_t place;
    std::uint32_t part;
    std::uint32_t key;  // of the batch's
  };

  /// Values [begin, end) whose pages were asked for, of so many bytes.
  struct Asked {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint64_t bytes = 0;
  };

  /// Answers what was found; `left` of the places before are left. Returns how many are then.
  std::size_t tell(const Found& found, std::uint64_t worker, std::vector<std::uint32_t>* places,
                   std::size_t left, const Answer& answer) {
    packed_.clear();
    const auto tell_one = [&](std::size_t i) {
      fetch(found, i + kAhead);
      const std::uint32_t own = found.places[i];
      const std::uint64_t place = found.place[i];
      const std::uint32_t part = found.part[i];
      if (place == kAsk) {
        (*places)[left++] = own;
      } else if (!is_value(place)) {
        tell({own, /*is_found=*/false, Slice()}, worker, answer);
      } else if (set_.plain_[part].data == nullptr) {
        packed_.push_back({set_.packed_block_of(place, part), place, part, own});
      } else {
        tell({own, /*is_found=*/true, set_.plain_value(place, part)}, worker, answer);
      }
    };
    Asked asked;
    for (std::size_t i = 0; i < kAhead; ++i) fetch(found, i);
    // Loops that ask nothing of each lookup: most files are cached.
    for (std::size_t begin = 0; begin < found.places.size(); begin += ColdPages::kReadsALook) {
      const std::size_t end = std::min(begin + ColdPages::kReadsALook, found.places.size());
      if (cold_.is_cold()) {
        for (std::size_t i = begin; i < end; ++i) {
          ask_ahead(found, i, &asked);
          tell_one(i);
        }
      } else {
        for (std::size_t i = begin; i < end; ++i) tell_one(i);
      }
      if (end < found.places.size()) cold_.look();
    }
    left = unpack(worker, places, left, answer);
    tell_all(worker, answer);
    return left;
  }

  /// Answers what lies in blocks that are compressed, each of which is unpacked once.
  std::size_t unpack(std::uint64_t worker, std::vector<std::uint32_t>* places, std::size_t left,
                     const Answer& answer) {
    // The last value of a block first: what is unpacked for it has the others.
    std::sort(packed_.begin(), packed_.end(), [](const Packed& a, const Packed& b) {
      return a.block == b.block ? a.place > b.place : std::less<>()(a.block, b.block);
    });
    const sst::Handle* block = nullptr;
    std::size_t asked = 0;
    for (std::size_t i = 0; i < packed_.size(); ++i) {
      const Packed& one = packed_[i];
      if (cold_.is_cold()) asked = ask_ahead(i, std::max(asked, i));
      cold_.note_read();
      if (i + kBlocksAhead < packed_.size()) fetch_block(packed_[i + kBlocksAhead]);
      // What is told lies in the last one that was unpacked.
      if (std::exchange(block, one.block) != one.block) tell_all(worker, answer);
      Slice value;
      if (set_.value(one.place, one.part, &unpacked_, &value).ok()) {
        tell({one.key, /*is_found=*/true, value, unpacked_.was_packed()}, worker, answer);
      } else {
        (*places)[left++] = one.key;  // RocksDB may say what is wrong
      }
    }
    return left;
  }

  void tell(const Known& known, std::uint64_t worker, const Answer& answer) {
    known_[told_++] = known;
    if (told_ == known_.size()) tell_all(worker, answer);
  }

  void tell_all(std::uint64_t worker, const Answer& answer) {
    const std::size_t told = std::exchange(told_, 0);
    if (told > 0) answer(worker, std::span(known_).first(told));
  }

  [[nodiscard]] exec::HostMemory& memory() const { return set_.backend_->device().host_memory(); }

  /// A device gets the keys among which the places lie, not all of the batch.
  Result<SearchPtr> find(Sought* sought) const {
    const std::span<const std::uint32_t> places = sought->places;
    const FoundRef found{sought->place.data(), sought->part.data()};
    const std::uint64_t n = places.size();
    if (set_.host_reads()) return set_.find(keys_, places.data(), n, found);
    if (are_in_a_row(places)) {
      return set_.find(record::slice(keys_, places.front(), n), /*which=*/nullptr, n, found);
    }
    const auto [least, most] = std::minmax_element(places.begin(), places.end());
    const std::uint32_t first = *least;
    const record::KeyColumnsRef keys = record::slice(keys_, first, *most - first + 1);
    std::transform(places.begin(), places.end(), sought->which.data(),
                   [first](std::uint32_t place) { return place - first; });
    return set_.find(keys, sought->which.data(), n, found);
  }

  static bool are_in_a_row(std::span<const std::uint32_t> places) {
    std::uint32_t differences = 0;  // without a jump
    for (std::uint32_t i = 0; i < places.size(); ++i) differences |= places[i] ^ (places[0] + i);
    return differences == 0;
  }

  [[nodiscard]] const char* stored_at(const Packed& one) const {
    return set_.parts_[one.part].file->data() + one.block->offset;
  }

  /// Bytes of a value that lies in its file as it is; else none.
  [[nodiscard]] std::uint64_t plain_bytes(const Found& found, std::size_t i) const {
    const bool is_plain = is_value(found.place[i]) && !set_.parts_[found.part[i]].is_packed;
    return is_plain ? bytes_of(found.place[i]) : 0;
  }

  /// Asks for the pages of values behind `i`, if what was asked for and not come to yet is little.
  void ask_ahead(const Found& found, std::size_t i, Asked* asked) {
    if (asked->end <= i) *asked = {i, i, 0};
    for (; asked->begin < i; ++asked->begin) asked->bytes -= plain_bytes(found, asked->begin);
    while (asked->end < found.places.size() && ColdPages::asks_on(asked->end - i, asked->bytes)) {
      const std::uint64_t bytes = plain_bytes(found, asked->end);
      if (bytes > 0) {
        const Part& part = set_.parts_[found.part[asked->end]];
        cold_.ask(part.file->data() + offset_of(found.place[asked->end]), bytes);
      }
      asked->bytes += bytes;
      ++asked->end;
    }
  }

  /// The same of blocks that may be compressed, from `asked` on, which are about as long as one
  /// another. Returns where it ended.
  std::size_t ask_ahead(std::size_t i, std::size_t asked) {
    for (; asked < packed_.size(); ++asked) {
      const Packed& later = packed_[asked];
      if (!ColdPages::asks_on(asked - i, (asked - i) * later.block->bytes)) break;
      if (asked > 0 && packed_[asked - 1].block == later.block) continue;
      cold_.ask(stored_at(later), later.block->bytes);
    }
    return asked;
  }

  /// What an unpacker reads first; the processor sees where it goes on.
  void fetch_block(const Packed& one) const {
    const char* const stored = stored_at(one);
    const std::uint64_t bytes = std::min(one.block->bytes, kFetchedOfBlock);
    for (std::uint64_t at = 0; at < bytes; at += kLineBytes) base::prefetch_far(stored + at);
  }

  void fetch(const Found& found, std::size_t i) const {
    if (i >= found.places.size() || !is_value(found.place[i])) return;
    const std::uint64_t place = found.place[i];
    const char* const data = set_.plain_[found.part[i]].data;
    if (data == nullptr) return;
    const char* const value = data + offset_of(place);
    const std::uint64_t bytes = std::min<std::uint64_t>(bytes_of(place), kFetchedBytes);
    for (std::uint64_t at = 0; at < bytes; at += kLineBytes) base::prefetch_far(value + at);
    if (bytes > 0) base::prefetch_far(value + bytes - 1);
  }

  const FileSet& set_;
  const record::KeyColumnsRef& keys_;
  std::array<Sought, 2> sought_;
  std::vector<Packed> packed_;
  Unpacked unpacked_;
  ColdPages cold_;
  std::array<Known, kKnown> known_;
  std::size_t told_ = 0;  // of these, those that come next
};

void FileSet::get_many(const record::KeyColumnsRef& keys,
                       std::vector<std::vector<std::uint32_t>>* places, std::uint64_t workers,
                       const Answer& answer) const {
  const auto add = [](std::size_t sum, const auto& list) { return sum + list.size(); };
  const std::size_t count = std::accumulate(places->begin(), places->end(), std::size_t{0}, add);
  if (count == 0) return;
  if (!host_reads() && count <= kFewKeys) return get_few(keys, places, count, workers, answer);
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::uint64_t worker) {
    const auto finder = std::make_unique<Finder>(*this, keys);
    for (std::size_t list = next++; list < places->size(); list = next++) {
      finder->look_up(worker, &(*places)[list], answer);
    }
  };
  workers = std::min<std::uint64_t>(workers, places->size());
  if (workers <= 1) return work(0);
  base::parallel_for(std::uint64_t{0}, workers, work);
}

/// A launch for all lists, as its time is what decides; and threads that need not be woken.
void FileSet::get_few(const record::KeyColumnsRef& keys,
                      std::vector<std::vector<std::uint32_t>>* places, std::size_t count,
                      std::uint64_t workers, const Answer& answer) const {
  std::vector<std::uint32_t> all;
  all.reserve(count);
  for (const auto& list : *places) all.insert(all.end(), list.begin(), list.end());
  Finder::Sought sought(backend_->device().host_memory());
  Finder(*this, keys).seek(all, &sought);
  if (!sought.finish()) return usage_->note(/*answered=*/0, /*left=*/all.size());
  // As much for each, whoever it was missing for.
  exec::Crew& crew = exec::Crew::shared();
  const std::uint64_t shares = std::min({workers, crew.size(), std::uint64_t{places->size()}});
  for (auto& list : *places) list.clear();
  // No exception of a thread of the crew's gets out of it.
  std::atomic<bool> has_memory{true};
  const auto work = [&](std::uint32_t share) {
    const std::size_t begin = all.size() * share / shares;
    const std::size_t end = all.size() * (share + 1) / shares;
    std::vector<std::uint32_t>& left = (*places)[share];
    const Status status = base::or_memory_limit([&] {
      left.assign(all.begin() + begin, all.begin() + end);
      const Finder::Found found = sought.found().part_of(begin, end - begin);
      std::make_unique<Finder>(*this, keys)->look_up(found, share, &left, answer);
      return Status::OK();
    });
    if (!status.ok()) has_memory = false;
  };
  crew.run(static_cast<std::uint32_t>(shares), work);
  if (!has_memory) throw std::bad_alloc();
}

bool FileSet::is_whole() const {
  return std::all_of(levels_.begin(), levels_.end(), [](const ListedLevel& level) {
    return std::all_of(level.begin(), level.end(),
                       [](const ListedFile& file) { return file.resident != nullptr; });
  });
}

FileSet::Figures FileSet::figures() const {
  Figures all;
  for (const ListedLevel& level : levels_) {
    for (const ListedFile& file : level) {
      ++all.files;
      if (file.resident == nullptr) continue;
      ++all.resident_files;
      all.keys += file.resident->keys();
      all.bytes += file.resident->memory_bytes();
    }
  }
  return all;
}

}  // namespace breccia::residency
