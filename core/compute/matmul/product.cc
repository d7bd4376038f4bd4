// Which loops multiply the matrices of a type: oneDNN's, our own for float32, or plain ones.
#include "compute/matmul/product.h"

#include "compute/elementwise/elementwise.h"
#include "compute/matmul/gemm.h"
#include "compute/products/matvec.h"
#include "compute/products/sgemm.h"

namespace thalweg {
namespace {

double work_of(const ProductShape& s) { return static_cast<double>(s.rows) * s.columns * s.inner; }

// Whether tiles would be mostly empty.
bool is_tiny(const ProductShape& s) {
  const double work = work_of(s);
  return work <= 1024 || (work <= kSmallProduct && (s.rows <= 2 || s.columns == 1));
}

// Whether the number of threads may decide how oneDNN sums up: it cuts a long inner dimension among them if the left
// operand is transposed.
bool is_cut_by_threads(const ProductShape& s, const MatrixLayout& la) {
  return la.column_stride != 1 && s.inner >= 2048;
}

// By oneDNN, unless that is not worth it or does not give the same bits with any number of threads.
bool onednn_product(DType dtype, const ProductShape& s, const MatrixLayout& la, const void* a, const MatrixLayout& lb,
                    const void* b, void* c) {
  return work_of(s) > kSmallProduct && !is_cut_by_threads(s, la) && onednn_matmul(dtype, s, la, a, lb, b, c);
}

template <typename T>
void own_product(const ProductShape& s, const MatrixLayout& la, const T* a, const MatrixLayout& lb, const T* b, T* c) {
  const int64_t size = s.rows * s.columns;
  if (s.batch < 2) {
    gemm<T>(s.rows, s.columns, s.inner, la, a, lb, b, c, true);
    return;
  }
  parallel_for(s.batch, static_cast<int64_t>(std::clamp(65536.0 / work_of(s), 1.0, 1e9)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   gemm<T>(s.rows, s.columns, s.inner, la, a + i * la.batch_stride, lb, b + i * lb.batch_stride,
                           c + i * size, false);
               });
}

// By our own product (products/sgemm.h says why, and where).
void packed_product(const ProductShape& s, const MatrixLayout& la, const void* a, const MatrixLayout& lb, const void* b,
                    void* c) {
  const bool few = s.batch < 2 * intra_op_threads();
  auto multiply = [&](int64_t i) {
    products::sgemm({s.rows,
                     s.columns,
                     s.inner,
                     {static_cast<const float*>(a) + i * la.batch_stride, la.row_stride, la.column_stride},
                     {static_cast<const float*>(b) + i * lb.batch_stride, lb.row_stride, lb.column_stride},
                     static_cast<float*>(c) + i * s.rows * s.columns,
                     s.columns},
                    few);
  };
  parallel_for(s.batch, few ? s.batch : static_cast<int64_t>(std::clamp(65536.0 / work_of(s), 1.0, 1e9)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) multiply(i);
               });
}

// A matrix and a vector, or a vector and a matrix; false if neither operand is a vector, or the matrix has few rows.
template <typename T>
bool vector_product(const ProductShape& s, const MatrixLayout& la, const T* a, const MatrixLayout& lb, const T* b,
                    T* c) {
  products::MatrixVector<T> x;
  if (s.columns == 1) {
    x = {s.rows, s.inner, a, la.row_stride, la.column_stride, b, lb.row_stride, c};
  } else if (s.rows == 1) {
    x = {s.columns, s.inner, b, lb.column_stride, lb.row_stride, a, la.column_stride, c};
  } else {
    return false;
  }
  if (!products::has_matvec(x)) return false;
  parallel_for(s.batch, s.batch == 1 ? 1 : static_cast<int64_t>(std::clamp(65536.0 / work_of(s), 1.0, 1e9)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   products::MatrixVector<T> one = x;
                   one.matrix += i * (s.columns == 1 ? la : lb).batch_stride;
                   one.vector += i * (s.columns == 1 ? lb : la).batch_stride;
                   one.result += i * x.rows;
                   products::matvec(one, s.batch == 1);
                 }
               });
  return true;
}

// How many elements an operand has in memory.
int64_t extent(const MatrixLayout& layout, int64_t batch, int64_t matrix) {
  return layout.batch_stride == 0 ? matrix : batch * matrix;
}

template <typename To, typename From>
Tensor converted(DType dtype, const From* from, int64_t count) {
  Tensor out(dtype, Shape{count});
  To* to = out.flat<To>();
  parallel_for(count, kElementGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
  return out;
}

// Through a wider type that has a product of its own.
template <typename T, typename W>
void widened_product(DType wide, const ProductShape& s, const MatrixLayout& la, const void* a, const MatrixLayout& lb,
                     const void* b, void* c) {
  Tensor wide_a = converted<W>(wide, static_cast<const T*>(a), extent(la, s.batch, s.rows * s.inner));
  Tensor wide_b = converted<W>(wide, static_cast<const T*>(b), extent(lb, s.batch, s.inner * s.columns));
  const int64_t count = s.batch * s.rows * s.columns;
  Tensor wide_c(wide, Shape{count});
  product(wide, s, la, wide_a.raw(), lb, wide_b.raw(), wide_c.raw());
  const W* from = wide_c.flat<W>();
  T* to = static_cast<T*>(c);
  parallel_for(count, kElementGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i]);
  });
}

// Four real products. Operands that are to be conjugated have been already.
template <typename R>
void complex_product(DType real, const ProductShape& s, const MatrixLayout& la, const std::complex<R>* a,
                     const MatrixLayout& lb, const std::complex<R>* b, std::complex<R>* c) {
  auto plane = [&](const std::complex<R>* from, int64_t count, bool imaginary) {
    Tensor out(real, Shape{count});
    R* to = out.flat<R>();
    for (int64_t i = 0; i < count; ++i) to[i] = imaginary ? from[i].imag() : from[i].real();
    return out;
  };
  const int64_t count_a = extent(la, s.batch, s.rows * s.inner), count_b = extent(lb, s.batch, s.inner * s.columns);
  Tensor re_a = plane(a, count_a, false), im_a = plane(a, count_a, true);
  Tensor re_b = plane(b, count_b, false), im_b = plane(b, count_b, true);
  const int64_t count = s.batch * s.rows * s.columns;
  auto multiply = [&](const Tensor& x, const Tensor& y) {
    Tensor out(real, Shape{count});
    product(real, s, la, x.raw(), lb, y.raw(), out.raw());
    return out;
  };
  Tensor rr = multiply(re_a, re_b), ii = multiply(im_a, im_b), ri = multiply(re_a, im_b), ir = multiply(im_a, re_b);
  for (int64_t i = 0; i < count; ++i) c[i] = {rr.flat<R>()[i] - ii.flat<R>()[i], ri.flat<R>()[i] + ir.flat<R>()[i]};
}

}  // namespace

MatrixLayout layout_of(int64_t rows, int64_t columns, bool transposed, int64_t batch_stride) {
  if (!transposed) return {batch_stride, columns, 1};
  // A single row or column is the same either way; oneDNN is fastest with unit strides last.
  if (rows == 1) return {batch_stride, 1, 1};
  return {batch_stride, 1, columns};
}

void product(DType dtype, const ProductShape& s, const MatrixLayout& la, const void* a, const MatrixLayout& lb,
             const void* b, void* c) {
  auto own = [&]<typename T>() {
    own_product<T>(s, la, static_cast<const T*>(a), lb, static_cast<const T*>(b), static_cast<T*>(c));
  };
  switch (dtype) {
    case DType::float32:
      if (vector_product<float>(s, la, static_cast<const float*>(a), lb, static_cast<const float*>(b),
                                static_cast<float*>(c)))
        return;
      return is_tiny(s) ? own.template operator()<float>() : packed_product(s, la, a, lb, b, c);
    case DType::float64:
      if (vector_product<double>(s, la, static_cast<const double*>(a), lb, static_cast<const double*>(b),
                                 static_cast<double*>(c)))
        return;
      return own.template operator()<double>();
    case DType::int32:
    case DType::uint32:
      return own.template operator()<uint32_t>();
    case DType::int64:
    case DType::uint64:
      return own.template operator()<uint64_t>();
    case DType::float16:
      if (!onednn_product(dtype, s, la, a, lb, b, c)) widened_product<half, float>(DType::float32, s, la, a, lb, b, c);
      return;
    case DType::bfloat16:
      if (!onednn_product(dtype, s, la, a, lb, b, c))
        widened_product<bfloat16, float>(DType::float32, s, la, a, lb, b, c);
      return;
    case DType::uint8:
      return widened_product<uint8_t, uint32_t>(DType::uint32, s, la, a, lb, b, c);
    case DType::int8:
      return widened_product<int8_t, uint32_t>(DType::uint32, s, la, a, lb, b, c);
    case DType::uint16:
      return widened_product<uint16_t, uint32_t>(DType::uint32, s, la, a, lb, b, c);
    case DType::int16:
      return widened_product<int16_t, uint32_t>(DType::uint32, s, la, a, lb, b, c);
    case DType::complex64:
      return complex_product<float>(DType::float32, s, la, static_cast<const complex64*>(a), lb,
                                    static_cast<const complex64*>(b), static_cast<complex64*>(c));
    case DType::complex128:
      return complex_product<double>(DType::float64, s, la, static_cast<const complex128*>(a), lb,
                                     static_cast<const complex128*>(b), static_cast<complex128*>(c));
    default:
      fail(Code::unimplemented, "there is no matrix product of elements of type ", dtype);
  }
}

}  // namespace thalweg
