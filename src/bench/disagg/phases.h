#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/disagg/figures.h"
#include "bench/disagg/watched_port.h"

/// Which parts of an operation took how long, by what its client's port and the hash server's did.
/// The phases of an operation together are all of its time.
/// Source  [hstore] 5.3, figure 9. Deviation: marks, and what the client itself does, have phases
///         of their own.

namespace breccia::bench::disagg {

using Watches = std::vector<const Watch*>;

/// Operations of one kind, and the phases of each.
struct Phases {
  std::vector<std::string> names;
  std::vector<std::vector<std::uint64_t>> ns;  // of each operation, by name
};

/// value: the value is written. rpc: the question and its answer are on their way. queue: it waits
/// for the next message to the ordered server. log: that message, until it is answered. commit:
/// memory servers, who are told meanwhile, have not answered yet. mark: the value before is marked.
/// apply: all else in the hash server. rest: all else in the client.
[[nodiscard]] Phases phases_of_puts(const Watches& clients, const Watch& hash_server);
/// bucket: buckets are read; block: the value is. rest: hashes, checksums.
[[nodiscard]] Phases phases_of_gets(const Watches& clients);
/// index: the ordered server is asked. values: they are read. watermark: it is. rest.
[[nodiscard]] Phases phases_of_scans(const Watches& clients);

/// A figure of each phase, called `name` and its own.
[[nodiscard]] std::vector<std::unique_ptr<Figure>> figures_of(const Phases& phases,
                                                              const std::string& name,
                                                              double seconds);

}  // namespace breccia::bench::disagg
