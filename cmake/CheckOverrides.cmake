# check_overrides(FILE CLASS HEADER:CLASS...): stops the configure step where CLASS
# of FILE does not override every virtual of the classes of the installed torch, of
# which HEADER is a path below its include folder.
function(check_overrides file class)
  list(TRANSFORM ARGN PREPEND "${TorchWheel_ROOT}/include/" OUTPUT_VARIABLE theirs)
  string(REGEX MATCH "^2\\.([0-9]+)" minor "${TorchWheel_VERSION}")
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cmake/check_overrides.py"
      "${CMAKE_MATCH_1}" "${CMAKE_SOURCE_DIR}/${file}" "${class}" ${theirs}
    RESULT_VARIABLE failed ERROR_VARIABLE what)
  if(failed)
    message(FATAL_ERROR "torch ${TorchWheel_VERSION}: ${what}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/${file}")
endfunction()
