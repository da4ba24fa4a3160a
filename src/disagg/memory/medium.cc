#include "disagg/memory/medium.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/secret.h"
#include "disagg/block.h"
#include "pmem/lines.h"

namespace breccia::disagg {

namespace {

using pmem::Range;

constexpr std::uint64_t kChunkBytes = PoolImage::kChunkLines * kLineBytes;
constexpr std::uint64_t kMagic = 0x6d656d2d61636372;  // "rcca-mem"
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kIsValid = 1;

class AtOnce final : public MediumWorker {
 public:
  void begin(std::function<Status()> work) override { outcome_ = work(); }
  std::optional<Status> outcome(bool /*waits*/) override {
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  std::optional<Status> outcome_;
};

/// A thread does it.
class Beside final : public MediumWorker {
 public:
  ~Beside() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void begin(std::function<Status()> work) override {
    {
      const std::lock_guard lock(mutex_);
      BRECCIA_ASSERT(work_ == nullptr && !outcome_.has_value());
      work_ = std::move(work);
    }
    changed_.notify_all();
  }
  std::optional<Status> outcome(bool waits) override {
    std::unique_lock lock(mutex_);
    if (waits) changed_.wait(lock, [this] { return outcome_.has_value(); });
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return work_ != nullptr || is_over_; });
      if (work_ == nullptr) return;
      lock.unlock();
      Status outcome = work_();
      lock.lock();
      work_ = nullptr;
      outcome_ = std::move(outcome);
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> work_;  // the thread's until it is done
  std::optional<Status> outcome_;
  bool is_over_ = false;
  std::thread thread_{[this] { run(); }};
};

class FilePlace final : public MediumPlace {
 public:
  explicit FilePlace(const std::string& path) : path_(path) {
    const auto folder = std::filesystem::path(path).parent_path();
    is_dax_ = pmem::supports_dax(folder.empty() ? "." : folder.string());
  }
  Result<std::unique_ptr<pmem::Region>> open(std::span<std::byte> memory) override {
    return is_dax_ ? pmem::open_dax_region(path_, memory.size())
                   : pmem::open_file_region_over(path_, memory);
  }
  Status remove() override { return pmem::remove_region(path_); }
  std::unique_ptr<MediumWorker> make_worker() override {
    if (is_dax_) return make_prompt_worker();
    return std::make_unique<Beside>();
  }

 private:
  const std::string path_;
  bool is_dax_ = false;
};

/// Whole lines, no word of which is torn where others write meanwhile.
void copy_lines(std::byte* to, const std::byte* from, const Range& range) {
  const std::uint64_t end = pmem::lines_end(range.offset, range.bytes);
  for (std::uint64_t at = pmem::line_start(range.offset); at < end; at += kLineBytes) {
    pmem::store_line(to + at, pmem::load_line(from + at));
  }
}

}  // namespace

std::unique_ptr<MediumWorker> make_prompt_worker() { return std::make_unique<AtOnce>(); }

std::unique_ptr<MediumPlace> medium_in_file(const std::string& path) {
  return std::make_unique<FilePlace>(path);
}

/// Behind the values, in lines of its own; docs/format/disagg.md. Then a byte for each chunk: its
/// class and one, 0: none yet.
struct Medium::Head {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t values;  // bytes
  std::uint64_t id[2];
  std::uint64_t is_valid;  // what is before it is there
  std::uint64_t cluster[2];
  std::uint64_t last_write;
  std::uint64_t reserved[7];
};

std::uint64_t Medium::bytes_behind(std::uint64_t values) {
  static_assert(sizeof(Head) == 2 * kLineBytes);
  return base::round_up(sizeof(Head) + values / kChunkBytes, pmem::kPageBytes);
}

Result<std::unique_ptr<Medium>> Medium::open(MediumPlace* place, std::span<std::byte> memory,
                                             std::uint64_t values) {
  BRECCIA_ASSERT(values % kChunkBytes == 0 && memory.size() == values + bytes_behind(values));
  BRECCIA_TAKE(std::unique_ptr<pmem::Region> region, place->open(memory));
  BRECCIA_ASSERT(region->size() == memory.size());
  std::unique_ptr<Medium> medium(
      new Medium(std::move(region), place->make_worker(), memory, values));
  BRECCIA_TRY(medium->load());
  return medium;
}

Medium::Medium(std::unique_ptr<pmem::Region> region, std::unique_ptr<MediumWorker> worker,
               std::span<std::byte> memory, std::uint64_t values)
    : region_(std::move(region)), memory_(memory), values_(values), worker_(std::move(worker)) {}

Medium::Head* Medium::head() const { return reinterpret_cast<Head*>(memory_.data() + values_); }

std::byte* Medium::class_of(std::uint64_t chunk) const {
  BRECCIA_ASSERT(chunk < values_ / kChunkBytes);
  return memory_.data() + values_ + sizeof(Head) + chunk;
}

Status Medium::load() {
  if (region_->data() != memory_.data()) {
    std::memcpy(memory_.data(), region_->data(), memory_.size());
    // What a process that was killed has left in caches is believed, so it is to be there for good.
    BRECCIA_TRY(region_->persist(0, region_->size()));
  }
  const std::span classes(class_of(0), values_ / kChunkBytes);
  const bool is_empty =
      head()->is_valid == 0 &&
      std::all_of(classes.begin(), classes.end(), [](auto one) { return one == std::byte{0}; });
  if (is_empty) return begin();
  was_there_ = true;
  if (head()->is_valid != kIsValid || head()->magic != kMagic || head()->version != kVersion) {
    return Status::InvalidArgument("no file of a memory server, or one of another release");
  }
  if (head()->values != values_) {
    return Status::InvalidArgument("the file has values of another size");
  }
  const bool are_classes = std::all_of(classes.begin(), classes.end(), [](std::byte one) {
    return static_cast<std::uint32_t>(one) <= kSizeClasses;
  });
  return are_classes ? Status::OK() : Status::Corruption("chunks of a class that there is not");
}

/// It is there when all of its head is.
Status Medium::begin() {
  *head() = {.magic = kMagic,
             .version = kVersion,
             .values = values_,
             .id = {base::draw_secret_word(), base::draw_secret_word()},
             .is_valid = 0,
             .cluster = {},
             .last_write = 0,
             .reserved = {}};
  const Range all{values_, sizeof(Head)};
  BRECCIA_TRY(persist(std::span(&all, 1)));
  return keep(&head()->is_valid, kIsValid);
}

std::string Medium::id() const {
  return fmt::format("{:016x}{:016x}", head()->id[0], head()->id[1]);
}

record::HashSeed Medium::cluster() const {
  return {.start = head()->cluster[0], .factor = head()->cluster[1]};
}

/// The factor is odd, so it says that both are there.
Status Medium::be_of(const record::HashSeed& cluster) {
  BRECCIA_ASSERT(cluster.factor % 2 == 1);
  BRECCIA_TRY(keep(&head()->cluster[0], cluster.start));
  return keep(&head()->cluster[1], cluster.factor);
}

/// Stores a word, which is durable then.
template <class T>
Status Medium::keep(T* at, const T& value) {
  *at = value;
  note(static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(at) - memory_.data()), sizeof *at);
  return keep_all();
}

// ---- chunks ------------------------------------------------------------------------------------

PoolImage Medium::values(std::uint64_t* last) {
  *last = head()->last_write;
  PoolImage image(values_ / kChunkBytes);
  for (std::uint64_t chunk = 0; chunk < image.chunks().size(); ++chunk) {
    if (*class_of(chunk) != std::byte{0}) take_values(chunk, &image, last);
  }
  return image;
}

void Medium::take_values(std::uint64_t chunk, PoolImage* image, std::uint64_t* last) const {
  const auto size_class = static_cast<std::uint32_t>(*class_of(chunk)) - 1;
  for (std::uint64_t i = 0; i < PoolImage::blocks_of(size_class); ++i) {
    const Location block{.node = 0,
                         .size_class = size_class,
                         .line = PoolImage::line_of(size_class, {.chunk = chunk, .block = i})};
    const auto bytes = memory_.subspan(block.offset(), block.bytes());
    const auto view = whole_block(bytes);
    if (view.has_value()) *last = std::max(*last, view->sequence);
    const bool is_value = view.has_value() && !view->is_replaced && view->sequence > 0;
    // What clients write there next is no value before it is told of, as its number is zero.
    if (!is_value || !image->take(size_class, block.line)) wipe_block(bytes);
  }
}

bool Medium::is_new_use(const Use& use) const {
  BRECCIA_ASSERT(use.size_class < kSizeClasses);
  return *class_of(use.chunk) != static_cast<std::byte>(use.size_class + 1);
}

void Medium::wipe_headers(const Use& use) {
  for (std::uint64_t i = 0; i < PoolImage::blocks_of(use.size_class); ++i) {
    const std::uint64_t offset =
        PoolImage::line_of(use.size_class, {.chunk = use.chunk, .block = i}) * kLineBytes;
    wipe_block(memory_.subspan(offset, sizeof(BlockHeader)));
    note(offset, sizeof(BlockHeader));
  }
}

/// Classes are there behind what is wiped. In a new medium there is nothing in chunks without one.
Status Medium::use_chunks(std::span<const Use> uses) {
  bool are_new = false;
  for (const Use& use : uses) {
    if (!is_new_use(use)) continue;
    are_new = true;
    if (was_there_ || *class_of(use.chunk) != std::byte{0}) wipe_headers(use);
  }
  if (!are_new) return Status::OK();
  BRECCIA_TRY(keep_all());
  for (const Use& use : uses) {
    if (!is_new_use(use)) continue;
    std::byte* const at = class_of(use.chunk);
    *at = static_cast<std::byte>(use.size_class + 1);
    note(static_cast<std::uint64_t>(at - memory_.data()), 1);
  }
  return keep_all();
}

void Medium::note_write(std::uint64_t sequence) {
  if (sequence <= head()->last_write) return;
  head()->last_write = sequence;
  note(values_ + offsetof(Head, last_write), sizeof sequence);
}

// ---- on its way to the medium ------------------------------------------------------------------

Status Medium::persist(std::span<const Range> ranges) const {
  if (region_->data() != memory_.data()) {
    for (const Range& one : ranges) copy_lines(region_->data(), memory_.data(), one);
  }
  return region_->persist(ranges);
}

Status Medium::tend(bool begins) {
  if (!take_outcome(false) || !failed_.ok() || !begins || noted_.empty()) return failed_;
  take_work();
  worker_->begin([this] { return persist(work_); });
  (void)take_outcome(false);
  return failed_;
}

/// The first of what was noted.
void Medium::take_work() {
  std::uint64_t bytes = 0;
  auto end = noted_.begin();
  for (; end != noted_.end() && bytes < kAtOnceBytes; ++end) bytes += end->bytes;
  work_.assign(noted_.begin(), end);
  noted_.erase(noted_.begin(), end);
  handed_ += work_.size();
  under_way_ = handed_;
}

/// Of what is under way. False: it is so still.
bool Medium::take_outcome(bool waits) {
  if (under_way_ == 0) return true;
  auto outcome = worker_->outcome(waits);
  if (!outcome.has_value()) return false;
  failed_ = std::move(*outcome);
  if (failed_.ok()) kept_ = under_way_;
  for (const Range& one : work_) waiting_bytes_ -= one.bytes;
  under_way_ = 0;
  return true;
}

Status Medium::keep_all() {
  while (failed_.ok() && kept_ < noted()) {
    BRECCIA_TRY(tend());
    (void)take_outcome(true);
  }
  return failed_;
}

}  // namespace breccia::disagg
