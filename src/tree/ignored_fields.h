#pragma once

#include <breccia/options.h>

#include <string>
#include <vector>

namespace breccia::tree {

/// One sentence for each field of Options::rocksdb that was set and has no effect on a store in
/// folder `path`, as breccia's own field for the matter, which counts, was left alone.
[[nodiscard]] std::vector<std::string> ignored_fields(const Options& options,
                                                      const std::string& path);

/// Whether two paths name the same folder; not if one of them cannot be looked up.
[[nodiscard]] bool is_same_folder(const std::string& a, const std::string& b);

}  // namespace breccia::tree
