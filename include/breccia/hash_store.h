#pragma once

#include <breccia/hash_options.h>
#include <breccia/store.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace breccia {

/// Ids and the rows that they have: keys of 8 bytes, as they lie, and values of one size.
///
/// Shape   ids[count], rows[count * row_bytes], found[count]; row_bytes and the rows' address
///         divide by 8. All of them lie in memory of the store's device (HashStore::Device).
/// Units   row_bytes: bytes.
/// Order   the arrays are read and written behind what `stream` has to do by then, a cudaStream_t;
///         null: the default stream. Without a GPU it says nothing.
struct IdRows {
  const std::uint64_t* ids = nullptr;
  std::size_t count = 0;
  void* rows = nullptr;
  std::size_t row_bytes = 0;
  std::uint8_t* found = nullptr;  // of FindRows
  void* stream = nullptr;
};

/// A store of the hash engine, with the calls that it has for arrays in its device's memory: tables
/// of embeddings, features by id. They are calls of Store in another form: FindRows is a batch of
/// lookups, PutRows one of puts, and keys written by either are found by the other.
/// Threads any number.
class HashStore : public Store {
 public:
  /// As Store::Open of HashOptions.
  static Status Open(const HashOptions& options, const std::string& path,
                     std::unique_ptr<HashStore>* store);

  /// CUDA's number of the device in whose memory arrays lie; -1: in that of the host.
  [[nodiscard]] virtual int Device() const = 0;

  /// Looks up ids: found[i] becomes 1 where there is a value of row_bytes, else 0, and its row
  /// is of no sense.
  /// Order   all at one moment; done on return.
  /// Errors  as Submit; InvalidArgument: row_bytes, or how arrays lie; IOError also: the device.
  /// Cost    of rows that are not in the device's cache (HashOptions::row_cache_bytes), and without
  ///         one of all: a copy by a core, and its bytes over the bus.
  virtual Status FindRows(const IdRows& rows) = 0;

  /// Writes a row for each id; of several of one id the last one stays. They become visible at
  /// once, as those of a batch. `rows` is not changed, and `found` not looked at.
  /// Order   as Submit, and durable as it is then.
  /// Errors  likewise; InvalidArgument: row_bytes, or how the arrays lie; IOError also: the device.
  virtual Status PutRows(const WriteOptions& options, const IdRows& rows) = 0;
};

}  // namespace breccia
