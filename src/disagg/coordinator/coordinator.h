#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/result.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// What servers of a cluster agree on: a document, and who of them is there.
///
/// A document is replaced by who knows its version, so of two that replace it at once one is
/// refused. A member is there until it leaves, or has not been heard of for the session's time.
/// Times are of the clock of ports (fabric::Port::now_us).
///
/// Order   members of a view are as of its document, or later: a member that has put its name into
///         the document, and is not in the view, is none any more.
/// Threads one.
class Coordinator {
 public:
  /// What was last heard.
  struct View {
    std::uint64_t version = 0;  // of the document; 0: there is none
    std::string document;
    std::set<std::string> members;
  };

  Coordinator() = default;
  virtual ~Coordinator() = default;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Which one this is, for people.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// What was last heard; null: nothing yet. It does not wait: it asks for news, and says that this
  /// one lives, so a member calls it several times in a session's time.
  [[nodiscard]] virtual const View* look() = 0;
  /// What the last try to reach it came to, if one is known. InvalidArgument: it is of another
  /// release, or there is no such address, so waiting for it is in vain.
  [[nodiscard]] virtual Status reached() const { return Status::OK(); }

  /// Makes this one a member, by a name that nobody had or will have.
  /// Errors  TimedOut, IOError: it may be one. InvalidArgument: it has joined before.
  [[nodiscard]] virtual Status join(const std::string& name, fabric::TimeUs until) = 0;
  /// Until then everybody takes it for a member; 0: it is none, and if it was, does not become one
  /// again.
  [[nodiscard]] virtual fabric::TimeUs sure_until_us() const = 0;

  /// Replaces the document if `version` is its own. False: it is not.
  /// Errors  TimedOut, IOError: it may have been replaced, or may be yet.
  [[nodiscard]] virtual Result<bool> replace(std::uint64_t version, const std::string& document,
                                             fabric::TimeUs until) = 0;
};

}  // namespace breccia::disagg
