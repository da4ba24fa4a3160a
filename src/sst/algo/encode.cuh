#pragma once

#include <cstdint>

#include "base/result.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "runs/algo/run_steps.cuh"
#include "sst/algo/entries.cuh"
#include "sst/algo/xxh3.cuh"
#include "sst/format.h"
#include "sst/table_shape.h"

/// Entries become data blocks. All entries at once:
///
///  1. what each shares with the one before, and so its bytes if no restart stands there;
///  2. where blocks begin: sums of those bytes are cut into windows of a block's size, so that no
///     cut hangs on the one before; RocksDB's own cuts, one after the other, if they are asked for;
///  3. its bytes now that restarts are known; sums of them are places in the output;
///  4. one group an entry writes it, its restart, and the end of a block that it is the last of;
///  5. one group a block writes its checksum, and adds up what a table says of it.
///
/// Source  [glsm] section 4.4. Deviations: blocks are cut between any two entries, as with groups
///         of 16 a block of large values has many times the size that was asked for; a restart
///         stands every `restarts` entries of a block, so readers find nothing unusual.

namespace breccia::sst::algo {

/// Lanes that write an entry on a device.
inline constexpr int kWriteLanes = 8;

/// Entries that are written, in key order.
/// Shape   id[count], tag[count]: which entry of `entries`, and its tag from now on.
struct SurvivorsRef {
  EntriesRef entries;
  const std::uint32_t* id = nullptr;
  const std::uint64_t* tag = nullptr;
  std::uint64_t count = 0;

  BRECCIA_HD std::uint64_t key_bytes(std::uint64_t k) const {
    return entries.keys.bytes_at(id[k]) + kTagBytes;
  }
  BRECCIA_HD std::uint32_t value_bytes(std::uint64_t k) const { return entries.value_bytes[id[k]]; }
  /// Bytes of entry k if it shares that much with the one before.
  BRECCIA_HD std::uint64_t bytes(std::uint64_t k, std::uint32_t shared) const {
    const auto own = static_cast<std::uint32_t>(key_bytes(k) - shared);
    const std::uint32_t value = value_bytes(k);
    return std::uint64_t{varint_bytes(shared)} + varint_bytes(own) + varint_bytes(value) + own +
           value;
  }
};

/// Where a block begins among the entries, as bits.
enum Cut : std::uint8_t { kNoCut = 0, kBlockCut = 1, kFileCut = 2 };

/// What is said of a data block.
struct BlockInfo {
  std::uint64_t offset = 0;       // in the output
  std::uint64_t first_entry = 0;  // among the survivors
  std::uint32_t bytes = 0;        // of its contents; a trailer is behind them
  std::uint32_t entries = 0;
  std::uint32_t deletions = 0;
  std::uint32_t filter_entries = 0;  // keys whose hash is not that of the key before
  std::uint64_t key_bytes = 0;       // with tags
  std::uint64_t value_bytes = 0;
  std::uint64_t smallest_sequence = 0;
  std::uint64_t largest_sequence = 0;
  std::uint32_t begins_file = 0;
  std::uint32_t merge_operands = 0;
};

/// A key at an end of a block, with its tag, if it is short; others stand in the block alone.
struct EndKey {
  static constexpr std::uint64_t kWords = 5;

  std::uint64_t bytes = 0;          // 0: it is longer
  std::uint64_t word[kWords] = {};  // its bytes as they lie in memory, and zeros

  BRECCIA_HD static EndKey of(const SurvivorsRef& survivors, std::uint64_t k) {
    EndKey key;
    const std::uint64_t bytes = survivors.key_bytes(k);
    if (bytes > sizeof key.word) return key;
    key.bytes = bytes;
    for (std::uint64_t w = 0; w < kWords; ++w) {
      key.word[w] =
          swap_word(internal_word(survivors.entries.keys, survivors.id[k], survivors.tag[k], w));
    }
    return key;
  }
};

/// A data block that was encoded.
struct EncodedBlock {
  BlockInfo info;
  EndKey first;
  EndKey last;
};

/// shared[k], bytes[k]: as if entry k stood in one block with the one before.
struct MeasureEntries {
  SurvivorsRef survivors;
  std::uint32_t* shared;
  std::uint64_t* bytes;
  std::uint64_t* hash;  // of user keys; null: no filter

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, survivors.count, [&](std::uint64_t k) {
      const record::KeyColumnsRef& keys = survivors.entries.keys;
      shared[k] = k == 0 ? 0
                         : shared_bytes(keys, survivors.id[k - 1], survivors.tag[k - 1],
                                        survivors.id[k], survivors.tag[k]);
      bytes[k] = survivors.bytes(k, shared[k]);
      if (hash != nullptr) hash[k] = xxh3::hash_key(keys, survivors.id[k]);
    });
  }
};

/// cut[k], is_cut[k]: whether sum[k] lies in another window of `window` bytes than the one before.
struct CutWindows {
  std::uint64_t count;
  std::uint64_t window;
  const std::uint64_t* sum;
  std::uint8_t* cut;
  std::uint64_t* is_cut;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      const bool cuts = k == 0 || sum[k] / window != sum[k - 1] / window;
      cut[k] = cuts ? kBlockCut : kNoCut;
      is_cut[k] = cuts ? 1 : 0;
    });
  }
};

/// What RocksDB's writer of tables knows while it goes from entry to entry, for its cuts.
/// Source  RocksDB 7.8: flush block policy by size, block builder's estimates.
struct StockCutter {
  std::uint64_t block_bytes;
  std::uint64_t full_bytes;  // from there on a block may be full
  std::uint64_t file_bytes;
  std::uint32_t restarts;

  std::uint64_t estimate = 8;
  std::uint64_t flushed = 0;  // bytes of the file's blocks that are behind
  std::uint32_t since_restart = 0;
  bool is_empty = true;

  BRECCIA_HD std::uint8_t next(std::uint64_t key_bytes, std::uint32_t value_bytes) {
    std::uint8_t cut = kNoCut;
    if (flushed >= file_bytes && !is_empty) {
      cut = kBlockCut | kFileCut;
      flushed = 0;
      begin_block();
    } else if (!is_empty && is_full(key_bytes, value_bytes)) {
      cut = kBlockCut;
      flushed += estimate + kTrailerBytes;
      begin_block();
    } else if (is_empty) {
      cut = kBlockCut;
    }
    return cut;
  }
  /// Whether the next entry of the block stands at a restart.
  BRECCIA_HD bool restarts_next() const { return is_empty || since_restart >= restarts; }
  BRECCIA_HD void add(std::uint64_t bytes) {
    if (!is_empty && since_restart >= restarts) {
      estimate += 4;
      since_restart = 0;
    }
    estimate += bytes;
    ++since_restart;
    is_empty = false;
  }

 private:
  BRECCIA_HD void begin_block() {
    estimate = 8;
    since_restart = 0;
    is_empty = true;
  }
  BRECCIA_HD bool is_full(std::uint64_t key_bytes, std::uint32_t value_bytes) const {
    if (estimate >= block_bytes) return true;
    std::uint64_t after = estimate + key_bytes + value_bytes + 4 +
                          varint_bytes(static_cast<std::uint32_t>(key_bytes)) +
                          varint_bytes(value_bytes);
    if (since_restart >= restarts) after += 4;
    return after > block_bytes && estimate > full_bytes;
  }
};

/// The same as CutWindows, as RocksDB cuts: by one lane.
struct CutAsStock {
  SurvivorsRef survivors;
  StockCutter cutter;
  const std::uint32_t* shared;
  std::uint8_t* cut;
  std::uint64_t* is_cut;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t) const {
    group.from(0, [&](int) {
      StockCutter at = cutter;
      for (std::uint64_t k = 0; k < survivors.count; ++k) {
        cut[k] = at.next(survivors.key_bytes(k), survivors.value_bytes(k));
        is_cut[k] = cut[k] == kNoCut ? 0 : 1;
        at.add(survivors.bytes(k, at.restarts_next() ? 0 : shared[k]));
      }
      return true;
    });
  }
};

/// Entries in blocks.
/// Shape   cut[entries], cuts_before[entries]: how many entries before each begin a block;
///         first_entry[blocks].
struct LayoutRef {
  const std::uint8_t* cut = nullptr;
  const std::uint64_t* cuts_before = nullptr;
  const std::uint32_t* first_entry = nullptr;  // of each block
  std::uint64_t blocks = 0;
  std::uint64_t entries = 0;
  std::uint32_t restarts = 0;

  BRECCIA_HD std::uint64_t block_of(std::uint64_t k) const {
    return cuts_before[k] + (cut[k] != kNoCut ? 1 : 0) - 1;
  }
  BRECCIA_HD std::uint64_t begin_of(std::uint64_t b) const { return first_entry[b]; }
  BRECCIA_HD std::uint64_t end_of(std::uint64_t b) const {
    return b + 1 < blocks ? first_entry[b + 1] : entries;
  }
  BRECCIA_HD std::uint64_t restarts_of(std::uint64_t b) const {
    return (end_of(b) - begin_of(b) + restarts - 1) / restarts;
  }
  /// What is behind a block's entries, its trailer included.
  BRECCIA_HD std::uint64_t end_bytes(std::uint64_t b) const {
    return 4 * restarts_of(b) + 4 + kTrailerBytes;
  }
};

/// Sets shared[k] to 0 at restarts; bytes[k]: of entry k and, of a block's last one, of its end.
struct PlaceEntries {
  SurvivorsRef survivors;
  LayoutRef layout;
  std::uint32_t* shared;
  std::uint64_t* bytes;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, survivors.count, [&](std::uint64_t k) {
      const std::uint64_t b = layout.block_of(k);
      if ((k - layout.begin_of(b)) % layout.restarts == 0) shared[k] = 0;
      bytes[k] =
          survivors.bytes(k, shared[k]) + (k + 1 == layout.end_of(b) ? layout.end_bytes(b) : 0);
    });
  }
};

/// Writes entries, restarts, and ends of blocks but for their checksums.
/// Shape   W lanes an entry.
template <int W>
struct WriteEntries {
  SurvivorsRef survivors;
  LayoutRef layout;
  const std::uint32_t* shared;
  const std::uint64_t* offset;  // of each entry
  std::uint64_t total;          // behind the last block
  char* out;

  BRECCIA_HD std::uint64_t end_of_block(std::uint64_t b) const {
    return b + 1 < layout.blocks ? offset[layout.end_of(b)] : total;
  }

  /// Writes bytes [from, end) of the internal key.
  BRECCIA_HD void write_key(std::uint64_t k, std::uint64_t from, char* to) const {
    const record::KeyColumnsRef& keys = survivors.entries.keys;
    const std::uint64_t end = survivors.key_bytes(k);
    for (std::uint64_t w = from / 8; 8 * w < end; ++w) {
      const std::uint64_t skipped = 8 * w < from ? from - 8 * w : 0;
      const std::uint64_t have = end - 8 * w < 8 ? end - 8 * w : 8;
      const std::uint64_t word =
          swap_word(internal_word(keys, survivors.id[k], survivors.tag[k], w));
      store_bytes(to, word >> 8 * skipped, have - skipped);
      to += have - skipped;
    }
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t k = first / W;
    const std::uint64_t b = layout.block_of(k);
    const auto own = static_cast<std::uint32_t>(survivors.key_bytes(k) - shared[k]);
    const std::uint32_t value_bytes = survivors.value_bytes(k);
    char* const to = out + offset[k];
    const std::uint32_t lengths =
        varint_bytes(shared[k]) + varint_bytes(own) + varint_bytes(value_bytes);
    group.from(0, [&](int) {
      char* const key = store_varint(store_varint(store_varint(to, shared[k]), own), value_bytes);
      write_key(k, shared[k], key);
      const std::uint64_t in_block = k - layout.begin_of(b);
      if (in_block % layout.restarts == 0) {
        const std::uint64_t place =
            end_of_block(b) - layout.end_bytes(b) + 4 * (in_block / layout.restarts);
        store_bytes(out + place, offset[k] - offset[layout.begin_of(b)], 4);
      }
      if (k + 1 == layout.end_of(b)) {
        char* const end = out + end_of_block(b);
        if (b + 1 == layout.blocks) store_zeros(end, kPadBytes);
        store_bytes(end - kTrailerBytes - 4, layout.restarts_of(b), 4);
        store_bytes(end - kTrailerBytes, 0, kTrailerBytes);
      }
      return true;
    });
    copy_bytes(group, to + lengths + own, survivors.entries.value[survivors.id[k]], value_bytes);
  }
};

/// Says what is in each block and at its ends and, if `has_checksums`, writes its checksum. All
/// other bytes of it were written by a launch before: lanes read what others wrote.
struct FinishBlocks {
  SurvivorsRef survivors;
  LayoutRef layout;
  const std::uint64_t* offset;
  const std::uint64_t* hash;  // null: no filter
  std::uint64_t total;
  bool has_checksums;
  char* out;
  EncodedBlock* block;

  BRECCIA_HD BlockInfo sums_of(std::uint64_t b) const {
    BlockInfo sums;
    sums.offset = offset[layout.begin_of(b)];
    sums.first_entry = layout.begin_of(b);
    sums.entries = static_cast<std::uint32_t>(layout.end_of(b) - layout.begin_of(b));
    const std::uint64_t end = b + 1 < layout.blocks ? offset[layout.end_of(b)] : total;
    sums.bytes = static_cast<std::uint32_t>(end - sums.offset - kTrailerBytes);
    sums.smallest_sequence = ~std::uint64_t{0};
    sums.begins_file = b == 0 || (layout.cut[sums.first_entry] & kFileCut) != 0 ? 1 : 0;
    for (std::uint64_t k = layout.begin_of(b); k < layout.end_of(b); ++k) {
      const std::uint64_t sequence = survivors.tag[k] >> 8;
      const auto type = static_cast<EntryType>(survivors.tag[k] & 0xFF);
      sums.deletions += type == EntryType::kDeletion ? 1 : 0;
      sums.merge_operands += type == EntryType::kMerge ? 1 : 0;
      sums.key_bytes += survivors.key_bytes(k);
      sums.value_bytes += survivors.value_bytes(k);
      if (sequence < sums.smallest_sequence) sums.smallest_sequence = sequence;
      if (sequence > sums.largest_sequence) sums.largest_sequence = sequence;
      const bool begins_file = k == sums.first_entry && sums.begins_file != 0;
      if (hash != nullptr && (begins_file || hash[k] != hash[k - 1])) ++sums.filter_entries;
    }
    return sums;
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t b = first / Group::kWidth;
    const std::uint64_t bytes = group.from(0, [&](int) {
      const BlockInfo sums = sums_of(b);
      block[b] = {sums, EndKey::of(survivors, layout.begin_of(b)),
                  EndKey::of(survivors, layout.end_of(b) - 1)};
      return std::uint64_t{sums.bytes};
    });
    if (!has_checksums) return;
    char* const contents = out + offset[layout.begin_of(b)];
    const std::uint64_t sum = xxh3::hash_block(group, contents, bytes);
    group.from(0, [&](int) {
      store_bytes(contents + bytes + 1, sum, 4);
      return true;
    });
  }
};

/// Data blocks in an executor's memory.
/// Shape   bytes: blocks with their trailers; kPadBytes zeros behind them.
struct Blocks {
  exec::Array<char> bytes;
  exec::Array<EncodedBlock> blocks;
  exec::Array<std::uint64_t> hash;  // of each entry's user key; none without a filter
};

/// Encodes entries.
/// Owner   what run() gives may be used by work behind it; the encoder lives until that is done.
/// Errors  MemoryLimit.
/// Cost    6 launches, 3 scans, a selection and 4 waits.
template <class X>
class Encoder {
 public:
  Encoder(X& x, const SurvivorsRef& survivors, const TableShape& shape)
      : x_(x), survivors_(survivors), shape_(shape) {}

  /// `stock_file_bytes`: as RocksDB cuts, files of about that size; 0: in parallel, one file.
  Status run(std::uint64_t stock_file_bytes, Blocks* blocks) {
    BRECCIA_ASSERT(survivors_.count > 0 && shape_.restarts > 0 && shape_.block_bytes > 0);
    BRECCIA_TRY(measure(shape_.filter_millibits > 0, blocks));
    BRECCIA_TRY(cut(stock_file_bytes));
    BRECCIA_TRY(place());
    return write(blocks);
  }

 private:
  template <class T>
  Status make(exec::Array<T>* array, std::uint64_t count) {
    BRECCIA_TAKE(*array, exec::make_array<T>(x_, count));
    return Status::OK();
  }

  Status measure(bool has_filter, Blocks* blocks) {
    const std::uint64_t n = survivors_.count;
    BRECCIA_TRY(make(&shared_, n));
    BRECCIA_TRY(make(&bytes_, n));
    BRECCIA_TRY(make(&sum_, n));
    BRECCIA_TRY(make(&blocks->hash, has_filter ? n : 0));
    return x_.template launch<1>(n, MeasureEntries{survivors_, shared_.data(), bytes_.data(),
                                                   has_filter ? blocks->hash.data() : nullptr});
  }

  Status cut(std::uint64_t stock_file_bytes) {
    const std::uint64_t n = survivors_.count;
    BRECCIA_TRY(make(&cut_, n));
    BRECCIA_TRY(make(&cuts_before_, n));
    exec::Array<std::uint64_t> is_cut;
    BRECCIA_TRY(make(&is_cut, n));
    if (stock_file_bytes > 0) {
      const StockCutter cutter{
          shape_.block_bytes,
          shape_.block_deviation == 0
              ? ~std::uint64_t{0}
              : (shape_.block_bytes * (100 - shape_.block_deviation) + 99) / 100,
          stock_file_bytes, shape_.restarts};
      BRECCIA_TRY(x_.template launch<1>(
          1, CutAsStock{survivors_, cutter, shared_.data(), cut_.data(), is_cut.data()}));
    } else {
      std::uint64_t all = 0;
      BRECCIA_TRY(x_.exclusive_scan(bytes_.data(), sum_.data(), n, &all));
      // What restarts add is not in the sums.
      const std::uint64_t window = shape_.block_bytes - shape_.block_bytes / 16;
      BRECCIA_TRY(
          x_.template launch<1>(n, CutWindows{n, window, sum_.data(), cut_.data(), is_cut.data()}));
    }
    std::uint64_t count = 0;
    BRECCIA_TRY(x_.exclusive_scan(is_cut.data(), cuts_before_.data(), n, &count));
    exec::Array<std::uint32_t> places;
    BRECCIA_TRY(make(&places, n));
    BRECCIA_TRY(make(&first_entry_, n));
    BRECCIA_TRY(x_.template launch<1>(n, runs::algo::Iota{0, n, places.data()}));
    BRECCIA_TRY(x_.select(places.data(), cut_.data(), n, first_entry_.data(), &block_count_));
    BRECCIA_ASSERT(block_count_ == count);
    return Status::OK();
  }

  Status place() {
    BRECCIA_TRY(x_.template launch<1>(
        survivors_.count, PlaceEntries{survivors_, layout(), shared_.data(), bytes_.data()}));
    return x_.exclusive_scan(bytes_.data(), sum_.data(), survivors_.count, &total_);
  }

  Status write(Blocks* blocks) {
    constexpr int kLanes = X::kIsHost ? 1 : kWriteLanes;
    BRECCIA_TRY(make(&blocks->bytes, total_ + kPadBytes));
    BRECCIA_TRY(make(&blocks->blocks, block_count_));
    BRECCIA_TRY(x_.template launch<kLanes>(
        survivors_.count * kLanes,
        WriteEntries<kLanes>{survivors_, layout(), shared_.data(), sum_.data(), total_,
                             blocks->bytes.data()}));
    return x_.template launch<xxh3::kLanes>(
        block_count_ * xxh3::kLanes,
        FinishBlocks{survivors_, layout(), sum_.data(), blocks->hash.data(), total_,
                     has_checksums(), blocks->bytes.data(), blocks->blocks.data()});
  }

  /// Others, and those of compressed blocks, are the host's work.
  [[nodiscard]] bool has_checksums() const {
    return shape_.checksum == ChecksumType::kXxh3 && shape_.compression == Compression::kNone;
  }
  [[nodiscard]] LayoutRef layout() const {
    return {cut_.data(),  cuts_before_.data(), first_entry_.data(),
            block_count_, survivors_.count,    shape_.restarts};
  }

  X& x_;
  const SurvivorsRef survivors_;
  const TableShape& shape_;
  exec::Array<std::uint32_t> shared_, first_entry_;
  exec::Array<std::uint64_t> bytes_, sum_, cuts_before_;
  exec::Array<std::uint8_t> cut_;
  std::uint64_t block_count_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace breccia::sst::algo
