#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fabric/local/hello.h"

namespace breccia::fabric::local {

/// Where others of the computer come in: a thread that hears their hellos, hands memory of regions
/// out, and keeps connections for the port's own thread, which need not be there for that.
/// Threads any.
class Door {
 public:
  struct Guest {
    Descriptor socket;
    std::string path;  // where it has a door itself
  };

  /// Errors  IOError: the path is taken, or there is no socket.
  static Result<std::unique_ptr<Door>> open(const std::string& path);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Lets others have the memory of a region, until close_region().
  void open_region(std::uint64_t key, int file);
  void close_region(std::uint64_t key);
  /// Readable while there are guests.
  [[nodiscard]] int bell() const { return bell_.get(); }
  /// Those that have come since the last time.
  [[nodiscard]] std::vector<Guest> take_guests();

 private:
  /// Who has connected, and not said anything yet.
  struct Silent {
    Descriptor socket;
    TimeUs until;
  };
  explicit Door(std::string path) : path_(std::move(path)) {}

  void serve();
  bool serve_once(bool* stops);
  bool accept_all();
  void hear_all();
  void hear(Descriptor socket, const Hello& hello);

  const std::string path_;
  Descriptor listener_, bell_, stop_;
  std::mutex mutex_;  // of what follows, up to the next line
  std::map<std::uint64_t, int> regions_;
  std::vector<Guest> guests_;

  std::vector<Silent> silent_;  // of the thread
  std::thread thread_;
};

}  // namespace breccia::fabric::local
