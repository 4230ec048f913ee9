# trireme_library(NAME
#   PUBLIC_HEADERS a.h …   names in include/trireme/ that belong to this folder
#   SOURCES a.cpp …        files of src/NAME
#   DEPENDS base …         folders it may include; must agree with the table in src/README.md (a test checks)
#   LINKS fmt::fmt …       foreign libraries, private
#   LIGHT)                 no hot loops: compiled with -O1, which takes two thirds of the time of -O3
#
# One folder under src/ is one static library: target trireme_NAME, for users trireme::NAME.
function(trireme_library name)
  cmake_parse_arguments(ARG "LIGHT" "" "PUBLIC_HEADERS;SOURCES;DEPENDS;LINKS" ${ARGN})
  add_library(trireme_${name} STATIC ${ARG_SOURCES})
  add_library(trireme::${name} ALIAS trireme_${name})
  set_target_properties(trireme_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(trireme_${name} PUBLIC cxx_std_20)
  target_include_directories(trireme_${name}
    PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND trireme_)
  target_link_libraries(trireme_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_LINKS} $<BUILD_INTERFACE:trireme_flags>)
  if(ARG_LIGHT)
    target_compile_options(trireme_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(NOT "OpenMP::OpenMP_CXX" IN_LIST ARG_LINKS)  # its flag is not that of the precompiled header
    trireme_first_build(trireme_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY TRIREME_LIBRARIES ${name})
  list(TRANSFORM ARG_PUBLIC_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/trireme/)
  set_property(GLOBAL APPEND PROPERTY TRIREME_PUBLIC_HEADERS ${ARG_PUBLIC_HEADERS})
endfunction()
