# trireme_precompile(TARGET)        the common standard headers, for a library
# trireme_precompile_tests(TARGET)  the same and GoogleTest, for a test program
#
# One precompiled header serves all libraries and another all tests: GCC loads one only where the flags agree, and
# programs are compiled with -fPIE. Keep the list short: each source file loads all of it (69 MB; with nlohmann/json and
# filesystem it is 125 MB, and loading it costs what it saves). Files still include what they use; clang-tidy compiles
# them without it.
set(TRIREME_PRECOMPILED <algorithm> <functional> <map> <memory> <string> <vector> <fmt/format.h>)

function(trireme_precompile target)
  if(NOT TARGET trireme_precompiled)
    add_library(trireme_precompiled OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_link_libraries(trireme_precompiled PRIVATE fmt::fmt trireme_flags)
    target_precompile_headers(trireme_precompiled PRIVATE ${TRIREME_PRECOMPILED})
  endif()
  target_precompile_headers(${target} REUSE_FROM trireme_precompiled)
endfunction()

function(trireme_precompile_tests target)
  if(NOT TARGET trireme_precompiled_tests)
    add_executable(trireme_precompiled_tests ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_link_libraries(trireme_precompiled_tests PRIVATE fmt::fmt GTest::gtest trireme_flags trireme_test_flags)
    target_precompile_headers(trireme_precompiled_tests PRIVATE ${TRIREME_PRECOMPILED} <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM trireme_precompiled_tests)
endfunction()
