#include "compaction/decision.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"

namespace breccia::compaction {

namespace {

constexpr double kMicrosPerEntry = 0.35;
constexpr double kMicrosPerByte = 0.00175;
constexpr double kNewestWeight = 0.2;
// A place is tried again after some hundred jobs at the latest, if it is not hopeless.
constexpr double kIdleDiscount = 0.99;
constexpr double kDiscountMin = 0.25;
// What a measurement may say; the clock of a machine that was stopped says more.
constexpr double kPaceMin = 0.001;
constexpr double kPaceMax = 1000;

double work_micros(const JobSize& size) {
  return kMicrosPerEntry * static_cast<double>(size.entries) +
         kMicrosPerByte * static_cast<double>(size.bytes);
}

bool has_threshold(const DecisionOptions& options) {
  return options.device_files_min > 0 || options.device_bytes_min > 0;
}

bool reaches_threshold(const JobSize& size, const DecisionOptions& options) {
  return size.files >= options.device_files_min && size.bytes >= options.device_bytes_min;
}

}  // namespace

const char* name_of(Place place) {
  switch (place) {
    case Place::kDevice:
      return "device";
    case Place::kHost:
      return "host";
    case Place::kLocal:
      return "RocksDB";
  }
  return nullptr;
}

Costs::Costs() {
  // A device starts kernels and waits for its bus; RocksDB starts nothing.
  shares_[static_cast<std::size_t>(Place::kDevice)] = {.fixed_micros = 3000, .pace = 0.25};
  shares_[static_cast<std::size_t>(Place::kHost)] = {.fixed_micros = 500, .pace = 0.8};
  shares_[static_cast<std::size_t>(Place::kLocal)] = {.fixed_micros = 0, .pace = 1};
}

double Costs::micros(Place place, const JobSize& size) const {
  const Share& share = at(place);
  double discount = 1;
  for (std::uint64_t i = 0; i < share.idle && discount > kDiscountMin; ++i) {
    discount *= kIdleDiscount;
  }
  return share.fixed_micros + discount * share.pace * work_micros(size);
}

void Costs::learn(Place place, const JobSize& size, std::uint64_t micros) {
  for (std::size_t other = 0; other < kPlaces; ++other) {
    Share& share = shares_[other];
    share.idle = other == static_cast<std::size_t>(place) ? 0 : share.idle + 1;
  }
  Share& share = shares_[static_cast<std::size_t>(place)];
  share.jobs += 1;
  const double work = work_micros(size);
  if (work <= 0) return;
  // Of a job that took less than is fixed something still was work.
  const double taken = static_cast<double>(micros);
  const double measured = (taken - std::min(share.fixed_micros, taken / 2)) / work;
  // The first one says more than a guess.
  const double weight = share.jobs == 1 ? 1 : kNewestWeight;
  share.pace += weight * (std::clamp(measured, kPaceMin, kPaceMax) - share.pace);
  BRECCIA_ASSERT(share.pace > 0);
}

Decision decide(const JobSize& size, const Load& load, const Costs& costs,
                const DecisionOptions& options) {
  if (size.bytes < options.bytes_min) return {Place::kLocal, decision_reasons::kSmall};
  if (load.running >= options.jobs_max) return {Place::kLocal, decision_reasons::kFull};
  if (has_threshold(options)) {
    if (!load.has_device) return {Place::kLocal, decision_reasons::kNoDevice};
    if (reaches_threshold(size, options)) return {Place::kDevice, nullptr};
    return {Place::kLocal, decision_reasons::kBelowThreshold};
  }
  if (!load.has_device && !options.may_use_host) {
    return {Place::kLocal, decision_reasons::kNoDevice};
  }
  Decision best{Place::kLocal, decision_reasons::kSlower};
  double least = options.weighs_rocksdb ? costs.micros(Place::kLocal, size)
                                        : std::numeric_limits<double>::infinity();
  for (const Place place : {Place::kHost, Place::kDevice}) {
    if (place == Place::kDevice ? !load.has_device : !options.may_use_host) continue;
    const double micros = load.waiting_micros + costs.micros(place, size);
    if (micros >= least) continue;
    least = micros;
    best = {place, nullptr};
  }
  return best;
}

}  // namespace breccia::compaction
