// Matrix products by oneDNN, of any strides, in batches.
#pragma once

#include "tensor/dtype.h"

namespace thalweg {

// A matrix, or a batch of them: element (b, i, j) lies at b * batch_stride + i * row_stride + j * column_stride.
// A batch stride of 0 uses one matrix for the whole batch. One of the other two strides is 1.
struct MatrixLayout {
  int64_t batch_stride = 0, row_stride = 0, column_stride = 1;
};

struct ProductShape {
  int64_t batch = 1, rows = 0, columns = 0, inner = 0;
};

// c = a * b, c being dense and row-major. False if oneDNN has no implementation for the type on this machine, or an
// emulated one: then nothing was done. All sizes must be positive. Thread-safe.
bool onednn_matmul(DType dtype, const ProductShape& shape, const MatrixLayout& a_layout, const void* a,
                   const MatrixLayout& b_layout, const void* b, void* c);

}  // namespace thalweg
