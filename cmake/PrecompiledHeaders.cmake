# Precompiled headers. Each is carried by a library without code of its own, and used by targets with the same flags of compilation.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch.cpp CONTENT "// Carries a precompiled header.\n")

# nereid_precompile(CARRIER HEADER LINK libs...)
function(nereid_precompile carrier header)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${carrier} STATIC ${PROJECT_BINARY_DIR}/pch.cpp)
  target_link_libraries(${carrier} PUBLIC nereid_options ${ARG_LINK})
  target_precompile_headers(${carrier} PRIVATE ${header})
endfunction()

# nereid_use_precompiled(TARGET CARRIER)
function(nereid_use_precompiled target carrier)
  target_precompile_headers(${target} REUSE_FROM ${carrier})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE") # The header is compiled with -fPIC, and must be used with the same.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# The one of all that uses MLIR.
nereid_precompile(nereid_pch ${PROJECT_SOURCE_DIR}/src/ir/ngpu/pch.h LINK nereid_llvm_headers)
add_dependencies(nereid_pch nereid_tile_tablegen nereid_ngpu_tablegen)
