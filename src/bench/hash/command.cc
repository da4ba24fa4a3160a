#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/commands.h"
#include "bench/lists.h"
#include "bench/rows.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "exec/choose.h"
#include "hash/backend.h"

/// `breccia bench hash`: a table is filled with random keys of 8 bytes and asked for them. Keys,
/// values and results lie in the backend's memory; the clock covers the calls, each of which waits
/// for its batch. Every answer is compared with what it must be, outside the clock.

namespace breccia::bench {

namespace {

using hash::Code;
using hash::Operation;

struct HashFlags {
  std::string backend = "auto";
  std::uint64_t entries = 1 << 22;
  std::string load_percents = "50,95";
  std::string batch_sizes = "1048576";
  std::string lanes = "4";
  std::uint32_t rounds = 5;
  std::uint64_t seed = 1;
  bool json = false;
};

/// A column in the backend's memory.
template <class T>
class Column {
 public:
  static Result<Column> make(hash::Backend& backend, std::uint64_t count) {
    BRECCIA_TAKE(auto array, exec::Array<T>::make(backend.tenant().pool(), count));
    return Column(backend, std::move(array));
  }
  [[nodiscard]] T* data() const { return array_.data(); }
  Status put(std::span<const T> values) {
    return backend_->copy_in(reinterpret_cast<char*>(array_.data()),
                             reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  Result<std::vector<T>> get() const {
    std::vector<T> values(array_.count());
    BRECCIA_TRY(backend_->copy_out(reinterpret_cast<char*>(values.data()),
                                   reinterpret_cast<const char*>(array_.data()), array_.bytes()));
    return values;
  }

 private:
  Column(hash::Backend& backend, exec::Array<T> array)
      : backend_(&backend), array_(std::move(array)) {}
  hash::Backend* backend_;
  exec::Array<T> array_;
};

/// A table of one load factor.
class HashBench {
 public:
  HashBench(const HashFlags& flags, hash::Backend& backend, std::uint32_t load_percent, int lanes,
            std::uint64_t seed)
      : flags_(flags), backend_(backend), load_percent_(load_percent), lanes_(lanes), seed_(seed) {}

  Status run(std::span<const std::uint32_t> batch_sizes) {
    base::Random random(seed_);
    BRECCIA_TAKE(table_, backend_.make_table({.slots_min = flags_.entries * 100 / load_percent_,
                                              .lanes = lanes_,
                                              .secret = {.add = random.next(),
                                                         .factor = random.next() | 1,
                                                         .second_factor = random.next() | 1}}));
    BRECCIA_TRY(make_columns());
    BRECCIA_TRY(fill(batch_sizes.front()));
    for (const std::uint32_t batch : batch_sizes) {
      batch_ = batch;
      BRECCIA_TRY(ask());
    }
    return Status::OK();
  }

 private:
  /// Key i, another one for each seed. Those from `entries` on are not in the table.
  [[nodiscard]] std::uint64_t key(std::uint64_t i) const {
    return base::mix64(i + base::mix64(seed_));
  }

  Status make_columns() {
    BRECCIA_TAKE(keys_, make<std::uint64_t>());
    BRECCIA_TAKE(values_, make<std::uint64_t>());
    BRECCIA_TAKE(found_, make<std::uint64_t>());
    BRECCIA_TAKE(codes_, make<Code>());
    BRECCIA_TAKE(operations_, make<Operation>());
    return Status::OK();
  }
  template <class T>
  Result<std::unique_ptr<Column<T>>> make() {
    BRECCIA_TAKE(auto column, Column<T>::make(backend_, flags_.entries));
    return std::make_unique<Column<T>>(std::move(column));
  }

  /// The columns: `entries` keys from `first` on, in steps that lead all over them, so in another
  /// order than they came in; and values of this turn. Answers are wiped out.
  Status prepare(std::uint64_t first) {
    const std::uint64_t n = flags_.entries;
    std::uint64_t step = static_cast<std::uint64_t>(0.618 * static_cast<double>(n)) | 1;
    while (std::gcd(step, n) != 1) step += 2;
    std::vector<std::uint64_t> words(n);
    order_.resize(n);
    std::uint64_t at = base::mix64(seed_ + turn_) % n;
    for (std::uint64_t i = 0; i < n; ++i) {
      order_[i] = first + at;
      at = (at + step) % n;
      words[i] = key(order_[i]);
    }
    BRECCIA_TRY(keys_->put(words));
    for (std::uint64_t& word : words) word = word * 3 + turn_;
    BRECCIA_TRY(values_->put(words));
    return wipe();
  }
  Status wipe() {
    BRECCIA_TRY(found_->put(std::vector<std::uint64_t>(flags_.entries)));
    return codes_->put(std::vector<Code>(flags_.entries, Code::kNoRoom));
  }

  /// Runs requests [begin, end) of the columns in batches; returns the seconds.
  Result<double> send(Operation all, bool mixed, std::uint64_t begin, std::uint64_t end) {
    const base::Stopwatch clock;
    for (std::uint64_t at = begin; at < end; at += batch_) {
      BRECCIA_TRY(
          backend_.run_here(*table_, {.operation = mixed ? operations_->data() + at : nullptr,
                                      .all = all,
                                      .key = keys_->data() + at,
                                      .value = values_->data() + at,
                                      .found = found_->data() + at,
                                      .code = codes_->data() + at,
                                      .count = std::min<std::uint64_t>(batch_, end - at)}));
    }
    return 1e-6 * static_cast<double>(clock.micros());
  }

  /// The first codes are `expected`, and what was found is what the turn before wrote.
  Status check(Code expected, const std::string& what, std::uint64_t turn_before,
               std::uint64_t count) {
    BRECCIA_TAKE(const auto codes, codes_->get());
    BRECCIA_TAKE(const auto found, found_->get());
    for (std::uint64_t i = 0; i < count; ++i) {
      if (codes[i] != expected) {
        return Status::Corruption(what, "request " + std::to_string(i) + " has another code");
      }
      if (expected == Code::kPresent && found[i] != key(order_[i]) * 3 + turn_before) {
        return Status::Corruption(what, "request " + std::to_string(i) + " has another value");
      }
    }
    return Status::OK();
  }

  Status fill(std::uint32_t batch) {
    batch_ = batch;
    turn_ = 1;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TRY(warm_up());
    const std::uint64_t last = flags_.entries - flags_.entries / 8;
    BRECCIA_TAKE(const double begin, send(Operation::kInsert, false, 0, last));
    BRECCIA_TAKE(const double end, send(Operation::kInsert, false, last, flags_.entries));
    BRECCIA_TRY(check(Code::kAbsent, "insert", 0, flags_.entries));
    say("hash_insert", flags_.entries, begin + end);
    say("hash_insert_last_eighth", flags_.entries - last, end);
    return Status::OK();
  }

  /// Loads the kernels and takes the memory that a batch takes: inserts into a table that is gone.
  Status warm_up() {
    BRECCIA_TAKE(auto other, backend_.make_table(table_->options()));
    std::swap(table_, other);
    const Status sent = send(Operation::kInsert, false, 0, flags_.entries).status();
    std::swap(table_, other);
    BRECCIA_TRY(Status(sent));
    return wipe();
  }

  Status ask() {
    const std::uint64_t n = flags_.entries;
    std::uint64_t before = turn_++;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TRY(send(Operation::kFind, false, 0, n).status());  // the clock of a GPU warms up
    BRECCIA_TRY(wipe());
    BRECCIA_TAKE(const double find, send(Operation::kFind, false, 0, n));
    BRECCIA_TRY(check(Code::kPresent, "find", before, flags_.entries));
    say("hash_find", n, find);
    BRECCIA_TRY(wipe());
    BRECCIA_TAKE(const double update, send(Operation::kUpdate, false, 0, n));
    BRECCIA_TRY(check(Code::kPresent, "update", before, flags_.entries));
    say("hash_update", n, update);
    before = turn_++;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TRY(mix());
    BRECCIA_TAKE(const double mixed, send(Operation::kFind, true, 0, n));
    BRECCIA_TRY(check(Code::kPresent, "mixed", before, flags_.entries));
    say("hash_mixed", n, mixed);
    BRECCIA_TRY(send(Operation::kUpdate, false, 0, n).status());  // all have this turn's values
    before = turn_++;
    BRECCIA_TRY(prepare(n));
    BRECCIA_TAKE(const double miss, send(Operation::kFind, false, 0, n));
    BRECCIA_TRY(check(Code::kAbsent, "miss", before, flags_.entries));
    say("hash_miss", n, miss);
    turn_ = before;
    return take_away();
  }

  /// Every second request an update.
  Status mix() {
    std::vector<Operation> operations(flags_.entries);
    for (std::uint64_t i = 0; i < operations.size(); ++i) {
      operations[i] = i % 2 == 0 ? Operation::kFind : Operation::kUpdate;
    }
    return operations_->put(operations);
  }

  /// Deletes an eighth of the keys, and puts them back.
  Status take_away() {
    const std::uint64_t n = flags_.entries / 8;
    BRECCIA_TRY(prepare(0));
    BRECCIA_TAKE(const double seconds, send(Operation::kDelete, false, 0, n));
    say("hash_delete", n, seconds);
    BRECCIA_TRY(check(Code::kPresent, "delete", turn_, n));
    BRECCIA_TRY(send(Operation::kInsert, false, 0, flags_.entries).status());
    BRECCIA_TAKE(const auto codes, codes_->get());
    for (std::uint64_t i = 0; i < codes.size(); ++i) {
      if (codes[i] != (i < n ? Code::kAbsent : Code::kPresent)) {
        return Status::Corruption("delete", "request " + std::to_string(i) + " left something");
      }
    }
    return Status::OK();
  }

  void say(const std::string& benchmark, std::uint64_t requests, double seconds) const {
    const double rate = static_cast<double>(requests) / seconds;
    const double load =
        static_cast<double>(flags_.entries) / static_cast<double>(table_->slot_count());
    const std::string backend = backend_.device().describe();
    if (!flags_.json) {
      fmt::print("{:<24} load {:.3f}, batches of {:>9}, {} lanes: {:9.3f} M/s, {}\n", benchmark,
                 load, std::min(batch_, requests), lanes_, 1e-6 * rate, backend);
    } else {
      const nlohmann::json row = {{"benchmark", benchmark},
                                  {"engine", "breccia"},
                                  {"backend", backend},
                                  {"key_size", 8},
                                  {"value_size", 8},
                                  {"values_in", "slots"},
                                  {"entries", flags_.entries},
                                  {"load_factor", load},
                                  {"distribution", "uniform"},
                                  {"batch_size", std::min(batch_, requests)},
                                  {"lanes", lanes_},
                                  {"requests", requests},
                                  {"seconds", seconds},
                                  {"ops_per_sec", rate},
                                  {"seed", seed_},
                                  {"machine", machine_name()}};
      fmt::print("{}\n", row.dump());
    }
    std::fflush(stdout);
  }

  const HashFlags& flags_;
  hash::Backend& backend_;
  const std::uint32_t load_percent_;
  const int lanes_;
  const std::uint64_t seed_;
  hash::TablePtr table_;
  std::unique_ptr<Column<std::uint64_t>> keys_, values_, found_;
  std::unique_ptr<Column<Code>> codes_;
  std::unique_ptr<Column<Operation>> operations_;
  std::vector<std::uint64_t> order_;
  std::uint64_t turn_ = 0;
  std::uint64_t batch_ = 0;
};

Result<std::shared_ptr<hash::Backend>> open_backend(const HashFlags& flags) {
  StoreOptions options;
  options.backend = console::backend_choice(flags.backend);
  std::string why_none;
  BRECCIA_TAKE(const exec::DevicePtr device, exec::choose_device(options, &why_none));
  return hash::make_backend(device, {.name = "hash"});
}

Status run_rounds(const HashFlags& flags, std::span<const std::uint32_t> loads,
                  std::span<const std::uint32_t> batches, std::span<const std::uint32_t> lanes) {
  BRECCIA_TAKE(const auto backend, open_backend(flags));
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    for (const std::uint32_t load : loads) {
      for (const std::uint32_t width : lanes) {
        HashBench bench(flags, *backend, load, static_cast<int>(width), flags.seed + round);
        BRECCIA_TRY(bench.run(batches));
      }
    }
  }
  return Status::OK();
}

int run_hash(const HashFlags& flags) {
  const auto loads = numbers_of(flags.load_percents, 99);
  const auto batches = numbers_of(flags.batch_sizes, 1U << 30);
  const auto lanes = numbers_of(flags.lanes, 8);
  const auto are_above_zero = [](const std::vector<std::uint32_t>& numbers) {
    return !numbers.empty() && std::find(numbers.begin(), numbers.end(), 0U) == numbers.end();
  };
  const bool are_widths = std::all_of(lanes.begin(), lanes.end(), [](std::uint32_t width) {
    return width == 1 || width == 4 || width == 8;
  });
  if (!are_above_zero(loads) || !are_above_zero(batches) || !are_above_zero(lanes) || !are_widths) {
    console::say(
        "error: --load_percents wants numbers from 1 to 99, --batch_sizes numbers above zero, "
        "--lanes 1, 4 or 8; several with commas");
    return console::kExitUsage;
  }
  const Status status = run_rounds(flags, loads, batches, lanes);
  if (status.ok()) return console::kExitOk;
  console::say_error("the benchmark did not end", status, "fewer --entries need less memory");
  return console::kExitFailed;
}

}  // namespace

console::Command add_bench_hash(console::App* parent) {
  auto flags = std::make_shared<HashFlags>();
  console::App* app =
      parent->add_subcommand("hash", "Fill a hash table and look up, change and delete its keys");
  app->add_option("--backend", flags->backend, "auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--entries", flags->entries, "Keys in the table")
      ->range(64, 1ULL << 31)
      ->capture_default_str();
  app->add_option("--load_percents", flags->load_percents,
                  "Keys of a hundred slots, when it is full; several with commas")
      ->capture_default_str();
  app->add_option("--batch_sizes", flags->batch_sizes,
                  "Requests of a batch; several with commas: the first one fills the table")
      ->capture_default_str();
  app->add_option("--lanes", flags->lanes, "Lanes a request: 1, 4 or 8; several with commas")
      ->capture_default_str();
  app->add_option("--rounds", flags->rounds, "How often, each with new keys")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "Seed of the first round")->capture_default_str();
  app->add_flag("--json", flags->json, "Print one JSON object a line");
  return {app, [flags] { return run_hash(*flags); }};
}

}  // namespace breccia::bench
