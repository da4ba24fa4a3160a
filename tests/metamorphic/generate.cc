#include <algorithm>
#include <array>

#include "base/random.h"
#include "list.h"
#include "option_sets.h"

namespace breccia::metamorphic {

namespace {

constexpr std::uint64_t kBatchMax = 65'536;

/// How often each kind is drawn.
struct Weight {
  Kind kind;
  std::uint32_t weight;
};
constexpr Weight kOps[] = {
    {Kind::kPut, 60},         {Kind::kDelete, 20},      {Kind::kSingleDelete, 20},
    {Kind::kMerge, 30},       {Kind::kDeleteRange, 15}, {Kind::kGet, 40},
    {Kind::kRange, 15},       {Kind::kBatch, 220},      {Kind::kMultiGet, 25},
    {Kind::kRead, 40},        {Kind::kSnapshot, 40},    {Kind::kRelease, 15},
    {Kind::kIterator, 50},    {Kind::kSeek, 40},        {Kind::kSeekForPrev, 40},
    {Kind::kSeekToFirst, 15}, {Kind::kSeekToLast, 15},  {Kind::kNext, 60},
    {Kind::kPrev, 60},        {Kind::kRefresh, 10},     {Kind::kClose, 15},
    {Kind::kScan, 15},        {Kind::kCreate, 25},      {Kind::kDrop, 6},
    {Kind::kFlush, 40},       {Kind::kCompact, 15},     {Kind::kSync, 10},
    {Kind::kReopen, 14},      {Kind::kCrash, 14},       {Kind::kPlain, 2},
    {Kind::kIndexed, 30},     {Kind::kBegin, 40},       {Kind::kWithin, 90},
    {Kind::kCommit, 40},      {Kind::kRollback, 8}};
constexpr Weight kParts[] = {{Kind::kPut, 40},       {Kind::kDelete, 10}, {Kind::kSingleDelete, 10},
                             {Kind::kMerge, 15},     {Kind::kGet, 25},    {Kind::kRange, 6},
                             {Kind::kDeleteRange, 2}};
constexpr Weight kPartsWithin[] = {
    {Kind::kPut, 30},       {Kind::kDelete, 10},         {Kind::kMerge, 15},
    {Kind::kGet, 40},       {Kind::kRange, 10},          {Kind::kDeleteRange, 3},
    {Kind::kSavePoint, 10}, {Kind::kBackToSavePoint, 6}, {Kind::kPopSavePoint, 5}};

/// A list leaves out some kinds altogether, so that each meets the others in all combinations: a
/// range deletion, for one, keeps a memtable from what it does without any.
class Weights {
 public:
  template <std::size_t kCount>
  Weights(const Weight (&all)[kCount], std::uint64_t left_out)
      : all_(std::begin(all), std::end(all)) {
    std::erase_if(
        all_, [&](const Weight& one) { return (left_out >> static_cast<int>(one.kind) & 1) != 0; });
    for (const Weight& one : all_) sum_ += one.weight;
  }
  [[nodiscard]] Kind draw(base::Random* random) const {
    std::uint64_t at = random->below(sum_);
    for (const Weight& one : all_) {
      if (at < one.weight) return one.kind;
      at -= one.weight;
    }
    return Kind::kPut;
  }

 private:
  std::vector<Weight> all_;
  std::uint64_t sum_ = 0;
};

std::uint64_t draw_left_out(base::Random* random) {
  std::uint64_t left_out = 0;
  for (const Kind kind :
       {Kind::kDelete, Kind::kSingleDelete, Kind::kMerge, Kind::kDeleteRange, Kind::kRange,
        Kind::kRead, Kind::kSnapshot, Kind::kIterator, Kind::kCreate, Kind::kFlush, Kind::kCompact,
        Kind::kBegin, Kind::kIndexed}) {
    if (random->one_in(4)) left_out |= std::uint64_t{1} << static_cast<int>(kind);
  }
  // Transactions of a database and tailing iterators do without.
  if (random->one_in(2)) left_out |= std::uint64_t{1} << static_cast<int>(Kind::kDeleteRange);
  return left_out;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed)
      : random_(seed), left_out_(draw_left_out(&random_)), ops_(kOps, left_out_) {
    large_ = random_.one_in(200);
    list_.seed = seed;
    list_.api = random_.one_in(3) ? Api::kOptimistic : Api::kStore;
    if (list_.api != Api::kStore && random_.one_in(2)) list_.api = Api::kLocking;
    list_.keys =
        static_cast<std::uint32_t>(large_ && random_.one_in(2) ? 5000 : 5 + random_.below(90));
    universe_ = universe_of(list_);
    const auto sets = static_cast<std::uint64_t>(option_sets().size());
    const std::uint64_t first = random_.below(sets);
    const std::uint64_t second = (first + 1 + random_.below(sets - 1)) % sets;
    list_.sets = {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)};
  }

  List make() {
    const std::uint64_t count = 22 + random_.below(69);
    while (list_.ops.size() < count) {
      list_.ops.push_back(make_op(ops_.draw(&random_)));
      note_transaction(list_.ops.back());
      make_iterator_busy();
      make_transaction_busy();
    }
    if (large_) list_.ops[random_.below(count)] = make_batch(kBatchMax);
    for (std::uint32_t transaction = 0; transaction < kTransactions; ++transaction) {
      list_.ops.push_back({.kind = Kind::kCommit, .transaction = transaction});
    }
    for (std::uint32_t family = 0; family < kFamilies; ++family) {
      Op scan{.kind = Kind::kScan, .variant = random_.one_in(3), .family = family};
      list_.ops.push_back(scan);
    }
    make_legal(&list_);
    for (Op& op : list_.ops) {
      // What was not legal in a large batch gives way to lookups.
      while (op.parts.size() > kBatchMax / 8 && op.parts.size() < kBatchMax) {
        op.parts.push_back(make_request(Kind::kGet, 0, false));
      }
    }
    return std::move(list_);
  }

 private:
  std::uint32_t below(std::uint64_t bound) {
    return static_cast<std::uint32_t>(random_.below(bound));
  }
  std::uint32_t draw_key() { return universe_.pick(&random_); }
  std::uint32_t draw_family() { return random_.one_in(2) ? 0 : below(kFamilies); }
  std::uint32_t draw_snapshot() { return random_.one_in(3) ? below(kSnapshots) : kNone; }

  Durability draw_durability() {
    const std::uint64_t dice = random_.below(8);
    return dice == 0 ? Durability::kNone : dice == 1 ? Durability::kSync : Durability::kDefault;
  }

  /// As model::make_value; families of numbers mostly get numbers.
  Value draw_value(std::uint32_t family, bool only_numbers) {
    const bool number = family == 1 || family == 2 || (family >= 4 && family <= 6);
    if (only_numbers || (number && !random_.one_in(16))) {
      return {8, random_.one_in(4) ? random_.next() : random_.below(1000)};
    }
    Value value{below(48), random_.next()};
    if (random_.one_in(50)) value.bytes = below(2000);
    if (random_.one_in(3000)) value.bytes = below((100 << 10) + 1);
    return value;
  }

  Op make_request(Kind kind, std::uint32_t family, bool only_numbers) {
    Op op{.kind = kind, .family = family, .key = draw_key()};
    // The keys for single deletions get them, and the others do not.
    if (kind == Kind::kSingleDelete) {
      op.key = std::min(op.key / 5 * 5 + 4, (list_.keys / 5 * 5) - 1);
    } else if ((kind == Kind::kDelete || kind == Kind::kMerge) && is_single_key(op.key)) {
      --op.key;
    }
    if (kind == Kind::kPut || kind == Kind::kMerge) op.value = draw_value(family, only_numbers);
    if (kind == Kind::kRange || kind == Kind::kDeleteRange) {
      op.end = draw_key();
      if (universe_.keys[op.end] < universe_.keys[op.key] &&
          !(kind == Kind::kRange && random_.one_in(8))) {
        std::swap(op.key, op.end);
      }
    }
    if (kind == Kind::kRange) {
      op.number = random_.one_in(8) ? below(3) : random_.one_in(8) ? 5000 : 1 + below(20);
    }
    return op;
  }

  std::uint64_t draw_size() {
    constexpr std::uint64_t kEdges[] = {1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129};
    const std::uint64_t dice = random_.below(40);
    if (dice == 0) return 200 + random_.below(1500);
    if (dice < 16) return kEdges[random_.below(std::size(kEdges))];
    return 1 + random_.below(12);
  }

  Op make_batch(std::uint64_t size) {
    Op op{.kind = Kind::kBatch, .variant = random_.one_in(6), .durability = draw_durability()};
    // Batches of one family, of numbers alone and of ranges alone take roads of their own.
    const bool one_family = random_.one_in(2);
    const std::uint32_t family = draw_family();
    const bool only_numbers = random_.one_in(2);
    const bool only_ranges = random_.one_in(10);
    if (size < 200 && random_.one_in(12)) op.number = 1;
    const bool range_deletes = !only_numbers && size < 1000;
    const Weights weights(
        kParts,
        left_out_ | (range_deletes ? 0 : std::uint64_t{1} << static_cast<int>(Kind::kDeleteRange)));
    for (std::uint64_t i = 0; i < size; ++i) {
      const Kind kind = only_ranges ? Kind::kRange : weights.draw(&random_);
      op.parts.push_back(make_request(kind, one_family ? family : draw_family(), only_numbers));
    }
    return op;
  }

  Op make_reads(Kind kind) {
    Op op{.kind = kind};
    const std::uint64_t size = draw_size();
    const std::uint32_t family = draw_family();
    const bool one_family = random_.one_in(2);
    if (kind == Kind::kRead) op.snapshot = draw_snapshot();
    for (std::uint64_t i = 0; i < size; ++i) {
      if (kind == Kind::kMultiGet) {
        op.parts.push_back(make_request(Kind::kGet, 0, false));
      } else {
        op.parts.push_back(make_request(random_.one_in(3) ? Kind::kRange : Kind::kGet,
                                        one_family ? family : draw_family(), false));
      }
    }
    return op;
  }

  /// Requests for a transaction or a WriteBatchWithIndex, on the hot keys of one family mostly, so
  /// that transactions meet each other and what others write.
  Op make_within(Kind kind) {
    Op op{.kind = kind};
    if (kind == Kind::kIndexed) {
      op.variant = random_.one_in(6);
      op.durability = draw_durability();
    }
    const Weights weights(kPartsWithin, left_out_);
    const std::uint32_t family = random_.one_in(2) ? 0 : below(kFixedFamilies);
    const std::uint64_t size = random_.one_in(8) ? draw_size() : 1 + random_.below(4);
    for (std::uint64_t i = 0; i < size; ++i) {
      const Kind drawn = weights.draw(&random_);
      if (is_save_point(drawn)) {
        op.parts.push_back({.kind = drawn});
        continue;
      }
      op.parts.push_back(
          make_request(drawn, random_.one_in(6) ? below(kFixedFamilies) : family, false));
      Op& part = op.parts.back();
      if (drawn == Kind::kPut && is_single_key(part.key)) --part.key;
      if (drawn != Kind::kGet && drawn != Kind::kRange) continue;
      part.variant = random_.one_in(2);
      if (drawn == Kind::kGet && random_.one_in(3)) part.number = 1;
    }
    return op;
  }

  Op make_op(Kind kind) {
    if (kind == Kind::kBatch) return make_batch(draw_size());
    if (kind == Kind::kIndexed) return make_within(kind);
    if (kind >= Kind::kBegin && kind <= Kind::kRollback) return make_transaction_op(kind);
    if (has_parts(kind)) return make_reads(kind);
    if (is_request(kind)) {
      Op op = make_request(kind, draw_family(), false);
      if (is_write(kind)) op.durability = draw_durability();
      if (kind == Kind::kGet || kind == Kind::kRange) op.snapshot = draw_snapshot();
      return op;
    }
    Op op{.kind = kind};
    switch (kind) {
      case Kind::kSnapshot:
      case Kind::kRelease:
        op.snapshot = below(kSnapshots);
        break;
      case Kind::kIterator:
        op.iterator = below(kIterators);
        op.family = draw_family();
        op.snapshot = draw_snapshot();
        if (random_.one_in(3)) op.key = draw_key();
        if (random_.one_in(3)) op.end = draw_key();
        if (random_.one_in(2)) set_mode(&op);
        break;
      case Kind::kScan:
        op.family = draw_family();
        op.snapshot = draw_snapshot();
        op.variant = random_.one_in(2);
        break;
      case Kind::kCreate:
      case Kind::kDrop:
        op.family = kFixedFamilies + below(kFamilies - kFixedFamilies);
        op.variant = kind == Kind::kDrop && random_.one_in(2);
        break;
      case Kind::kReopen:
      case Kind::kCrash:
      case Kind::kPlain:
        op.number = below(option_sets().size());
        op.variant = kind != Kind::kPlain && random_.one_in(2);
        break;
      default:
        if (kind >= Kind::kSeek && kind <= Kind::kClose) fill_move(&op);
        break;
    }
    return op;
  }

  void set_mode(Op* op) {
    op->number = below(kModes);
    if (op->number != kTailing) return;
    op->family %= kFixedFamilies;
    op->snapshot = kNone;
  }

  void fill_move(Op* op) {
    op->iterator = below(kIterators);
    if (op->kind == Kind::kSeek || op->kind == Kind::kSeekForPrev) op->key = draw_key();
    if (op->kind == Kind::kNext || op->kind == Kind::kPrev) {
      op->number = 1 + below(random_.one_in(4) ? 12 : 3);
    }
  }

  /// An iterator that was just opened mostly goes somewhere.
  void make_iterator_busy() {
    const Op& last = list_.ops.back();
    if (last.kind != Kind::kIterator || random_.one_in(4)) return;
    constexpr Kind kMoves[] = {Kind::kSeek, Kind::kSeekForPrev, Kind::kSeekToFirst,
                               Kind::kSeekToLast};
    Op move{.kind = kMoves[random_.below(4)]};
    const std::uint32_t iterator = last.iterator;
    fill_move(&move);
    move.iterator = iterator;
    list_.ops.push_back(move);
  }

  /// Of a transaction that is open; where none is, one is opened.
  Op make_transaction_op(Kind kind) {
    std::uint32_t transaction = below(kTransactions);
    if (begun_[transaction] == (kind == Kind::kBegin))
      transaction = kTransactions - 1 - transaction;
    Op op{.kind = begun_[transaction] ? kind : Kind::kBegin};
    if (op.kind == Kind::kWithin) op = make_within(kind);
    if (op.kind == Kind::kBegin) {
      op.variant = random_.one_in(2);
      op.durability = draw_durability();
    }
    op.transaction = transaction;
    return op;
  }

  void note_transaction(const Op& op) {
    if (ends_readers(op.kind)) begun_.fill(false);
    if (op.kind == Kind::kBegin) begun_[op.transaction] = true;
    if (op.kind == Kind::kCommit || op.kind == Kind::kRollback) begun_[op.transaction] = false;
  }

  /// A transaction that was just opened mostly does something.
  void make_transaction_busy() {
    const Op& last = list_.ops.back();
    if (last.kind != Kind::kBegin || random_.one_in(4)) return;
    const std::uint32_t transaction = last.transaction;
    Op within = make_within(Kind::kWithin);
    within.transaction = transaction;
    const std::uint32_t family = within.parts[0].family;
    list_.ops.push_back(std::move(within));
    // Few lists would have a conflict with a range deletion alone.
    const bool range_deletes = (left_out_ >> static_cast<int>(Kind::kDeleteRange) & 1) == 0;
    if (!range_deletes || family == kNone || !random_.one_in(4)) return;
    list_.ops.push_back(make_request(Kind::kDeleteRange, family, false));
  }

  base::Random random_;
  const std::uint64_t left_out_;
  const Weights ops_;
  bool large_ = false;
  std::array<bool, kTransactions> begun_{};
  List list_;
  model::Universe universe_;
};

}  // namespace

std::string make_value(const Value& value) {
  std::string text(value.bytes, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(value.fill >> (i % 8 * 8));
  }
  return text;
}

model::Universe universe_of(const List& list) {
  return model::make_universe(list.seed, list.keys, "");
}

List make_list(std::uint64_t seed) { return Generator(seed).make(); }

}  // namespace breccia::metamorphic
