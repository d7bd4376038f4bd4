// Reflections leave one line below the diagonal, which the QR iteration with a shift makes zero, element by element.
#include "compute/linear/schur.h"

#include <cmath>
#include <limits>

#include "compute/linear/householder.h"

namespace thalweg::linear {
namespace {

using Complex = std::complex<double>;

double size_of(Complex x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

// Lines lose (tau lines v) v^H: the reflection from the right.
void reflect_from_right(Complex* lines, int64_t n, int64_t count, const Complex* v, Complex tau,
                        std::vector<Complex>& product) {
  product.assign(n, Complex(0));
  add_combination(v, lines, n, count, product.data(), n);
  for (int64_t c = 0; c < count; ++c) subtract(times(tau, std::conj(v[c])), product.data(), lines + c * n, n);
}

void make_hessenberg(Complex* a, int64_t n, Complex* q) {
  std::vector<Complex> product;
  for (int64_t k = 0; k + 2 < n; ++k) {
    Complex* v = a + k * n + k + 1;
    const int64_t left = n - k - 1;
    const Complex tau = reflector(v, left), beta = v[0];
    if (tau != 0.0) {
      reflect(v, std::conj(tau), v + n, left, n, left);
      v[0] = 1;
      reflect_from_right(a + (k + 1) * n, n, left, v, tau, product);
      reflect_from_right(q + (k + 1) * n, n, left, v, tau, product);
    }
    v[0] = beta;
    std::fill(v + 1, v + left, Complex(0));
  }
}

// c x + s y = r and c y - conj(s) x = 0.
struct ComplexRotation {
  double c = 1;
  Complex s = 0;
  ComplexRotation(Complex x, Complex y) {
    const double largest = std::max(size_of(x), size_of(y));
    if (y == 0.0 || largest == 0) return;
    x /= largest;
    y /= largest;
    const double along = std::abs(x), size = std::hypot(along, std::abs(y));
    c = along / size;
    s = along == 0 ? std::conj(y) / size : x / along * std::conj(y) / size;
  }
};

// The eigenvalue of the last two rows of a block that is nearer to its last element.
Complex shift_of(const Complex* a, int64_t n, int64_t last) {
  const Complex d = a[last * n + last], e = a[(last - 1) * n + last - 1];
  const Complex product = a[last * n + last - 1] * a[(last - 1) * n + last], half = 0.5 * (e - d);
  const Complex root = std::sqrt(half * half + product);
  const Complex divisor = (std::conj(half) * root).real() >= 0 ? half + root : half - root;
  return divisor == 0.0 ? d : d - product / divisor;
}

void step(Complex* a, int64_t n, int64_t begin, int64_t end, Complex shift, Complex* q) {
  Complex x = a[begin * n + begin] - shift, y = a[begin * n + begin + 1];
  for (int64_t k = begin; k < end; ++k) {
    const ComplexRotation g(x, y);
    for (int64_t column = std::max(k - 1, begin); column < n; ++column) {
      Complex* pair = a + column * n + k;
      const Complex upper = pair[0], lower = pair[1];
      pair[0] = g.c * upper + times(g.s, lower);
      pair[1] = g.c * lower - times(std::conj(g.s), upper);
    }
    const auto rotate_lines = [&](Complex* lines, int64_t count) {
      Complex *left = lines + k * n, *right = left + n;
      for (int64_t i = 0; i < count; ++i) {
        const Complex l = left[i], r = right[i];
        left[i] = g.c * l + times(std::conj(g.s), r);
        right[i] = g.c * r - times(g.s, l);
      }
    };
    rotate_lines(a, std::min(k + 3, end + 1));
    rotate_lines(q, n);
    if (k + 1 == end) break;
    x = a[k * n + k + 1];
    y = a[k * n + k + 2];
  }
}

}  // namespace

bool schur(Complex* a, int64_t n, Complex* q) {
  std::fill(q, q + n * n, Complex(0));
  for (int64_t i = 0; i < n; ++i) q[i * n + i] = 1;
  make_hessenberg(a, n, q);
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  double norm = 0;
  for (int64_t i = 0; i < n * n; ++i) norm = std::max(norm, size_of(a[i]));
  int64_t iterations = 0, of_block = 0;
  for (int64_t end = n - 1; end > 0;) {
    int64_t begin = end;
    for (; begin > 0; --begin) {
      const double neighbours = size_of(a[begin * n + begin]) + size_of(a[(begin - 1) * n + begin - 1]);
      Complex& below = a[(begin - 1) * n + begin];
      if (size_of(below) <= kEps * (neighbours == 0 ? norm : neighbours)) {
        below = 0;
        break;
      }
    }
    if (begin == end) {
      --end;
      of_block = 0;
      continue;
    }
    if (++iterations > 60 * n) return false;
    // A shift of another kind ends cycles.
    const Complex shift =
        ++of_block % 10 == 0 ? a[end * n + end] + size_of(a[(end - 1) * n + end]) : shift_of(a, n, end);
    step(a, n, begin, end, shift, q);
  }
  return true;
}

}  // namespace thalweg::linear
