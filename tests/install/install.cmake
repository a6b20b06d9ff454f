# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCC=... -DCXX=... -P install.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/empty)

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component cpp)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/examples/cpp -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/build)

# An environment with nothing in it: no Python can be found.
set(clean env -i PATH=${WORK}/empty)
run(${clean} ${WORK}/build/seed_kernels ${SOURCE}/examples/kernels/seed.py)
run(${clean} ${WORK}/build/transformer/transformer)
run(${clean} ${WORK}/build/launch_time)
# Tunes, and finds the result again.
run(${clean} NEREID_CACHE_DIR=${WORK}/cache ${WORK}/build/tune ${SOURCE}/examples/kernels/seed.py)
run(${clean} NEREID_CACHE_DIR=${WORK}/cache ${WORK}/build/tune ${SOURCE}/examples/kernels/seed.py)
if(NOT output MATCHES "from disk")
  message(FATAL_ERROR "the result of tuning was not found again")
endif()
run(${clean} ${WORK}/prefix/bin/nereid compile ${SOURCE}/examples/kernels/seed.py --kernel add_kernel
    --signature "*fp32:16, *fp32:16, *fp32:16, i32, 1024" --emit obj -o ${WORK}/add.o)
run(${clean} ${WORK}/prefix/bin/nereid doctor)
run(${clean} ${WORK}/prefix/bin/nereid --cmake-dir)

# The object file with its header, from C.
run(${clean} ${WORK}/prefix/bin/nereid compile ${SOURCE}/examples/kernels/seed.py --kernel add_kernel
    --signature "*fp32:16, *fp32:16, *fp32:16, i32, 1024" --emit header -o ${WORK}/add.h)
file(WRITE ${WORK}/main.c "#include \"add.h\"
int main(void) {
  static float x[3000] __attribute__((aligned(64))), y[3000] __attribute__((aligned(64)));
  static float z[3000] __attribute__((aligned(64)));
  for (int i = 0; i < 3000; ++i)
    x[i] = i, y[i] = 2 * i;
  if (add_kernel_launch(3, 1, 1, x, y, z, 2999))
    return 1;
  for (int i = 0; i < 2999; ++i)
    if (z[i] != 3 * i)
      return 2;
  return z[2999] == 0 ? 0 : 3;
}
")
run(${CC} -I ${WORK} ${WORK}/main.c ${WORK}/add.o -lm -o ${WORK}/add)
run(${WORK}/add)

# Only public functions are exported.
run(${CMAKE_COMMAND} -DLIBRARY=${WORK}/prefix/lib/libnereid.so -DINCLUDE=${SOURCE}/include/nereid -DNM=${NM}
    -DREADELF=${READELF} -P ${SOURCE}/tests/install/exports.cmake)

# The compiler's own library has one function, for the other library.
execute_process(COMMAND ${NM} -D --defined-only ${WORK}/prefix/lib/libnereid_compiler.so OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" listing "${listing}")
list(FILTER listing EXCLUDE REGEX " A NEREID_COMPILER_1$")
if(NOT listing MATCHES "^[0-9a-f]+ T nereid_compiler@@NEREID_COMPILER_1$")
  message(SEND_ERROR "libnereid_compiler.so exports ${listing}")
endif()

# A project with embedded kernels and with the compiler, built where there is no Python, by a Ninja that needs no shell
# script around it. Machine code for a GPU takes an assembler; PTX does not.
function(runs_alone result program)
  execute_process(COMMAND env -i PATH=${WORK}/empty ${program} --version RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(ninja ninja VALIDATOR runs_alone REQUIRED)
set(targets "cpu;ptx:80")
if(DEFINED ENV{NEREID_CUDA_PATH})
  set(clean env -i PATH=${WORK}/empty NEREID_CUDA_PATH=$ENV{NEREID_CUDA_PATH})
endif()
execute_process(COMMAND ${clean} ${WORK}/prefix/bin/nereid compile ${SOURCE}/examples/kernels/seed.py --kernel add_kernel
  --signature "*fp32, *fp32, *fp32, i32, 1024" --target cuda:90 --emit cubin -o ${WORK}/add.cubin
  RESULT_VARIABLE no_assembler OUTPUT_QUIET ERROR_QUIET)
if(NOT no_assembler)
  list(APPEND targets cuda:90)
endif()
file(MAKE_DIRECTORY ${WORK}/tools) # what compilers call
foreach(tool ld as)
  find_program(path_of_${tool} ${tool} REQUIRED)
  file(CREATE_LINK ${path_of_${tool}} ${WORK}/tools/${tool} SYMBOLIC)
endforeach()
set(kernels ${SOURCE}/tests/install/consumer/kernels.py)
function(consume folder c cxx)
  run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/install/consumer -B ${folder} -DCMAKE_PREFIX_PATH=${WORK}/prefix
      -DCMAKE_MAKE_PROGRAM=${ninja} -DCMAKE_C_COMPILER=${c} -DCMAKE_CXX_COMPILER=${cxx} -DCMAKE_BUILD_TYPE=Release
      "-DTARGETS=${targets}")
  run(${clean} PATH=${WORK}/tools ${CMAKE_COMMAND} --build ${folder} -j2)
  run(${clean} ${folder}/embedded)
  run(${clean} ${folder}/embedded_c)
  run(${clean} ${folder}/uses_library)
  run(${clean} ${folder}/compiler ${kernels})
  run(${clean} ${folder}/compiler_c ${kernels})
  run(${clean} ${folder}/both ${kernels})
endfunction()
set(consumer ${WORK}/consumer)
consume(${consumer} ${CC} ${CXX})
# The distribution's own compiler, too.
find_program(gcc gcc)
find_program(gxx g++)
set(compilers ${CC} ${CXX})
if(gcc AND gxx)
  consume(${WORK}/consumer_gcc ${gcc} ${gxx})
  list(APPEND compilers ${gcc} ${gxx})
else()
  message("not built with g++: there is none")
endif()

# The public headers have no warnings in anybody's program: in C++20, those for C also in C++17, in C11 and in C99 (with its
# compilers' anonymous unions); neither have those that are generated for kernels.
set(strict -Wall -Wextra -Wconversion -Werror -fsyntax-only -I ${WORK}/prefix/include)
file(GLOB headers RELATIVE ${WORK}/prefix/include ${WORK}/prefix/include/nereid/*.hpp ${WORK}/prefix/include/nereid/*.h)
set(all)
foreach(header ${headers})
  string(APPEND all "#include <${header}>\n")
endforeach()
string(REGEX REPLACE "#include <[^>]*hpp>\n" "" for_c "${all}")
file(WRITE ${WORK}/headers.cpp "${all}")
file(WRITE ${WORK}/headers_17.cpp "${for_c}")
file(WRITE ${WORK}/headers.c "${for_c}int main(void) { return 0; }\n")
file(GLOB headers ${consumer}/nereid_kernels/embedded/*.h)
set(all)
foreach(header ${headers})
  string(APPEND all "#include \"${header}\"\n")
endforeach()
file(WRITE ${WORK}/kernels.cpp "${all}")
file(WRITE ${WORK}/kernels.c "${all}int main(void) { return 0; }\n")
while(compilers)
  list(POP_FRONT compilers c cxx)
  run(${cxx} -std=c++20 -Wpedantic ${strict} ${WORK}/headers.cpp)
  run(${cxx} -std=c++17 -Wpedantic ${strict} ${WORK}/headers_17.cpp)
  run(${c} -std=c11 -Wpedantic ${strict} ${WORK}/headers.c)
  run(${c} -std=c99 ${strict} ${WORK}/headers.c)
  run(${cxx} -std=c++20 -Wpedantic ${strict} ${WORK}/kernels.cpp)
  run(${cxx} -std=c++17 -Wpedantic ${strict} ${WORK}/kernels.cpp)
  run(${c} -std=c11 -Wpedantic ${strict} ${WORK}/kernels.c)
endwhile()

# A program with embedded kernels needs the system's libraries and nothing else: it runs in a file system that holds these
# and itself alone.
execute_process(COMMAND ldd ${consumer}/embedded OUTPUT_VARIABLE libraries COMMAND_ERROR_IS_FATAL ANY)
set(root ${WORK}/root)
file(COPY ${consumer}/embedded DESTINATION ${root})
string(REGEX MATCHALL "[^\n]+" libraries "${libraries}")
foreach(line ${libraries})
  if(NOT line MATCHES "(linux-vdso|libstdc\\+\\+|libgcc_s|libm|libc|libdl|libpthread|ld-linux)[^/]*so")
    message(FATAL_ERROR "a program with embedded kernels needs ${line}")
  endif()
  if(line MATCHES "(/[^ ]+) \\(")
    set(library ${CMAKE_MATCH_1})
    get_filename_component(folder ${library} DIRECTORY)
    get_filename_component(real ${library} REALPATH)
    get_filename_component(name ${library} NAME)
    file(MAKE_DIRECTORY ${root}${folder})
    file(COPY_FILE ${real} ${root}${folder}/${name})
  endif()
endforeach()
execute_process(COMMAND unshare -r true RESULT_VARIABLE no_namespaces OUTPUT_QUIET ERROR_QUIET)
if(no_namespaces)
  message("not run in a file system of its own: this machine allows no user namespaces")
else()
  run(unshare -r chroot ${root} /embedded)
endif()

# The run time of embedded kernels alone; the compiler is then missing, and said to be.
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/small --component embedded)
file(GLOB_RECURSE installed RELATIVE ${WORK}/small ${WORK}/small/*)
if(installed MATCHES "libnereid.so|nereid.hpp" OR NOT installed MATCHES "libnereid_embedded.a")
  message(FATAL_ERROR "the component `embedded` installs ${installed}")
endif()
file(WRITE ${WORK}/find/CMakeLists.txt "cmake_minimum_required(VERSION 3.20)
project(find LANGUAGES CXX)
find_package(nereid 0.1 REQUIRED COMPONENTS \${COMPONENT})
")
run(${CMAKE_COMMAND} -S ${WORK}/find -B ${WORK}/find/embedded -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/small
    -DCMAKE_CXX_COMPILER=${CXX} -DCOMPONENT=embedded)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/find -B ${WORK}/find/compiler -G Ninja
  -DCMAKE_PREFIX_PATH=${WORK}/small -DCMAKE_CXX_COMPILER=${CXX} -DCOMPONENT=compiler
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "component `compiler` of nereid is not")
  message(FATAL_ERROR "a missing component is not reported: ${output}")
endif()

# A file that is not there is missed before anything is built.
file(WRITE ${WORK}/find/CMakeLists.txt "cmake_minimum_required(VERSION 3.20)
project(find LANGUAGES C CXX)
find_package(nereid 0.1 REQUIRED COMPONENTS embedded)
add_executable(program main.cpp)
nereid_add_kernels(program FILE nowhere.py KERNEL add SIGNATURES i32)
")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/find -B ${WORK}/find/nowhere -G Ninja
  -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "there is no file[ \n]+[^ ]*/find/nowhere.py")
  message(FATAL_ERROR "a missing file of kernels is not reported: ${output}")
endif()

# Arguments of wrong kinds do not compile, their right neighbours do.
file(READ ${SOURCE}/tests/install/wrong_kinds.cpp text)
string(REGEX MATCHALL "CASE == [0-9]+" cases "${text}")
foreach(case ${cases})
  string(REGEX REPLACE "CASE == " "" case ${case})
  execute_process(COMMAND ${CXX} -std=c++20 -Werror -fsyntax-only -DCASE=${case} -I ${WORK}/prefix/include
    -I ${consumer}/nereid_kernels/both ${SOURCE}/tests/install/wrong_kinds.cpp
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(case EQUAL 0 AND NOT status EQUAL 0)
    message(FATAL_ERROR "calls that are right do not compile: ${output}")
  elseif(NOT case EQUAL 0 AND status EQUAL 0)
    message(FATAL_ERROR "case ${case} of wrong_kinds.cpp compiles")
  elseif(case MATCHES "^(1|2|3|4|5|10|11|12|15)$" AND NOT output MATCHES "no known conversion.*(Pointer|Number)<")
    message(FATAL_ERROR "nobody says which argument of case ${case} is wrong: ${output}")
  endif()
endforeach()
