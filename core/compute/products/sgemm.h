// The float32 matrix product in our own loops, on AVX2 or AVX-512, on the threads that all kernels share.
//
// oneDNN's product is as fast for large row-major matrices, but loses up to half of its speed where an operand is
// transposed (as in every gradient) or has few rows, its OpenMP team waits for all of its members, and its rounding
// depends on their number. All threads pack A into the order of the micro kernel first, unless it is read too rarely
// for that to pay; then each takes blocks of C and packs the part of B that it needs, so that a tile reads contiguous
// memory from the nearest cache.
#pragma once

#include "compute/products/pack.h"

namespace thalweg::products {

struct Product {
  int64_t rows = 0, columns = 0, inner = 0;
  Matrix a, b;
  float* c = nullptr;
  int64_t c_stride = 0;  // c is row-major
  bool accumulate = false;
  float scale = 1;  // of the product that is added to c; 1 if none is
};

// Up to here a product is finished before it is added to c: rounded as if it had been stored and added afterwards.
constexpr int64_t kLongestWhole = 384;

// c = a * b, or c += scale * a * b. Any size may be 0. How a sum is rounded depends on `inner` only: not on the number
// of threads, nor on how operands lie or are packed, nor on the width of the registers (tests/native/products.cc states
// it in code). If `inner` is longer than kLongestWhole, what is added to c may be added in one or several sums. Spreads
// over threads if `parallel`. Thread-safe.
void sgemm(const Product& product, bool parallel = true);

// The number of floats that `pack_b` needs.
int64_t packed_b_size(int64_t columns, int64_t inner);
// Where pack_b puts the element of row i and column j.
int64_t packed_b_index(int64_t columns, int64_t inner, int64_t i, int64_t j);
// Packs a whole B, to be used by `multiply_packed` again and again.
void pack_b(const Matrix& b, int64_t columns, int64_t inner, float* to);
// c = a * b (or c += a * b) for row-major `a` and a packed B, on as many threads as the work is worth.
void sgemm_packed(int64_t rows, int64_t columns, int64_t inner, const float* a, int64_t a_stride, const float* b,
                  float* c, int64_t c_stride, bool accumulate = false);
// c = a * b (or c += a * b) on the calling thread, for row-major `a` and a packed B.
void multiply_packed(int64_t rows, int64_t columns, int64_t inner, const float* a, int64_t a_stride, const float* b,
                     float* c, int64_t c_stride, bool accumulate);

}  // namespace thalweg::products
