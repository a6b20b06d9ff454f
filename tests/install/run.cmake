# run(PROGRAM ARGUMENTS...): prints what the program printed, leaves it in `output`, and stops when it failed.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
