#include "bench/hot/batches.h"

#include <string>
#include <utility>

#include "base/memory.h"
#include "bench/threads.h"

namespace breccia::bench::hot {

namespace {

constexpr int kDrawnBatches = 16;
constexpr std::uint64_t kPutAtOnce = 64 << 10;

BytesColumn column_of(const std::vector<std::uint64_t>& keys) {
  return BytesColumn::Fixed(keys.data(), keys.size(), sizeof keys.front());
}

}  // namespace

BatchClient::BatchClient(Asked* asked, const Data& data, const Load& load, std::uint32_t number,
                         const std::atomic<bool>& is_over)
    : asked_(asked),
      data_(data),
      load_(load),
      is_over_(is_over),
      random_(base::mix64(load.seed + (std::uint64_t{1} << 32) + number)),
      zipf_(load.keys, load.skew) {}

Status BatchClient::prepare() {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(batch_, asked_->new_batch());
    batch_.SetColumnsInPlace(true);
    for (int i = 0; i < kDrawnBatches; ++i) {
      Drawn drawn;
      for (std::uint64_t r = 0; r < load_.batch_size; ++r) {
        const std::uint64_t key = data_.key(zipf_.next(&random_), /*turn=*/0);
        if (random_.below(100) < load_.read_percent) {
          drawn.gets.push_back(key);
          continue;
        }
        drawn.puts.push_back(key);
        data_.append(key, random_.below(Data::kVersions), &drawn.values);
      }
      drawn_.push_back(std::move(drawn));
    }
    found_values_.resize(load_.batch_size * load_.value_bytes);
    found_.resize(load_.batch_size);
    return Status::OK();
  });
}

Status BatchClient::run() {
  for (std::size_t i = 0; !is_over_.load(std::memory_order_relaxed); ++i) {
    const Drawn& drawn = drawn_[i % drawn_.size()];
    const auto begin = Clock::now();
    BRECCIA_TRY(send(drawn));
    times_.record(ns_between(begin, Clock::now()));
    requests_ += drawn.puts.size() + drawn.gets.size();
    BRECCIA_TRY(check(drawn));
  }
  return Status::OK();
}

Status BatchClient::send(const Drawn& drawn) {
  batch_.Clear();
  if (!drawn.puts.empty()) {
    const auto values =
        BytesColumn::Fixed(drawn.values.data(), drawn.puts.size(), load_.value_bytes);
    BRECCIA_TRY(batch_.Put(kDefaultFamily, column_of(drawn.puts), values));
  }
  if (!drawn.gets.empty()) {
    BRECCIA_TRY(batch_.Get(kDefaultFamily, column_of(drawn.gets),
                           {.values = found_values_.data(),
                            .width = load_.value_bytes,
                            .stride = load_.value_bytes,
                            .found = found_.data()}));
  }
  return asked_->submit(&batch_);
}

Status BatchClient::check(const Drawn& drawn) const {
  for (std::size_t i = 0; i < drawn.gets.size(); ++i) {
    const Slice value(found_values_.data() + i * load_.value_bytes, load_.value_bytes);
    if (found_[i] == 0) {
      return Status::Corruption("a lookup of a batch has no value, but code " +
                                std::to_string(batch_.code(i)));
    }
    if (!data_.is_of(drawn.gets[i], value)) {
      return Status::Corruption("a lookup of a batch found another key's value");
    }
  }
  return Status::OK();
}

Status put_all_in_batches(Asked* asked, const Data& data, std::uint64_t keys,
                          std::uint32_t threads) {
  return on_threads(threads, [&](std::uint32_t t) {
    return base::or_memory_limit([&]() -> Status {
      BRECCIA_TAKE(Batch batch, asked->new_batch());
      const std::uint64_t end = keys * (t + 1) / threads;
      for (std::uint64_t rank = keys * t / threads; rank < end;) {
        std::vector<std::uint64_t> some;
        std::vector<char> values;
        for (; rank < end && some.size() < kPutAtOnce; ++rank) {
          some.push_back(data.key(rank, /*turn=*/0));
          data.append(some.back(), /*version=*/0, &values);
        }
        batch.Clear();
        const auto column =
            BytesColumn::Fixed(values.data(), some.size(), values.size() / some.size());
        BRECCIA_TRY(batch.Put(kDefaultFamily, column_of(some), column));
        BRECCIA_TRY(asked->submit(&batch));
      }
      return Status::OK();
    });
  });
}

}  // namespace breccia::bench::hot
