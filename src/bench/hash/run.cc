#include "bench/hash/run.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/parallel.h"

namespace breccia::bench::tables {

namespace {

using hash::Code;
using hash::Operation;
using Clock = std::chrono::steady_clock;

double micros_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

}  // namespace

template <class T>
Result<std::unique_ptr<Column<T>>> Run::make(std::uint64_t each) {
  BRECCIA_TAKE(auto column, Column<T>::make(backend_, flags_.entries * each));
  return std::make_unique<Column<T>>(std::move(column));
}

Status Run::make_columns() {
  BRECCIA_TAKE(key_column_, make<char>(shape_.key_bytes));
  BRECCIA_TAKE(values_, make<std::uint64_t>(keys_.words()));
  BRECCIA_TAKE(found_, make<std::uint64_t>(keys_.words()));
  BRECCIA_TAKE(codes_, make<Code>(1));
  BRECCIA_TAKE(operations_, make<Operation>(1));
  return Status::OK();
}

Status Run::make_target(const Room& asked) {
  Room room = asked;
  room.batch = std::min(room.batch, flags_.entries);  // no call has more, as the columns have not
  room.bytes_max = flags_.table_mib << 20;
  room.requests_of_head = flags_.requests_of_head;
  target_.reset();
  BRECCIA_TAKE(target_, whose_ == Whose::kBreccia  ? make_table(backend_, shape_, seed_, room)
                        : whose_ == Whose::kSlabs  ? make_slabs(backend_, shape_, seed_, room)
                        : whose_ == Whose::kShaped ? make_shaped(backend_, shape_, seed_, room)
                                                   : make_cpu_table(backend_, shape_, room));
  ledger_ = std::make_unique<Ledger>(keys_, room.keys);
  keys_in = 0;
  refused = 0;
  return Status::OK();
}

Status Run::warm_up(std::uint64_t batch) {
  const std::uint64_t n = std::min(batch, flags_.entries);
  std::vector<std::uint64_t> order(n);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  const Trace trace = trace_of(std::move(order), n, Operation::kInsert);
  BRECCIA_TAKE(auto other, target_->make_other({.slots = 2 * n, .keys = n, .batch = n}));
  BRECCIA_TRY(put(trace, [&](std::uint64_t i) { return keys_.first_word(i, 1); }));
  std::swap(target_, other);
  Timing timing;
  Status sent = send(trace, &timing, nullptr);
  std::swap(target_, other);
  return sent;
}

Status Run::run(const std::string& what, const Trace& trace, Timing* timing) {
  return run(what, trace, timing, Watch());
}

Status Run::run(const std::string& what, const Trace& trace, Timing* timing, const Watch& watch) {
  std::vector<std::uint32_t> versions(trace.size());
  for (std::uint64_t s = 0; s < trace.steps.size(); ++s) {
    std::fill(versions.begin() + static_cast<std::ptrdiff_t>(trace.steps[s].begin),
              versions.begin() + static_cast<std::ptrdiff_t>(trace.steps[s].end),
              ledger_->version_of(s));
  }
  BRECCIA_TRY(
      put(trace, [&](std::uint64_t i) { return keys_.first_word(trace.order[i], versions[i]); }));
  BRECCIA_TRY(send(trace, timing, watch.behind_call));
  Answers answers;
  BRECCIA_TRY(take(trace.size(), &answers));
  std::uint64_t none = 0;
  return ledger_->check(what, trace, answers, watch.refused != nullptr,
                        watch.refused == nullptr ? &none : watch.refused);
}

Status Run::run_idly(const Trace& trace) {
  BRECCIA_TRY(put(trace, [](std::uint64_t) { return 0; }));
  Timing timing;
  return send(trace, &timing, nullptr);
}

Status Run::put(const Trace& trace, const std::function<std::uint64_t(std::uint64_t)>& first_word) {
  const std::uint64_t n = trace.size();
  BRECCIA_ASSERT(n <= flags_.entries);
  std::vector<char> keys(n * shape_.key_bytes);
  base::parallel_for(std::uint64_t{0}, n, [&](std::uint64_t i) {
    keys_.put_key(trace.order[i], keys.data() + i * shape_.key_bytes);
  });
  BRECCIA_TRY(key_column_->put(keys));
  const bool writes = std::any_of(trace.steps.begin(), trace.steps.end(), [](const Step& step) {
    return step.is_mixed || (step.all != Operation::kFind && step.all != Operation::kDelete);
  });
  if (writes) BRECCIA_TRY(put_values(n, first_word));
  if (!trace.operations.empty()) BRECCIA_TRY(operations_->put(trace.operations));
  return wipe(n);
}

Status Run::put_values(std::uint64_t count,
                       const std::function<std::uint64_t(std::uint64_t)>& first_word) {
  const std::uint64_t words = keys_.words();
  std::vector<std::uint64_t> values(count * words);
  base::parallel_for(std::uint64_t{0}, count, [&](std::uint64_t i) {
    const std::uint64_t first = first_word(i);
    for (std::uint64_t w = 0; w < words; ++w) values[i * words + w] = Keys::word(first, w);
  });
  return values_->put(values);
}

Status Run::wipe(std::uint64_t count) {
  BRECCIA_TRY(found_->put(std::vector<std::uint64_t>(count * keys_.words())));
  return codes_->put(std::vector<Code>(count, Code::kNoRoom));
}

Status Run::call(const Trace& trace, const Step& step) {
  const std::uint64_t at = step.begin;
  BRECCIA_ASSERT(step.end <= trace.size());
  hash::ValueRequestsRef given{
      .requests = {.operation = step.is_mixed ? operations_->data() + at : nullptr,
                   .all = step.all,
                   .code = codes_->data() + at,
                   .count = step.end - at},
      .value = reinterpret_cast<const char*>(values_->data() + at * keys_.words()),
      .found = reinterpret_cast<char*>(found_->data() + at * keys_.words())};
  const char* const keys = key_column_->data() + at * shape_.key_bytes;
  if (shape_.key_bytes == sizeof(std::uint64_t)) {
    given.requests.key = reinterpret_cast<const std::uint64_t*>(keys);
  } else {
    given.key = keys;
  }
  return target_->run(given);
}

Status Run::send(const Trace& trace, Timing* timing, const BehindCall& behind_call) {
  const Clock::time_point first = Clock::now();
  double aside_us = 0;
  timing->copy_seconds -= target_->copy_seconds();
  for (const Step& step : trace.steps) {
    const Clock::time_point begin = Clock::now();
    BRECCIA_TRY(call(trace, step));
    const Clock::time_point end = Clock::now();
    const double us = micros_between(begin, end);
    if (step.is_behind) {
      timing->calls_us.back() += us;
    } else {
      timing->calls_us.push_back(us);
    }
    if (!behind_call) continue;
    behind_call(step, us);
    aside_us += micros_between(end, Clock::now());
  }
  timing->copy_seconds += target_->copy_seconds();
  timing->seconds += 1e-6 * (micros_between(first, Clock::now()) - aside_us);
  return Status::OK();
}

Status Run::take(std::uint64_t count, Answers* answers) const {
  BRECCIA_TAKE(answers->codes, codes_->get(count));
  BRECCIA_TAKE(answers->found, found_->get(count * keys_.words()));
  return Status::OK();
}

}  // namespace breccia::bench::tables
