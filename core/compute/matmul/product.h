// The product of matrices of any element type, by the fastest implementation.
#pragma once

#include "compute/onednn/matmul.h"

namespace thalweg {

// Below this many multiplications plain loops are done before a oneDNN primitive is set up (some 3 microseconds).
constexpr double kSmallProduct = 64 * 1024;

// The layout of a stored row-major [rows, columns] matrix, seen transposed or as it is.
MatrixLayout layout_of(int64_t rows, int64_t columns, bool transposed, int64_t batch_stride);

// c = a * b, c being dense and row-major. All sizes must be positive. Throws Unimplemented for types without a product.
void product(DType dtype, const ProductShape& s, const MatrixLayout& la, const void* a, const MatrixLayout& lb,
             const void* b, void* c);

}  // namespace thalweg
