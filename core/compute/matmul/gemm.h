// The matrix product in our own loops: for the element types that oneDNN lacks, and for matrices too small for it.
//
// Packed panels and register tiles, as in products/sgemm.h, make products of double and 32-bit integers 3 to 7 times as
// fast as plain loops (512 x 512 x 512: 6 ms instead of 41 in double). float is passed on to sgemm, which is up to
// twice as fast at every size; 64-bit integers, which AVX2 cannot multiply, take the plain loops.
#pragma once

#include "compute/onednn/matmul.h"

namespace thalweg {

// c = a * b for one matrix each, c being dense and row-major. Any strides. Instantiated for float, double, uint32_t and
// uint64_t (signed integers have the same bits). Spreads over threads if `parallel`.
template <typename T>
void gemm(int64_t rows, int64_t columns, int64_t inner, const MatrixLayout& a_layout, const T* a,
          const MatrixLayout& b_layout, const T* b, T* c, bool parallel);

}  // namespace thalweg
