#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "exec/atomics.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "sst/algo/entries.cuh"
#include "sst/algo/xxh3.cuh"
#include "sst/checksum.h"
#include "sst/format.h"

/// Data blocks become entries. Any number of blocks at once, and of stretches from one restart to
/// the next:
///
///  1. one group a block: its checksum; its restarts, which ascend and lie in it;
///  2. one lane a stretch: its entries are walked and counted, each length is checked;
///  3. sums of what was counted say where each stretch's entries and key words go;
///  4. one lane a stretch: the entries are written. A key is what it shares with the one before,
///     which stands in the columns already, and its own bytes.
///
/// Nothing that a block says is followed before its checksum was right, and no step reads beyond a
/// block and kPadBytes.
/// Source  [glsm] section 4.2 (blocks and restarts in parallel). Deviation: checked bytes, and keys
///         as words.

namespace breccia::sst::algo {

/// Longest user key that is decoded.
inline constexpr std::uint64_t kKeyBytesMax = 64 << 10;
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

/// What was wrong with blocks, as bits.
enum Fault : std::uint32_t {
  kFaultChecksum = 1,
  kFaultBlock = 2,   // lengths and restarts that no block has
  kFaultType = 4,    // an entry that is neither a value nor a deletion
  kFaultKey = 8,     // a key longer than kKeyBytesMax
  kFaultOrder = 16,  // entries of one run out of order, or one twice
};

/// A data block, uncompressed.
struct BlockPlace {
  const char* data = nullptr;  // type byte and checksum are behind it, unless they were checked
  std::uint32_t bytes = 0;
  std::uint32_t file = 0;
};

/// What blocks of a file have in common.
struct FilePlace {
  std::uint64_t sequence = kNoSequence;  // of entries that say 0
  std::uint32_t is_checked = 0;          // by the host: checksums are not looked at
  std::uint32_t zero = 0;
};

struct BlocksRef {
  const BlockPlace* block = nullptr;
  std::uint64_t count = 0;
  const FilePlace* file = nullptr;
};

BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void note_fault(const Group& group, std::uint32_t* faults, std::uint32_t fault) {
  exec::or_acq_rel_device(group, faults, fault);
}

/// Where a block's restarts are.
struct Restarts {
  const char* array = nullptr;
  std::uint32_t count = 0;
  std::uint32_t entries_bytes = 0;  // of the entries before them

  BRECCIA_HD std::uint32_t begin(std::uint32_t i) const { return load_half(array + 4ULL * i); }
  BRECCIA_HD std::uint32_t end(std::uint32_t i) const {
    return i + 1 < count ? begin(i + 1) : entries_bytes;
  }
  /// Count 0: a block cannot end like this.
  BRECCIA_HD static Restarts of(const char* block, std::uint32_t bytes) {
    if (bytes < 4) return {};
    const std::uint32_t footer = load_half(block + bytes - 4);
    const std::uint64_t count = footer & 0x7FFFFFFF;
    std::uint64_t behind = 4;
    if ((footer >> 31) != 0) {  // a hash index: a byte for each bucket, and how many there are
      if (bytes < 6) return {};
      const std::uint32_t buckets = static_cast<unsigned char>(block[bytes - 6]) |
                                    static_cast<unsigned char>(block[bytes - 5]) << 8;
      behind += 2 + buckets;
    }
    if (count == 0 || behind + 4 * count > bytes) return {};
    const std::uint64_t entries_bytes = bytes - behind - 4 * count;
    return {block + entries_bytes, static_cast<std::uint32_t>(count),
            static_cast<std::uint32_t>(entries_bytes)};
  }
};

/// stretches[b]: how many restarts block b has; 0 if something is wrong with it.
struct CheckBlocks {
  BlocksRef blocks;
  std::uint64_t* stretches;
  std::uint32_t* faults;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool has_checksum(const Group& group, const BlockPlace& block) const {
    if (blocks.file[block.file].is_checked != 0) return true;
    const std::uint32_t type = static_cast<unsigned char>(block.data[block.bytes]);
    const std::uint32_t stored = load_half(block.data + block.bytes + 1);
    if (type != 0 || block.bytes <= 16) return false;
    return static_cast<std::uint32_t>(xxh3::hash_block(group, block.data, block.bytes)) == stored;
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t b = first / xxh3::kLanes;
    const BlockPlace block = blocks.block[b];
    const bool is_right = has_checksum(group, block);
    const Restarts restarts = is_right ? Restarts::of(block.data, block.bytes) : Restarts();
    const bool is_whole = restarts.count > 0 && ascend(group, restarts);
    group.from(0, [&](int) {
      stretches[b] = is_whole ? restarts.count : 0;
      if (!is_right) note_fault(group, faults, kFaultChecksum);
      if (is_right && !is_whole) note_fault(group, faults, kFaultBlock);
      return true;
    });
  }

 private:
  /// Whether each restart lies behind the one before, the first at 0, and before the entries' end.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool ascend(const Group& group, const Restarts& restarts) const {
    const auto is_bad = [&](int lane) {
      for (auto i = static_cast<std::uint32_t>(lane); i < restarts.count; i += Group::kWidth) {
        if (restarts.begin(i) >= restarts.end(i)) return true;
        if (i == 0 && restarts.begin(0) != 0) return true;
        if (restarts.end(i) > restarts.entries_bytes) return true;
      }
      return false;
    };
    return group.ballot(is_bad) == 0;
  }
};

/// One stretch, as its lane sees it.
struct Stretch {
  std::uint32_t block;
  std::uint32_t number;  // within the block
};

/// stretch[first_stretch[b] + i] = {b, i}
struct ListStretches {
  std::uint64_t count;
  const std::uint64_t* stretches;
  const std::uint64_t* first_stretch;
  Stretch* stretch;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t b) {
      for (std::uint64_t i = 0; i < stretches[b]; ++i) {
        stretch[first_stretch[b] + i] = {static_cast<std::uint32_t>(b),
                                         static_cast<std::uint32_t>(i)};
      }
    });
  }
};

/// An entry as it stands in a block.
struct RawEntry {
  std::uint32_t shared;
  std::uint32_t unshared;
  std::uint32_t value_bytes;
  const char* own_key;  // its unshared bytes; the value is behind them

  /// False: no entry stands there.
  BRECCIA_HD bool take(Reader* reader) {
    if (!reader->varint(&shared) || !reader->varint(&unshared) || !reader->varint(&value_bytes)) {
      return false;
    }
    own_key = reader->at;
    const std::uint64_t bytes = std::uint64_t{unshared} + value_bytes;
    if (static_cast<std::uint64_t>(reader->end - reader->at) < bytes) return false;
    reader->at += bytes;
    return true;
  }
  BRECCIA_HD std::uint64_t key_bytes() const { return std::uint64_t{shared} + unshared; }
};

BRECCIA_HD inline Reader reader_of(const BlocksRef& blocks, const Stretch& stretch) {
  const BlockPlace& block = blocks.block[stretch.block];
  const Restarts restarts = Restarts::of(block.data, block.bytes);
  return {block.data + restarts.begin(stretch.number), block.data + restarts.end(stretch.number)};
}

/// entries[s], words[s]: what stretch s has of them, words of tails; lengths[2 s] and the one
/// behind it: its shortest and its longest user key. All 0 of a stretch that is broken.
struct CountEntries {
  BlocksRef blocks;
  const Stretch* stretch;
  std::uint64_t count;
  std::uint64_t* entries;
  std::uint64_t* words;
  std::uint64_t* lengths;
  std::uint32_t* faults;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t s) {
      std::uint64_t found = 0;
      std::uint64_t tails = 0;
      std::uint64_t shortest = kKeyBytesMax;
      std::uint64_t longest = 0;
      std::uint32_t fault = 0;
      Reader reader = reader_of(blocks, stretch[s]);
      for (std::uint64_t before = 0; fault == 0 && reader.at < reader.end; ++found) {
        RawEntry entry;
        const bool is_there =
            entry.take(&reader) && entry.shared <= before && entry.key_bytes() >= kTagBytes;
        const std::uint64_t bytes = is_there ? entry.key_bytes() - kTagBytes : 0;
        if (!is_there) fault = kFaultBlock;
        if (bytes > kKeyBytesMax) fault = kFaultKey;
        before = bytes + kTagBytes;
        tails += record::tail_words(bytes);
        shortest = bytes < shortest ? bytes : shortest;
        longest = bytes > longest ? bytes : longest;
      }
      const bool is_whole = fault == 0;
      if (!is_whole) note_fault(group, faults, fault);
      entries[s] = is_whole ? found : 0;
      words[s] = is_whole ? tails : 0;
      lengths[2 * s] = is_whole ? shortest : 0;
      lengths[2 * s + 1] = is_whole ? longest : 0;
    });
  }
};

/// Writes the entries of whole stretches.
struct WriteColumns {
  BlocksRef blocks;
  const Stretch* stretch;
  std::uint64_t count;
  const std::uint64_t* first_entry;
  const std::uint64_t* first_word;
  record::KeyColumnsRef keys;  // those below, for what is written already
  std::uint64_t* head;
  std::uint64_t* meta;
  std::uint64_t* tail;
  std::uint64_t* tag;
  const char** value;
  std::uint32_t* value_bytes;
  std::uint32_t* faults;

  /// Word `w` of the internal key of `entry`, behind which `before` stands in the columns.
  BRECCIA_HD std::uint64_t word_of(const RawEntry& entry, std::uint64_t before,
                                   std::uint64_t before_tag, std::uint64_t w) const {
    const std::uint64_t begin = 8 * w;
    if (begin >= entry.shared) return swap_word(load_word(entry.own_key + begin - entry.shared));
    const std::uint64_t old = internal_word(keys, before, before_tag, w);
    const std::uint64_t kept = entry.shared - begin;
    if (kept >= 8) return old;
    return (old & first_bytes_mask(kept)) | swap_word(load_word(entry.own_key)) >> 8 * kept;
  }

  BRECCIA_HD std::uint64_t tag_of(const RawEntry& entry, std::uint64_t before,
                                  std::uint64_t before_tag) const {
    if (entry.unshared >= kTagBytes) return load_word(entry.own_key + entry.unshared - kTagBytes);
    const std::uint64_t begin = entry.key_bytes() - kTagBytes;
    const std::uint64_t bits = begin % 8 * 8;
    std::uint64_t word = word_of(entry, before, before_tag, begin / 8) << bits;
    if (bits > 0) word |= word_of(entry, before, before_tag, begin / 8 + 1) >> (64 - bits);
    return swap_word(word);
  }

  BRECCIA_HD void write_key(const RawEntry& entry, std::uint64_t before, std::uint64_t before_tag,
                            std::uint64_t i, std::uint64_t word_at) const {
    const std::uint64_t bytes = entry.key_bytes() - kTagBytes;
    const std::uint64_t words = record::tail_words(bytes);
    for (std::uint64_t w = 0; w <= words; ++w) {
      std::uint64_t word = word_of(entry, before, before_tag, w);
      if (bytes < 8 * (w + 1)) word &= first_bytes_mask(bytes - 8 * w);
      (w == 0 ? head[i] : tail[word_at + w - 1]) = word;
    }
    if (!keys.uniform()) meta[i] = word_at << record::kMetaLengthBits | bytes;
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t s) {
      const std::uint64_t sequence = blocks.file[blocks.block[stretch[s].block].file].sequence;
      std::uint64_t i = first_entry[s];
      std::uint64_t word_at = first_word[s];
      std::uint64_t before_tag = 0;
      Reader reader = reader_of(blocks, stretch[s]);
      for (; reader.at < reader.end; ++i) {
        RawEntry entry;
        if (!entry.take(&reader)) return;  // counted, so it is there
        const std::uint64_t own_tag = tag_of(entry, i - 1, before_tag);
        write_key(entry, i - 1, before_tag, i, word_at);
        word_at += record::tail_words(entry.key_bytes() - kTagBytes);
        const std::uint64_t type = own_tag & 0xFF;
        if (type > static_cast<std::uint64_t>(EntryType::kValue)) {
          note_fault(group, faults, kFaultType);
        }
        tag[i] = sequence == kNoSequence || own_tag >> 8 != 0 ? own_tag : sequence << 8 | type;
        value[i] = entry.own_key + entry.unshared;
        value_bytes[i] = entry.value_bytes;
        before_tag = own_tag;
      }
    });
  }
};

/// Entries in an executor's memory.
struct Columns {
  exec::Array<std::uint64_t> head, meta, tail, tag;
  exec::Array<const char*> value;
  exec::Array<std::uint32_t> value_bytes;
  std::uint32_t uniform_bytes = 0;

  [[nodiscard]] record::KeyColumnsRef keys() const {
    return {head.data(), meta.data(), tail.data(), head.count(), tail.count(), uniform_bytes, 0, 0};
  }
  [[nodiscard]] EntriesRef ref() const {
    return {keys(), tag.data(), value.data(), value_bytes.data()};
  }
};

/// What went wrong, as Status.
/// Errors  Corruption; NotSupported: entries that are not merged here.
inline Status status_of(std::uint32_t faults) {
  if ((faults & kFaultChecksum) != 0) return Status::Corruption("a data block's checksum is wrong");
  if ((faults & kFaultBlock) != 0) return Status::Corruption("a data block is broken");
  if ((faults & kFaultOrder) != 0) return Status::Corruption("entries are out of order");
  if ((faults & kFaultType) != 0) {
    return Status::NotSupported("entries that are neither values nor deletions");
  }
  if ((faults & kFaultKey) != 0) return Status::NotSupported("a key is too long");
  return Status::OK();
}

/// ends[r]: how many entries the runs up to r have.
/// Shape   block_end[runs]: how many blocks they have.
struct FindRunEnds {
  std::uint64_t runs;
  const std::uint64_t* block_end;
  std::uint64_t blocks;
  const std::uint64_t* first_stretch;  // of each block
  std::uint64_t stretches;
  const std::uint64_t* first_entry;  // of each stretch
  std::uint64_t entries;
  std::uint64_t* ends;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, runs, [&](std::uint64_t r) {
      const std::uint64_t s = block_end[r] < blocks ? first_stretch[block_end[r]] : stretches;
      ends[r] = s < stretches ? first_entry[s] : entries;
    });
  }
};

/// What an executor says of a slice on the way; in memory that it reaches, so that no wait is
/// spent on it alone.
struct Answers {
  std::uint64_t first_length = 0;
  std::uint32_t faults = 0;
  std::uint32_t zero = 0;
};

/// Checks and decodes data blocks.
/// Shape   ends[r]: how many entries the first r + 1 runs have, for runs of which the first ones
///         have run_blocks[r] blocks; in the executor's memory. `faults`: a word that is 0, there.
/// Owner   what run() gives may be used by work behind it; the decoder lives until that is done.
/// Errors  those of status_of; MemoryLimit.
/// Cost    five launches, three scans and four waits.
template <class X>
class Decoder {
 public:
  /// `answers`: the host's, in memory that the executor reaches at full speed.
  Decoder(X& x, const BlocksRef& blocks, std::uint32_t* faults, Answers* answers)
      : x_(x), blocks_(blocks), faults_(faults), answers_(*answers) {}

  Status run(std::span<const std::uint64_t> run_blocks, Columns* columns,
             exec::Array<std::uint64_t>* ends) {
    block_end_.reserve(run_blocks.size());  // what may throw comes before anything runs
    for (const std::uint64_t blocks : run_blocks) {
      block_end_.push_back((block_end_.empty() ? 0 : block_end_.back()) + blocks);
    }
    BRECCIA_TRY(list());
    BRECCIA_TRY(count());
    BRECCIA_TRY(write(columns));
    return find_ends(ends);
  }

 private:
  template <class T>
  Status make(exec::Array<T>* array, std::uint64_t count) {
    BRECCIA_TAKE(*array, exec::make_array<T>(x_, count));
    return Status::OK();
  }

  /// The faults up to here are known behind the next wait.
  Status ask_for_faults() { return x_.copy_out(&answers_.faults, faults_, 1); }

  Status list() {
    BRECCIA_TRY(make(&stretches_, blocks_.count));
    BRECCIA_TRY(make(&first_stretch_, blocks_.count));
    BRECCIA_TRY(x_.template launch<xxh3::kLanes>(blocks_.count * xxh3::kLanes,
                                                 CheckBlocks{blocks_, stretches_.data(), faults_}));
    BRECCIA_TRY(ask_for_faults());
    BRECCIA_TRY(x_.exclusive_scan(stretches_.data(), first_stretch_.data(), blocks_.count,
                                  &stretch_count_));
    BRECCIA_TRY(status_of(answers_.faults));
    BRECCIA_TRY(make(&stretch_, stretch_count_));
    return x_.template launch<1>(
        blocks_.count,
        ListStretches{blocks_.count, stretches_.data(), first_stretch_.data(), stretch_.data()});
  }

  Status count() {
    const std::uint64_t n = stretch_count_;
    BRECCIA_TRY(make(&entries_, n));
    BRECCIA_TRY(make(&words_, n));
    BRECCIA_TRY(make(&lengths_, 2 * n));
    BRECCIA_TRY(make(&first_entry_, n));
    BRECCIA_TRY(make(&first_word_, n));
    BRECCIA_TRY(x_.template launch<1>(n, CountEntries{blocks_, stretch_.data(), n, entries_.data(),
                                                      words_.data(), lengths_.data(), faults_}));
    BRECCIA_TRY(ask_for_faults());
    if (n > 0) BRECCIA_TRY(x_.copy_out(&answers_.first_length, lengths_.data(), 1));
    BRECCIA_TRY(x_.exclusive_scan(entries_.data(), first_entry_.data(), n, &entry_count_));
    BRECCIA_TRY(x_.exclusive_scan(words_.data(), first_word_.data(), n, &word_count_));
    std::uint64_t difference = 0;
    BRECCIA_TRY(x_.difference(lengths_.data(), 2 * n, &difference));
    BRECCIA_TRY(status_of(answers_.faults));
    uniform_bytes_ = difference == 0 ? static_cast<std::uint32_t>(answers_.first_length)
                                     : record::kVariableBytes;
    return Status::OK();
  }

  Status write(Columns* columns) {
    const std::uint64_t n = entry_count_;
    if (n > ~std::uint32_t{0}) return Status::NotSupported("too many entries at once");
    columns->uniform_bytes = uniform_bytes_;
    BRECCIA_TRY(make(&columns->head, n));
    BRECCIA_TRY(make(&columns->meta, uniform_bytes_ == record::kVariableBytes ? n : 0));
    BRECCIA_TRY(make(&columns->tail, word_count_));
    BRECCIA_TRY(make(&columns->tag, n));
    BRECCIA_TRY(make(&columns->value, n));
    BRECCIA_TRY(make(&columns->value_bytes, n));
    return x_.template launch<1>(
        stretch_count_,
        WriteColumns{blocks_, stretch_.data(), stretch_count_, first_entry_.data(),
                     first_word_.data(), columns->keys(), columns->head.data(),
                     columns->meta.data(), columns->tail.data(), columns->tag.data(),
                     columns->value.data(), columns->value_bytes.data(), faults_});
  }

  Status find_ends(exec::Array<std::uint64_t>* ends) {
    const std::uint64_t runs = block_end_.size();
    BRECCIA_TRY(make(ends, runs));
    BRECCIA_TAKE(auto there, x_.import(block_end_.data(), runs));
    block_end_there_.emplace(std::move(there));
    return x_.template launch<1>(
        runs, FindRunEnds{runs, block_end_there_->data(), blocks_.count, first_stretch_.data(),
                          stretch_count_, first_entry_.data(), entry_count_, ends->data()});
  }

  using Words =
      decltype(std::declval<X&>().import(static_cast<const std::uint64_t*>(nullptr), 0).take());

  X& x_;
  const BlocksRef blocks_;
  std::uint32_t* const faults_;
  Answers& answers_;
  std::vector<std::uint64_t> block_end_;  // of each run
  std::optional<Words> block_end_there_;
  exec::Array<std::uint64_t> stretches_, first_stretch_, entries_, words_, lengths_, first_entry_,
      first_word_;
  exec::Array<Stretch> stretch_;
  std::uint64_t stretch_count_ = 0;
  std::uint64_t entry_count_ = 0;
  std::uint64_t word_count_ = 0;
  std::uint32_t uniform_bytes_ = 0;
};

}  // namespace breccia::sst::algo
