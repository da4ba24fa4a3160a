#pragma once

#include <breccia/options.h>
#include <breccia/store.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "keys.h"

/// Random streams of requests on a store, compared request by request with RocksDB.
///
/// A session is one store and one in-memory RocksDB as the reference; its streams run one after the
/// other on them, so that later ones meet the data of earlier ones. Everything follows from the
/// session's seed: options, keys, requests, and where the store is flushed and opened again.

namespace breccia::model {

/// What ran, over all sessions.
struct Counts {
  std::atomic<std::uint64_t> host_streams{0};
  std::atomic<std::uint64_t> simulator_streams{0};
  std::atomic<std::uint64_t> threaded_streams{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> opens{0};
  std::atomic<std::uint64_t> flushes{0};
};

/// RocksDB, as it answers alone.
class Reference {
 public:
  Reference();
  void put(const std::string& key, const std::string& value);
  void remove(const std::string& key);
  [[nodiscard]] Status get(const std::string& key, std::string* value) const;
  [[nodiscard]] rocksdb::DB* db() const { return db_.get(); }

 private:
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
};

struct Request {
  enum class Kind { kPut, kDelete, kGet };
  Kind kind;
  std::uint32_t key;  // in the thread's universe
  std::string value;
};

/// A store that is opened again and again with other options.
class ReopenedStore {
 public:
  ReopenedStore(std::string path, Counts* counts) : path_(std::move(path)), counts_(counts) {}

  /// Closes the store, if it is open, and opens it with options drawn from `random`.
  Status reopen(base::Random* random);
  Status close(bool flush_first);
  [[nodiscard]] Store* operator->() const { return store_.get(); }
  [[nodiscard]] Store& operator*() const { return *store_; }
  [[nodiscard]] bool on_simulator() const { return on_simulator_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Options as one line.
  [[nodiscard]] const std::string& described() const { return described_; }

 private:
  const std::string path_;
  Counts* counts_;
  std::unique_ptr<Store> store_;
  bool on_simulator_ = false;
  std::string described_;
};

/// One thread's share of a stream: makes requests, runs them, compares.
class Client {
 public:
  struct Work {
    std::uint64_t actions;
    bool large;       // may make batches of 65,536
    bool may_reopen;  // alone on the store
  };

  /// `shared`: keys that other clients write too; may be empty.
  Client(std::uint64_t seed, Universe universe, std::vector<std::string> shared,
         ReopenedStore* store, Reference* reference, Counts* counts);

  /// Runs the actions and then reads every key. Returns the first difference, or nothing.
  [[nodiscard]] std::string run(const Work& work);

  /// What this client wrote last under shared key `i`: nothing, or kDelete or kPut.
  [[nodiscard]] const Request* last_shared(std::size_t i) const { return last_shared_[i].get(); }

 private:
  [[nodiscard]] std::string act(const Work& work);
  [[nodiscard]] Request make_request(std::uint32_t part, std::uint32_t parts);
  [[nodiscard]] std::uint64_t batch_size(bool large);
  [[nodiscard]] std::string run_batch(std::uint64_t size);
  [[nodiscard]] std::string run_async();
  [[nodiscard]] std::string run_singles();
  [[nodiscard]] std::string run_multi_get(std::uint64_t count);
  [[nodiscard]] std::string read_everything();
  [[nodiscard]] std::string fill(const std::vector<Request>& requests, Batch* batch);
  [[nodiscard]] std::string compare(const std::vector<Request>& requests, Batch& batch);
  [[nodiscard]] std::string apply(const Request& request, Status::Code code, const Slice& value);
  [[nodiscard]] WriteOptions write_options();
  [[nodiscard]] const std::string& key_of(const Request& request) const;
  [[nodiscard]] bool is_shared(const Request& request) const {
    return request.key >= universe_.keys.size();
  }

  base::Random random_;
  const Universe universe_;
  const std::vector<std::string> shared_;
  std::vector<std::unique_ptr<Request>> last_shared_;
  ReopenedStore* store_;
  Reference* reference_;
  Counts* counts_;
  Batch batch_;
};

/// Runs `streams` streams; with `threaded_only`, each of several threads.
/// Returns the first difference, or nothing.
[[nodiscard]] std::string run_session(std::uint64_t seed, std::uint64_t streams, bool threaded_only,
                                      Counts* counts);

}  // namespace breccia::model
