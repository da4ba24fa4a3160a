#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/hash/column.h"
#include "bench/hash/flags.h"
#include "bench/hash/keys.h"
#include "bench/hash/ledger.h"
#include "bench/hash/target.h"
#include "bench/hash/trace.h"

namespace breccia::bench::tables {

/// What calls took. Where a batch is two calls, both are one here.
struct Timing {
  std::uint64_t requests = 0;
  double seconds = 0;              // of all calls, one behind the other
  double copy_seconds = 0;         // of these, where a table's requests must be brought to it
  std::vector<double> calls_us{};  // each
};

/// Runs behind each call, out of the clock's sight: the step, and what its call took.
using BehindCall = std::function<void(const Step&, double us)>;

/// How a trace is run, where it is not as most are.
struct Watch {
  BehindCall behind_call = nullptr;
  std::uint64_t* refused = nullptr;  // counts keys that find no room, which is no error then
};

/// One table and the columns that it is asked with, which have room for `entries` requests. The
/// clock covers the calls, each of which waits for its batch; columns are filled before, and all
/// answers looked at behind it.
/// Threads one owner.
class Run {
 public:
  Run(const HashFlags& flags, hash::Backend& backend, Whose whose, const Shape& shape,
      std::uint64_t seed)
      : flags_(flags),
        whose_(whose),
        backend_(backend),
        shape_(shape),
        seed_(seed),
        keys_(seed, shape.key_bytes, shape.value_bytes) {}

  [[nodiscard]] const HashFlags& flags() const { return flags_; }
  [[nodiscard]] hash::Backend& backend() const { return backend_; }
  [[nodiscard]] Whose whose() const { return whose_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const Keys& keys() const { return keys_; }
  [[nodiscard]] Target& target() const { return *target_; }
  [[nodiscard]] Ledger& ledger() const { return *ledger_; }
  /// Requests of a workload that draws keys.
  [[nodiscard]] std::uint64_t requests() const {
    return flags_.requests == 0 ? flags_.entries : flags_.requests;
  }
  /// Keys in the table, whatever they are.
  std::uint64_t keys_in = 0;
  /// Keys of [0, entries) that found no room, and are asked for like others.
  std::uint64_t refused = 0;

  Status make_columns();
  /// An empty table in the place of the one before.
  Status make_target(const Room& room);
  /// Loads kernels, and takes the memory that a batch takes: inserts into a table that is gone.
  Status warm_up(std::uint64_t batch);

  /// Runs a trace and has the ledger look at it.
  Status run(const std::string& what, const Trace& trace, Timing* timing);
  Status run(const std::string& what, const Trace& trace, Timing* timing, const Watch& watch);
  /// Runs a trace of finds whose answers nobody looks at: the clock of a GPU warms up.
  Status run_idly(const Trace& trace);

  // ---- the same in steps ----

  /// Fills the columns; first_word(i) begins the value of request i, if it may write one. Answers
  /// are wiped out.
  /// Shape   trace.size() <= entries.
  Status put(const Trace& trace, const std::function<std::uint64_t(std::uint64_t)>& first_word);
  Status send(const Trace& trace, Timing* timing, const BehindCall& behind_call);
  /// The answers to the first requests.
  Status take(std::uint64_t count, Answers* answers) const;

 private:
  Status put_values(std::uint64_t count,
                    const std::function<std::uint64_t(std::uint64_t)>& first_word);
  Status wipe(std::uint64_t count);
  Status call(const Trace& trace, const Step& step);
  template <class T>
  Result<std::unique_ptr<Column<T>>> make(std::uint64_t each);

  const HashFlags& flags_;
  const Whose whose_;
  hash::Backend& backend_;
  const Shape shape_;
  const std::uint64_t seed_;
  const Keys keys_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Column<char>> key_column_;
  std::unique_ptr<Column<std::uint64_t>> values_, found_;
  std::unique_ptr<Column<hash::Code>> codes_;
  std::unique_ptr<Column<hash::Operation>> operations_;
};

}  // namespace breccia::bench::tables
