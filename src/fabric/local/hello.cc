#include "fabric/local/hello.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/assert.h"
#include "base/clock.h"

namespace breccia::fabric::local {

namespace {

constexpr int kBacklog = 128;

Status failed(const std::string& what, const std::string& path) {
  return Status::IOError(what + " " + path, std::strerror(errno));
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= std::min(sizeof address.sun_path, Hello::kPathMax)) {
    return Status::InvalidArgument("a path of a socket has 1 to 103 bytes", path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Descriptor make_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Until it is closed others wait for that. Not open: then nobody waits.
Descriptor lock_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Descriptor locked(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!locked.is_open() || ::flock(locked.get(), LOCK_EX) != 0) return {};
  return locked;
}

/// Whoever listened there was killed. Of a file that is no socket a connection says the same.
bool was_left_behind(const sockaddr_un& address) {
  struct stat file {};
  if (::lstat(address.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const Descriptor probe = make_socket();
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  return probe.is_open() && ::connect(probe.get(), to, sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

/// A socket whose other side has not listened yet is tried again: its queue may be full.
Result<Descriptor> connect_to(const std::string& path, TimeUs until) {
  BRECCIA_TAKE(const sockaddr_un address, address_of(path));
  while (true) {
    Descriptor socket = make_socket();
    if (!socket.is_open()) return failed("no socket for", path);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(socket.get(), to, sizeof address) == 0) {
      if (is_of_same_user(socket)) return socket;
      return Status::InvalidArgument("another user listens at " + path);
    }
    if (errno != EAGAIN) return failed("nobody listens at", path);
    if (base::now_us() >= until) return Status::TimedOut("too many connect to " + path);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// What was answered, and the descriptor that came with it.
Result<Answer> receive_answer(const Descriptor& socket, const std::string& path, TimeUs until,
                              Descriptor* file) {
  if (!wait_for(socket.get(), POLLIN, until)) return Status::TimedOut("no answer from " + path);
  Answer answer{};
  iovec part{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Of one: with the padding there would be room for two.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got != sizeof answer) return failed("no answer from", path);
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    *file = Descriptor(fd);
  }
  return answer;
}

Result<Descriptor> hello(const std::string& path, const Hello& hello, TimeUs until,
                         Descriptor* file) {
  BRECCIA_TAKE(Descriptor socket, connect_to(path, until));
  // It fits into the socket's room, which is empty.
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
    return failed("no hello to", path);
  }
  BRECCIA_TAKE(const Answer answer, receive_answer(socket, path, until, file));
  switch (answer) {
    case Answer::kYes:
      return socket;
    case Answer::kNoSuchRegion:
      return Status::InvalidArgument("no such region at " + path);
    case Answer::kOtherVersion:
      return Status::InvalidArgument(path + " speaks another version", "use the same release");
  }
  return Status::InvalidArgument("no answer that is known, from " + path);
}

}  // namespace

Result<Descriptor> listen_at(const std::string& path) {
  BRECCIA_TAKE(const sockaddr_un address, address_of(path));
  Descriptor socket = make_socket();
  if (!socket.is_open()) return failed("no socket for", path);
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  // One at a time in a folder, so that what nobody listens at is not about to be listened at.
  const Descriptor folder = lock_folder_of(path);
  bool is_bound = ::bind(socket.get(), at, sizeof address) == 0;
  if (!is_bound && errno == EADDRINUSE && was_left_behind(address)) {
    ::unlink(address.sun_path);
    is_bound = ::bind(socket.get(), at, sizeof address) == 0;
  }
  if (!is_bound) return failed("cannot listen at", path);
  if (::listen(socket.get(), kBacklog) != 0) return failed("cannot listen at", path);
  return socket;
}

Result<Descriptor> say_hello(const std::string& path, const Hello& said, TimeUs until) {
  Descriptor none;
  return hello(path, said, until, &none);
}

Result<Descriptor> ask_for_region(const std::string& path, std::uint64_t key, TimeUs until) {
  Hello said;
  said.wants = Hello::Wants::kRegion;
  said.key = key;
  Descriptor file;
  BRECCIA_TAKE(const Descriptor socket, hello(path, said, until, &file));
  if (!file.is_open()) return Status::IOError("no memory came from " + path);
  return file;
}

bool answer(const Descriptor& socket, Answer answer, int file) {
  iovec part{.iov_base = &answer, .iov_len = sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(rights), &file, sizeof file);
  }
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL) == sizeof answer;
}

bool is_of_same_user(const Descriptor& socket) {
  ucred other{};
  socklen_t bytes = sizeof other;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 &&
         other.uid == ::geteuid();
}

bool wait_for(int fd, short events, TimeUs until) {
  while (true) {
    const TimeUs now = base::now_us();
    const TimeUs left = until > now ? until - now : 0;
    pollfd one{.fd = fd, .events = events, .revents = 0};
    const timespec time{.tv_sec = static_cast<time_t>(left / 1'000'000),
                        .tv_nsec = static_cast<long>(left % 1'000'000 * 1000)};
    const int ready = ::ppoll(&one, 1, &time, nullptr);
    if (ready > 0) return true;
    if (ready == 0 && left == 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace breccia::fabric::local
