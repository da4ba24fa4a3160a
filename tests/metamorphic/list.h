#pragma once

#include <breccia/options.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/keys.h"

/// Operation lists as data: made from a seed, printed and read back one operation a line, run on
/// RocksDB and on a Store or the facade, cut down to what fails.

namespace breccia::metamorphic {

/// Families by number. 0 is the default one; the first three are always there.
inline constexpr std::uint32_t kFamilies = 8;
inline constexpr std::uint32_t kFixedFamilies = 3;
inline constexpr std::uint32_t kSnapshots = 3;
inline constexpr std::uint32_t kIterators = 4;
inline constexpr std::uint32_t kTransactions = 2;

/// Every fifth key of a universe is for SingleDelete: it is put at most once before each.
[[nodiscard]] constexpr bool is_single_key(std::uint32_t key) { return key % 5 == 4; }

enum class Kind : std::uint8_t {
  // Requests, alone or parts of a batch.
  kPut,
  kDelete,
  kSingleDelete,
  kMerge,
  kDeleteRange,
  kGet,
  kRange,
  // Several requests.
  kBatch,     // of anything; variant, on a Store: asynchronously; on the facade writes come first,
              // but with optimistic transactions, variant: Rocks::Submit
  kMultiGet,  // of lookups in the default family
  kRead,      // of lookups and ranges, at a snapshot or now
  kIndexed,   // of a WriteBatchWithIndex; variant: thrown away. On the facade
  // Transactions, all over the families that are always there.
  kBegin,   // variant, on the facade: with a snapshot
  kWithin,  // of requests, in the transaction
  kCommit,
  kRollback,
  // Parts of kIndexed, and of kWithin on the facade.
  kSavePoint,
  kBackToSavePoint,
  kPopSavePoint,
  // Snapshots and iterators.
  kSnapshot,
  kRelease,
  kIterator,
  kSeek,
  kSeekForPrev,
  kSeekToFirst,
  kSeekToLast,
  kNext,
  kPrev,
  kRefresh,
  kClose,
  kScan,  // variant: backwards
  // The store as a whole.
  kCreate,
  kDrop,  // variant: as if somebody held the family's handle
  kFlush,
  kCompact,
  kSync,
  kReopen,  // variant: flushed first
  kCrash,   // variant: a copy of the folder is opened
  kPlain,   // flushed, closed, opened and scanned by RocksDB alone
};
inline constexpr int kKinds = static_cast<int>(Kind::kPlain) + 1;

[[nodiscard]] constexpr bool is_write(Kind kind) { return kind <= Kind::kDeleteRange; }
[[nodiscard]] constexpr bool is_request(Kind kind) { return kind <= Kind::kRange; }
[[nodiscard]] constexpr bool has_parts(Kind kind) {
  return kind == Kind::kBatch || kind == Kind::kMultiGet || kind == Kind::kRead ||
         kind == Kind::kIndexed || kind == Kind::kWithin;
}
[[nodiscard]] constexpr bool is_save_point(Kind kind) {
  return kind == Kind::kSavePoint || kind == Kind::kBackToSavePoint || kind == Kind::kPopSavePoint;
}
/// True if snapshots, iterators and transactions end with it.
[[nodiscard]] constexpr bool ends_readers(Kind kind) {
  return kind == Kind::kReopen || kind == Kind::kCrash || kind == Kind::kPlain;
}

/// How an iterator is opened: its op's number.
enum Mode : std::uint32_t {
  kPlainMode,
  kTailing,     // of a family that is always there
  kSamePrefix,  // prefix_same_as_start
  kTotalOrder,  // total_order_seek
  kAutoPrefix,  // auto_prefix_mode
};
inline constexpr std::uint32_t kModes = kAutoPrefix + 1;

/// `bytes` bytes that repeat the eight of `fill`.
struct Value {
  std::uint32_t bytes = 0;
  std::uint64_t fill = 0;
  bool operator==(const Value&) const = default;
};
[[nodiscard]] std::string make_value(const Value& value);

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// One operation. What a kind does not need is as it is here.
struct Op {
  Kind kind = Kind::kFlush;
  bool variant = false;  // also of a transaction's lookups and ranges: see subject.h
  Durability durability = Durability::kDefault;
  std::uint32_t family = kNone;
  std::uint32_t snapshot = kNone;
  std::uint32_t iterator = kNone;
  std::uint32_t transaction = kNone;
  std::uint32_t key = kNone;  // or the begin of a range, or an iterator's lower bound
  std::uint32_t end = kNone;  // of a range, or an iterator's upper bound
  std::uint32_t number = 0;   // limit; steps; how many option sets further; mode
  Value value{};
  std::vector<Op> parts{};
  bool operator==(const Op&) const = default;
};

/// What a list is run on, beside RocksDB.
enum class Api : std::uint8_t {
  kStore,
  kOptimistic,  // the facade, as an OptimisticTransactionDB
  kLocking,     // the facade, as a TransactionDB whose locks nobody waits for
};

struct List {
  std::uint64_t seed = 0;  // of its keys
  std::uint32_t keys = 0;
  Api api = Api::kStore;
  std::vector<std::uint32_t> sets;  // option sets to begin with, one run for each
  std::vector<Op> ops;
  bool operator==(const List&) const = default;
};

/// True if the lookups of the batch see just the writes before them, as a Store's do. On the facade
/// that is a batch for Rocks::Submit, which asks for no locks.
[[nodiscard]] inline bool is_in_order(const Op& batch, Api api) {
  return api == Api::kStore || (api == Api::kOptimistic && batch.variant);
}

/// Its keys.
[[nodiscard]] model::Universe universe_of(const List& list);

/// A list of 20 to 80 operations and a last look at everything. It is legal.
[[nodiscard]] List make_list(std::uint64_t seed);

/// Takes out what has no meaning where it stands: requests of families, snapshots, iterators and
/// transactions that are not there, and what RocksDB does not define (SingleDelete of a key that
/// was not put exactly once, ranges that end before they begin) or does not have (a tailing
/// iterator or a transaction beside range deletions).
void make_legal(List* list);

[[nodiscard]] std::string print(const Op& op);
[[nodiscard]] std::string print(const List& list);
/// Errors  InvalidArgument: which line.
[[nodiscard]] Result<List> parse(const std::string& text);

}  // namespace breccia::metamorphic
