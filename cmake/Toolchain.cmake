# Language level, warnings, linker, cache and sanitizers for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_link_options(-fuse-ld=lld -Wl,--gc-sections)
add_compile_options(-ffunction-sections -fdata-sections)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # A precompiled header is cacheable once its time stamps are out of the key.
  set(NEREID_CCACHE ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${NEREID_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${NEREID_CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang\ -fno-pch-timestamp>)
endif()

if(NEREID_SANITIZE)
  string(REPLACE ";" "," NEREID_SANITIZE_LIST "${NEREID_SANITIZE}")
  add_compile_options(-fsanitize=${NEREID_SANITIZE_LIST} -fno-omit-frame-pointer
                      -fno-sanitize=vptr,function)
  add_link_options(-fsanitize=${NEREID_SANITIZE_LIST})
endif()
if(NEREID_FUZZ) # libFuzzer follows the branches of all our code, not of its own programs alone
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

# Linking is memory-hungry, and the machines are small.
set_property(GLOBAL PROPERTY JOB_POOLS link_pool=1)
set(CMAKE_JOB_POOL_LINK link_pool)

# Usage requirements of every target of ours: warnings, and LLVM's own build has neither RTTI nor exceptions.
add_library(nereid_options INTERFACE)
target_compile_options(nereid_options INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Werror=return-type -Werror=switch
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti -fno-exceptions>)
target_include_directories(nereid_options INTERFACE ${PROJECT_SOURCE_DIR}/include
                           ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/src)

# nereid_library(NAME SOURCES... [LINK libs...] [MLIR | LLVM]): one internal static library.
# MLIR: the library uses MLIR and shares the one precompiled header. LLVM: it reads these headers too, but may call only what
# programs that do not compile have: NEREID_LLVM_SMALL.
function(nereid_library name)
  cmake_parse_arguments(ARG "MLIR;LLVM" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC nereid_options ${ARG_LINK})
  if(ARG_MLIR)
    nereid_use_mlir(${name})
  elseif(ARG_LLVM)
    nereid_use_mlir(${name} ONLY nereid_llvm_small)
  endif()
endfunction()
