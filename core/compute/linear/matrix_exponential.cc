// Scaling and squaring: e^A = (e^(A / 2^s))^(2^s), with a quotient of polynomials for the small exponential.
#include <cmath>
#include <type_traits>

#include "compute/linear/factor.h"
#include "compute/linear/lines.h"
#include "compute/linear/matrix_functions.h"

namespace thalweg::linear {
namespace {

// The diagonal Pade approximant of degree 13 is exact in double precision up to this norm.
constexpr double kNorm = 5.371920351148152;
constexpr double kPade[] = {64764752532480000.,
                            32382376266240000.,
                            7771770303897600.,
                            1187353796428800.,
                            129060195264000.,
                            10559470521600.,
                            670442572800.,
                            33522128640.,
                            1323241920.,
                            40840800.,
                            960960.,
                            16380.,
                            182.,
                            1.};

template <typename T>
using Matrix = std::vector<T>;

template <typename T>
Matrix<T> product(const Matrix<T>& a, const Matrix<T>& b, int64_t n, bool parallel) {
  Matrix<T> negative(a.size()), result(a.size());
  for (size_t i = 0; i < a.size(); ++i) negative[i] = -a[i];
  subtract_product(n, n, n, negative.data(), n, b.data(), n, result.data(), n, parallel);
  return result;
}

// The sum of coefficients times matrices; the last coefficient is that of the identity.
template <typename T>
Matrix<T> sum(int64_t n, std::initializer_list<std::pair<double, const Matrix<T>*>> parts, double identity) {
  Matrix<T> result(n * n);
  for (const auto& [factor, matrix] : parts)
    for (int64_t i = 0; i < n * n; ++i) result[i] += factor * (*matrix)[i];
  for (int64_t i = 0; i < n; ++i) result[i * n + i] += identity;
  return result;
}

// The largest sum of magnitudes in a column.
template <typename T>
double norm_of(const Matrix<T>& a, int64_t n) {
  std::vector<double> sums(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) sums[j] += std::abs(a[i * n + j]);
  return n == 0 ? 0 : *std::max_element(sums.begin(), sums.end());
}

template <typename W>
Matrix<W> exponential(Matrix<W> a, int64_t n, bool parallel) {
  const double norm = norm_of(a, n);
  if (!std::isfinite(norm)) return Matrix<W>(n * n, W(std::numeric_limits<double>::quiet_NaN()));
  const int squarings = norm > kNorm ? static_cast<int>(std::ceil(std::log2(norm / kNorm))) : 0;
  for (W& x : a) x *= std::ldexp(1.0, -squarings);
  const double* b = kPade;
  const Matrix<W> a2 = product(a, a, n, parallel), a4 = product(a2, a2, n, parallel), a6 = product(a2, a4, n, parallel);
  Matrix<W> high = product(a6, sum<W>(n, {{b[13], &a6}, {b[11], &a4}, {b[9], &a2}}, 0), n, parallel);
  const Matrix<W> odd = product(a, sum<W>(n, {{1, &high}, {b[7], &a6}, {b[5], &a4}, {b[3], &a2}}, b[1]), n, parallel);
  high = product(a6, sum<W>(n, {{b[12], &a6}, {b[10], &a4}, {b[8], &a2}}, 0), n, parallel);
  const Matrix<W> even = sum<W>(n, {{1, &high}, {b[6], &a6}, {b[4], &a4}, {b[2], &a2}}, b[0]);
  Matrix<W> factors = sum<W>(n, {{1, &even}, {-1, &odd}}, 0), numerator = sum<W>(n, {{1, &even}, {1, &odd}}, 0);
  std::vector<int64_t> order;
  lu(factors.data(), n, order, parallel);
  Matrix<W> result(n * n);
  for (int64_t i = 0; i < n; ++i) std::copy_n(numerator.data() + order[i] * n, n, result.data() + i * n);
  solve_triangular<W>({.a = factors.data(), .n = n, .lower = true, .unit = true}, result.data(), n, parallel);
  solve_triangular<W>({.a = factors.data(), .n = n, .lower = false}, result.data(), n, parallel);
  for (int i = 0; i < squarings; ++i) result = product(result, result, n, parallel);
  return result;
}

}  // namespace

template <typename T>
void matrix_exponential(const T* a, int64_t n, T* result, bool parallel) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  const Matrix<Wide> wide = exponential(Matrix<Wide>(a, a + n * n), n, parallel);
  for (int64_t i = 0; i < n * n; ++i) result[i] = static_cast<T>(wide[i]);
}
template void matrix_exponential(const float*, int64_t, float*, bool);
template void matrix_exponential(const double*, int64_t, double*, bool);
template void matrix_exponential(const std::complex<float>*, int64_t, std::complex<float>*, bool);
template void matrix_exponential(const std::complex<double>*, int64_t, std::complex<double>*, bool);

}  // namespace thalweg::linear
