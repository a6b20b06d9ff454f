# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCC=... -DCXX=... -P install.cmake
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/empty)
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component cpp)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/examples/cpp -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/build)

# An environment with nothing in it: no Python can be found.
set(clean env -i PATH=${WORK}/empty)
run(${clean} ${WORK}/build/seed_kernels ${SOURCE}/examples/kernels/seed.py)
run(${clean} ${WORK}/prefix/bin/nereid compile ${SOURCE}/examples/kernels/seed.py --kernel add_kernel
    --signature "*fp32:16, *fp32:16, *fp32:16, i32, 1024" --emit obj -o ${WORK}/add.o)
run(${clean} ${WORK}/prefix/bin/nereid doctor)

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
