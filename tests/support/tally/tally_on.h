#pragma once

#include "exec/atomics.h"
#include "exec/device.h"
#include "exec/pool.h"
#include "support/tally/tally.h"

namespace breccia::testing {

/// Lane i of group g counts word g * W + i.
struct CountWords {
  const std::uint64_t* words;
  std::uint64_t word_count;
  std::uint64_t* counts;
  bool badly;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, word_count, [&](std::uint64_t i) {
      std::uint64_t* const count = counts + words[i] % Tally::kCounts;
      if (badly) {
        const std::uint64_t before = exec::load_relaxed_device(group, count);
        exec::store_relaxed_device(group, count, before + 1);
      } else {
        exec::add_relaxed_device(group, count, 1U);
      }
    });
  }
};

/// Group g adds its number, plus 1, to the message; the last to end passes the sum on. What each
/// wrote before its release is seen by who acquires.
struct HandOn {
  std::uint64_t groups;
  std::uint64_t* parts;  // one of each group
  std::uint64_t* ended;
  std::uint64_t* sum;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t own = first / Group::kWidth;
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      exec::store_relaxed_system(group, parts + own, own + 1);
      if (exec::add_acq_rel_system(group, ended, 1U) + 1 != groups) return;
      std::uint64_t all = 0;
      for (std::uint64_t i = 0; i < groups; ++i) {
        all += exec::load_relaxed_system(group, parts + i);
      }
      exec::store_release_system(group, sum, all);
    });
  }
};

template <class Tenant>
class TallyOn final : public Tally {
 public:
  explicit TallyOn(std::shared_ptr<Tenant> tenant) : tenant_(std::move(tenant)) {}

  Result<std::vector<std::uint64_t>> count(const std::vector<std::uint64_t>& words) override {
    return count(words, /*badly=*/false);
  }
  Result<std::vector<std::uint64_t>> count_badly(const std::vector<std::uint64_t>& words) override {
    return count(words, /*badly=*/true);
  }

  Result<std::uint64_t> hand_on(std::uint64_t groups) override {
    constexpr int kWidth = 8;
    BRECCIA_TAKE(auto x, tenant_->executor());
    BRECCIA_TAKE(const auto words, zeros(*x, groups + 2));
    BRECCIA_TRY(x->template launch<kWidth>(
        groups * kWidth, HandOn{groups, words.data() + 2, words.data(), words.data() + 1}));
    std::uint64_t sum = 0;
    BRECCIA_TRY(x->copy_out(&sum, words.data() + 1, 1));
    BRECCIA_TRY(x->finish());
    return sum;
  }

 private:
  template <class X>
  static Result<exec::Array<std::uint64_t>> zeros(X& x, std::uint64_t n) {
    const std::vector<std::uint64_t> none(n);
    BRECCIA_TAKE(auto array, exec::Array<std::uint64_t>::make(x.pool(), n));
    BRECCIA_TAKE(const auto imported, x.import(none.data(), n));
    BRECCIA_TRY(x.copy(array.data(), imported.data(), n));
    BRECCIA_TRY(x.finish());
    return Result<exec::Array<std::uint64_t>>(std::move(array));
  }

  Result<std::vector<std::uint64_t>> count(const std::vector<std::uint64_t>& words, bool badly) {
    BRECCIA_TAKE(auto x, tenant_->executor());
    BRECCIA_TAKE(const auto imported, x->import(words.data(), words.size()));
    BRECCIA_TAKE(const auto counts, zeros(*x, kCounts));
    BRECCIA_TRY(x->template launch<32>(
        words.size(), CountWords{imported.data(), words.size(), counts.data(), badly}));
    std::vector<std::uint64_t> result(kCounts);
    BRECCIA_TRY(x->copy_out(result.data(), counts.data(), kCounts));
    BRECCIA_TRY(x->finish());
    return result;
  }

  const std::shared_ptr<Tenant> tenant_;
};

}  // namespace breccia::testing
