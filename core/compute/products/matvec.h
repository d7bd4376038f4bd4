// The product of a matrix and a vector, at the speed of memory: nothing is packed, each element is read once.
//
// Sums are rounded as those of sgemm are, whose contract (sgemm.h) holds here too: equal blocks of the inner dimension,
// each a chain of fused multiply-adds from zero, added in order. So a product has the same bits whether it is one of a
// vector or of several, and with any number of threads.
#pragma once

#include <cstdint>

namespace thalweg::products {

// One stride of the matrix is 1; `stride` is that of the vector.
template <typename T>
struct MatrixVector {
  int64_t rows = 0, inner = 0;
  const T* matrix = nullptr;
  int64_t row_stride = 0, column_stride = 0;
  const T* vector = nullptr;
  int64_t stride = 1;
  T* result = nullptr;  // without gaps
};

// Whether `matvec` is the way for a product of these sizes; of a few rows only it is not.
template <typename T>
bool has_matvec(const MatrixVector<T>& x);
template <typename T>
void matvec(const MatrixVector<T>& x, bool parallel);

}  // namespace thalweg::products
