#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/assert.h"
#include "support/folder.h"
#include "wal/files.h"

namespace breccia::wal {
namespace {

using breccia::testing::Folder;
using breccia::testing::Place;

/// A process that locks a folder and then waits until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(const std::string& dir) {
    int ends[2];
    BRECCIA_ASSERT(::pipe(ends) == 0);
    process_ = ::fork();
    BRECCIA_ASSERT(process_ >= 0);
    if (process_ == 0) {
      const auto lock = real_files()->lock(dir);
      const char answer = lock.ok() ? 'y' : 'n';
      (void)!::write(ends[1], &answer, 1);
      for (;;) ::pause();
    }
    BRECCIA_ASSERT(::read(ends[0], &answer_, 1) == 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~OtherProcess() { kill(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  [[nodiscard]] bool has_lock() const { return answer_ == 'y'; }
  void kill() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
  char answer_ = 0;
};

}  // namespace

// Goal: one holder at a time, whichever process it is in; the lock ends with it, killed or not.
// Method: two locks of this process, then of another one that is killed.
// Mutation: an fcntl lock, which belongs to the process, lets the second one in.
TEST(WalFolderLock, HasOneHolder) {
  const Folder dir(Place::kDisk);
  const auto files = real_files();
  {
    const auto first = files->lock(dir.path());
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    const Status second = real_files()->lock(dir.path()).status();
    EXPECT_TRUE(second.IsIOError());
    EXPECT_NE(second.ToString().find(dir.path()), std::string::npos) << second.ToString();
    EXPECT_NE(second.ToString().find("wal_dir"), std::string::npos) << second.ToString();
    EXPECT_FALSE(files->lock(dir.path()).ok());  // A refused one takes nothing away.
  }
  OtherProcess other(dir.path());
  ASSERT_TRUE(other.has_lock());
  EXPECT_TRUE(files->lock(dir.path()).status().IsIOError());
  other.kill();
  EXPECT_TRUE(files->lock(dir.path()).ok());
}

// Goal: locks of different folders have nothing to do with each other.
// Method: two folders.
// Mutation: one lock for all folders refuses the second store of a process.
TEST(WalFolderLock, FoldersAreApart) {
  const Folder one(Place::kDisk);
  const Folder other(Place::kDisk);
  const auto files = real_files();
  const auto first = files->lock(one.path());
  const auto second = files->lock(other.path());
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(files->lock(one.path() + "/missing").status().IsIOError());
}

}  // namespace breccia::wal
