// Square matrices, in batches: Cholesky, LU, inverse, determinants, systems of equations; and QR of any matrix.
#include "compute/elementwise/elementwise.h"
#include "compute/linear/factor.h"
#include "compute/linear/householder.h"
#include "kernels/matrices.h"

namespace thalweg {
namespace {

double cube(int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

template <typename T>
std::vector<T> adjoint_of(const T* a, int64_t n) {
  std::vector<T> result(n * n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      if constexpr (is_complex<T>)
        result[j * n + i] = std::conj(a[i * n + j]);
      else
        result[j * n + i] = a[i * n + j];
    }
  return result;
}

template <typename T>
bool has_zero_pivot(const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (a[i * n + i] == T(0)) return true;
  return false;
}

void cholesky(Context& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t n = square_size(x), batch = batch_of(x).num_elements();
  Tensor& out = ctx.forward_or_allocate({0}, 0, x.shape());
  std::atomic<bool> failed{false};
  dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
    const T* from = x.flat<T>();
    T* to = out.flat<T>();
    for_each_matrix(ctx, batch, cube(n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        T* matrix = to + b * n * n;
        if (from != to) std::copy_n(from + b * n * n, n * n, matrix);
        if (!linear::cholesky(matrix, n, batch == 1)) failed = true;
      }
    });
  });
  require(!failed, "Cholesky decomposition was not successful. The input might not be valid.");
}
REGISTER(kernel("Cholesky").types("T", Solvable{}).function<cholesky>());

// X = op(A)^-1 B from the factors of A, or of its adjoint. False if A has no inverse.
template <typename T>
bool solve(const T* a, int64_t n, bool adjoint, const T* b, int64_t columns, T* x, bool parallel) {
  std::vector<T> factors = adjoint ? adjoint_of(a, n) : std::vector<T>(a, a + n * n);
  std::vector<int64_t> order;
  linear::lu(factors.data(), n, order, parallel);
  if (has_zero_pivot(factors.data(), n)) return false;
  for (int64_t i = 0; i < n; ++i) {
    if (b)
      std::copy_n(b + order[i] * columns, columns, x + i * columns);
    else
      for (int64_t j = 0; j < n; ++j) x[i * n + j] = T(order[i] == j ? 1 : 0);
  }
  linear::solve_triangular<T>({.a = factors.data(), .n = n, .lower = true, .unit = true}, x, columns, parallel);
  linear::solve_triangular<T>({.a = factors.data(), .n = n, .lower = false}, x, columns, parallel);
  return true;
}

struct MatrixInverse : Kernel {
  explicit MatrixInverse(const Construction& c) : adjoint_(c.attr<bool>("adjoint", false)) {}
  void compute(Context& ctx) override {
    const Tensor& a = ctx.input(0);
    const int64_t n = square_size(a), batch = batch_of(a).num_elements();
    Tensor& out = ctx.allocate(0, a.shape());
    std::atomic<bool> failed{false};
    dispatch(a.dtype(), Solvable{}, [&]<typename T>() {
      for_each_matrix(ctx, batch, cube(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          if (!solve<T>(a.flat<T>() + i * n * n, n, adjoint_, nullptr, n, out.flat<T>() + i * n * n, batch == 1))
            failed = true;
      });
    });
    require(!failed, "Input is not invertible.");
  }
  const bool adjoint_;
};
REGISTER(kernel("MatrixInverse").types("T", Solvable{}).make<MatrixInverse>());

struct MatrixSolve : Kernel {
  explicit MatrixSolve(const Construction& c) : adjoint_(c.attr<bool>("adjoint", false)) {}
  void compute(Context& ctx) override {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    const int64_t n = square_size(a), batch = batch_of(a).num_elements();
    require(b.rank() >= 2, "Input must have rank >= 2, got shape ", b.shape());
    require(batch_of(a) == batch_of(b) && b.dim(b.rank() - 2) == n,
            "Input matrix and rhs are incompatible: ", a.shape(), " vs. ", b.shape());
    Tensor& out = ctx.allocate(0, b.shape());
    if (out.num_elements() == 0) return;
    const int64_t columns = b.dim(b.rank() - 1);
    std::atomic<bool> failed{false};
    dispatch(a.dtype(), Solvable{}, [&]<typename T>() {
      for_each_matrix(ctx, batch, cube(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          if (!solve<T>(a.flat<T>() + i * n * n, n, adjoint_, b.flat<T>() + i * n * columns, columns,
                        out.flat<T>() + i * n * columns, batch == 1))
            failed = true;
      });
    });
    require(!failed, "Input matrix is not invertible.");
  }
  const bool adjoint_;
};
REGISTER(kernel("MatrixSolve").types("T", Solvable{}).make<MatrixSolve>());

// Calls each(index, factors, sign) with the LU factors of every matrix.
template <typename T, typename Each>
void for_each_lu(Context& ctx, const Tensor& x, int64_t n, const Each& each) {
  const int64_t batch = batch_of(x).num_elements();
  for_each_matrix(ctx, batch, cube(n), [&](int64_t begin, int64_t end) {
    std::vector<T> factors(n * n);
    std::vector<int64_t> order;
    for (int64_t b = begin; b < end; ++b) {
      std::copy_n(x.flat<T>() + b * n * n, n * n, factors.data());
      const int sign = linear::lu(factors.data(), n, order, batch == 1);
      each(b, factors.data(), sign);
    }
  });
}

void matrix_determinant(Context& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t n = square_size(x);
  Tensor& out = ctx.allocate(0, batch_of(x));
  dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
    for_each_lu<T>(ctx, x, n, [&](int64_t b, const T* factors, int sign) {
      // Mantissas and exponents apart: products of many pivots leave the range long before the result does.
      using Real = decltype(std::real(T()));
      T product(static_cast<Real>(sign));
      int64_t exponent = 0;
      for (int64_t i = 0; i < n; ++i) {
        product *= factors[i * (n + 1)];
        const Real size = std::abs(std::real(product)) + std::abs(std::imag(product));
        if (size == 0 || !std::isfinite(size)) continue;
        const int shift = std::ilogb(size);
        product *= std::ldexp(Real(1), -shift);
        exponent += shift;
      }
      const int shift = static_cast<int>(std::clamp<int64_t>(exponent, -5000, 5000));
      if constexpr (is_complex<T>)
        out.flat<T>()[b] = T(std::ldexp(product.real(), shift), std::ldexp(product.imag(), shift));
      else
        out.flat<T>()[b] = std::ldexp(product, shift);
    });
  });
}
REGISTER(kernel("MatrixDeterminant").types("T", Solvable{}).function<matrix_determinant>());

void log_matrix_determinant(Context& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t n = square_size(x);
  Tensor signs = ctx.allocate(0, batch_of(x));
  Tensor logs = ctx.allocate(1, batch_of(x));
  dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
    for_each_lu<T>(ctx, x, n, [&](int64_t b, const T* factors, int sign) {
      using Real = decltype(std::real(T()));
      T direction(static_cast<Real>(sign));
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const T pivot = factors[i * (n + 1)];
        const Real size = std::abs(pivot);
        direction = size == 0 ? T(0) : direction * (pivot / size);
        sum += std::log(static_cast<double>(size));
      }
      signs.flat<T>()[b] = direction;
      logs.flat<T>()[b] = T(static_cast<Real>(sum));
    });
  });
}
REGISTER(kernel("LogMatrixDeterminant").types("T", Solvable{}).function<log_matrix_determinant>());

void lu(Context& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t n = square_size(x), batch = batch_of(x).num_elements();
  Tensor out = ctx.forward_or_allocate({0}, 0, x.shape());
  std::vector<int64_t> dims(x.shape().begin(), x.shape().end() - 1);
  Tensor rows = ctx.allocate(1, Shape(dims));
  std::atomic<bool> failed{false};
  dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
    dispatch(rows.dtype(), Indices{}, [&]<typename I>() {
      const T* from = x.flat<T>();
      T* to = out.flat<T>();
      for_each_matrix(ctx, batch, cube(n), [&](int64_t begin, int64_t end) {
        std::vector<int64_t> order;
        for (int64_t b = begin; b < end; ++b) {
          T* matrix = to + b * n * n;
          if (from != to) std::copy_n(from + b * n * n, n * n, matrix);
          linear::lu(matrix, n, order, batch == 1);
          if (has_zero_pivot(matrix, n)) failed = true;
          std::copy(order.begin(), order.end(), rows.template flat<I>() + b * n);
        }
      });
    });
  });
  require(!failed, "Input is not invertible.");
}
REGISTER(kernel("Lu").types("T", Solvable{}).function<lu>());

struct Qr : Kernel {
  explicit Qr(const Construction& c) : full_(c.attr<bool>("full_matrices", false)) {}
  void compute(Context& ctx) override {
    const Tensor& x = ctx.input(0);
    require(x.rank() >= 2, "Input must have rank >= 2, got shape ", x.shape());
    const int64_t m = x.dim(x.rank() - 2), n = x.dim(x.rank() - 1), kept = full_ ? m : std::min(m, n);
    const Shape batch = batch_of(x);
    Tensor q = ctx.allocate(0, with_dims(batch, {m, kept}));
    Tensor r = ctx.allocate(1, with_dims(batch, {kept, n}));
    dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
      for_each_matrix(ctx, batch.num_elements(), cube(std::max(m, n)), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          linear::qr(x.flat<T>() + b * m * n, m, n, full_, q.flat<T>() + b * m * kept, r.flat<T>() + b * kept * n,
                     batch.num_elements() == 1);
      });
    });
  }
  const bool full_;
};
REGISTER(kernel("Qr").types("T", Solvable{}).make<Qr>());

}  // namespace
}  // namespace thalweg
