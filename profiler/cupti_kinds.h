// The calls that a window records. A piece of work is known by the correlation
// id of the call that started it, and an external id is recorded with a call
// only; so the calls that start work are recorded, and no others, which are
// many more. Work of a call that is missing here shows as unattributed.
#ifndef EBBTIDE_PROFILER_CUPTI_KINDS_H_
#define EBBTIDE_PROFILER_CUPTI_KINDS_H_

#include <cstdint>

namespace ebbtide {

// Numbers of functions, as CUPTI has them. Where a function has a second number
// it is that of the form for a default stream per thread.
inline constexpr uint32_t kCuptiRuntimeCalls[] = {
    31,  215,  // cudaMemcpy
    32,  216,  // cudaMemcpy2D
    39,  223,  // cudaMemcpyToSymbol
    40,  224,  // cudaMemcpyFromSymbol
    41,  225,  // cudaMemcpyAsync
    44,  228,  // cudaMemcpy2DAsync
    47,  231,  // cudaMemcpyToSymbolAsync
    48,  232,  // cudaMemcpyFromSymbolAsync
    49,  233,  // cudaMemset
    50,  234,  // cudaMemset2D
    51,  235,  // cudaMemsetAsync
    52,  236,  // cudaMemset2DAsync
    142, 243,  // cudaMemset3D
    143, 244,  // cudaMemset3DAsync
    144, 245,  // cudaMemcpy3D
    145, 246,  // cudaMemcpy3DAsync
    160, 161,  // cudaMemcpyPeer, cudaMemcpyPeerAsync
    162, 249,  // cudaMemcpy3DPeer
    163, 250,  // cudaMemcpy3DPeerAsync
    211, 214,  // cudaLaunchKernel
    269, 270,  // cudaLaunchCooperativeKernel
    311, 312,  // cudaGraphLaunch
    430, 431,  // cudaLaunchKernelExC
    505, 506,  // __cudaLaunchKernel
    509, 510,  // cudaMemcpyBatchAsync
    511, 512,  // cudaMemcpy3DBatchAsync
};
inline constexpr uint32_t kCuptiDriverCalls[] = {
    276, 277, 278, 279, 280, 281,  // cuMemcpyHtoD, DtoH, DtoD, each async, too
    289, 291,                      // cuMemcpy2DAsync, cuMemcpy3DAsync
    216, 218, 220,                 // cuMemsetD8Async, D16, D32
    306, 319, 321,                 // cuMemcpyAsync, PeerAsync, 3DPeerAsync
    307, 442,                      // cuLaunchKernel
    477, 478,                      // cuLaunchCooperativeKernel
    514, 515,                      // cuGraphLaunch
    652, 653,                      // cuLaunchKernelEx
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_KINDS_H_
