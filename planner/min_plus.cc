#include "planner/min_plus.h"

#include <algorithm>

namespace ebbtide {
namespace {

// One body for every instruction set: inlined into each function below.
#define EBBTIDE_INLINE inline __attribute__((always_inline))

// Whole steps only, however short the range is: rows are padded with their last
// time, so a step that goes over the end of a band computes what is right.
template <class T>
EBBTIDE_INLINE int AddBoth(const T* __restrict left, const T* __restrict right,
                           T cost, int from, int to, T* __restrict out) {
  for (; from < to; from += kRowStep) {
    for (int m = from; m < from + kRowStep; ++m) {
      const T time = cost + left[m] + right[m];
      out[m] = time < out[m] ? time : out[m];
    }
  }
  return from;
}

template <class T>
EBBTIDE_INLINE int AddLeft(const T* __restrict left, T right, T cost, int from,
                           int to, T* __restrict out) {
  for (; from < to; from += kRowStep) {
    for (int m = from; m < from + kRowStep; ++m) {
      const T time = cost + left[m] + right;
      out[m] = time < out[m] ? time : out[m];
    }
  }
  return from;
}

template <class T>
EBBTIDE_INLINE int AddRight(T both, const T* __restrict right, int from, int to,
                            T* __restrict out) {
  for (; from < to; from += kRowStep) {
    for (int m = from; m < from + kRowStep; ++m) {
      const T time = both + right[m];
      out[m] = time < out[m] ? time : out[m];
    }
  }
  return from;
}

template <class T>
EBBTIDE_INLINE void AddNeither(T time, int from, int to, T* __restrict out) {
  for (; from < to; from += kRowStep) {
    for (int m = from; m < from + kRowStep; ++m) {
      out[m] = time < out[m] ? time : out[m];
    }
  }
}

template <class T>
EBBTIDE_INLINE void Apply(absl::Span<const MinPlusTerm<T>> terms, int last,
                          T* out) {
  for (const MinPlusTerm<T>& term : terms) {
    const int end = last + 1;
    const int left_end = std::min(term.left.high, end);
    const int right_end = std::min(term.right.high + term.shift, end);
    // Moved so that both can be indexed by m.
    const T* left = term.left.at_low - term.left.low;
    const T* right = term.right.at_low - term.right.low - term.shift;
    const T left_tail = left[term.left.high];
    const T right_tail = right[term.right.high + term.shift];
    int m = AddBoth(left, right, term.cost, term.first,
                    std::min(left_end, right_end), out);
    if (m < left_end) {
      m = AddLeft(left, right_tail, term.cost, m, left_end, out);
    } else if (m < right_end) {
      m = AddRight(term.cost + left_tail, right, m, right_end, out);
    }
    AddNeither(term.cost + left_tail + right_tail, m, end, out);
  }
}

#if defined(__x86_64__)
template <class T>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void ApplyAvx512(
    absl::Span<const MinPlusTerm<T>> terms, int last, T* out) {
  Apply(terms, last, out);
}

template <class T>
__attribute__((target("avx2"))) void ApplyAvx2(
    absl::Span<const MinPlusTerm<T>> terms, int last, T* out) {
  Apply(terms, last, out);
}
#endif

template <class T>
void ApplyPlain(absl::Span<const MinPlusTerm<T>> terms, int last, T* out) {
  Apply(terms, last, out);
}

template <class T>
auto Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return &ApplyAvx512<T>;
  }
  if (__builtin_cpu_supports("avx2")) return &ApplyAvx2<T>;
#endif
  return &ApplyPlain<T>;
}

}  // namespace

template <class T>
void MinPlus(absl::Span<const MinPlusTerm<T>> terms, int last, T* out) {
  static const auto apply = Choose<T>();
  apply(terms, last, out);
}

template void MinPlus(absl::Span<const MinPlusTerm<int32_t>>, int, int32_t*);
template void MinPlus(absl::Span<const MinPlusTerm<double>>, int, double*);

}  // namespace ebbtide
