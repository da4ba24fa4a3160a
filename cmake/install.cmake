# `cmake --install`: the program, the preload library, the C API and the C++ library, the two with
# their headers and pkg-config files, `breccia` and `breccia-cpp`.
include(GNUInstallDirs)
install(TARGETS breccia breccia_core breccia_c breccia_preload)
install(DIRECTORY include/breccia DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${capi_made}/include/breccia/c_rocksdb.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/breccia")

# Paths from the file's own place, so that any --prefix will do.
file(RELATIVE_PATH pc_to_include "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
     "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
function(breccia_pkg_config name language libraries requires)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY CONTENT [[
includedir=${pcfiledir}/@pc_to_include@
libdir=${pcfiledir}/..

Name: @name@
Description: @PROJECT_DESCRIPTION@, for @language@
Version: @PROJECT_VERSION@
Requires: @requires@
Cflags: -I${includedir}
Libs: -L${libdir} @libraries@
]])
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

set(core_libraries "-lbreccia_core -lrocksdb")
if(BRECCIA_CUDA)
  list(TRANSFORM CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES PREPEND "-L" OUTPUT_VARIABLE toolkit)
  list(JOIN toolkit " " toolkit)
  string(APPEND core_libraries " ${toolkit} -lcudart_static -lrt -ldl")
endif()
breccia_pkg_config(breccia C "-lbreccia" "")
breccia_pkg_config(breccia-cpp C++ "${core_libraries}"
  "tbb fmt spdlog libpmem2 liburing libxxhash libisal snappy liblz4 libzstd")
