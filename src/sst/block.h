#pragma once

#include <string>

#include "sst/format.h"

namespace breccia::sst {

/// The entries of a block, one behind the other, each of which is checked before it is shown.
/// Owner   the contents live longer.
/// Threads one owner.
class BlockEntries {
 public:
  /// What an entry has beside its key.
  enum class Kind {
    kValues,   // bytes with their length: data, properties, the metaindex, indexes up to version 3
    kHandles,  // a handle, or how it differs from the one before: indexes from version 4 on
  };

  /// Errors  in status(): Corruption.
  BlockEntries(const Slice& contents, Kind kind) : kind_(kind) { open(contents); }

  /// The same with other contents.
  void open(const Slice& contents);

  /// Moves to the next entry, at first to the first. False behind the last, or with an error in
  /// status().
  bool next();
  /// Moves to the entry whose value begins at `at` in the contents. False: with an error in
  /// status(), as there is none.
  /// Shape   kValues
  bool seek_value(std::uint64_t at);
  /// Moves on over entries whose keys and values have 8 bytes each, as long as they come one behind
  /// the other: one version of each key, a value, of keys whose bytes as a number are below
  /// `end_head`. Returns how many: it may stop before others.
  /// Shape   kValues, at an entry of such a key, of an internal key with its tag; pairs[2 * limit]:
  ///         key and value of each, as they lie in memory.
  std::uint32_t take_pairs(std::uint64_t end_head, std::uint32_t limit, std::uint64_t* pairs);
  [[nodiscard]] const Status& status() const { return status_; }

  [[nodiscard]] Slice key() const { return Slice(key_.data(), key_bytes_); }
  [[nodiscard]] const Slice& value() const { return value_; }
  [[nodiscard]] const Handle& handle() const { return handle_; }
  /// Entries from here on share nothing with those before: where decoding may begin.
  [[nodiscard]] std::uint32_t restarts() const { return restarts_; }

 private:
  /// Takes the restarts off the end. False: they are not there.
  bool take_restarts(const Slice& contents);
  [[nodiscard]] std::uint32_t restart_at(std::uint32_t i) const;
  /// Where restart `i` is in the entries; behind them, where there is none.
  [[nodiscard]] const char* restart_place(std::uint32_t i) const {
    return i < restarts_ ? begin_ + restart_at(i) : restart_array_ + 1;
  }
  struct Lengths {
    std::uint32_t shared = 0;
    std::uint32_t unshared = 0;
    std::uint32_t value = 0;
  };
  /// The next entry if its lengths have a byte each, as most have. False: nothing was taken.
  bool take_short_entry(bool is_restart);
  bool take_lengths(Input* input, Lengths* lengths) const;
  bool take_entry(Input* input, bool is_restart);
  void take_key(std::uint32_t shared, const Slice& suffix);
  bool take_handle(Input* input, bool is_full);
  bool fail(const char* what);

  const Kind kind_;
  const char* begin_ = nullptr;
  Slice entries_;  // what is left of them
  const char* restart_array_ = nullptr;
  std::uint32_t restarts_ = 0;
  std::uint32_t next_restart_ = 0;
  const char* next_restart_place_ = nullptr;
  std::string key_;  // and room behind it
  std::size_t key_bytes_ = 0;
  Slice value_;
  Handle handle_;
  Status status_;
};

}  // namespace breccia::sst
