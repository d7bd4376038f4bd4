// Singular values of any matrices and eigenvalues of Hermitian ones, in batches, with or without their vectors.
#include "compute/elementwise/elementwise.h"
#include "compute/linear/lines.h"
#include "compute/linear/self_adjoint.h"
#include "compute/linear/singular.h"
#include "kernels/matrices.h"

namespace thalweg {
namespace {

template <typename T>
bool all_finite(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(std::real(x[i])) || !std::isfinite(std::imag(x[i]))) return false;
  return true;
}

double work_of(int64_t m, int64_t n, int64_t p) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(p);
}

struct SelfAdjointEig : Kernel {
  explicit SelfAdjointEig(const Construction& c) : vectors_(c.attr<bool>("compute_v", true)) {}
  void compute(Context& ctx) override {
    const Tensor& x = ctx.input(0);
    const int64_t n = square_size(x), batch = batch_of(x).num_elements();
    Tensor values = ctx.allocate(0, with_dims(batch_of(x), {n}));
    Tensor vectors = ctx.allocate(1, vectors_ ? x.shape() : Shape({0}));
    std::atomic<bool> failed{false};
    dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
      for_each_matrix(ctx, batch, 4.0 * work_of(n, n, n), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const T* from = x.flat<T>() + b * n * n;
          T* to = vectors_ ? vectors.flat<T>() + b * n * n : nullptr;
          if (!all_finite(from, n * n) ||
              !linear::self_adjoint_eigen(from, n, values.flat<T>() + b * n, to, batch == 1))
            failed = true;
        }
      });
    });
    require(!failed, "Self-adjoint eigen decomposition was not successful. The input might not be valid.");
  }
  const bool vectors_;
};
REGISTER(kernel("SelfAdjointEigV2").types("T", Solvable{}).make<SelfAdjointEig>());

struct Svd : Kernel {
  explicit Svd(const Construction& c)
      : vectors_(c.attr<bool>("compute_uv", true)), full_(c.attr<bool>("full_matrices", false)) {}
  void compute(Context& ctx) override {
    const Tensor& x = ctx.input(0);
    require(x.rank() >= 2, "Input must have rank >= 2, got shape ", x.shape());
    const int64_t m = x.dim(x.rank() - 2), n = x.dim(x.rank() - 1), p = std::min(m, n);
    const int64_t left = full_ ? m : p, right = full_ ? n : p;
    const Shape batch = batch_of(x);
    Tensor s = ctx.allocate(0, with_dims(batch, {p}));
    Tensor u = ctx.allocate(1, vectors_ ? with_dims(batch, {m, left}) : Shape({0}));
    Tensor v = ctx.allocate(2, vectors_ ? with_dims(batch, {n, right}) : Shape({0}));
    std::atomic<bool> failed{false};
    dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
      const int64_t count = batch.num_elements();
      for_each_matrix(ctx, count, 8.0 * work_of(m, n, p), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const T* from = x.flat<T>() + b * m * n;
          T* values = s.flat<T>() + b * p;
          T* to_u = vectors_ ? u.flat<T>() + b * m * left : nullptr;
          T* to_v = vectors_ ? v.flat<T>() + b * n * right : nullptr;
          if (!all_finite(from, m * n)) {  // The decomposition of such a matrix is NaN.
            const T nan(std::numeric_limits<linear::Real<T>>::quiet_NaN());
            std::fill_n(values, p, nan);
            if (vectors_) std::fill_n(to_u, m * left, nan), std::fill_n(to_v, n * right, nan);
          } else if (!linear::singular_values(from, m, n, full_, values, to_u, to_v, count == 1)) {
            failed = true;
          }
        }
      });
    });
    require(!failed, "SVD did not converge.");
  }
  const bool vectors_, full_;
};
REGISTER(kernel("Svd").types("T", Solvable{}).make<Svd>());

}  // namespace
}  // namespace thalweg
