# Enables CUDA where TRIREME_CUDA asks for it and there is a compiler, and sets TRIREME_HAS_CUDA.
# AUTO leaves it out of a build for a machine without a GPU (TRIREME_CPU_LOOPS=native, as ./run builds).
set(TRIREME_HAS_CUDA OFF)
set(trireme_wants_cuda ON)
if(TRIREME_CUDA STREQUAL "OFF" OR
   (TRIREME_CUDA STREQUAL "AUTO" AND TRIREME_CPU_LOOPS STREQUAL "native" AND NOT EXISTS /dev/nvidiactl))
  set(trireme_wants_cuda OFF)
endif()
if(trireme_wants_cuda)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # This machine's GPU, or Hopper on a machine that only builds.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      if(EXISTS /dev/nvidiactl)
        set(CMAKE_CUDA_ARCHITECTURES native)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 90a-real)
      endif()
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    enable_language(CUDA)
    # For the host's part of a file, which only launches kernels: it takes a third less than with -O3. Device code has
    # optimizations of its own, which -O does not touch.
    string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and later have it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(TRIREME_HAS_CUDA ON)
  elseif(TRIREME_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TRIREME_CUDA is ON, but there is no CUDA compiler: put nvcc on the PATH or set CUDACXX")
  endif()
endif()
