# Finds HiGHS inside the installed highsbox package; the package's own CMake
# file asks for a BLAS and a zlib to compile with, and names a folder that the
# wheel does not have.
# Defines Highs::highs and Highs_VERSION, Highs_LIBRARY, Highs_LICENSE.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -c "import importlib.util as u, importlib.metadata as m, os
print(os.path.dirname(u.find_spec('highsbox').origin) + '/highs_dist', m.version('highsbox'), sep=';')"
  OUTPUT_VARIABLE _highs OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE _failed ERROR_QUIET)
if(NOT _failed)
  list(GET _highs 0 _root)
  list(GET _highs 1 Highs_VERSION)
  set(Highs_LIBRARY "${_root}/lib/libhighs.so")
  set(Highs_LICENSE "${_root}/share/doc/HIGHS/LICENSE.txt")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highs
  REQUIRED_VARS Highs_LIBRARY Highs_LICENSE VERSION_VAR Highs_VERSION)
if(Highs_FOUND AND NOT TARGET Highs::highs)
  add_library(Highs::highs SHARED IMPORTED)
  set_target_properties(Highs::highs PROPERTIES
    IMPORTED_LOCATION "${Highs_LIBRARY}"
    IMPORTED_SONAME libhighs.so
    INTERFACE_INCLUDE_DIRECTORIES "${_root}/include/highs")
endif()
