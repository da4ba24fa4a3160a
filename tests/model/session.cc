#include <fmt/format.h>

#include <deque>
#include <thread>

#include "stream.h"
#include "support/folder.h"

namespace breccia::model {

namespace {

class Session {
 public:
  Session(std::uint64_t seed, Counts* counts)
      : seed_(seed),
        random_(seed),
        folder_(testing::Place::kMemory),
        counts_(counts),
        store_(folder_ / "store", counts) {}

  std::string run(std::uint64_t streams, bool threaded_only) {
    std::string error;
    for (std::uint64_t i = 0; i < streams && error.empty(); ++i) {
      if (i == 0 || random_.one_in(5)) {
        const Status status = store_.reopen(&random_);
        if (!status.ok()) return "reopen: " + status.ToString();
      }
      const bool threaded = threaded_only || random_.one_in(6);
      error = threaded ? run_threads() : run_one();
      ++(store_.on_simulator() ? counts_->simulator_streams : counts_->host_streams);
      if (threaded) ++counts_->threaded_streams;
      if (!error.empty()) {
        error = fmt::format("stream {} ({}): {}", i, store_.described(), error);
      }
    }
    return error.empty() ? compare_files() : error;
  }

 private:
  // Keys come from few seeds, so that streams of a session meet each other's data.
  Universe universe(std::uint64_t count, const std::string& prefix) {
    return make_universe(seed_ * 4 + random_.below(4), count, prefix);
  }

  std::string run_one() {
    const bool large = random_.one_in(250);
    Client client(random_.next(), universe(large ? 5000 : 16 + random_.below(120), ""), {}, &store_,
                  &reference_, counts_);
    return client.run({6 + random_.below(20), large, /*may_reopen=*/true});
  }

  std::string run_threads() {
    const std::uint64_t count = 2 + random_.below(7);
    const std::vector<std::string> shared{"\xfe one", "\xfe two", std::string("\xfe\0", 2)};
    std::deque<Client> clients;
    std::vector<std::string> errors(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string prefix(1, static_cast<char>('0' + i));
      clients.emplace_back(random_.next(), universe(8 + random_.below(40), prefix), shared, &store_,
                           &reference_, counts_);
    }
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Client::Work work{2 + random_.below(8), /*large=*/false, /*may_reopen=*/false};
      threads.emplace_back([&, i, work] { errors[i] = clients[i].run(work); });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!errors[i].empty()) return fmt::format("thread {} of {}: {}", i, count, errors[i]);
    }
    for (std::size_t key = 0; key < shared.size(); ++key) {
      if (!settle_shared(clients, shared[key], key)) return "a shared key has nobody's last value";
    }
    return "";
  }

  /// True if the key's value is somebody's last write, which the reference then takes over.
  bool settle_shared(const std::deque<Client>& clients, const std::string& key, std::size_t i) {
    std::string value;
    const Status status = store_->Get(key, &value);
    bool written = false;
    bool explained = false;
    for (const Client& client : clients) {
      const Request* const last = client.last_shared(i);
      if (last == nullptr) continue;
      written = true;
      explained =
          explained || (last->kind == Request::Kind::kPut ? status.ok() && value == last->value
                                                          : status.IsNotFound());
    }
    if (!written) {
      std::string expected;
      const Status before = reference_.get(key, &expected);
      return before.code() == status.code() && value == expected;
    }
    if (status.ok()) {
      reference_.put(key, value);
    } else {
      reference_.remove(key);
    }
    return explained;
  }

  /// Flushes and closes the store, opens its folder as plain RocksDB and compares all there is.
  std::string compare_files() {
    Status status = store_.close(/*flush_first=*/true);
    if (!status.ok()) return "last flush: " + status.ToString();
    rocksdb::DB* opened = nullptr;
    rocksdb::Options options;
    options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    status = rocksdb::DB::OpenForReadOnly(options, store_.path(), &opened);
    if (!status.ok()) return "plain RocksDB: " + status.ToString();
    const std::unique_ptr<rocksdb::DB> db(opened);
    const std::unique_ptr<rocksdb::Iterator> ours(db->NewIterator(rocksdb::ReadOptions()));
    const std::unique_ptr<rocksdb::Iterator> expected(
        reference_.db()->NewIterator(rocksdb::ReadOptions()));
    ours->SeekToFirst();
    expected->SeekToFirst();
    for (; ours->Valid() && expected->Valid(); ours->Next(), expected->Next()) {
      if (ours->key() != expected->key() || ours->value() != expected->value()) {
        return "plain RocksDB: differs at key " + expected->key().ToString(/*hex=*/true);
      }
    }
    if (ours->Valid() || expected->Valid()) return "plain RocksDB: keys are missing or too many";
    return ours->status().ok() ? "" : "plain RocksDB: " + ours->status().ToString();
  }

  const std::uint64_t seed_;
  base::Random random_;
  const testing::Folder folder_;
  Counts* counts_;
  Reference reference_;
  ReopenedStore store_;
};

}  // namespace

std::string run_session(std::uint64_t seed, std::uint64_t streams, bool threaded_only,
                        Counts* counts) {
  return Session(seed, counts).run(streams, threaded_only);
}

}  // namespace breccia::model
