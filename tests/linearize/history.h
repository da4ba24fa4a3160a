#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace breccia::linearize {

/// One client's share of a history, in the format of tools/linearize/README.md.
/// Threads one owner.
class Recorder {
 public:
  explicit Recorder(int client) : client_(client) {}

  /// Nanoseconds of the clock that all clients read.
  static std::int64_t now();

  /// An operation that was called at `called` and has returned now, whose op and fields are `body`.
  void done(std::int64_t called, const std::string& body);
  /// An operation with times of its own.
  void add(std::int64_t called, std::int64_t returned, const std::string& body);
  /// One of which nobody knows whether it happened, or will.
  void add_unknown(std::int64_t called, const std::string& body);

  [[nodiscard]] const std::string& lines() const { return lines_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  const int client_;
  std::string lines_;
  std::uint64_t count_ = 0;
};

// Bodies: `"op":"put","key":"k","value":"v"`. Keys and values are printable, without quotes.
[[nodiscard]] std::string put_body(const std::string& key, const std::string& value);
[[nodiscard]] std::string delete_body(const std::string& key);
[[nodiscard]] std::string append_body(const std::string& key, const std::string& operand);
/// `status` ok or NotFound.
[[nodiscard]] std::string get_body(const std::string& key, const Status& status,
                                   const std::string& value);
[[nodiscard]] std::string multi_get_body(const std::vector<std::string>& keys,
                                         const std::vector<Status>& statuses,
                                         const std::vector<std::string>& values);
[[nodiscard]] std::string range_body(const std::string& begin, const std::string& end,
                                     std::uint64_t limit,
                                     const std::vector<std::pair<std::string, std::string>>& pairs);
/// A transaction that was committed, or had no effect.
[[nodiscard]] std::string transaction_body(bool committed, const std::vector<std::string>& reads,
                                           const std::vector<std::string>& writes);
/// `list`: "items" of a batch, "reads" of a snapshot.
[[nodiscard]] std::string list_body(const std::string& op, const std::string& list,
                                    const std::vector<std::string>& bodies);

}  // namespace breccia::linearize
