// Fourier transforms of rows and columns of dense arrays, on all threads.
//
// Several transforms of one length go through the passes side by side, one in each lane of a vector register. A single
// one is cut in two rows of shorter ones (plan.h), so that it fills the lanes as well. Results do not depend on the
// number of threads. Inverse transforms are not scaled unless `scale` says so. Any element may be infinite or NaN.
#pragma once

#include "compute/fourier/plan.h"

namespace thalweg::fourier {

// One transform; `out` may be `in`.
template <typename T>
void transform_row(const Plan<T>& plan, const std::complex<T>* in, std::complex<T>* out, bool inverse, T scale = 1);

// The middle dimension of an array [outer, n, inner]; `out` may be `in`.
template <typename T>
void transform_axis(const std::complex<T>* in, std::complex<T>* out, int64_t outer, int64_t n, int64_t inner,
                    bool inverse, T scale = 1);

// Rows of n real numbers to n / 2 + 1 complex ones, and back.
template <typename T>
void transform_real_rows(const T* in, std::complex<T>* out, int64_t rows, int64_t n);
template <typename T>
void transform_to_real_rows(const std::complex<T>* in, T* out, int64_t rows, int64_t n, T scale);

}  // namespace thalweg::fourier
