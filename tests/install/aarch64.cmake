# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCC=aarch64-linux-gnu-gcc -DCXX=... -DEMULATOR=qemu-aarch64 -P aarch64.cmake
# The run time of embedded kernels, and programs with them, for AArch64, on a machine that is none.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
if(NOT DEFINED ENV{QEMU_LD_PREFIX}) # where the C library for the other machine is
  set(ENV{QEMU_LD_PREFIX} /usr/aarch64-linux-gnu)
endif()
set(cross -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CROSSCOMPILING_EMULATOR=${EMULATOR})
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/cmake/embedded -B ${WORK}/embedded ${cross})
run(${CMAKE_COMMAND} --build ${WORK}/embedded -j2)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component cpp)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/install/consumer -B ${WORK}/consumer ${cross} -DCMAKE_BUILD_TYPE=Release
    -Dnereid_DIR=${WORK}/prefix/lib/cmake/nereid -DNEREID_EMBEDDED_LIBRARY=${WORK}/embedded/libnereid_embedded.a)
run(${CMAKE_COMMAND} --build ${WORK}/consumer -j2 --target embedded embedded_c uses_library)
foreach(program embedded embedded_c uses_library)
  foreach(processor max cortex-a53) # with and without what cpu:neoverse-v1 needs
    run(${EMULATOR} -cpu ${processor} ${WORK}/consumer/${program})
  endforeach()
endforeach()
