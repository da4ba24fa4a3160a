# Compiler flags, as the interface target breccia_flags: they reach no dependency.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported()

# Line tables are enough for a backtrace and halve the size and link time of full debug information.
if(BRECCIA_INVARIANTS)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
elseif(BRECCIA_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
else()
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
endif()
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# x86-64-v2 (SSE4.2, 2009) runs everywhere; wider paths choose themselves at run time.
set(host_flags -march=x86-64-v2 -mtune=generic -msse4.2)
set(link_flags)
# What a program says, and what debuggers read, names files as the repository does. The second path
# is what ccache makes of the first.
file(RELATIVE_PATH up_to_source "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
set(path_flags "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${up_to_source}=")
list(APPEND host_flags ${path_flags})
if(PROJECT_IS_TOP_LEVEL)
  list(APPEND host_flags -Wall -Wextra -Werror)  # no business of a project that adds this one
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports these inside std::string, the latter where its headers are precompiled.
  list(APPEND host_flags -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()

if(BRECCIA_HARDEN)
  list(APPEND host_flags -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
  list(APPEND link_flags -Wl,-z,relro,-z,now)
endif()

if(BRECCIA_SANITIZE)
  # GCC's flow analysis reports false positives on instrumented code, and it warns of every fence
  # under tsan.
  list(APPEND host_flags -fsanitize=${BRECCIA_SANITIZE} -fno-sanitize-recover=all
       -fno-omit-frame-pointer -Wno-error=maybe-uninitialized -Wno-tsan)
  # Each sanitizer for what it finds: AddressSanitizer stops the accesses that these checks of UBSan
  # are about, and they take a third of the time that such a build takes.
  if(BRECCIA_SANITIZE MATCHES "address")
    list(APPEND host_flags "-fno-sanitize=null,vptr,object-size,pointer-overflow")
  endif()
  list(APPEND link_flags -fsanitize=${BRECCIA_SANITIZE})
endif()

add_library(breccia_flags INTERFACE)
if(BRECCIA_INVARIANTS)
  target_compile_definitions(breccia_flags INTERFACE BRECCIA_INVARIANTS=1 _GLIBCXX_ASSERTIONS=1)
endif()
list(JOIN host_flags "," host_flags_joined)
target_compile_options(breccia_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C>:${path_flags}>"
  "$<$<COMPILE_LANGUAGE:CXX>:${host_flags}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags_joined}>")
target_link_options(breccia_flags INTERFACE ${link_flags})
