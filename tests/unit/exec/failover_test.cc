#include "exec/failover.h"

#include <gtest/gtest.h>

#include <vector>

#include "runs/backend.h"
#include "support/backends.h"

namespace breccia::exec {

namespace {

/// What was heard, and calls that fail as they are told.
class FailoverTest : public ::testing::Test {
 protected:
  FailoverTest() {
    failover_.listen({[this](const Status& why, bool left) { heard_.emplace_back(why, left); }});
  }
  /// A call that fails everywhere but on the host.
  auto failing(const Status& why) {
    return [this, why](runs::Backend& backend) {
      calls_.push_back(&backend);
      return backend.device().is_host() ? Status::OK() : why;
    };
  }

  Failover<runs::Backend> failover_{testing::make_simulator_backend(1), runs::make_host_backend()};
  std::vector<std::pair<Status, bool>> heard_;
  std::vector<runs::Backend*> calls_;
};

}  // namespace

// Goal: a call that finds no memory runs on the host, and the device stays in use.
// Method: two such calls.
// Mutation: leaving for want of memory makes the second call once.
TEST_F(FailoverTest, MemoryIsForOneCall) {
  for (int i = 1; i <= 2; ++i) {
    EXPECT_TRUE(failover_.run(failing(Status::MemoryLimit("full"))).ok());
    EXPECT_EQ(calls_.size(), 2U * static_cast<unsigned>(i));
    EXPECT_EQ(calls_.back(), &failover_.host());
    EXPECT_FALSE(heard_.back().second);
  }
  EXPECT_TRUE(failover_.left().ok());
}

// Goal: any other error leaves the device for good, and is heard of once as that.
// Method: a call that fails; one behind it; the device's loss, told from outside.
// Mutation: going on with a lost device fails every call once more.
TEST_F(FailoverTest, ErrorsAreForGood) {
  const auto before = failover_.current();
  EXPECT_TRUE(failover_.run(failing(Status::IOError("lost"))).ok());
  EXPECT_TRUE(heard_.back().second);
  EXPECT_EQ(failover_.current().get(), &failover_.host());
  EXPECT_TRUE(failover_.run(failing(Status::IOError("never asked"))).ok());
  EXPECT_EQ(calls_.size(), 3U);
  EXPECT_EQ(heard_.size(), 1U);
  failover_.leave(Status::NoSpace("again"));
  EXPECT_FALSE(heard_.back().second);
  EXPECT_TRUE(failover_.left().IsIOError());
  EXPECT_EQ(&failover_.first(), before.get());
}

// Goal: an attempt that fails is heard of, and is its caller's to get around.
// Method: one on the device; one on the host, whose errors mean nothing for the device.
// Mutation: an attempt that goes to the host by itself would be done twice.
TEST_F(FailoverTest, AttemptsDoNotFallBack) {
  EXPECT_TRUE(
      failover_
          .attempt(failover_.host(), [](runs::Backend&) { return Status::IOError("the host's"); })
          .IsIOError());
  EXPECT_TRUE(heard_.empty());
  const auto backend = failover_.current();
  EXPECT_TRUE(failover_.attempt(*backend, failing(Status::IOError("lost"))).IsIOError());
  EXPECT_EQ(calls_.size(), 1U);
  EXPECT_TRUE(heard_.back().second);
}

}  // namespace breccia::exec
