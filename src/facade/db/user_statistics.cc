#include "facade/db/user_statistics.h"

#include <algorithm>
#include <array>

namespace breccia::facade {

namespace {

using rocksdb::Statistics;

constexpr std::array kOwnTickers = {
    rocksdb::MEMTABLE_HIT,
    rocksdb::MEMTABLE_MISS,
    rocksdb::NUMBER_KEYS_READ,
    rocksdb::BYTES_READ,
    rocksdb::NUMBER_DB_SEEK,
    rocksdb::NUMBER_DB_NEXT,
    rocksdb::NUMBER_DB_PREV,
    rocksdb::NUMBER_DB_SEEK_FOUND,
    rocksdb::NUMBER_DB_NEXT_FOUND,
    rocksdb::NUMBER_DB_PREV_FOUND,
    rocksdb::ITER_BYTES_READ,
    rocksdb::NO_ITERATOR_CREATED,
    rocksdb::NO_ITERATOR_DELETED,
    rocksdb::NUMBER_MULTIGET_CALLS,
    rocksdb::NUMBER_MULTIGET_KEYS_READ,
    rocksdb::NUMBER_MULTIGET_KEYS_FOUND,
    rocksdb::NUMBER_MULTIGET_BYTES_READ,
};
constexpr std::array kOwnHistograms = {rocksdb::DB_GET,         rocksdb::DB_MULTIGET,
                                       rocksdb::DB_SEEK,        rocksdb::DB_WRITE,
                                       rocksdb::BYTES_PER_READ, rocksdb::BYTES_PER_MULTIGET};

template <class List>
bool holds(const List& list, std::uint32_t type) {
  return std::any_of(list.begin(), list.end(),
                     [&](auto own) { return static_cast<std::uint32_t>(own) == type; });
}

/// Hands on what the tree counts but for requests.
class TreeStatistics final : public Statistics {
 public:
  explicit TreeStatistics(std::shared_ptr<Statistics> user) : user_(std::move(user)) {
    set_stats_level(user_->get_stats_level());
  }

  std::uint64_t getTickerCount(std::uint32_t type) const override {
    return user_->getTickerCount(type);
  }
  void histogramData(std::uint32_t type, rocksdb::HistogramData* data) const override {
    user_->histogramData(type, data);
  }
  std::string getHistogramString(std::uint32_t type) const override {
    return user_->getHistogramString(type);
  }
  void recordTick(std::uint32_t type, std::uint64_t count) override {
    // The level may be changed at any time, and is no virtual function.
    if (get_stats_level() != user_->get_stats_level()) set_stats_level(user_->get_stats_level());
    if (!holds(kOwnTickers, type)) user_->recordTick(type, count);
  }
  void setTickerCount(std::uint32_t type, std::uint64_t count) override {
    user_->setTickerCount(type, count);
  }
  std::uint64_t getAndResetTickerCount(std::uint32_t type) override {
    return user_->getAndResetTickerCount(type);
  }
  void recordInHistogram(std::uint32_t type, std::uint64_t value) override {
    if (!holds(kOwnHistograms, type)) user_->recordInHistogram(type, value);
  }
  Status Reset() override { return user_->Reset(); }
  std::string ToString() const override { return user_->ToString(); }
  bool getTickerMap(std::map<std::string, std::uint64_t>* map) const override {
    return user_->getTickerMap(map);
  }
  bool HistEnabledForType(std::uint32_t type) const override {
    return user_->HistEnabledForType(type);
  }

 private:
  const std::shared_ptr<Statistics> user_;
};

class CountedIterator final : public rocksdb::Iterator {
 public:
  CountedIterator(std::shared_ptr<Statistics> user, std::unique_ptr<Iterator> iterator)
      : user_(std::move(user)), iterator_(std::move(iterator)) {
    tick(rocksdb::NO_ITERATOR_CREATED, 1);
  }
  ~CountedIterator() override { tick(rocksdb::NO_ITERATOR_DELETED, 1); }
  CountedIterator(const CountedIterator&) = delete;
  CountedIterator& operator=(const CountedIterator&) = delete;

  [[nodiscard]] bool Valid() const override { return iterator_->Valid(); }
  [[nodiscard]] Slice key() const override { return iterator_->key(); }
  [[nodiscard]] Slice value() const override { return iterator_->value(); }
  [[nodiscard]] const rocksdb::WideColumns& columns() const override {
    return iterator_->columns();
  }
  [[nodiscard]] Status status() const override { return iterator_->status(); }
  [[nodiscard]] Slice timestamp() const override { return iterator_->timestamp(); }
  Status Refresh() override { return iterator_->Refresh(); }
  Status GetProperty(std::string name, std::string* value) override {
    return iterator_->GetProperty(std::move(name), value);
  }

  void SeekToFirst() override {
    move(rocksdb::NUMBER_DB_SEEK, rocksdb::NUMBER_DB_SEEK_FOUND,
         [this] { iterator_->SeekToFirst(); });
  }
  void SeekToLast() override {
    move(rocksdb::NUMBER_DB_SEEK, rocksdb::NUMBER_DB_SEEK_FOUND,
         [this] { iterator_->SeekToLast(); });
  }
  void Seek(const Slice& target) override {
    seek([&] { iterator_->Seek(target); });
  }
  void SeekForPrev(const Slice& target) override {
    seek([&] { iterator_->SeekForPrev(target); });
  }
  void Next() override {
    move(rocksdb::NUMBER_DB_NEXT, rocksdb::NUMBER_DB_NEXT_FOUND, [this] { iterator_->Next(); });
  }
  void Prev() override {
    move(rocksdb::NUMBER_DB_PREV, rocksdb::NUMBER_DB_PREV_FOUND, [this] { iterator_->Prev(); });
  }

 private:
  void tick(rocksdb::Tickers ticker, std::uint64_t more) const {
    if (user_ != nullptr) user_->recordTick(ticker, more);
  }

  template <class Call>
  void seek(const Call& call) {
    const UserTimer timer(user_.get(), rocksdb::DB_SEEK);
    move(rocksdb::NUMBER_DB_SEEK, rocksdb::NUMBER_DB_SEEK_FOUND, call);
  }

  template <class Call>
  void move(rocksdb::Tickers moves, rocksdb::Tickers found, const Call& call) {
    const std::uint64_t before = rocksdb::get_perf_context()->iter_read_bytes;
    call();
    tick(moves, 1);
    const bool valid = iterator_->Valid();
    const std::uint64_t bytes = valid ? iterator_->key().size() + iterator_->value().size() : 0;
    set_perf_bytes(&rocksdb::PerfContext::iter_read_bytes, before, bytes);
    if (!valid) return;
    tick(found, 1);
    tick(rocksdb::ITER_BYTES_READ, bytes);
  }

  const std::shared_ptr<Statistics> user_;
  const std::unique_ptr<Iterator> iterator_;
};

}  // namespace

std::shared_ptr<Statistics> without_requests(const std::shared_ptr<Statistics>& user) {
  if (user == nullptr) return nullptr;
  return std::make_shared<TreeStatistics>(user);
}

void note_get(Statistics* user, const Status& status, std::uint64_t bytes, bool from_tree) {
  if (user == nullptr) return;
  user->recordTick(rocksdb::NUMBER_KEYS_READ, 1);
  user->recordTick(from_tree ? rocksdb::MEMTABLE_MISS : rocksdb::MEMTABLE_HIT, 1);
  if (status.ok()) user->recordTick(rocksdb::BYTES_READ, bytes);
  user->recordInHistogram(rocksdb::BYTES_PER_READ, status.ok() ? bytes : 0);
}

void note_multi_get(Statistics* user, const MultiGetCounts& counts) {
  if (user == nullptr) return;
  user->recordTick(rocksdb::NUMBER_MULTIGET_CALLS, 1);
  user->recordTick(rocksdb::NUMBER_MULTIGET_KEYS_READ, counts.keys);
  user->recordTick(rocksdb::NUMBER_MULTIGET_KEYS_FOUND, counts.found);
  user->recordTick(rocksdb::NUMBER_MULTIGET_BYTES_READ, counts.bytes);
  user->recordInHistogram(rocksdb::BYTES_PER_MULTIGET, counts.bytes);
  user->recordTick(rocksdb::MEMTABLE_MISS, counts.from_tree);
  user->recordTick(rocksdb::MEMTABLE_HIT, counts.keys - counts.from_tree);
}

std::unique_ptr<rocksdb::Iterator> counted(std::shared_ptr<Statistics> user,
                                           std::unique_ptr<rocksdb::Iterator> iterator) {
  return std::make_unique<CountedIterator>(std::move(user), std::move(iterator));
}

}  // namespace breccia::facade
