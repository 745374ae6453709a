# Finds LibTorch inside the installed torch wheel without importing torch; the
# wheel's own package file stops where there is no CUDA toolkit.
# Defines TorchWheel::torch, TorchWheel_VERSION and TorchWheel_ROOT; and, where
# the wheel is one for CUDA and CudaHeaders was found, TorchWheel::torch_cuda.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -c "import importlib.util as u, importlib.metadata as m, os
print(os.path.dirname(u.find_spec('torch').origin), m.version('torch').split('+')[0], sep=';')"
  OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE _failed ERROR_QUIET)
if(NOT _failed)
  list(GET _torch 0 TorchWheel_ROOT)
  list(GET _torch 1 TorchWheel_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchWheel
  REQUIRED_VARS TorchWheel_ROOT VERSION_VAR TorchWheel_VERSION)
if(TorchWheel_FOUND AND NOT TARGET TorchWheel::torch)
  add_library(TorchWheel::torch INTERFACE IMPORTED)
  # NDEBUG always: at::RecordFunction has other members without it.
  set_target_properties(TorchWheel::torch PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1;NDEBUG"
    INTERFACE_INCLUDE_DIRECTORIES
      "${TorchWheel_ROOT}/include;${TorchWheel_ROOT}/include/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES
      "${TorchWheel_ROOT}/lib/libc10.so;${TorchWheel_ROOT}/lib/libtorch_cpu.so")
endif()

# Its headers call the runtime: what links it names one, real or simulated.
if(TorchWheel_FOUND AND CudaHeaders_FOUND AND NOT TARGET TorchWheel::torch_cuda
    AND EXISTS "${TorchWheel_ROOT}/lib/libc10_cuda.so")
  add_library(TorchWheel::torch_cuda INTERFACE IMPORTED)
  # Their own dependencies are found by their own run paths.
  set_target_properties(TorchWheel::torch_cuda PROPERTIES
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined"
    # Of the profiler that is inside libtorch_cpu.
    INTERFACE_INCLUDE_DIRECTORIES "${TorchWheel_ROOT}/include/kineto"
    INTERFACE_LINK_LIBRARIES
      "TorchWheel::torch;CudaHeaders::runtime;${TorchWheel_ROOT}/lib/libc10_cuda.so;${TorchWheel_ROOT}/lib/libtorch_cuda.so")
endif()
