#pragma once

#include "sst/format.h"

namespace breccia::sst {

/// The checksum of a block's contents and the type byte behind them, as its trailer has it.
/// Shape   `contents` is followed by that byte.
/// Errors  false: no checksum of this type is known.
[[nodiscard]] bool block_checksum(ChecksumType type, const Slice& contents, std::uint32_t* sum);

}  // namespace breccia::sst
