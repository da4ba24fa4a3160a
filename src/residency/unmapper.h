#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace breccia::residency {

/// Unmaps files, on a thread of its own. Where a file was deleted meanwhile, that is when the file
/// system frees its blocks, and discards them if it was mounted so: 27 ms for 128 MiB, and a
/// compaction replaces a hundred such files at once. Whoever drops the last view of them, a reader,
/// or a writer in its turn, does not wait for that.
///
/// Threads any.
class Unmapper {
 public:
  /// Where the system gives no thread, mappings end at once.
  Unmapper();
  /// Waits until all is unmapped.
  ~Unmapper();
  Unmapper(const Unmapper&) = delete;
  Unmapper& operator=(const Unmapper&) = delete;

  /// A mapping that can be given back without memory.
  struct Mapping {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    std::unique_ptr<Mapping> next = nullptr;
  };
  /// Returns at once, if there is a thread.
  void unmap(std::unique_ptr<Mapping> mapping);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Mapping> given_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace breccia::residency
