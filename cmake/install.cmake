# `cmake --install`: the program, the C API with its pkg-config file, the preload library.
include(GNUInstallDirs)
install(TARGETS breccia breccia_c breccia_preload)
install(FILES include/breccia/c.h "${capi_made}/include/breccia/c_rocksdb.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/breccia")
# Paths from the file's own place, so that any --prefix will do.
file(RELATIVE_PATH pc_to_include "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
     "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/breccia.pc" @ONLY CONTENT [[
includedir=${pcfiledir}/@pc_to_include@
libdir=${pcfiledir}/..

Name: breccia
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -lbreccia
]])
install(FILES "${PROJECT_BINARY_DIR}/breccia.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
