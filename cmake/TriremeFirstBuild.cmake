# What makes a first build short, for most of what the compiler reads is headers.
#
# trireme_first_build(TARGET)        for a library
# trireme_first_build_tests(TARGET)  for a test program
#
# Precompiled headers: one serves all libraries and another, with GoogleTest, all tests: GCC loads one only where the
# flags agree, and programs are compiled with -fPIE. Keep the list short: each source file loads all of it (69 MB; with
# nlohmann/json and filesystem it is 125 MB, and loading it costs what it saves). Files still include what they use;
# clang-tidy compiles them without it.
#
# Unity builds: with TRIREME_UNITY the sources of a target are compiled 24 at a time as one. Names in anonymous
# namespaces are therefore unique in a folder. A change then recompiles 24 files: leave it off to work on one file again
# and again, as the preset debug does.
option(TRIREME_UNITY "Compile sources 24 at a time as one: half the first build" OFF)
set(TRIREME_PRECOMPILED <algorithm> <functional> <map> <memory> <string> <vector> <fmt/format.h>)

function(trireme_first_build target)
  if(NOT TARGET trireme_precompiled)
    add_library(trireme_precompiled OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_link_libraries(trireme_precompiled PRIVATE fmt::fmt trireme_flags)
    target_precompile_headers(trireme_precompiled PRIVATE ${TRIREME_PRECOMPILED})
  endif()
  target_precompile_headers(${target} REUSE_FROM trireme_precompiled)
  trireme_unity(${target})
endfunction()

function(trireme_first_build_tests target)
  if(NOT TARGET trireme_precompiled_tests)
    add_executable(trireme_precompiled_tests ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_link_libraries(trireme_precompiled_tests PRIVATE fmt::fmt GTest::gtest trireme_flags trireme_test_flags)
    target_precompile_headers(trireme_precompiled_tests PRIVATE ${TRIREME_PRECOMPILED} <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM trireme_precompiled_tests)
  trireme_unity(${target})
endfunction()

function(trireme_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TRIREME_UNITY} UNITY_BUILD_BATCH_SIZE 24)
endfunction()

# trireme_join_cuda(LIST): with TRIREME_UNITY, replaces the sources of LIST by files that include six of them each; CMake
# does that itself from 3.31 on. Of what nvcc takes for a small file, most is reading headers.
function(trireme_join_cuda list)
  if(NOT TRIREME_UNITY)
    return()
  endif()
  set(joined)
  set(sources ${${list}})
  while(sources)
    list(SUBLIST sources 0 6 part)
    list(REMOVE_ITEM sources ${part})
    list(TRANSFORM part REPLACE "(.+)" "#include \"${CMAKE_CURRENT_SOURCE_DIR}/\\1\"")
    list(JOIN part "\n" text)
    list(LENGTH joined number)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${list}_${number}.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}\n" @ONLY)
    list(APPEND joined ${file})
  endwhile()
  set(${list} ${joined} PARENT_SCOPE)
endfunction()
