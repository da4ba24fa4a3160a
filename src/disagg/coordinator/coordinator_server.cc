#include "disagg/coordinator/coordinator_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/assert.h"
#include "pmem/small_file.h"

namespace breccia::disagg {

namespace {

constexpr std::size_t kNameMax = 255;
constexpr std::size_t kMembersMax = 1024;
constexpr std::size_t kDocumentMax = 512 << 10;
/// Arrivals that are heard before somebody is let go for not having been heard of.
constexpr int kArrivalsAtOnce = 1024;
/// So that one answer has all.
static_assert(kDocumentMax + kMembersMax * (kNameMax + sizeof(std::uint32_t)) + 4096 <
              fabric::kPayloadMax);

bool is_name(const Slice& name) {
  const auto is_of_names = [](char c) { return c > ' ' && c < 127 && c != '/'; };
  return !name.empty() && name.size() <= kNameMax &&
         std::all_of(name.data(), name.data() + name.size(), is_of_names);
}

}  // namespace

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::make(fabric::Port* port,
                                                                   const Options& options) {
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(port, options));
  BRECCIA_TRY(server->read());
  return server;
}

/// Members that it had may be sure of that yet, so they have all of a session's time.
Status CoordinatorServer::read() {
  if (options_.file.empty()) return Status::OK();
  BRECCIA_TAKE(const auto kept, pmem::read_small_file(options_.disk.get(), options_.file));
  if (!kept.has_value()) return Status::OK();
  try {
    const auto all = nlohmann::json::parse(*kept);
    version_ = all.at("version");
    document_ = all.at("document");
    for (const auto& name : all.at("members")) {
      members_.emplace(name, port_->now_us() + options_.session_us);
    }
  } catch (const nlohmann::json::exception& error) {
    return Status::Corruption(options_.file + " is no coordinator's", error.what());
  }
  return Status::OK();
}

Status CoordinatorServer::write() const {
  if (options_.file.empty()) return Status::OK();
  nlohmann::json all = {
      {"version", version_}, {"document", document_}, {"members", nlohmann::json::array()}};
  for (const auto& [name, until] : members_) all["members"].push_back(name);
  const std::string bytes = all.dump();
  return pmem::replace_small_file(options_.disk.get(), options_.file,
                                  std::as_bytes(std::span(bytes)));
}

Status CoordinatorServer::serve(fabric::TimeUs until) {
  const auto now = [this](const Answers::Asker& /*asker*/, Ask ask, WireReader question) {
    return answer(ask, question);
  };
  const fabric::TimeUs often = options_.session_us / 8;
  do {
    auto arrival = port_->poll(std::min(until, port_->now_us() + often));
    for (int n = 0; arrival.has_value(); arrival = port_->poll(0)) {
      if ((arrival->header.kind & kAnswerBit) == 0) answers_.hear(*arrival, now);
      if (++n == kArrivalsAtOnce) break;
    }
    let_go();
    BRECCIA_TRY(failed_);
  } while (port_->now_us() < until);
  return Status::OK();
}

/// Who was not heard of is no member any more; if this one stood still itself, nobody could be.
void CoordinatorServer::let_go() {
  const fabric::TimeUs now = port_->now_us();
  const fabric::TimeUs stood_still = now - std::exchange(heard_, now);
  if (stood_still > options_.session_us / 2) {
    for (auto& [name, until] : members_) until = std::max(until, now + options_.session_us);
  }
  const std::size_t gone =
      std::erase_if(members_, [now](const auto& one) { return one.second < now; });
  if (gone == 0) return;
  ++members_version_;
  failed_ = write();
}

/// None: what happened is not kept, and nobody hears of it.
std::optional<WireWriter> CoordinatorServer::answer(Ask ask, WireReader question) {
  if (!failed_.ok()) return std::nullopt;
  WireWriter answer = refusal(Code::kWrong, "a coordinator does not do that");
  if (ask == Ask::kLook) answer = look(question);
  if (ask == Ask::kJoin) answer = join(question);
  if (ask == Ask::kReplace) answer = replace(question);
  return failed_.ok() ? std::optional(answer) : std::nullopt;
}

/// Who asks is told a tenth less than what it has, for clocks that do not run alike.
WireWriter CoordinatorServer::look(WireReader question) {
  const Slice name = question.take_bytes();
  const auto version = question.take<std::uint64_t>();
  const auto members_version = question.take<std::uint64_t>();
  if (!question.is_whole()) return refusal(Code::kWrong, "no member");
  const auto member = members_.find(name.ToString());
  LookHead head{.version = version_, .members_version = members_version_, .sure_us = 0};
  if (member != members_.end()) {
    member->second = port_->now_us() + options_.session_us;
    head.sure_us = options_.session_us - options_.session_us / 10;
  }
  WireWriter answer = answer_of(Code::kOk);
  answer.add(head);
  if (version != version_) answer.add_bytes(document_);
  if (members_version == members_version_) return answer;
  for (const auto& [one, until] : members_) answer.add_bytes(one);
  return answer;
}

WireWriter CoordinatorServer::join(WireReader question) {
  const Slice name = question.take_bytes();
  if (!question.is_whole() || !is_name(name)) return refusal(Code::kWrong, "no name");
  if (members_.size() >= kMembersMax) return refusal(Code::kFull, "too many members");
  const fabric::TimeUs until = port_->now_us() + options_.session_us;
  if (!members_.emplace(name.ToString(), until).second) {
    return refusal(Code::kWrong, "there is a member of that name");
  }
  ++members_version_;
  failed_ = write();
  return answer_of(Code::kOk);
}

WireWriter CoordinatorServer::replace(WireReader question) {
  const auto version = question.take<std::uint64_t>();
  const Slice document = question.take_bytes();
  const bool is_one = question.is_whole() && document.size() <= kDocumentMax &&
                      nlohmann::json::accept(document.data(), document.data() + document.size());
  if (!is_one) return refusal(Code::kWrong, "no document of JSON");
  const bool is_replaced = version == version_;
  if (is_replaced) {
    ++version_;
    document_ = document.ToString();
    failed_ = write();
  }
  return answer_of(Code::kOk).add(static_cast<std::uint8_t>(is_replaced ? 1 : 0));
}

}  // namespace breccia::disagg
