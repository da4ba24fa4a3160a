#pragma once

#include <breccia/status.h>

#include "batch/requests.h"
#include "disagg/client/client.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Runs a batch's requests in their order, by one client: as many writes, lookups and ranges at
/// once as stand between those of another kind.
/// Shape   what the engine takes: the default family, no merges, no ranges that are deleted.
/// Errors  those of the client: writes before the one that failed have happened, and with IOError
///         of some more it is not known. Of single reads they are in their codes. MemoryLimit;
///         std::bad_alloc.
[[nodiscard]] Status run_batch(Client* client, batch::Requests* requests, fabric::TimeUs until);

}  // namespace breccia::disagg
