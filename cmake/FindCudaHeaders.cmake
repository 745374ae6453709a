# Finds the headers of the CUDA runtime: those of the Python package that torch
# brings along, or a toolkit's. Nothing is linked; see allocator/cuda_api.h.
# Defines CudaHeaders::runtime, CudaHeaders_INCLUDE_DIR and, where the package
# has it, CudaHeaders_LIBRARY, which tests load.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -c "import glob, importlib.util as u
spec = u.find_spec('nvidia')
for root in spec.submodule_search_locations if spec else []:
    print(*sorted(glob.glob(root + '/cu[0-9]*'), reverse=True), root + '/cuda_runtime', sep=';')"
  OUTPUT_VARIABLE _roots OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_path(CudaHeaders_INCLUDE_DIR cuda_runtime_api.h
  HINTS ${_roots} PATHS /usr/local/cuda PATH_SUFFIXES include)
find_file(CudaHeaders_LIBRARY NAMES libcudart.so.13 libcudart.so.12
  HINTS "${CudaHeaders_INCLUDE_DIR}/.." PATH_SUFFIXES lib lib64
  NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaHeaders
  REQUIRED_VARS CudaHeaders_INCLUDE_DIR)
if(CudaHeaders_FOUND AND NOT TARGET CudaHeaders::runtime)
  add_library(CudaHeaders::runtime INTERFACE IMPORTED)
  set_target_properties(CudaHeaders::runtime PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CudaHeaders_INCLUDE_DIR}")
endif()
mark_as_advanced(CudaHeaders_INCLUDE_DIR CudaHeaders_LIBRARY)
