// Stream capture and graphs, and the parts of the runtime that are missing on
// purpose. A graph is a list: it replays in the order of its capture, on the
// stream it is launched on, whatever its branches would allow.
#include <utility>

#include "tests/cudasim/runtime.h"

struct CUgraph_st {
  std::vector<cudasim::Work> work;
};
struct CUgraphExec_st {
  std::vector<cudasim::Work> work;
};

using cudasim::Call;
using cudasim::Error;
using cudasim::NotSimulated;
using cudasim::Pass;
using cudasim::Report;
using cudasim::Stream;

extern "C" {

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus* status) {
  const Call call(__func__, false);
  if (call.error()) return Report(call.error());
  const Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  *status = stream->capture ? cudaStreamCaptureStatusActive
                            : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t handle, cudaStreamCaptureStatus* status,
    unsigned long long* id, cudaGraph_t* graph,  // NOLINT: CUDA's types
    const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t* count) {
  const cudaError_t error = cudaStreamIsCapturing(handle, status);
  if (error != cudaSuccess) return error;
  const Call call(nullptr);
  const Stream* const stream = call.StreamOf(handle);
  if (id != nullptr) *id = stream->capture ? stream->capture->id : 0;
  if (graph != nullptr) *graph = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  if (stream->capture || stream->legacy) {
    return Report(Error::kStreamCaptureUnsupported);
  }
  static uint64_t captures = 0;
  stream->capture = std::make_shared<cudasim::Capture>(
      cudasim::Capture{++captures, stream, {stream}, {}});
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  const std::shared_ptr<cudasim::Capture> capture = stream->capture;
  if (!capture || capture->origin != stream) {
    return Report(cudaErrorStreamCaptureUnmatched);
  }
  for (Stream* member : capture->members) member->capture = nullptr;
  *graph = new CUgraph_st{std::move(capture->work)};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out,
                                          cudaGraph_t graph,
                                          unsigned long long) {  // NOLINT
  const Call call("cudaGraphInstantiate");
  if (call.error()) return Report(call.error());
  *out = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                 unsigned long long flags) {  // NOLINT
  return cudaGraphInstantiateWithFlags(out, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  for (const cudasim::Work& work : graph->work) {
    call->Push(stream, work, call.lock());
  }
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*,
                              size_t* count) {
  *count = graph->work.size();
  return Pass(__func__);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return Pass(__func__);
}

// Launches that are still queued hold copies of what they run.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return Pass(__func__);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current =
      cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return Pass(__func__);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) {
  return NotSimulated(__func__);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*,
                                         cudaGraphEdgeData*, size_t*) {
  return NotSimulated(__func__);
}
cudaError_t cudaMallocAsync(void**, size_t, cudaStream_t) {
  return NotSimulated(__func__);
}
cudaError_t cudaFreeAsync(void*, cudaStream_t) {
  return NotSimulated(__func__);
}

}  // extern "C"
