#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "bench/hash/zipf.h"
#include "bench/hot/asked.h"

namespace breccia::bench::hot {

/// What clients ask for.
struct Load {
  std::uint64_t keys = 0;
  std::uint32_t value_bytes = 8;
  double skew = 0.99;
  std::uint32_t read_percent = 100;
  /// Keys by popularity up to which a request counts as one of a hot key.
  std::uint64_t hot_keys = 0;
  std::uint32_t threads = 1;
  /// Clients beside these, which send batches of so many requests as fast as it goes.
  std::uint32_t batch_threads = 0;
  std::uint32_t batch_size = 0;
  double seconds = 1;
  /// Requests a second of all threads, each with its time, from which its latency counts; 0: as
  /// fast as it goes.
  double rate = 0;
  /// So often other keys become popular; 0: never.
  double flip_seconds = 0;
  std::uint64_t seed = 1;
};

/// What they met.
struct Met {
  double seconds = 0;
  std::uint64_t requests = 0;  // those in batches among them
  std::uint64_t in_batches = 0;
  base::Histogram hot_get, cold_get, put;   // nanoseconds, of single requests
  base::Histogram batch;                    // of a batch
  std::vector<double> hit_share_by_second;  // of lookups
};

/// Keys and their values. A value says whose it is in all of its words.
/// Threads any.
class Data {
 public:
  static constexpr std::uint64_t kVersions = 1 << 16;

  Data(std::uint64_t keys, std::uint32_t value_bytes, std::uint64_t seed);

  /// The key of a rank, `turn` times behind a change of what is popular.
  [[nodiscard]] std::uint64_t key(std::uint64_t rank, std::uint64_t turn) const;
  /// Shape   version below kVersions.
  void fill(std::uint64_t key, std::uint64_t version, std::string* value) const;
  /// The same behind what is there.
  void append(std::uint64_t key, std::uint64_t version, std::vector<char>* values) const;
  [[nodiscard]] bool is_of(std::uint64_t key, const Slice& value) const;

 private:
  void write(std::uint64_t key, std::uint64_t version, char* to) const;

  const std::uint64_t keys_;
  const std::uint32_t value_bytes_;
  const std::uint64_t seed_;
  const std::uint64_t step_;  // neighbours by rank have no neighbouring keys
};

/// Puts all keys, by so many threads.
Status put_all(Asked* asked, const Data& data, std::uint64_t keys, std::uint32_t threads);
/// Asks for so long.
/// Errors  Corruption: an answer that no write can have left; those of the store.
Status ask(Asked* asked, const Data& data, const Load& load, Met* met);

}  // namespace breccia::bench::hot
