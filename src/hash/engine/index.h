#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "hash/backend.h"

/// Which record of each key is the newest: payloads (record/record.h) by the numbers of keys, in a
/// table on a device or on the host.

namespace breccia::hash {

/// What some records put into an index.
/// Shape   columns of one length.
struct Entries {
  std::vector<std::uint64_t> number;
  std::vector<std::uint64_t> payload;

  [[nodiscard]] std::uint64_t count() const { return number.size(); }
  void clear() {
    number.clear();
    payload.clear();
  }
  void add(std::uint64_t one_number, std::uint64_t one_payload) {
    number.push_back(one_number);
    payload.push_back(one_payload);
  }
};

/// Threads find() by any number; the rest by one, with nobody else in a call.
class Index {
 public:
  /// Errors  MemoryLimit; IOError: the device.
  static Result<std::unique_ptr<Index>> make(std::shared_ptr<Backend> backend, std::uint64_t keys);

  /// payload[n] of number[n]; 0: there is none.
  /// Errors  MemoryLimit; IOError: the device.
  [[nodiscard]] Status find(const std::uint64_t* number, std::uint64_t* payload,
                            std::uint64_t n) const;
  /// Lets a lookup of rows look here.
  [[nodiscard]] Status find(RowLookup* lookup) const { return lookup->look(*table_); }
  /// Takes entries in: of several for one number the largest payload stays. before[n]: what each
  /// met, 0 if nothing; null: nobody asks.
  /// Errors  MemoryLimit, IOError: some of them are in, and may be taken in again.
  [[nodiscard]] Status raise(const Entries& entries, std::vector<std::uint64_t>* before);
  /// The same of records whose first payload this is, and of what nobody asks what it met.
  [[nodiscard]] Status raise(RowRecords* records, std::uint64_t first_payload);
  /// Takes out what deletions say, of which there is nothing newer.
  [[nodiscard]] Status drop(RowRecords* records);
  /// Takes out entries that are there as they are given.
  /// Errors  as raise().
  [[nodiscard]] Status drop(const Entries& entries);

  [[nodiscard]] Backend& backend() const { return *backend_; }
  [[nodiscard]] const Table& table() const { return *table_; }
  /// Numbers that have a payload.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  Index(std::shared_ptr<Backend> backend, TablePtr table)
      : backend_(std::move(backend)), table_(std::move(table)) {}
  Status run(Operation operation, const std::uint64_t* number, const std::uint64_t* payload,
             std::uint64_t* found, std::uint64_t n, std::uint64_t* absent) const;

  const std::shared_ptr<Backend> backend_;
  const TablePtr table_;
  std::uint64_t count_ = 0;
};

}  // namespace breccia::hash
