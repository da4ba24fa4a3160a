#include "ordered/read/tree_reads.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/memory.h"
#include "base/parallel.h"
#include "record/key_slices.h"

namespace breccia::ordered {

namespace {

using Key = batch::KeyParts::Key;

/// Parts are small enough to be sorted in the cache, and in batches that have few of those small
/// enough for every worker to get several.
std::uint64_t part_count(std::uint64_t keys, std::uint64_t workers) {
  constexpr std::uint64_t kPartMin = 128;
  constexpr std::uint64_t kPartMax = 4096;
  constexpr std::uint64_t kPartsPerWorker = 4;
  const std::uint64_t most = std::max(kPartsPerWorker * workers, keys / kPartMax);
  return std::clamp<std::uint64_t>(keys / kPartMin, 1, std::min(most, batch::KeyParts::kPartsMax));
}

/// One worker's share of the work.
class Worker {
 public:
  Worker(const TreeReads& reads, const TreeAnswer& answer, std::uint64_t number)
      : reads_(reads), answer_(answer), number_(number) {}

  void read(batch::KeyParts* parts, std::uint64_t part) {
    answered_ = 0;
    const std::span<const Key> keys = parts->sort(part);
    const Status status = base::or_memory_limit([&] {
      look_up(*parts, keys);
      return Status::OK();
    });
    for (; !status.ok() && answered_ < keys.size(); ++answered_) {
      answer_(number_, keys.subspan(answered_, 1), status, Slice());
    }
  }

 private:
  void look_up(const batch::KeyParts& parts, std::span<const Key> keys) {
    constexpr std::size_t kStep = 256;
    begins_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i == 0 || !parts.are_same(keys[i - 1], keys[i])) begins_.push_back(i);
    }
    const std::size_t distinct = begins_.size();
    begins_.push_back(keys.size());
    for (std::size_t from = 0; from < distinct; from += kStep) {
      const auto some =
          slices_.restore(reads_.keys, std::min(kStep, distinct - from),
                          [&](std::size_t i) { return keys[begins_[from + i]].index; });
      reads_.tree.multi_get(reads_.family, some,
                            [&](std::size_t i, const Status& status, const Slice& value) {
                              const std::size_t begin = begins_[from + i];
                              const std::size_t end = begins_[from + i + 1];
                              answer_(number_, keys.subspan(begin, end - begin), status, value);
                              answered_ = end;
                            });
    }
  }

  const TreeReads& reads_;
  const TreeAnswer& answer_;
  const std::uint64_t number_;
  std::vector<std::size_t> begins_;  // of each key's requests in the part, and where they end
  record::KeySlices slices_;
  std::size_t answered_ = 0;  // requests of the part
};

/// Past what is known of files.
void ask_tree(const TreeReads& reads, std::span<const std::vector<std::uint32_t>> places,
              std::uint64_t workers, const TreeAnswer& answer) {
  std::uint64_t keys = 0;
  for (const auto& list : places) keys += list.size();
  if (keys == 0) return;
  batch::KeyParts parts(reads.keys, places, part_count(keys, workers));
  std::atomic<std::uint64_t> next{0};
  const auto work = [&](std::uint64_t number) {
    Worker worker(reads, answer, number);
    for (std::uint64_t part = next++; part < parts.count(); part = next++) {
      worker.read(&parts, part);
    }
  };
  workers = std::min(workers, parts.count());
  if (workers == 1) {
    work(0);
  } else {
    base::parallel_for(std::uint64_t{0}, workers, work);
  }
}

/// Keeps values that had to be unpacked for who asks for them next: a block takes a microsecond,
/// and a hit of the cache a tenth of that.
class Keeper {
 public:
  void keep(const TreeReads& reads, std::span<const tree::KnownFiles::Known> known) {
    const char* last = nullptr;
    for (const auto& one : known) {
      // Those of one key come one behind the other, as their block was unpacked for all.
      const bool is_last = std::exchange(last, one.value.data()) == one.value.data();
      if (!one.was_packed || is_last) continue;
      if (!reads.tree.wants(reads.family, one.value.size())) continue;
      places_[count_] = one.place;
      values_[count_++] = one.value;
      if (count_ == places_.size()) keep_all(reads);
    }
    keep_all(reads);
  }

 private:
  void keep_all(const TreeReads& reads) {
    const std::size_t count = std::exchange(count_, 0);
    if (count == 0) return;
    const auto keys =
        slices_.restore(reads.keys, count, [this](std::size_t i) { return places_[i]; });
    reads.tree.keep(reads.family, keys, std::span(values_).first(count));
  }

  std::array<std::uint32_t, tree::TreeState::kKeptAtOnce> places_;
  std::array<Slice, tree::TreeState::kKeptAtOnce> values_;
  std::size_t count_ = 0;
  record::KeySlices slices_;
};

}  // namespace

void read_tree(const TreeReads& reads, std::span<const std::vector<std::uint32_t>> places,
               std::uint64_t workers, const TreeAnswer& answer,
               const tree::KnownFiles::Answer& known) {
  if (reads.family.files == nullptr) return ask_tree(reads, places, workers, answer);
  std::vector<std::vector<std::uint32_t>> left(places.begin(), places.end());
  std::vector<Keeper> keepers(reads.tree.caches(reads.family) ? workers : 0);
  const auto told = [&](std::uint64_t worker, std::span<const tree::KnownFiles::Known> some) {
    known(worker, some);
    // What finds no memory is read again, and no error.
    base::as_memory_allows([&] { keepers[worker].keep(reads, some); });
  };
  reads.family.files->get_many(reads.keys, &left, workers,
                               keepers.empty() ? known : tree::KnownFiles::Answer(told));
  if (files_come_first(reads.family)) {
    for (auto& list : left) {
      take_absent(reads.family, reads.keys, &list, [&](std::uint32_t place) {
        const Key key{reads.keys.head[place], place};
        answer(/*worker=*/0, std::span(&key, 1), Status::NotFound(), Slice());
      });
    }
  }
  ask_tree(reads, left, workers, answer);
}

}  // namespace breccia::ordered
