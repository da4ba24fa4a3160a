#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "slab/backend.h"
#include "slab/engine/entries.h"

namespace breccia::slab {

/// What a batch does to single numbers: each is to have this entry first in its list, or none.
/// Shape   columns of one length; a number once; entry null: it is to be taken out.
struct Lists {
  std::vector<std::uint64_t> number;
  std::vector<Entry*> entry;

  [[nodiscard]] std::uint64_t count() const { return number.size(); }
  void clear() {
    number.clear();
    entry.clear();
  }
  void add(std::uint64_t one_number, Entry* one_entry) {
    number.push_back(one_number);
    entry.push_back(one_entry);
  }
};

/// Which entries the keys of a number have, in a table on a device; on the host's, where that
/// fails.
/// Threads find() by any number; the rest by one, with nobody else in a call.
class Index {
 public:
  struct Ground {
    exec::DevicePtr device;
    std::uint64_t device_bytes_max = 0;  // 0: no bound
    std::uint64_t host_bytes_max = 0;
    std::uint64_t keys_expected = 0;
    /// Hears why the device was left.
    std::function<void(const Status& why)> left;
  };
  /// Errors  MemoryLimit; IOError: the device.
  static Result<std::unique_ptr<Index>> make(Ground ground);

  /// entry[n] of number[n], the first of a list; null: there is none.
  /// Errors  MemoryLimit; IOError: the device is lost, and refill() was not called yet.
  [[nodiscard]] Status find(std::span<const std::uint64_t> number, Entry** entry) const;
  /// Does all of it, or nothing. before[n]: what each number had.
  /// Errors  MemoryLimit: nothing was done. IOError: the device is lost; refill() it.
  [[nodiscard]] Status change(const Lists& changes, std::vector<Entry*>* before);
  /// Leaves the device, and takes in these lists, in memory of the host.
  [[nodiscard]] Status refill(const Lists& all, const Status& why);

  [[nodiscard]] bool is_on_host() const { return backend_->device().is_host(); }
  [[nodiscard]] const Backend& backend() const { return *backend_; }
  [[nodiscard]] const Table& table() const { return *table_; }

 private:
  explicit Index(Ground ground) : ground_(std::move(ground)) {}
  Status open(const exec::DevicePtr& device);
  Status run(const hash::RequestsRef& requests) const;
  Status undo(const Lists& changes, std::span<const Entry* const> before,
              std::span<const hash::Code> code);

  const Ground ground_;
  std::shared_ptr<Backend> backend_;
  TablePtr table_;
};

}  // namespace breccia::slab
