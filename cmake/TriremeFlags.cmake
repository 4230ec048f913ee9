# How all of Trireme is compiled: warnings and, where asked for, sanitizers.
add_library(trireme_flags INTERFACE)
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
# The libraries are built so that they can go into a shared one; nobody replaces their functions one by
# one, so the compiler may inline them.
target_compile_options(trireme_flags INTERFACE -fno-semantic-interposition)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Collecting garbage less often makes GCC a twentieth faster and 100 to 200 MB larger.
  target_compile_options(trireme_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()
if(TRIREME_WERROR)
  target_compile_options(trireme_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns wrongly about `"a" + std::string` when it optimizes (GCC bug 105651, fixed in 13); the other two are the
  # same where std::string comes from a precompiled header.
  target_compile_options(trireme_flags INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(trireme_flags INTERFACE -Wthread-safety)
endif()
if(TRIREME_SANITIZE)
  add_compile_options(-fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRIREME_SANITIZE})
endif()

# ccache where there is one: a second build of the same tree takes seconds.
find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness ccache caches nothing that uses a precompiled header. Without the depend mode it takes a
  # precompiled header from before a change of comments, which GCC then does not recognize as what a file includes.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 "${TRIREME_CCACHE}")
endif()
