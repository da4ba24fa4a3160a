#include "slab/engine/index.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/memory.h"

namespace breccia::slab {

namespace {

constexpr std::uint64_t kRequestsAtOnce = TableOn::kRequestsAtOnce;

std::uint64_t word_of(const Entry* entry) { return reinterpret_cast<std::uintptr_t>(entry); }
Entry* entry_of(std::uint64_t word) { return reinterpret_cast<Entry*>(word); }

}  // namespace

Result<std::unique_ptr<Index>> Index::make(const TableOn::Ground& ground) {
  BRECCIA_TAKE(TableOn table, TableOn::make(ground));
  return std::unique_ptr<Index>(new Index(std::move(table)));
}

Status Index::find(std::span<const std::uint64_t> number, Entry** entry) const {
  std::vector<hash::Code> code(std::min<std::uint64_t>(number.size(), kRequestsAtOnce));
  static_assert(sizeof(Entry*) == sizeof(std::uint64_t));
  std::vector<std::uint64_t> word(code.size());
  for (std::uint64_t begin = 0; begin < number.size(); begin += kRequestsAtOnce) {
    const std::uint64_t count = std::min(number.size() - begin, kRequestsAtOnce);
    BRECCIA_TRY(table_.run({.all = hash::Operation::kFind,
                            .key = number.data() + begin,
                            .found = word.data(),
                            .code = code.data(),
                            .count = count}));
    std::transform(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(count), entry + begin,
                   entry_of);
  }
  return Status::OK();
}

Status Index::change(const Lists& changes, std::uint64_t sequence, std::vector<Entry*>* before) {
  const std::uint64_t n = changes.count();
  before->assign(n, nullptr);
  std::vector<hash::Code> code(n);
  std::vector<std::uint64_t> word(n), found(n);
  std::vector<hash::Operation> operation(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    word[i] = word_of(changes.entry[i]);
    operation[i] =
        changes.entry[i] == nullptr ? hash::Operation::kDelete : hash::Operation::kUpsert;
  }
  for (std::uint64_t begin = 0; begin < n; begin += kRequestsAtOnce) {
    const std::uint64_t end = std::min(n, begin + kRequestsAtOnce);
    const Status status = table_.run({.operation = operation.data() + begin,
                                      .key = changes.number.data() + begin,
                                      .value = word.data() + begin,
                                      .found = found.data() + begin,
                                      .code = code.data() + begin,
                                      .count = end - begin});
    if (!status.ok() && !status.IsMemoryLimit()) return base::copy_of(status);
    std::uint64_t done = begin;  // with MemoryLimit nothing of this piece was
    bool has_room = status.ok();
    for (; status.ok() && done < end; ++done) {
      (*before)[done] = entry_of(found[done]);
      has_room = has_room && code[done] != hash::Code::kNoRoom;
    }
    if (has_room) continue;
    BRECCIA_TRY(
        undo(changes, sequence, std::span(*before).first(done), std::span(code).first(done)));
    return Status::MemoryLimit("the index finds no room to grow");
  }
  return Status::OK();
}

/// What came in where nothing was goes first, so that what was there finds its place again. Who met
/// an entry of the same changes met nothing that was there before.
Status Index::undo(const Lists& changes, std::uint64_t sequence,
                   std::span<const Entry* const> before, std::span<const hash::Code> code) {
  for (const bool takes_out : {true, false}) {
    std::vector<std::uint64_t> number, word;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (code[i] == hash::Code::kNoRoom) continue;
      const bool was_there = before[i] != nullptr && before[i]->sequence != sequence;
      if (takes_out ? changes.entry[i] == nullptr || before[i] != nullptr : !was_there) continue;
      number.push_back(changes.number[i]);
      word.push_back(word_of(before[i]));
    }
    for (std::size_t begin = 0; begin < number.size(); begin += kRequestsAtOnce) {
      const std::size_t count = std::min<std::size_t>(number.size() - begin, kRequestsAtOnce);
      std::vector<hash::Code> undone(count);
      const Status status =
          table_.run({.all = takes_out ? hash::Operation::kDelete : hash::Operation::kUpsert,
                      .key = number.data() + begin,
                      .value = word.data() + begin,
                      .code = undone.data(),
                      .count = count});
      const bool is_undone = status.ok() && std::find(undone.begin(), undone.end(),
                                                      hash::Code::kNoRoom) == undone.end();
      if (!is_undone) return base::io_error("a batch could not be undone");
    }
  }
  return Status::OK();
}

}  // namespace breccia::slab
