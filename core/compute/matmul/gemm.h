// The matrix product in our own loops: for the element types that oneDNN lacks, and for matrices too small for it.
#pragma once

#include "compute/onednn/matmul.h"

namespace thalweg {

// c = a * b for one matrix each, c being dense and row-major. Any strides. Instantiated for float, double, uint32_t and
// uint64_t (signed integers have the same bits). Spreads over threads if `parallel`.
template <typename T>
void gemm(int64_t rows, int64_t columns, int64_t inner, const MatrixLayout& a_layout, const T* a,
          const MatrixLayout& b_layout, const T* b, T* c, bool parallel);

}  // namespace thalweg
