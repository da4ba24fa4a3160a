# CUDA: finds nvcc and turns the language on. `./dev setup` puts a toolkit below .deps/cuda.
function(breccia_find_nvcc out)
  foreach(nvcc IN ITEMS "$ENV{CUDACXX}" "${PROJECT_SOURCE_DIR}/.deps/cuda/toolkit/bin/nvcc"
                        "$ENV{CUDA_PATH}/bin/nvcc" /usr/local/cuda/bin/nvcc)
    if(EXISTS "${nvcc}")
      set(${out} "${nvcc}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

if(BRECCIA_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    breccia_find_nvcc(CMAKE_CUDA_COMPILER)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
    message(FATAL_ERROR "CUDA 13 or newer is needed, found ${CMAKE_CUDA_COMPILER_VERSION}")
  endif()
  # CMake 3.25 does not know yet that nvcc 13 speaks C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  target_compile_options(breccia_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr;-Werror=all-warnings>")
endif()

# Adds the CUDA half of src/ to `target`; does nothing in a build without CUDA.
function(breccia_add_cuda target)
  if(NOT BRECCIA_CUDA)
    return()
  endif()
  breccia_sources(kernels src "cu")
  breccia_sources(all src "cc" EXCLUDE "^src/(cli|preload|capi)/")
  list(FILTER all INCLUDE REGEX "/cuda/")
  target_sources(${target} PRIVATE ${kernels} ${all})
  # Public: host files ask for it to know whether the CUDA backend is linked in.
  target_compile_definitions(${target} PUBLIC BRECCIA_HAVE_CUDA=1)
  # nvcc adds these folders by itself.
  set(toolkit ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  list(APPEND toolkit "${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/cccl")
  target_include_directories(${target} SYSTEM PUBLIC "$<$<COMPILE_LANGUAGE:CXX>:${toolkit}>")
endfunction()
