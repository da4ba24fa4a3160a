#include "base/epochs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace breccia::base {

namespace {

std::atomic<int> freed = 0;
void count_free(void* block) {
  delete static_cast<int*>(block);
  ++freed;
}

/// So many that whoever brings them looks what can be freed.
void retire_many(Epochs* epochs, int count = 200) {
  for (int i = 0; i < count; ++i) epochs->retire(new int(i), count_free);
}

}  // namespace

// Goal: what is taken away while somebody stays is not freed before they leave; then it is.
// Method: one stays; blocks are retired before, meanwhile and behind.
// Mutation: an epoch that does not rise; one compared the wrong way round.
TEST(Epochs, KeepWhatSomebodyMayLookAt) {
  freed = 0;
  {
    Epochs epochs;
    retire_many(&epochs);
    EXPECT_GT(freed, 100) << "nobody was there";
    std::atomic<bool> stays = false;
    std::atomic<bool> leaves = false;
    std::thread other([&] {
      const Epochs::Stay stay(epochs);
      EXPECT_TRUE(stay.may_look());
      { const Epochs::Stay nested(epochs); }
      stays = true;
      stays.notify_one();
      leaves.wait(false);
    });
    stays.wait(false);
    const int before = freed;
    const std::uint64_t waiting = epochs.retired();
    retire_many(&epochs);
    // What was there before the stay may go, and nothing else.
    EXPECT_LE(freed - before, static_cast<int>(waiting));
    EXPECT_GE(epochs.retired(), 200U);
    leaves = true;
    leaves.notify_one();
    other.join();
    retire_many(&epochs);
    EXPECT_LT(epochs.retired(), 200U);
  }
  EXPECT_EQ(freed, 600) << "the end frees what is left";
}

// Goal: nobody reads what was freed.
// Method: threads that read what a pointer leads to, and others that replace it; sanitizers watch,
//   and freed blocks have another number.
// Mutation: a stay without an exchange; blocks retired before their pointer is replaced.
TEST(Epochs, ConcurrentReadersSeeNothingFreed) {
  constexpr std::uint64_t kAlive = 0xA11CE;
  struct Block {
    std::atomic<std::uint64_t> state{kAlive};
  };
  Epochs epochs;
  std::atomic<Block*> shared{new Block};
  std::atomic<bool> is_over = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        const Epochs::Stay stay(epochs);
        ASSERT_EQ(shared.load()->state.load(std::memory_order_relaxed), kAlive);
      }
    });
  }
  for (int i = 0; i < 50'000; ++i) {
    Block* const gone = shared.exchange(new Block);
    epochs.retire(gone, [](void* block) {
      static_cast<Block*>(block)->state = 0;
      delete static_cast<Block*>(block);
    });
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  delete shared.load();
}

}  // namespace breccia::base
