#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "base/secret.h"
#include "base/section_mutex.h"
#include "exec/clear.h"
#include "exec/device.h"
#include "exec/executor.h"
#include "exec/in_flight.h"
#include "exec/pool.h"
#include "hash/algo/cached.cuh"
#include "hash/algo/pinned.cuh"
#include "hash/ids/ids.h"
#include "hash/section.h"

namespace breccia::hash {

/// A cache in the memory of a tenant of its own, which others may want back.
class PoolCache final : public Cache {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  template <class X>
  static Result<std::shared_ptr<PoolCache>> make(X& x, exec::TenantPtr tenant,
                                                 std::uint64_t row_bytes, std::uint64_t bytes_max,
                                                 RowCachePolicy policy,
                                                 std::shared_ptr<exec::InFlight> in_flight) {
    auto cache = std::shared_ptr<PoolCache>(
        new PoolCache(std::move(tenant), row_bytes, policy, std::move(in_flight)));
    exec::Pool& pool = cache->tenant_->pool();
    const std::uint64_t sets = bytes_max / (kSetBytes + kCacheWays * row_bytes);
    BRECCIA_TAKE(cache->sets_, exec::Array<Pair>::make(pool, sets * algo::SetRef::kPairs));
    BRECCIA_TAKE(cache->misses_,
                 exec::Array<std::uint64_t>::make(pool, sets * algo::MissCounter::kWords));
    BRECCIA_TAKE(cache->rows_, exec::Array<char>::make(pool, sets * kCacheWays * row_bytes));
    BRECCIA_TRY(exec::clear(x, cache->sets_.data(), cache->sets_.count()));
    BRECCIA_TRY(exec::clear(x, cache->misses_.data(), cache->misses_.count()));
    BRECCIA_TRY(x.finish());
    cache->room_ = sets * kCacheWays;
    cache->tenant_->answer(
        {.give = [raw = cache.get()](std::uint64_t /*bytes*/) { raw->give(); }, .lost = {}});
    return cache;
  }
  ~PoolCache() override {
    tenant_->be_left_alone();
    in_flight_->finish_all();
  }

  /// Lookups share it; who admits rows has it.
  [[nodiscard]] base::SectionMutex& mutex() const { return mutex_; }
  /// To take rows in; mostly none while lookups are under way that nobody waits for. As these may
  /// be so at all times, every so often no more are begun until those are done.
  [[nodiscard]] std::optional<Section> section_to_admit() {
    std::optional<Section> section = Section::try_once(mutex_, *in_flight_);
    if (section.has_value()) refusals_ = 0;
    if (section.has_value() || ++refusals_ < kRefusalsInARow) return section;
    section = section_in_a_pause();
    refusals_ = 0;
    return section;
  }
  /// To write rows over those before: where some are pinned that is waited for, as who pins them
  /// counts on it; else none while lookups are under way.
  [[nodiscard]] std::optional<Section> section_to_renew() {
    if (pinned_ > 0) return section_to_pin();
    return Section::try_once(mutex_, *in_flight_);
  }
  /// To pin rows, behind lookups that are under way: those that were before the call, and those
  /// that come before it has it, which are few.
  [[nodiscard]] Section section_to_pin() {
    in_flight_->finish_all();
    std::optional<Section> section;
    while (!section.has_value()) section = section_in_a_pause();
    return *std::move(section);
  }
  /// Whoever calls this has the mutex or a share of it.
  [[nodiscard]] CacheRef ref() const {
    return {sets_.data(), set_count(), misses_.data(), rows_.data(), policy_, add_, factor_};
  }

  /// What a holder of pins has: bits for all places, none of which is set.
  struct Pins {
    exec::Array<algo::PinBits> bits;
    std::uint64_t count = 0;  // of bits that are set; whoever sets one counts it
  };
  /// Makes room for the bits, which the first who launches something with them clears.
  /// Errors  MemoryLimit.
  Status make_bits(Pins* pins) const {
    BRECCIA_TAKE(pins->bits,
                 exec::Array<algo::PinBits>::make(tenant_->pool(), algo::pin_words_of(room_)));
    return Status::OK();
  }
  void note_pinned(std::uint64_t rows) { pinned_ += rows; }
  /// Its rows may lose their places from now on: whoever wants places sees to it before.
  void give_pins(std::list<Pins> ended) {
    for (const Pins& pins : ended) pinned_ -= pins.count;
    const std::lock_guard lock(ended_mutex_);
    if (is_there_) ended_.splice(ended_.end(), ended);
  }
  /// Launches what lets go what ended holders had pinned. In a section, of which the cache has not
  /// given all back, and at whose end it is done.
  template <class X>
  Status let_go(X& x) {
    const std::lock_guard lock(ended_mutex_);
    collected_.clear();
    while (!ended_.empty()) {
      const auto& bits = ended_.front().bits;
      BRECCIA_TRY(
          x.template launch<32>(bits.count(), algo::LetGo{ref(), bits.data(), bits.count()}));
      collected_.splice(collected_.end(), ended_, ended_.begin());
    }
    return Status::OK();
  }
  void note(std::uint64_t lookups, std::uint64_t hits) {
    lookups_ += lookups;
    hits_ += hits;
    const double share = static_cast<double>(lookups - hits) / static_cast<double>(lookups);
    missing_share_ = missing_share_ + kNewest * (share - missing_share_);
  }
  /// Of what was looked up lately: about so much was not there.
  [[nodiscard]] double missing_share() const { return missing_share_; }
  void note_offered(std::uint64_t rows) { offered_ += rows; }
  /// Whether it may have room for most of what it is offered.
  [[nodiscard]] bool is_filling() const { return offered_ < room_; }
  /// Counts those who ask.
  [[nodiscard]] std::uint64_t turn() { return turns_++; }

  /// Waits for lookups that are under way, none of which claims memory while it has the mutex.
  void drop() override {
    const Section all(mutex_, *in_flight_);
    give_back();
  }
  [[nodiscard]] bool is_there() const override { return is_there_; }
  [[nodiscard]] std::uint64_t rows() const override {
    const std::shared_lock lock(mutex_);
    return set_count() * kCacheWays;
  }
  [[nodiscard]] std::uint64_t bytes() const override {
    const std::shared_lock lock(mutex_);
    return sets_.bytes() + misses_.bytes() + rows_.bytes();
  }
  [[nodiscard]] std::uint64_t lookups() const override {
    in_flight_->reap_all();  // they are counted when they are done
    return lookups_;
  }
  [[nodiscard]] std::uint64_t hits() const override {
    in_flight_->reap_all();
    return hits_;
  }
  [[nodiscard]] std::uint64_t pinned() const override { return is_there_ ? pinned_.load() : 0; }

 private:
  static constexpr double kNewest = 0.125;  // what the last lookup counts
  /// Beside its rows.
  static constexpr std::uint64_t kSetBytes =
      algo::SetRef::kPairs * sizeof(Pair) + algo::MissCounter::kWords * sizeof(std::uint64_t);

  PoolCache(exec::TenantPtr tenant, std::uint64_t row_bytes, RowCachePolicy policy,
            std::shared_ptr<exec::InFlight> in_flight)
      : Cache(row_bytes),
        tenant_(std::move(tenant)),
        in_flight_(std::move(in_flight)),
        policy_(policy) {}
  [[nodiscard]] std::uint64_t set_count() const { return sets_.count() / algo::SetRef::kPairs; }
  /// None if there are still lookups under way behind some tries.
  [[nodiscard]] std::optional<Section> section_in_a_pause() {
    const exec::InFlight::Pause pause(*in_flight_);
    std::optional<Section> section;
    // Those who were past the pause when it began come behind, each with one more.
    for (int i = 0; i < kTriesInAPause && !section.has_value(); ++i) {
      in_flight_->finish_all();
      section = Section::try_once(mutex_, *in_flight_);
    }
    return section;
  }
  /// Who asks for memory has others wait behind it, so it waits for what lookups take, and not for
  /// all that a caller's stream may have to do before one.
  void give() {
    const exec::InFlight::Pause pause(*in_flight_);
    const auto until = std::chrono::steady_clock::now() + kGiveTime;
    do {
      if (const auto all = Section::try_once(mutex_, *in_flight_)) return give_back();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } while (std::chrono::steady_clock::now() < until);
  }
  /// In a section.
  void give_back() {
    is_there_ = false;
    sets_ = {};
    misses_ = {};
    rows_ = {};
    const std::lock_guard lock(ended_mutex_);
    ended_.clear();
    collected_.clear();
  }

  /// So many admissions in a row that find lookups under way are none.
  static constexpr std::uint64_t kRefusalsInARow = 16;
  static constexpr int kTriesInAPause = 8;
  static constexpr std::chrono::milliseconds kGiveTime{100};
  const exec::TenantPtr tenant_;
  const std::shared_ptr<exec::InFlight> in_flight_;  // lookups that may be in it
  const RowCachePolicy policy_;
  const std::uint64_t add_ = base::draw_secret_word();
  const std::uint64_t factor_ = base::draw_secret_word() | 1;
  mutable base::SectionMutex mutex_;  // guards the arrays
  exec::Array<Pair> sets_;
  exec::Array<std::uint64_t> misses_;
  exec::Array<char> rows_;
  std::uint64_t room_ = 0;     // for rows, to begin with
  std::mutex ended_mutex_;     // guards what follows
  std::list<Pins> ended_;      // of holders that have ended, in which bits are still set
  std::list<Pins> collected_;  // which the last section let go: kernels of it may have read them
  std::atomic<std::uint64_t> lookups_{0}, hits_{0}, turns_{0}, offered_{0}, pinned_{0};
  std::atomic<double> missing_share_{1};
  std::atomic<std::uint64_t> refusals_{0};
  std::atomic<bool> is_there_{true};
};

}  // namespace breccia::hash
