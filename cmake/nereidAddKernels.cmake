# nereid_add_kernels(TARGET FILE kernels.py KERNEL name SIGNATURES text...
#                    [TARGETS cpu cuda:90 ptx:80...] [OPTIONS name=value...] [NAME name] [NAMESPACE name])
#
# Compiles a kernel when the program is built, once for each signature and target, and adds it to TARGET, whose sources
# then `#include "NAME.h"` and call `NAMESPACE::NAME(grid, stream, arguments...)`. The program needs neither Nereid's
# compiler nor LLVM nor Python when it runs.
#
#   SIGNATURES  one text for each variant, with a type or value for each parameter: "*fp32:16, *fp32:16, i32, 1024".
#               After `|` compile options of this variant: "*fp16, i32, 128 | num_warps=8, on=cuda"
#   TARGETS     cpu (code for any x86-64, for AVX2 and for AVX-512, chosen when the program runs), cpu:avx2 and the like
#               for one of them, cuda:90 (machine code for an architecture), ptx:80 (for this and all later ones, which
#               the driver compiles). Default: cpu
#   NAME        of the kernel in C++ and of the header; default: KERNEL
#   NAMESPACE   default: kernels
function(nereid_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "FILE;KERNEL;NAME;NAMESPACE" "SIGNATURES;TARGETS;OPTIONS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "nereid_add_kernels: unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if("SIGNATURES" IN_LIST ARGN AND NOT ARG_SIGNATURES)
    set(ARG_SIGNATURES " ") # of a kernel without parameters
  endif()
  foreach(needed FILE KERNEL SIGNATURES)
    if("${ARG_${needed}}" STREQUAL "")
      message(FATAL_ERROR "nereid_add_kernels: ${needed} is missing")
    endif()
  endforeach()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "nereid_add_kernels: there is no target ${target}")
  endif()
  if(NOT NEREID_EXECUTABLE)
    message(FATAL_ERROR "nereid_add_kernels: the program `nereid` is not installed beside the package: set NEREID_EXECUTABLE")
  endif()
  if(NOT TARGET nereid::embedded)
    message(FATAL_ERROR "nereid_add_kernels: the component `embedded` of nereid is not installed")
  endif()
  set(name ${ARG_KERNEL})
  if(ARG_NAME)
    set(name ${ARG_NAME})
  endif()
  if(NOT DEFINED ARG_NAMESPACE)
    set(ARG_NAMESPACE kernels)
  endif()
  if(NOT ARG_TARGETS)
    set(ARG_TARGETS cpu)
  endif()
  get_filename_component(file "${ARG_FILE}" ABSOLUTE)
  get_property(generated SOURCE "${file}" PROPERTY GENERATED)
  if(NOT generated AND NOT EXISTS "${file}")
    message(FATAL_ERROR "nereid_add_kernels: there is no file ${file}")
  endif()

  # What `cpu` stands for, as `nereid embed` has it.
  set(targets)
  foreach(each ${ARG_TARGETS})
    if(NOT each STREQUAL "cpu")
      list(APPEND targets ${each})
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
      list(APPEND targets cpu:aarch64 cpu:neoverse-v1)
    else()
      list(APPEND targets cpu:baseline cpu:avx2 cpu:avx512)
    endif()
  endforeach()

  list(REMOVE_DUPLICATES targets)

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/nereid_kernels/${target})
  file(MAKE_DIRECTORY ${folder})
  set(base ${folder}/${name})
  set(words embed ${file} --kernel ${ARG_KERNEL} --name ${name} --namespace=${ARG_NAMESPACE} -o ${base})
  set(objects)
  set(number 0)
  foreach(signature IN LISTS ARG_SIGNATURES)
    list(APPEND words --signature "${signature}")
    foreach(each ${targets})
      if(NOT signature MATCHES "[|].*on *= *cuda" AND each MATCHES "^cpu:(.*)$")
        list(APPEND objects ${base}.${number}.${CMAKE_MATCH_1}.o)
      endif()
    endforeach()
    math(EXPR number "${number} + 1")
  endforeach()
  foreach(each ${targets})
    list(APPEND words --target ${each})
  endforeach()
  foreach(option IN LISTS ARG_OPTIONS)
    list(APPEND words --option ${option})
  endforeach()
  add_custom_command(OUTPUT ${base}.c ${base}.h ${objects}
    COMMAND ${NEREID_EXECUTABLE} ${words}
    DEPENDS ${file} ${NEREID_EXECUTABLE} VERBATIM
    COMMENT "Compiling kernel ${ARG_KERNEL} of ${ARG_FILE}")
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "C" IN_LIST languages)
    set_source_files_properties(${base}.c PROPERTIES LANGUAGE CXX)
  endif()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(${target} PRIVATE ${base}.c ${base}.h ${objects})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${folder}>)
  target_link_libraries(${target} PUBLIC nereid::embedded)
endfunction()
