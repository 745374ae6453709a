// The stand-in of libcublasLt.so.13: layouts keep their sizes, a product is a
// queue entry. The public header makes the descriptors opaque words; here they
// are objects of our own.
#include <cublasLt.h>

#include <algorithm>

#include "tests/cudasim/blas.h"

namespace {

struct Layout {
  uint64_t rows;
  uint64_t columns;
  int batch = 1;
};

struct Nothing {};

template <typename Handle>
cublasStatus_t CreateNothing(Handle* out) {
  *out = reinterpret_cast<Handle>(new Nothing);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t DestroyNothing(void* nothing) {
  delete static_cast<Nothing*>(nothing);
  return CUBLAS_STATUS_SUCCESS;
}

Layout* LayoutOf(cublasLtMatrixLayout_t handle) {
  return reinterpret_cast<Layout*>(handle);
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out,
                                          cudaDataType, uint64_t rows,
                                          uint64_t columns, int64_t) {
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{rows, columns});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete LayoutOf(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    const void* value, size_t size) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof(int)) {
    LayoutOf(layout)->batch = *static_cast<const int*>(value);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out,
                                        cublasComputeType_t, cudaDataType_t) {
  return CreateNothing(out);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return DestroyNothing(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
                                              cublasLtMatmulDescAttributes_t,
                                              const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return CreateNothing(out);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t preference) {
  return DestroyNothing(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

// torch needs at least one algorithm to choose.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t, int wanted,
    cublasLtMatmulHeuristicResult_t* results, int* count) {
  std::fill_n(results, wanted, cublasLtMatmulHeuristicResult_t{});
  *count = wanted;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
    cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t, const void*,
    const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  const Layout& left = *LayoutOf(a);
  const Layout& out = *LayoutOf(d);
  // Either side of `a` may be the inner one: its other side is a side of `d`.
  const double inner = static_cast<double>(left.rows) * left.columns /
                       std::max<uint64_t>(out.rows, 1);
  const double ns = cudasim::ProductNs(out.rows, out.columns, inner, out.batch);
  return cudasim::QueueProduct(stream, "cublasLtMatmul", ns) == 0
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
