#pragma once

#include <breccia/columns.h>
#include <breccia/family.h>
#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace breccia {

namespace batch {
class Requests;
}

/// Requests in arrival order, and after Store::Submit the results of its reads.
///
/// The writes of a batch are atomic, over all column families: one commit record covers them. Each
/// read sees every earlier write of its batch and none of the later ones.
///
/// Shape   keys to 64 KiB, values to 1 GiB, any bytes, empty allowed; up to 2^28 requests.
/// Errors  of all that add a request: InvalidArgument: key, value or batch over its limit;
///         MemoryLimit. The batch is as before.
/// Owner   the batch copies keys and values; results live until Clear, the next Submit or the end.
/// Threads one at a time; not while the batch is submitted.
class Batch {
 public:
  Batch();
  /// A batch whose memory comes from the store's backend (pinned with a GPU); see Store::NewBatch.
  explicit Batch(std::unique_ptr<batch::Requests> requests);
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;

  Status Put(const Slice& key, const Slice& value) { return Put(kDefaultFamily, key, value); }
  Status Delete(const Slice& key) { return Delete(kDefaultFamily, key); }
  /// An update: the family's merge operator combines `operand` with what the key has then.
  Status Merge(const Slice& key, const Slice& operand) {
    return Merge(kDefaultFamily, key, operand);
  }
  /// Adds a lookup. Its results are found under its place among the batch's lookups: the first
  /// Get is read 0, the next read 1, and so on.
  Status Get(const Slice& key) { return Get(kDefaultFamily, key); }
  /// Adds a range request: the first `limit` entries with keys from `begin` to below `end`. The
  /// first is range 0, the next range 1, and so on.
  Status Range(const Slice& begin, const Slice& end, std::uint32_t limit) {
    return Range(kDefaultFamily, begin, end, limit);
  }

  Status Put(FamilyId family, const Slice& key, const Slice& value);
  Status Delete(FamilyId family, const Slice& key);
  Status SingleDelete(FamilyId family, const Slice& key);
  Status Merge(FamilyId family, const Slice& key, const Slice& operand);
  /// Deletes the keys from `begin` to below `end`.
  /// Errors  InvalidArgument also where `end` comes before `begin`.
  Status DeleteRange(FamilyId family, const Slice& begin, const Slice& end);
  Status Get(FamilyId family, const Slice& key);
  Status Range(FamilyId family, const Slice& begin, const Slice& end, std::uint32_t limit);

  /// Adds as many requests as the columns have strings: the batch is, to the byte, as if each had
  /// been added in turn, at a fraction of the cost (docs/impl/batch.md, "Columns").
  ///
  /// Shape   columns of one call have the same count, which may be 0.
  /// Errors  as above, of any request, and InvalidArgument: columns of different counts, offsets
  ///         that fall; of columns on a device NotSupported: the batch is of no store that has one
  ///         (Store::NewBatch); IOError: the device. None of the requests was added then.
  /// Owner   keys, values, operands, begins, ends and limits are copied; they may go when the call
  ///         returns, unless SetColumnsInPlace() says otherwise.
  /// Cost    from 32 Ki requests on shared among threads.
  Status Put(FamilyId family, const BytesColumn& keys, const BytesColumn& values);
  Status Delete(FamilyId family, const BytesColumn& keys);
  Status Merge(FamilyId family, const BytesColumn& keys, const BytesColumn& operands);
  Status Get(FamilyId family, const BytesColumn& keys);
  Status Range(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
               std::uint32_t limit);
  /// Shape   limits[count].
  Status Range(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
               std::span<const std::uint32_t> limits);
  /// Lookups whose values go straight into `values`. code() and value() know these reads, too;
  /// kInvalidArgument also says that the key's value has another length than the array's width.
  /// Of arrays on a device, code() is kIOError where the device did not take them.
  /// Errors  InvalidArgument also where values would overlap, or there is no `found`.
  /// Owner   the arrays of `values` must live, and be left alone, until Submit returns, or
  ///         SubmitAsync's `done` is called, and as long as value() is asked. If the submit fails
  ///         their bytes are of no sense.
  Status Get(FamilyId family, const BytesColumn& keys, const ValueArray& values);

  /// Whether values of 64 bytes and more, of lookups without an array, may stay where they lie in
  /// the store's log, which the batch then holds, as it holds what ranges find: nothing is copied,
  /// but what comes of a merge or of the tree. False until it is set; Clear() keeps it.
  /// Owner   a batch that holds the log keeps its segments from being used again, and their memory
  ///         or disk from others: Clear() it soon, or destroy it.
  void SetValuesInPlace(bool in_place);
  /// Whether keys and values of Put and Delete by columns may stay in the caller's arrays, from
  /// which a submit then copies them straight into the log: half of what a large load costs the
  /// memory. Keys of Get by columns may, too: a device reads them there if the memory is registered
  /// (Store::RegisterMemory). Said before the columns are added; false until it is set; Clear()
  /// keeps it.
  /// Owner   such arrays must live, and be left alone, until Clear() or the batch's end.
  void SetColumnsInPlace(bool in_place);

  [[nodiscard]] std::size_t writes() const;
  [[nodiscard]] std::size_t reads() const;
  [[nodiscard]] std::size_t ranges() const;
  /// Bytes that the batch's writes will take in the log.
  [[nodiscard]] std::uint64_t bytes() const;

  /// Outcome of read `i` after Submit returned ok: Code::kOk, kNotFound, or an error of its own.
  /// kAborted: memory ran out for it (it stands for Status::MemoryLimit). The batch's writes, if it
  /// has any, were committed already and stay; the read may come again in another batch.
  /// kInvalidArgument: its column family was dropped meanwhile. Others are the tree's.
  [[nodiscard]] Status::Code code(std::size_t i) const;
  /// The value of read `i`; empty unless its code is kOk.
  [[nodiscard]] Slice value(std::size_t i) const;

  /// Where the values of reads [first, first + count) lie, as an Arrow array has it, whose bytes
  /// CopyValues() gives then: offsets[0] is 0, and value i is bytes [offsets[i], offsets[i + 1]).
  /// Shape   offsets[count + 1]; found[count]: 1 if read first + i has code kOk, else 0, and its
  ///         value is empty. first + count <= reads().
  /// Errors  InvalidArgument: more than 2^31 - 1 bytes in offsets of 32 bits; the arrays are of no
  ///         sense then.
  Status ValueOffsets(std::size_t first, std::size_t count, std::int32_t* offsets,
                      std::uint8_t* found) const;
  Status ValueOffsets(std::size_t first, std::size_t count, std::int64_t* offsets,
                      std::uint8_t* found) const;
  /// Copies the values of reads [first, first + count), one behind the other.
  /// Shape   `offsets` as ValueOffsets() gave them; bytes[offsets[count]].
  /// Cost    from 32 Ki reads on shared among threads.
  void CopyValues(std::size_t first, std::size_t count, const std::int32_t* offsets,
                  void* bytes) const;
  void CopyValues(std::size_t first, std::size_t count, const std::int64_t* offsets,
                  void* bytes) const;

  /// Outcome of range `i`: Code::kOk, or an error of its own, as of a read.
  [[nodiscard]] Status::Code range_code(std::size_t i) const;
  /// Entries that range `i` found.
  [[nodiscard]] std::size_t range_size(std::size_t i) const;
  /// Key and value of entry `j` of range `i`. They lie in the store's memory, which the batch
  /// holds.
  [[nodiscard]] std::pair<Slice, Slice> range_entry(std::size_t i, std::size_t j) const;
  /// All entries of range `i`, key and value of each, where the store has them one behind the
  /// other: all have 8 bytes, and lie as they were written. Null: it has not, or there are none.
  /// They lie where those of range_entry() do.
  /// Shape   pairs[2 * range_size(i)]
  [[nodiscard]] const std::uint64_t* range_pairs(std::size_t i) const;

  /// The entries of ranges [first, first + count) as an Arrow array of lists has them: lists[0] is
  /// 0, and range first + i has entries [lists[i], lists[i + 1]) of the columns that
  /// EntryOffsets() and CopyEntries() give then.
  /// Shape   lists[count + 1]; found[count]: 1 if the range has code kOk, else 0, and what it found
  ///         until then is in the list. first + count <= ranges().
  /// Errors  InvalidArgument: more than 2^31 - 1 entries in offsets of 32 bits; the arrays are of
  ///         no sense then.
  Status RangeOffsets(std::size_t first, std::size_t count, std::int32_t* lists,
                      std::uint8_t* found) const;
  Status RangeOffsets(std::size_t first, std::size_t count, std::int64_t* lists,
                      std::uint8_t* found) const;
  /// Where keys and values of these entries will lie, each kind in bytes of its own: entry j's key
  /// are bytes [keys[j], keys[j + 1]), its value likewise. Null: not wanted, as where they will be
  /// fixed.
  /// Shape   `lists` as RangeOffsets() gave them; keys[lists[count] + 1], values likewise.
  /// Errors  InvalidArgument: as above, of bytes.
  /// Cost    reads each entry's header; from 32 Ki entries on shared among threads.
  Status EntryOffsets(std::size_t first, std::size_t count, const std::int32_t* lists,
                      std::int32_t* keys, std::int32_t* values) const;
  Status EntryOffsets(std::size_t first, std::size_t count, const std::int64_t* lists,
                      std::int64_t* keys, std::int64_t* values) const;
  /// Copies keys and values of these entries, in one pass: those of entry j to string j.
  /// Shape   `lists` as above; offsets of `keys` and `values` as EntryOffsets() gave them.
  /// Errors  InvalidArgument: a key or value has another length than its room, which is left as it
  ///         is, or rooms overlap. All others are copied, unless they overlap.
  /// Cost    as EntryOffsets().
  Status CopyEntries(std::size_t first, std::size_t count, const std::int32_t* lists,
                     const BytesRoom& keys, const BytesRoom& values) const;
  Status CopyEntries(std::size_t first, std::size_t count, const std::int64_t* lists,
                     const BytesRoom& keys, const BytesRoom& values) const;

  /// Forgets requests and results and keeps the memory for the next use.
  void Clear();

  /// For the engine.
  [[nodiscard]] batch::Requests& requests() { return *requests_; }

 private:
  std::unique_ptr<batch::Requests> requests_;
};

}  // namespace breccia
