# Which files make up what. Every list may be empty: a module starts as a folder with a header.

# Lists the files below `folder` with one of the given endings (relative to the project's root).
#   breccia_sources(OUT folder "cc;cu" [EXCLUDE regex])
function(breccia_sources out folder endings)
  cmake_parse_arguments(arg "" "EXCLUDE" "" ${ARGN})
  list(TRANSFORM endings PREPEND "${PROJECT_SOURCE_DIR}/${folder}/*." OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" ${patterns})
  if(arg_EXCLUDE)
    list(FILTER found EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# An executable linked with the library; none if there are no files for it yet.
#   breccia_program(name files... [LIBRARIES libraries...])
function(breccia_program name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE breccia::breccia ${arg_LIBRARIES})
  endif()
endfunction()
