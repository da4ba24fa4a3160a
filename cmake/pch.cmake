# Precompiled headers: what most files include and what takes longest to read. Nothing of ours, so
# that no change in this project makes them anew. The release preset goes without: a file that
# leaves an include to them fails there.
set(pch_headers
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <string>
  <thread> <unordered_map> <utility> <vector> <fmt/format.h> <rocksdb/db.h>)

# Precompiles those and `headers` for the C++ files of `target`, or gives it what `owner` has.
#   breccia_precompile(target [FROM owner] [headers...])
function(breccia_precompile target)
  cmake_parse_arguments(arg "" "FROM" "" ${ARGN})
  if(NOT BRECCIA_PCH)
    return()
  endif()
  # A program's code is as position-independent as the library's whose headers it takes, and ccache
  # needs to see in preprocessed code that there is such a header (with CCACHE_SLOPPINESS, ./dev).
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC;-fpch-preprocess>")
  if(arg_FROM)
    target_precompile_headers(${target} REUSE_FROM ${arg_FROM})
    return()
  endif()
  foreach(header IN LISTS pch_headers arg_UNPARSED_ARGUMENTS)
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
endfunction()
