#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "exec/pool.h"

namespace breccia::exec::sim {

/// Makes it visible if memory is read before it is written, or after it was given back.
void fill_with_garbage(void* memory, std::size_t bytes);

/// The simulator's own memory. It knows its blocks, so that a host pointer in the place of a
/// backend pointer, or the other way round, is found out. New blocks hold garbage.
class SimPool : public Pool {
 public:
  using Pool::Pool;
  ~SimPool() override { drop_kept(); }

  [[nodiscard]] bool owns(const void* memory) const;

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* memory, std::size_t bytes) override;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> blocks_;  // begin, bytes
};

}  // namespace breccia::exec::sim
