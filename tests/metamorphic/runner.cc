#include "runner.h"

#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/assert.h"
#include "shrink.h"
#include "subject.h"
#include "support/folder.h"

namespace breccia::metamorphic {

namespace {

constexpr char kFile[] = "BRECCIA_METAMORPHIC_FILE";
constexpr char kSuspects[] = "BRECCIA_METAMORPHIC_SUSPECTS";
constexpr char kFilter[] = "--gtest_filter=Metamorphic.ListsAnswerAsRocksDb";

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::vector<char*> pointers(std::vector<std::string>* texts) {
  std::vector<char*> list;
  for (std::string& text : *texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

void write_list(const List& list, const std::string& comment, const std::string& path) {
  std::ofstream file(path);
  std::istringstream lines(comment);
  for (std::string line; std::getline(lines, line);) file << "# " << line << '\n';
  file << print(list);
}

/// Runs this program on the list in `path`; its output goes to `output`.
pid_t spawn(const std::string& path, const std::string& output) {
  const std::string program = this_program();
  std::vector<std::string> arguments{program, kFilter, "--gtest_brief=1"};
  std::vector<std::string> environment{std::string(kFile) + "=" + path};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!text.starts_with("GTEST_") && !text.starts_with("BRECCIA_METAMORPHIC_")) {
      environment.push_back(text);
    }
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                  pointers(&arguments).data(), pointers(&environment).data());
  posix_spawn_file_actions_destroy(&actions);
  BRECCIA_ASSERT(error == 0);
  return child;
}

}  // namespace

std::string check_in_child(const List& list) {
  constexpr auto kPatience = std::chrono::seconds(60);
  const testing::Folder folder(testing::Place::kMemory);
  write_list(list, "", folder / "list");
  const pid_t child = spawn(folder / "list", folder / "output");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int how = 0;
  while (::waitpid(child, &how, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &how, 0);
      return fmt::format("it does not end within {} s", kPatience.count());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return "";
  std::ostringstream output;
  output << std::ifstream(folder / "output").rdbuf();
  return fmt::format("wait status {}: {}", how, output.str().substr(0, 2000));
}

std::string report(std::uint64_t seed, const List& list, const std::string& error,
                   const Check& check) {
  constexpr int kTries = 3;
  constexpr std::uint64_t kRunsMax = 1000;
  std::string last_error = error;
  const auto fails = [&](const List& candidate) {
    for (int i = 0; i < kTries; ++i) {
      const std::string found = check(candidate);
      if (found.empty()) continue;
      last_error = found;
      return true;
    }
    return false;
  };
  const bool again = fails(list);
  const List small = again ? shrink(list, fails, kRunsMax) : list;
  const std::string path = std::filesystem::path(this_program()).parent_path().string() +
                           fmt::format("/metamorphic-{}.txt", seed);
  write_list(small, fmt::format("seed {}: {}", seed, last_error), path);
  return fmt::format("seed {}: {}\nthe list{}, {} operations, is in {}\nreplay: {}={} {} {}", seed,
                     last_error, again ? ", shrunk" : ", which did not fail again",
                     small.ops.size(), path, kFile, path, this_program(), kFilter);
}

std::string file_to_run() {
  const char* const path = std::getenv(kFile);
  return path == nullptr ? "" : path;
}

Result<List> read_list(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status::IOError("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  BRECCIA_TAKE(List list, parse(text.str()));
  make_legal(&list);
  return list;
}

// ---- signals -----------------------------------------------------------------------------------

namespace {

constexpr std::size_t kSlots = 8;
std::array<std::atomic<std::uint64_t>, kSlots> under_way;  // seeds; 0: none

/// Everything that the handler needs; it may not allocate.
struct Restart {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<char*> argument_pointers;
  std::vector<char*> environment_pointers;
  char suspects[256];
};
Restart* restart = nullptr;

void append_number(std::uint64_t number, char** at) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0) *(*at)++ = digits[--count];
}

void start_again(int signal) {
  std::array<void*, 64> frames;
  ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), frames.size()), STDERR_FILENO);
  char* at = restart->suspects + std::strlen(restart->suspects);
  for (const auto& seed : under_way) {
    if (const std::uint64_t number = seed.load(); number != 0) {
      append_number(number, &at);
      *at++ = ' ';
    }
  }
  *at = '\0';
  ::execve(restart->program.c_str(), restart->argument_pointers.data(),
           restart->environment_pointers.data());
  ::_exit(128 + signal);
}

}  // namespace

Suspects::Suspects(std::uint64_t seed) : slot_(0) {
  std::uint64_t none = 0;
  while (!under_way[static_cast<std::size_t>(slot_)].compare_exchange_strong(none, seed)) {
    none = 0;
    slot_ = (slot_ + 1) % static_cast<int>(kSlots);
  }
}

Suspects::~Suspects() { under_way[static_cast<std::size_t>(slot_)] = 0; }

void Suspects::watch_signals() {
  if (restart != nullptr) return;
  restart = new Restart;  // for as long as there may be signals
  restart->program = this_program();
  restart->arguments = {restart->program, kFilter, "--gtest_brief=1"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "GTEST_", 6) != 0) restart->environment.emplace_back(*variable);
  }
  std::strcpy(restart->suspects, kSuspects);
  std::strcat(restart->suspects, "=");
  restart->argument_pointers = pointers(&restart->arguments);
  restart->environment_pointers = pointers(&restart->environment);
  restart->environment_pointers.insert(restart->environment_pointers.begin(), restart->suspects);
  std::array<void*, 4> frames;
  (void)::backtrace(frames.data(), frames.size());  // its first call allocates
  struct sigaction action {};
  action.sa_handler = start_again;
  action.sa_flags = SA_NODEFER | SA_RESETHAND;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    ::sigaction(signal, &action, nullptr);
  }
}

std::vector<std::uint64_t> Suspects::from_environment() {
  std::vector<std::uint64_t> seeds;
  const char* const text = std::getenv(kSuspects);
  std::istringstream words(text == nullptr ? "" : text);
  for (std::uint64_t seed; words >> seed;) seeds.push_back(seed);
  return seeds;
}

}  // namespace breccia::metamorphic
