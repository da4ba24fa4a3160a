#include "disagg/coordinator/zookeeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/zookeeper_server.h"

namespace breccia::disagg {

namespace {

using base::now_us;
using fabric::TimeUs;

constexpr TimeUs kSessionUs = 200'000;
/// What a server and its clients may take on a machine that does other things as well.
constexpr TimeUs kPatienceUs = 20'000'000;
constexpr TimeUs kSlackUs = 100'000;

TimeUs patiently() { return now_us() + kPatienceUs; }

void nap(TimeUs us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

class ZooKeeperTest : public ::testing::Test {
 public:
  static void SetUpTestSuite() { server_ = new testing::ZooKeeperServer; }
  static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

 protected:
  /// Below a root of the test's own.
  static ZooKeeper::Options options(TimeUs session_us) {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    return {.hosts = server_->hosts(), .root = "/breccia/" + test, .session_us = session_us};
  }
  static std::unique_ptr<ZooKeeper> open(TimeUs session_us) {
    return ZooKeeper::open(options(session_us)).take();
  }

  static testing::ZooKeeperServer* server_;
};

testing::ZooKeeperServer* ZooKeeperTest::server_ = nullptr;

using Condition = std::function<bool(const Coordinator::View&)>;

/// Looks until what it sees is so; null: it is not in time.
const Coordinator::View* look_until(ZooKeeper* zookeeper, const Condition& is_so) {
  const TimeUs until = patiently();
  while (now_us() < until) {
    const Coordinator::View* const view = zookeeper->look();
    if (view != nullptr && is_so(*view)) return view;
    nap(500);
  }
  return nullptr;
}

bool sees(ZooKeeper* zookeeper, const Condition& is_so) {
  return look_until(zookeeper, is_so) != nullptr;
}

Condition has(const std::string& name) {
  return [name](const auto& view) { return view.members.contains(name); };
}
Condition lacks(const std::string& name) {
  return [name](const auto& view) { return !view.members.contains(name); };
}
Condition is_of(std::uint64_t version) {
  return [version](const auto& view) { return view.version == version; };
}

bool replaced(ZooKeeper* zookeeper, std::uint64_t version, const std::string& document) {
  const auto result = zookeeper->replace(version, document, patiently());
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() && result.value();
}

// Goal: a document is replaced by who knows its version, and by nobody else.
// Method: right and wrong versions, also such that a node's version would be cut to "any".
// Mutation: no bound of versions replaces whatever is there; version 0 that sets finds no node.
TEST_F(ZooKeeperTest, KnowsVersionsOfItsDocument) {
  const auto zookeeper = open(kSessionUs);
  EXPECT_FALSE(replaced(zookeeper.get(), 1, "there is none"));
  ASSERT_TRUE(sees(zookeeper.get(), is_of(0)));
  EXPECT_TRUE(zookeeper->look()->document.empty());

  EXPECT_TRUE(replaced(zookeeper.get(), 0, "first"));
  EXPECT_FALSE(replaced(zookeeper.get(), 0, "not first"));
  EXPECT_FALSE(replaced(zookeeper.get(), 2, "not yet"));
  for (const std::uint64_t version : {1ULL << 31, 1ULL << 32, (1ULL << 32) + 1, ~0ULL}) {
    EXPECT_FALSE(replaced(zookeeper.get(), version, "another number"));
  }
  const auto* view = look_until(zookeeper.get(), is_of(1));
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->document, "first");

  const std::string zeros(3, '\0');
  EXPECT_TRUE(replaced(zookeeper.get(), 1, zeros));
  EXPECT_FALSE(replaced(zookeeper.get(), 1, "too late"));
  view = look_until(zookeeper.get(), is_of(2));
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->document, zeros);

  EXPECT_TRUE(replaced(zookeeper.get(), 2, ""));
  view = look_until(zookeeper.get(), is_of(3));
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->document, "");

  const std::string largest(ZooKeeper::kDocumentBytesMax, 'a');
  EXPECT_TRUE(zookeeper->replace(3, largest + "a", patiently()).status().IsInvalidArgument());
  EXPECT_TRUE(replaced(zookeeper.get(), 3, largest));
  view = look_until(zookeeper.get(), is_of(4));
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->document, largest);
}

// Goal: of two that replace a document at once one is refused.
// Method: two threads replace the version that they know; each version has been had by one.
// Mutation: a document that is set whatever its version.
TEST_F(ZooKeeperTest, RefusesOneOfTwoThatReplaceAtOnce) {
  constexpr std::uint64_t kVersions = 400;
  std::array<std::atomic<int>, kVersions> had{};
  const auto replace_all = [&](const ZooKeeper::Options& options) {
    const auto zookeeper = ZooKeeper::open(options).take();
    for (std::uint64_t version = 0; version < kVersions; ++version) {
      if (replaced(zookeeper.get(), version, "")) ++had[version];
    }
  };
  std::thread rival(replace_all, options(10'000'000));
  replace_all(options(10'000'000));
  rival.join();
  for (std::uint64_t version = 0; version < kVersions; ++version) EXPECT_EQ(had[version], 1);
}

// Goal: members are seen from join() until they leave, which takes less than a session if they are
//       ended; names are the members' own.
// Method: one joins, another one looks, and tries names that cannot be had.
// Mutation: nodes that stay; a session that is not closed is seen for its time.
TEST_F(ZooKeeperTest, HasMembersUntilTheyLeave) {
  auto member = open(10'000'000);
  const auto other = open(10'000'000);
  EXPECT_EQ(member->sure_until_us(), 0);
  EXPECT_TRUE(member->join("a/b", patiently()).IsInvalidArgument());
  EXPECT_TRUE(member->join("", patiently()).IsInvalidArgument());
  ASSERT_TRUE(member->join("a", patiently()).ok());
  EXPECT_GT(member->sure_until_us(), now_us());
  EXPECT_TRUE(member->join("b", patiently()).IsInvalidArgument());
  EXPECT_TRUE(other->join("a", patiently()).IsInvalidArgument());
  EXPECT_EQ(other->sure_until_us(), 0);
  EXPECT_TRUE(sees(other.get(),
                   [](const auto& view) { return view.members == std::set<std::string>{"a"}; }));
  const TimeUs begin_us = now_us();
  member.reset();
  EXPECT_TRUE(sees(other.get(), lacks("a")));
  EXPECT_LT(now_us() - begin_us, 5'000'000);
}

// Goal: what counts is the time that servers grant.
// Method: less than they do is asked for.
// Mutation: the time that was asked for is less.
TEST_F(ZooKeeperTest, IsSureForTheTimeThatServersGrant) {
  const auto member = open(/*session_us=*/60'000);
  ASSERT_TRUE(member->join("a", patiently()).ok());
  ASSERT_TRUE(sees(member.get(), has("a")));
  EXPECT_TRUE(sees(member.get(), [&](const auto&) {
    EXPECT_LE(member->sure_until_us(), now_us() + 90'000);
    return member->sure_until_us() > now_us() + 50'000;
  }));
}

// Goal: a member whose thread does nothing is none after its session, and knows.
// Method: it does not look for as long as it takes another one to miss it.
// Mutation: without a watcher the library's threads keep it alive.
TEST_F(ZooKeeperTest, MissesAMemberThatDoesNothing) {
  const auto member = open(kSessionUs);
  const auto other = open(kSessionUs);
  ASSERT_TRUE(member->join("a", patiently()).ok());
  ASSERT_TRUE(sees(other.get(), has("a")));
  const TimeUs sure_until_us = member->sure_until_us();
  ASSERT_TRUE(sees(other.get(), lacks("a")));
  EXPECT_GE(now_us(), sure_until_us);
  EXPECT_EQ(member->sure_until_us(), 0);
  // It can look, but is none again.
  EXPECT_TRUE(sees(member.get(), lacks("a")));
  EXPECT_TRUE(replaced(member.get(), 0, "still"));
  EXPECT_TRUE(sees(member.get(), is_of(1)));
  EXPECT_EQ(member->sure_until_us(), 0);
  EXPECT_TRUE(member->join("b", patiently()).IsInvalidArgument());
}

// ---- members in processes of their own ----

/// What a member and the test that started it share.
struct Page {
  std::atomic<TimeUs> sure_until_us;
  std::atomic<TimeUs> gone_us;  // the test has seen then that it is none
  std::atomic<int> looks_behind;
  std::atomic<bool> was_wrong;  // it took itself for a member behind that
};

Page* map_page(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  BRECCIA_ASSERT(file >= 0 && ::ftruncate(file, sizeof(Page)) == 0);
  void* const page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  BRECCIA_ASSERT(page != MAP_FAILED);
  ::close(file);
  return static_cast<Page*>(page);
}

// The process of a member; without the variable there is nothing to do. Tests below start it.
TEST(ZooKeeperMember, LooksUntilItIsKilled) {
  const char* const settings = std::getenv("BRECCIA_TEST_MEMBER");
  if (settings == nullptr) return;
  std::istringstream in(settings);
  std::string page_path;
  ZooKeeper::Options options;
  in >> page_path >> options.hosts >> options.root >> options.session_us;
  Page* const page = map_page(page_path);
  const auto zookeeper = ZooKeeper::open(options).take();
  ASSERT_TRUE(zookeeper->join("member", patiently()).ok());
  while (true) {
    static_cast<void>(zookeeper->look());
    const TimeUs sure_until_us = zookeeper->sure_until_us();
    page->sure_until_us = sure_until_us;
    if (page->gone_us != 0) {
      if (sure_until_us > now_us()) page->was_wrong = true;
      ++page->looks_behind;
    }
    nap(500);
  }
}

class Member {
 public:
  explicit Member(const ZooKeeper::Options& options) {
    const std::string settings = "BRECCIA_TEST_MEMBER=" + (folder_ / "page") + " " + options.hosts +
                                 " " + options.root + " " + std::to_string(options.session_us);
    std::vector<char*> environment;
    for (char** at = environ; *at != nullptr; ++at) environment.push_back(*at);
    environment.push_back(const_cast<char*>(settings.c_str()));
    environment.push_back(nullptr);
    const char* const command[] = {"/proc/self/exe", "--gtest_brief=1",
                                   "--gtest_filter=ZooKeeperMember.*", nullptr};
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execve(command[0], const_cast<char* const*>(command), environment.data());
      ::_exit(127);
    }
    BRECCIA_ASSERT(process_ > 0);
  }
  ~Member() {
    send(SIGKILL);
    BRECCIA_ASSERT(::waitpid(process_, nullptr, 0) == process_);
    ::munmap(page_, sizeof(Page));
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void send(int signal) const { BRECCIA_ASSERT(::kill(process_, signal) == 0); }
  [[nodiscard]] Page& page() const { return *page_; }

 private:
  testing::Folder folder_{testing::Place::kMemory};
  Page* const page_ = map_page(folder_ / "page");
  pid_t process_ = 0;
};

/// Sends `signal`, looks until the member is none, and says how long that took.
TimeUs end_and_miss(ZooKeeper* other, Member* member, int signal) {
  EXPECT_TRUE(sees(other, [&](const auto& view) {
    return view.members.contains("member") && member->page().sure_until_us > now_us();
  }));
  nap(50'000);
  const TimeUs signal_us = now_us();
  member->send(signal);
  EXPECT_TRUE(sees(other, lacks("member")));
  const TimeUs gone_us = now_us();
  EXPECT_GE(gone_us, member->page().sure_until_us);
  member->page().gone_us = gone_us;
  return gone_us - signal_us;
}

// Goal: a process that was killed is no member after a session's time, and until then it is.
// Method: what it was last sure of lies in memory that outlives it.
// Mutation: a time of more than the session from a question's sending on.
TEST_F(ZooKeeperTest, MissesAMemberThatWasKilled) {
  const auto other = open(kSessionUs);
  TimeUs least_us = kPatienceUs;  // the others may have waited for a processor
  for (int round = 0; round < 3; ++round) {
    Member member(options(kSessionUs));
    least_us = std::min(least_us, end_and_miss(other.get(), &member, SIGKILL));
  }
  EXPECT_LE(least_us, kSessionUs + kSlackUs);
}

// Goal: a process that stood still does not take itself for a member when others do not.
// Method: it goes on when it is missed, and looks.
// Mutation: as above.
TEST_F(ZooKeeperTest, MissesAMemberThatStandsStill) {
  const auto other = open(kSessionUs);
  TimeUs least_us = kPatienceUs;
  for (int round = 0; round < 3; ++round) {
    Member member(options(kSessionUs));
    least_us = std::min(least_us, end_and_miss(other.get(), &member, SIGSTOP));
    member.send(SIGCONT);
    const TimeUs until = patiently();
    while (member.page().looks_behind < 100 && now_us() < until) nap(1000);
    EXPECT_GE(member.page().looks_behind, 100);
    EXPECT_FALSE(member.page().was_wrong);
    EXPECT_EQ(member.page().sure_until_us, 0);
    EXPECT_TRUE(other->look()->members.empty());
  }
  EXPECT_LE(least_us, kSessionUs + kSlackUs);
}

// ---- the order of a view ----

// Goal: a member that is in a view's document, and is not in the view, is none.
// Method: members come, put their names into the document, and go, while another thread looks.
// Mutation: members that are as of the round before.
TEST_F(ZooKeeperTest, ShowsMembersThatAreInTheDocument) {
  constexpr std::size_t kMembersMax = 4096;
  constexpr TimeUs kLongUs = 20'000'000;  // nobody is missed by mistake
  static std::array<std::atomic<bool>, kMembersMax> leaves;
  for (auto& flag : leaves) flag = false;
  std::atomic<bool> is_over = false;
  const auto seed = testing::seeds_to_run(1).front();
  SCOPED_TRACE("seed=" + std::to_string(seed));
  std::thread members([&, options = options(kLongUs)] {
    std::mt19937_64 random(seed);
    std::uint64_t version = 0;
    for (std::size_t name = 0; name < kMembersMax && !is_over; ++name) {
      const auto zookeeper = ZooKeeper::open(options).take();
      EXPECT_TRUE(zookeeper->join(std::to_string(name), patiently()).ok());
      EXPECT_TRUE(replaced(zookeeper.get(), version++, std::to_string(name)));
      nap(random() % 3000);
      leaves[name] = true;
    }
  });
  const auto zookeeper = open(/*session_us=*/100'000);
  const TimeUs until = now_us() + 4'000'000;
  std::uint64_t seen = 0;
  std::uint64_t version = 0;
  while (now_us() < until) {
    const Coordinator::View* const view = zookeeper->look();
    if (view == nullptr || view->version == 0) continue;
    EXPECT_GE(view->version, version) << "of a later document";
    seen += view->version != version ? 1 : 0;
    version = view->version;
    const bool is_member = view->members.contains(view->document);
    EXPECT_TRUE(is_member || leaves[std::stoul(view->document)]) << view->document;
    std::this_thread::yield();
  }
  is_over = true;
  members.join();
  EXPECT_GT(seen, 20);
}

// ---- servers that fail ----

// Goal: nothing waits without an end, and what was agreed on comes back with the server.
// Method: the server is killed, and started again.
// Mutation: a change that waits for its connection without a time.
TEST_F(ZooKeeperTest, GoesOnWhenTheServerIsBack) {
  const auto member = open(kSessionUs);
  const auto other = open(kSessionUs);
  ASSERT_TRUE(member->join("a", patiently()).ok());
  ASSERT_TRUE(replaced(member.get(), 0, "before"));
  ASSERT_TRUE(sees(member.get(), is_of(1)));
  server_->kill();
  const TimeUs begin_us = now_us();
  EXPECT_FALSE(member->replace(1, "during", begin_us + 300'000).ok());
  EXPECT_LT(now_us() - begin_us, 300'000 + kSlackUs);
  nap(kSessionUs);
  ASSERT_NE(member->look(), nullptr);
  EXPECT_EQ(member->look()->document, "before");
  EXPECT_LE(member->sure_until_us(), now_us());
  server_->start();
  ASSERT_TRUE(sees(other.get(), is_of(1)));
  EXPECT_TRUE(replaced(other.get(), 1, "after"));
  EXPECT_TRUE(sees(member.get(), is_of(2)));
  // Its session has ended in between, or not.
  EXPECT_TRUE(sees(member.get(), [&](const auto&) {
    return member->sure_until_us() == 0 || member->sure_until_us() > now_us();
  }));
  EXPECT_TRUE(sees(other.get(), member->sure_until_us() == 0 ? lacks("a") : has("a")));
}

// Goal: an object of a server that does not answer ends at once.
// Method: the server stands still, and is killed.
// Mutation: an end that waits for the server.
TEST_F(ZooKeeperTest, EndsWithoutTheServer) {
  auto stopped = open(kSessionUs);
  auto killed = open(kSessionUs);
  ASSERT_TRUE(stopped->join("a", patiently()).ok());
  ASSERT_TRUE(killed->join("b", patiently()).ok());
  server_->send(SIGSTOP);
  static_cast<void>(stopped->look());
  TimeUs begin_us = now_us();
  // Of a busy machine the connection may be over by now.
  const Status replaced = stopped->replace(0, "", begin_us + 50'000).status();
  EXPECT_TRUE(replaced.IsTimedOut() || replaced.IsIOError()) << replaced.ToString();
  stopped.reset();
  EXPECT_LT(now_us() - begin_us, 3'000'000);  // the library asks for an answer
  server_->kill();
  static_cast<void>(killed->look());
  begin_us = now_us();
  killed.reset();
  EXPECT_LT(now_us() - begin_us, 1'000'000);
  server_->start();
}

// Goal: a server that is not there is an error when the time is over, and not before.
// Method: a port that nobody listens at.
// Mutation: a change that is refused with its first connection.
TEST(ZooKeeperWithoutServer, FailsWhenTheTimeIsOver) {
  EXPECT_TRUE(ZooKeeper::open({.hosts = "127.0.0.1:1", .root = "a"}).status().IsInvalidArgument());
  EXPECT_TRUE(ZooKeeper::open({.hosts = "", .root = "/a"}).status().IsInvalidArgument());
  const auto zookeeper =
      ZooKeeper::open({.hosts = "127.0.0.1:1", .root = "/a", .session_us = kSessionUs}).take();
  EXPECT_EQ(zookeeper->look(), nullptr);
  const TimeUs begin_us = now_us();
  EXPECT_TRUE(zookeeper->join("a", begin_us + 100'000).IsTimedOut());
  EXPECT_GE(now_us(), begin_us + 100'000);
  EXPECT_TRUE(zookeeper->replace(0, "", begin_us + 200'000).status().IsTimedOut());
  EXPECT_GE(now_us(), begin_us + 200'000);
  EXPECT_LT(now_us(), begin_us + 200'000 + kSlackUs);
  EXPECT_EQ(zookeeper->look(), nullptr);
  EXPECT_EQ(zookeeper->sure_until_us(), 0);
}

}  // namespace

}  // namespace breccia::disagg
