#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fiber.h"
#include "base/random.h"
#include "fabric/port.h"

namespace breccia::fabric::sim {

/// What a network does to what crosses it. Of shares, one in so many; 0: none.
struct Weather {
  TimeUs delay_us_max = 20;            // each way of anything takes 1 to so long
  std::uint32_t slow_one_in = 0;       // takes up to a hundred times longer
  std::uint32_t lost_one_in = 0;       // messages that never come
  std::uint32_t twice_one_in = 0;      // messages that come once more
  std::uint32_t damaged_one_in = 0;    // messages of which a bit is another
  std::uint32_t overtaken_one_in = 0;  // messages that come behind later ones
  std::uint32_t torn_one_in = 2;       // reads and writes that happen in several pieces
  bool regions_stay = false;  // those that ended are read as they were, as shared memory is
};

/// Computers and what lies between them, on one thread: a seed decides what comes when, and which
/// thread goes on, so a failure replays.
///
/// Time passes only while all threads wait, and a microsecond whenever one goes on. Threads of
/// nodes are fibers that switch in calls of ports and in sleep(), nowhere else: what they do in
/// between nobody interrupts, and a lock must not be held across such a call.
///
/// Shape   it finds races of messages and of accesses to memory, not those of threads of a node.
/// Threads one; ports and threads of nodes are gone before this.
class Net {
 public:
  using Node = std::uint32_t;

  Net(std::uint64_t seed, const Weather& weather);
  /// Kills all nodes.
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  [[nodiscard]] Node add_node();
  [[nodiscard]] std::unique_ptr<Port> open(Node node);
  /// A thread of a node, which run() runs.
  void start(Node node, std::function<void()> body);
  /// Until all threads have ended that are not of nodes that serve others.
  void run();
  /// Who waits for others alone, for ever, is not waited for.
  void let_serve(Node node) { serving_.insert(node); }

  [[nodiscard]] TimeUs now_us() const { return now_us_; }
  [[nodiscard]] base::Random& random() { return random_; }
  /// Of the thread that calls it.
  void sleep(TimeUs us);

  /// Its threads end where they are, its memory is gone. Others may hear of it, or not.
  void kill(Node node);
  /// The same, behind so many messages, and parts of accesses to memory, that leave it or reach it
  /// from here on.
  /// Shape   one or more.
  void kill_behind(Node node, std::uint64_t events) { doomed_[node] = events; }
  [[nodiscard]] bool is_killed(Node node) const { return killed_.contains(node); }
  /// Its threads stand still; its memory can be reached.
  void pause(Node node) { paused_.insert(node); }
  void go_on(Node node) { paused_.erase(node); }
  /// Nothing crosses between them until heal().
  void cut(Node one, Node other) { cut_.insert(std::minmax(one, other)); }
  void heal(Node one, Node other) { cut_.erase(std::minmax(one, other)); }
  /// Ends all connections between them; one side may hear of it up to so much later.
  void part(Node one, Node other, TimeUs later_us);

 private:
  friend class SimPort;
  struct Killed {};  // what ends a thread of a node that is killed
  struct Thread;
  using ThreadId = std::uint64_t;
  using PortId = std::uint64_t;

  /// Lets others go on until somebody wakes this one, or the time.
  void wait(TimeUs until);
  [[nodiscard]] ThreadId running() const;
  void wake(ThreadId id);
  void at(TimeUs time, std::function<void()> happens);
  [[nodiscard]] TimeUs draw_delay();
  bool draw(std::uint32_t one_in) { return one_in > 0 && random_.one_in(one_in); }
  [[nodiscard]] bool is_cut(Node one, Node other) const {
    return cut_.contains(std::minmax(one, other));
  }
  [[nodiscard]] class SimPort* port(PortId id) const;
  void note_event(Node node);

  bool step();
  void go_on_with(Thread* thread);
  static void run_thread(void* thread);

  base::Random random_;
  const Weather weather_;
  TimeUs now_us_ = 1;
  Node nodes_ = 0;
  std::set<Node> killed_, paused_, serving_;
  std::map<Node, std::uint64_t> doomed_;  // and behind how many events
  std::set<std::pair<Node, Node>> cut_;
  base::Fiber main_;
  Thread* running_ = nullptr;
  ThreadId next_thread_ = 1;
  std::map<ThreadId, std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> ready_;
  /// By time, and by a draw where times are the same.
  std::multimap<std::pair<TimeUs, std::uint64_t>, std::function<void()>> events_;
  PortId next_port_ = 1;
  std::map<PortId, class SimPort*> ports_;
};

}  // namespace breccia::fabric::sim
