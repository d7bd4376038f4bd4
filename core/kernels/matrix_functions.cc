// The exponential, the square root and the logarithm of square matrices, in batches.
#include "compute/linear/matrix_functions.h"

#include "kernels/matrices.h"

namespace thalweg {
namespace {

double powers_of(int64_t n) { return 20.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

template <typename T>
bool is_finite(const T* x, int64_t n) {
  return std::all_of(x, x + n, [](T v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); });
}

// Calls each(from, to, is_single) for every matrix, of which none is empty.
template <typename Each>
void for_each_square(Context& ctx, const Each& each) {
  const Tensor& x = ctx.input(0);
  const int64_t n = square_size(x), batch = batch_of(x).num_elements();
  Tensor& out = ctx.allocate(0, x.shape());
  if (n == 0) return;
  dispatch(x.dtype(), Solvable{}, [&]<typename T>() {
    for_each_matrix(ctx, batch, powers_of(n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) each(x.flat<T>() + b * n * n, n, out.flat<T>() + b * n * n, batch == 1);
    });
  });
}

template <typename T>
void fill_with_nan(T* to, int64_t n) {
  std::fill_n(to, n, T(std::numeric_limits<decltype(std::real(T()))>::quiet_NaN()));
}

void matrix_exponential(Context& ctx) {
  for_each_square(ctx, []<typename T>(const T* from, int64_t n, T* to, bool is_single) {
    is_finite(from, n * n) ? linear::matrix_exponential(from, n, to, is_single) : fill_with_nan(to, n * n);
  });
}
REGISTER(kernel("MatrixExponential").types("T", Solvable{}).function<matrix_exponential>());

// Whether a result differs from a real matrix by more than rounding.
bool is_complex_result(const std::vector<std::complex<double>>& result) {
  double real = 0, imaginary = 0;
  for (const std::complex<double>& x : result) {
    real = std::max(real, std::fabs(x.real()));
    imaginary = std::max(imaginary, std::fabs(x.imag()));
  }
  return imaginary > 1e-6 * (1 + real);
}

// A function of complex matrices, also of real ones: NaN where its result is not real. False if there is no result.
using Function = bool (*)(const std::complex<double>*, int64_t, std::complex<double>*);
template <typename T>
bool apply(Function function, const T* from, int64_t n, T* to) {
  std::vector<std::complex<double>> wide(from, from + n * n), result(n * n);
  if (!function(wide.data(), n, result.data())) return false;
  if (!is_complex<T> && is_complex_result(result)) {
    fill_with_nan(to, n * n);
    return true;
  }
  for (int64_t i = 0; i < n * n; ++i) {
    if constexpr (is_complex<T>)
      to[i] = static_cast<T>(result[i]);
    else
      to[i] = static_cast<T>(result[i].real());
  }
  return true;
}

void matrix_square_root(Context& ctx) {
  std::atomic<bool> finite{true}, failed{false};
  for_each_square(ctx, [&]<typename T>(const T* from, int64_t n, T* to, bool) {
    if (!is_finite(from, n * n))
      finite = false;
    else if (!apply(linear::matrix_square_root, from, n, to))
      failed = true;
  });
  require(finite, "Input matrix must be finite to have a square root.");
  require(!failed, "Input matrix has no square root that can be computed.");
}
REGISTER(kernel("MatrixSquareRoot").types("T", Solvable{}).function<matrix_square_root>());

void matrix_logarithm(Context& ctx) {
  for_each_square(ctx, []<typename T>(const T* from, int64_t n, T* to, bool) {
    if (!is_finite(from, n * n) || !apply(linear::matrix_logarithm, from, n, to)) fill_with_nan(to, n * n);
  });
}
REGISTER(kernel("MatrixLogarithm").types("T", Complexes{}).function<matrix_logarithm>());

}  // namespace
}  // namespace thalweg
