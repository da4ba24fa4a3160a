#include "bench/hot/clients.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "base/memory.h"
#include "base/random.h"
#include "bench/hot/batches.h"
#include "bench/threads.h"

namespace breccia::bench::hot {

namespace {

constexpr std::uint64_t kVersionBits = 16;
static_assert(Data::kVersions == std::uint64_t{1} << kVersionBits);

std::uint64_t step_for(std::uint64_t keys) {
  std::uint64_t step = static_cast<std::uint64_t>(0.618 * static_cast<double>(keys)) | 1;
  while (std::gcd(step, keys) != 1) step += 2;
  return step;
}

/// One thread's requests.
class Client {
 public:
  Client(Asked* asked, const Data& data, const Load& load, std::uint32_t number,
         const std::atomic<bool>& is_over)
      : asked_(asked),
        data_(data),
        load_(load),
        random_(base::mix64(load.seed + number)),
        zipf_(load.keys, load.skew),
        is_over_(is_over) {}

  Status run() {
    const auto begin = Clock::now();
    const double own_rate = load_.rate / load_.threads;
    for (std::uint64_t i = 0; !is_over_.load(std::memory_order_relaxed); ++i) {
      auto due = Clock::now();
      if (own_rate > 0) {
        const std::chrono::duration<double> after(static_cast<double>(i) / own_rate);
        due = begin + std::chrono::duration_cast<Clock::duration>(after);
        while (Clock::now() < due && !is_over_.load(std::memory_order_relaxed)) {
        }
      }
      const std::uint64_t turn =
          load_.flip_seconds > 0
              ? static_cast<std::uint64_t>(1e-9 * static_cast<double>(ns_between(begin, due)) /
                                           load_.flip_seconds)
              : 0;
      BRECCIA_TRY(ask_one(due, turn));
    }
    return Status::OK();
  }
  [[nodiscard]] const Met& met() const { return met_; }

 private:
  /// Its time counts from `due`: choosing the key, some ten nanoseconds, is among it.
  Status ask_one(Clock::time_point due, std::uint64_t turn) {
    const std::uint64_t rank = zipf_.next(&random_);
    const std::uint64_t key = data_.key(rank, turn);
    ++met_.requests;
    if (random_.below(100) >= load_.read_percent) {
      data_.fill(key, random_.below(Data::kVersions), &value_);
      BRECCIA_TRY(asked_->put(key, value_));
      met_.put.record(ns_between(due, Clock::now()));
      return Status::OK();
    }
    BRECCIA_TRY(asked_->get(key, &value_));
    const std::uint64_t ns = ns_between(due, Clock::now());
    (rank < load_.hot_keys ? met_.hot_get : met_.cold_get).record(ns);
    return data_.is_of(key, value_) ? Status::OK()
                                    : Status::Corruption("a lookup found another key's value");
  }

  Asked* const asked_;
  const Data& data_;
  const Load& load_;
  base::Random random_;
  const tables::ExactZipf zipf_;
  const std::atomic<bool>& is_over_;
  std::string value_;
  Met met_;
};

/// Waits, and looks once a second which share of the lookups copies answered.
void watch(Asked* asked, const Load& load, Met* met) {
  const auto begin = Clock::now();
  const std::chrono::duration<double> all(load.seconds);
  std::uint64_t hits = asked->figure("breccia.hot.hits");
  std::uint64_t lookups = asked->figure("breccia.hot.lookups");
  while (Clock::now() - begin < all) {
    const std::chrono::duration<double> left = all - (Clock::now() - begin);
    std::this_thread::sleep_for(std::min(left, std::chrono::duration<double>(1)));
    const std::uint64_t hits_now = asked->figure("breccia.hot.hits");
    const std::uint64_t lookups_now = asked->figure("breccia.hot.lookups");
    const auto more = static_cast<double>(lookups_now - lookups);
    met->hit_share_by_second.push_back(more == 0 ? 0 : static_cast<double>(hits_now - hits) / more);
    hits = hits_now;
    lookups = lookups_now;
  }
}

}  // namespace

Data::Data(std::uint64_t keys, std::uint32_t value_bytes, std::uint64_t seed)
    : keys_(keys), value_bytes_(value_bytes), seed_(base::mix64(seed)), step_(step_for(keys)) {}

std::uint64_t Data::key(std::uint64_t rank, std::uint64_t turn) const {
  const std::uint64_t moved = rank + turn * (keys_ / 3);
  const auto place =
      static_cast<std::uint64_t>(static_cast<unsigned __int128>(moved) * step_ % keys_);
  return base::mix64(place + seed_);
}

void Data::write(std::uint64_t key, std::uint64_t version, char* to) const {
  const std::uint64_t word = base::mix64(key) >> kVersionBits << kVersionBits | version;
  for (std::uint32_t at = 0; at < value_bytes_; at += sizeof word) {
    std::memcpy(to + at, &word, std::min<std::size_t>(sizeof word, value_bytes_ - at));
  }
}

void Data::fill(std::uint64_t key, std::uint64_t version, std::string* value) const {
  value->resize(value_bytes_);
  write(key, version, value->data());
}

void Data::append(std::uint64_t key, std::uint64_t version, std::vector<char>* values) const {
  values->resize(values->size() + value_bytes_);
  write(key, version, values->data() + values->size() - value_bytes_);
}

bool Data::is_of(std::uint64_t key, const Slice& value) const {
  if (value.size() != value_bytes_) return false;
  std::uint64_t first = 0;
  std::memcpy(&first, value.data(), sizeof first);
  if (first >> kVersionBits != base::mix64(key) >> kVersionBits) return false;
  // All words are the same.
  return std::memcmp(value.data(), value.data() + sizeof first, value_bytes_ - sizeof first) == 0;
}

Status put_all(Asked* asked, const Data& data, std::uint64_t keys, std::uint32_t threads) {
  return on_threads(threads, [&](std::uint32_t t) -> Status {
    std::string value;
    for (std::uint64_t rank = keys * t / threads; rank < keys * (t + 1) / threads; ++rank) {
      const std::uint64_t key = data.key(rank, 0);
      data.fill(key, 0, &value);
      BRECCIA_TRY(asked->put(key, value));
    }
    return Status::OK();
  });
}

Status ask(Asked* asked, const Data& data, const Load& load, Met* met) {
  std::atomic<bool> is_over = false;
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t t = 0; t < load.threads; ++t) {
    clients.push_back(std::make_unique<Client>(asked, data, load, t, is_over));
  }
  std::vector<std::unique_ptr<BatchClient>> batch_clients;
  for (std::uint32_t t = 0; t < load.batch_threads; ++t) {
    batch_clients.push_back(std::make_unique<BatchClient>(asked, data, load, t, is_over));
  }
  BRECCIA_TRY(
      on_threads(load.batch_threads, [&](std::uint32_t t) { return batch_clients[t]->prepare(); }));
  const auto begin = Clock::now();
  std::thread watcher([&] {
    watch(asked, load, met);
    is_over = true;
  });
  const Status status = on_threads(load.threads + load.batch_threads, [&](std::uint32_t t) {
    return t < load.threads ? clients[t]->run() : batch_clients[t - load.threads]->run();
  });
  met->seconds = 1e-9 * static_cast<double>(ns_between(begin, Clock::now()));
  watcher.join();
  for (const auto& client : clients) {
    met->requests += client->met().requests;
    met->hot_get.merge(client->met().hot_get);
    met->cold_get.merge(client->met().cold_get);
    met->put.merge(client->met().put);
  }
  for (const auto& client : batch_clients) {
    met->in_batches += client->requests();
    met->batch.merge(client->times());
  }
  met->requests += met->in_batches;
  return base::copy_of(status);
}

}  // namespace breccia::bench::hot
