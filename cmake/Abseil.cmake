# Builds abseil from its source in build/abseil, where ./dev puts Debian's: the static
# libraries of Debian's package are not position-independent, and its shared ones
# would have to travel beside ours. Optimized in any kind of build, as Debian's are.
function(ebbtide_add_abseil)
  set(CMAKE_BUILD_TYPE Release)
  set(ABSL_PROPAGATE_CXX_STD ON)
  add_subdirectory("${CMAKE_SOURCE_DIR}/build/abseil" abseil EXCLUDE_FROM_ALL SYSTEM)
endfunction()
ebbtide_add_abseil()
