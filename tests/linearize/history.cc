#include "history.h"

#include <fmt/format.h>

#include <chrono>

namespace breccia::linearize {

namespace {

std::string joined(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ","));
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string objects(const std::vector<std::string>& bodies) {
  std::vector<std::string> items;
  for (const std::string& body : bodies) items.push_back('{' + body + '}');
  return joined(items);
}

std::string result_of(const Status& status, const std::string& value) {
  return status.ok() ? quoted(value) : "null";
}

}  // namespace

std::int64_t Recorder::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Recorder::done(std::int64_t called, const std::string& body) { add(called, now(), body); }

void Recorder::add(std::int64_t called, std::int64_t returned, const std::string& body) {
  lines_ += fmt::format("{{\"client\":{},\"call\":{},\"return\":{},{}}}\n", client_, called,
                        returned, body);
  ++count_;
}

void Recorder::add_unknown(std::int64_t called, const std::string& body) {
  lines_ += fmt::format("{{\"client\":{},\"call\":{},{}}}\n", client_, called, body);
  ++count_;
}

std::string put_body(const std::string& key, const std::string& value) {
  return fmt::format(R"("op":"put","key":"{}","value":"{}")", key, value);
}

std::string delete_body(const std::string& key) {
  return fmt::format(R"("op":"delete","key":"{}")", key);
}

std::string append_body(const std::string& key, const std::string& operand) {
  return fmt::format(R"("op":"merge","key":"{}","operator":"append","operand":"{}")", key, operand);
}

std::string get_body(const std::string& key, const Status& status, const std::string& value) {
  return fmt::format(R"("op":"get","key":"{}","result":{})", key, result_of(status, value));
}

std::string multi_get_body(const std::vector<std::string>& keys,
                           const std::vector<Status>& statuses,
                           const std::vector<std::string>& values) {
  std::vector<std::string> names;
  std::vector<std::string> results;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    names.push_back(quoted(keys[i]));
    results.push_back(result_of(statuses[i], values[i]));
  }
  return fmt::format(R"("op":"multiget","keys":{},"results":{})", joined(names), joined(results));
}

std::string range_body(const std::string& begin, const std::string& end, std::uint64_t limit,
                       const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::string> shown;
  for (const auto& [key, value] : pairs) {
    shown.push_back(fmt::format("[{},{}]", quoted(key), quoted(value)));
  }
  return fmt::format(R"("op":"range","begin":"{}","end":"{}","limit":{},"pairs":{})", begin, end,
                     limit, joined(shown));
}

std::string transaction_body(bool committed, const std::vector<std::string>& reads,
                             const std::vector<std::string>& writes) {
  return fmt::format(R"("status":"{}","op":"txn","reads":{},"writes":{})",
                     committed ? "ok" : "aborted", objects(reads), objects(writes));
}

std::string list_body(const std::string& op, const std::string& list,
                      const std::vector<std::string>& bodies) {
  return fmt::format(R"("op":"{}","{}":{})", op, list, objects(bodies));
}

}  // namespace breccia::linearize
