// Least squares of systems of equations in batches, and the gradient of Cholesky's factor.
#include "compute/linear/least_squares.h"

#include "compute/linear/factor.h"
#include "compute/linear/lines.h"
#include "kernels/matrices.h"

namespace thalweg {
namespace {

template <typename T>
bool are_finite(const T* x, int64_t n) {
  return std::all_of(x, x + n, [](T v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); });
}

struct MatrixSolveLs : Kernel {
  explicit MatrixSolveLs(const Construction& c) : fast_(c.attr<bool>("fast", true)) {}
  void compute(Context& ctx) override {
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &given = ctx.input(2);
    require(given.rank() == 0, "l2_regularizer must be a scalar, got shape ", given.shape());
    require(a.rank() >= 2, "Input must have rank >= 2, got shape ", a.shape());
    require(b.rank() >= 2, "Input must have rank >= 2, got shape ", b.shape());
    const double regularizer = given.flat<double>()[0];
    const int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1), columns = b.dim(b.rank() - 1);
    require(batch_of(a) == batch_of(b) && b.dim(b.rank() - 2) == m,
            "Input matrix and rhs are incompatible: ", a.shape(), " vs. ", b.shape());
    require(regularizer >= 0, "l2_regularizer must be >= 0, got ", regularizer);
    Tensor& out = ctx.allocate(0, with_dims(batch_of(a), {n, columns}));
    std::atomic<bool> failed{false};
    dispatch(a.dtype(), Solvable{}, [&]<typename T>() {
      if (a.num_elements() == 0 || b.num_elements() == 0)
        return static_cast<void>(std::fill_n(out.flat<T>(), out.num_elements(), T(0)));
      const int64_t batch = batch_of(a).num_elements();
      const double work = 4.0 * static_cast<double>(a.num_elements() / batch) * static_cast<double>(std::min(m, n));
      for_each_matrix(ctx, batch, work, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T *matrix = a.flat<T>() + i * m * n, *rhs = b.flat<T>() + i * m * columns;
          T* to = out.flat<T>() + i * n * columns;
          if (!are_finite(matrix, m * n) || !are_finite(rhs, m * columns))
            std::fill_n(to, n * columns, T(std::numeric_limits<linear::Real<T>>::quiet_NaN()));
          else if (!linear::least_squares(matrix, m, n, rhs, columns, regularizer, fast_, to, batch == 1))
            failed = true;
        }
      });
    });
    require(!failed, "The singular values of the matrix did not converge.");
  }
  const bool fast_;
};
REGISTER(kernel("MatrixSolveLs").types("T", Solvable{}).make<MatrixSolveLs>());

// Half of L^-H (M + M^H) L^-1, where M is the lower triangle of L^H grad, its diagonal halved.
template <typename T>
bool cholesky_gradient(const T* lower, const T* grad, int64_t n, T* to, bool parallel) {
  std::vector<T> adjoint(n * n), middle(n * n), turned(n * n);
  for (int64_t i = 0; i < n; ++i) {
    if (lower[i * n + i] == T(0)) return false;
    for (int64_t j = i; j < n; ++j) adjoint[i * n + j] = -lower[j * n + i];
  }
  linear::subtract_product(n, n, n, adjoint.data(), n, grad, n, middle.data(), n, parallel);
  for (int64_t i = 0; i < n; ++i) {
    middle[i * n + i] *= T(0.5);
    std::fill(middle.begin() + i * n + i + 1, middle.begin() + (i + 1) * n, T(0));
  }
  const linear::Triangle<T> triangle{.a = lower, .n = n, .lower = true, .adjoint = true};
  linear::solve_triangular<T>(triangle, middle.data(), n, parallel);
  linear::transpose_to(middle.data(), n, n, turned.data());
  linear::solve_triangular<T>(triangle, turned.data(), n, parallel);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = T(0.5) * (turned[i * n + j] + turned[j * n + i]);
  return true;
}

void cholesky_grad(Context& ctx) {
  const Tensor &lower = ctx.input(0), &grad = ctx.input(1);
  const int64_t n = square_size(lower), batch = batch_of(lower).num_elements();
  require(lower.shape() == grad.shape(), "l and grad must have one shape: ", lower.shape(), " vs. ", grad.shape());
  Tensor& out = ctx.allocate(0, lower.shape());
  std::atomic<bool> failed{false};
  const double work = 3.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  dispatch(lower.dtype(), WideFloats{}, [&]<typename T>() {
    for_each_matrix(ctx, batch, work, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin * n * n; b < end * n * n; b += n * n)
        if (!cholesky_gradient(lower.flat<T>() + b, grad.flat<T>() + b, n, out.flat<T>() + b, batch == 1))
          failed = true;
    });
  });
  require(!failed, "Input is not invertible.");
}
REGISTER(kernel("CholeskyGrad").types("T", WideFloats{}).function<cholesky_grad>());

}  // namespace
}  // namespace thalweg
