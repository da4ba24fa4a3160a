#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "disagg/coordinator/coordinator.h"

namespace breccia::disagg {

class ZooKeeperSession;

/// What servers agree on, in ZooKeeper. The document is the node ROOT/map, its version one more
/// than the node's; members are the ephemeral nodes below ROOT/members.
///
/// A session that ends is the end of a membership, but not of looking: the next look() begins
/// another one. A member that does not call look() for its session's time leaves.
/// Cost    look() puts three questions in a sixteenth of the session, and reads the document only
///         if it has changed.
/// Threads one; two others are the library's, and a member has one more.
class ZooKeeper final : public Coordinator {
 public:
  /// What ZooKeeper takes if it is not told otherwise, less what is sent with it.
  static constexpr std::size_t kDocumentBytesMax = 1'000'000;

  struct Options {
    std::string hosts;  // "host:port,...": servers of one ensemble, set up alike
    std::string root;   // a path in ZooKeeper, from "/" on; made if there is none
    /// Whoever is not heard of for so long is gone; the servers may grant another time. No shorter
    /// than two of their ticks.
    fabric::TimeUs session_us = 200'000;
  };

  /// Begins to connect; that nobody answers is seen later.
  /// Errors  InvalidArgument: hosts without an address, no path, no time.
  static Result<std::unique_ptr<ZooKeeper>> open(const Options& options);
  /// It leaves at once, if there is a connection.
  /// Bound   some seconds, if the server stands still; none if it is gone.
  ~ZooKeeper() override;

  [[nodiscard]] std::string describe() const override;
  /// Bound   where hosts are names, it may look for their addresses when a session has ended.
  [[nodiscard]] const View* look() override;
  /// Errors  and InvalidArgument: no name of a node, or it is another one's.
  [[nodiscard]] Status join(const std::string& name, fabric::TimeUs until) override;
  [[nodiscard]] fabric::TimeUs sure_until_us() const override;
  /// Errors  and InvalidArgument: a document of more than kDocumentBytesMax.
  [[nodiscard]] Result<bool> replace(std::uint64_t version, const std::string& document,
                                     fabric::TimeUs until) override;

 private:
  explicit ZooKeeper(const Options& options);
  Status begin_session();

  const Options options_;
  std::unique_ptr<ZooKeeperSession> session_;  // null: none could be begun
  std::optional<View> view_;
  bool has_joined_ = false;  // or may have
  bool is_member_ = false;   // since join(), by this session
};

}  // namespace breccia::disagg
