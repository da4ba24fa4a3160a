#include "kill_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/assert.h"

namespace breccia::crash {

namespace {

using std::chrono::microseconds;

}  // namespace

pid_t spawn_self(const std::string& name, std::vector<std::string> variables) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> arguments{program, "--gtest_filter=" + name,
                                     "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "GTEST_", 6) != 0) variables.emplace_back(*variable);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                  pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  BRECCIA_ASSERT(error == 0);
  return child;
}

std::string spawn_and_kill(const std::function<pid_t()>& spawn,
                           const std::function<bool()>& is_opening, base::Random* random) {
  const pid_t child = spawn();
  int how = 0;
  bool reaped = false;
  const auto alive = [&] {
    reaped = ::waitpid(child, &how, WNOHANG) == child;
    return !reaped;
  };
  // Every sixth dies while it starts, opens or recovers.
  if (random->one_in(6)) {
    std::this_thread::sleep_for(microseconds(random->below(80'000)));
  } else {
    while (is_opening() && alive()) std::this_thread::sleep_for(microseconds(200));
    std::this_thread::sleep_for(microseconds(500 + random->below(19'500)));
  }
  ::kill(child, SIGKILL);
  if (!reaped) ::waitpid(child, &how, 0);
  if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) return "";
  return "the child ended by itself, wait status " + std::to_string(how);
}

}  // namespace breccia::crash
