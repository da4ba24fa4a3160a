#include "tree/log_note.h"

#include <fmt/format.h>

#include <sstream>

#include "base/checksum.h"
#include "tree/copies.h"

/// The note as text:
///   BRECCIA_LOG 1
///   <store_id> <applied> <manifest> <number of parts>
///   <family> <from> <has_all>            a line a part
///   <CRC32C of all before it>

namespace breccia::tree {

namespace {

constexpr char kFirstLine[] = "BRECCIA_LOG 1\n";

std::string name_in(const std::string& path) { return path + "/" + kLogNote; }

bool parse(const std::string& text, LogNote* note) {
  const std::size_t body = text.rfind('\n', text.size() < 2 ? 0 : text.size() - 2) + 1;
  std::uint32_t crc = 0;
  if (!(std::istringstream(text.substr(body)) >> crc)) return false;
  if (body == 0 || crc != base::crc32c(0, text.data(), body) || !text.starts_with(kFirstLine)) {
    return false;
  }
  std::istringstream in(text.substr(sizeof kFirstLine - 1, body));
  std::size_t parts = 0;
  in >> note->store_id >> note->applied >> note->manifest >> parts;
  for (std::size_t i = 0; i < parts && in; ++i) {
    LogPart part;
    in >> part.family >> part.from >> part.has_all;
    note->parts.push_back(part);
  }
  return static_cast<bool>(in) && note->store_id != 0;
}

}  // namespace

LogNote read_log_note(rocksdb::Env* env, const std::string& path) {
  std::string text;
  LogNote note;
  if (!env->FileExists(name_in(path)).ok()) return {};
  if (!rocksdb::ReadFileToString(env, name_in(path), &text).ok()) return {};
  return parse(text, &note) ? note : LogNote();
}

Status write_log_note(rocksdb::Env* env, const std::string& path, const LogNote& note) {
  std::string text = kFirstLine;
  text +=
      fmt::format("{} {} {} {}\n", note.store_id, note.applied, note.manifest, note.parts.size());
  for (const LogPart& part : note.parts) {
    text += fmt::format("{} {} {:d}\n", part.family, part.from, part.has_all);
  }
  text += fmt::format("{}\n", base::crc32c(0, text.data(), text.size()));
  const std::string unfinished = name_in(path) + ".new";
  BRECCIA_TRY(rocksdb::WriteStringToFile(env, text, unfinished, /*should_sync=*/true));
  return env->RenameFile(unfinished, name_in(path));
}

Status remove_log_note(rocksdb::Env* env, const std::string& path) {
  const Status removed = env->DeleteFile(name_in(path));
  if (!removed.ok() && !env->FileExists(name_in(path)).IsNotFound()) return removed;
  return sync_folder(env, path);
}

std::string manifest_of(rocksdb::Env* env, const std::string& path) {
  std::string text;
  if (!rocksdb::ReadFileToString(env, path + "/CURRENT", &text).ok()) return {};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace breccia::tree
