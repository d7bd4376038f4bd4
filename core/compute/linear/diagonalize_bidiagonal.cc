// The iteration of Golub and Kahan with the tests of Demmel and Kahan: small singular values are as exact as large
// ones.
#include "compute/linear/bidiagonal.h"
#include "compute/linear/plane_rotation.h"

namespace thalweg::linear {
namespace {

// A block of a bidiagonal matrix, seen from the end at which its values are larger. Seen from below it is transposed:
// left and right change places.
template <typename R>
struct Block {
  double *d, *e;
  int64_t size, step;
  Rotations<R>*left, *right;
  int64_t line;

  Block(double* d_all, double* e_all, int64_t begin, int64_t end, bool from_above, Rotations<R>* u, Rotations<R>* v)
      : d(from_above ? d_all + begin : d_all + end),
        e(from_above ? e_all + begin : e_all + end - 1),
        size(end - begin + 1),
        step(from_above ? 1 : -1),
        left(from_above ? u : v),
        right(from_above ? v : u),
        line(from_above ? begin : end - 1) {}
  double& D(int64_t i) const { return d[i * step]; }
  double& E(int64_t i) const { return e[i * step]; }
  void begin_sweep() const {
    if (left == nullptr) return;
    left->begin_sweep(line, step > 0);
    right->begin_sweep(line, step > 0);
  }
  void rotate(const PlaneRotation& l, const PlaneRotation& r) const {
    if (left == nullptr) return;
    left->add(l.c, step > 0 ? l.s : -l.s);
    right->add(r.c, step > 0 ? r.s : -r.s);
  }
};

// Sets an element beside the diagonal to zero where singular values do not feel it. Otherwise `smallest` becomes a
// lower bound of theirs.
template <typename R>
bool splits(const Block<R>& b, double tolerance, double& smallest) {
  const int64_t last = b.size - 1;
  if (std::fabs(b.E(last - 1)) <= tolerance * std::fabs(b.D(last))) {
    b.E(last - 1) = 0;
    return true;
  }
  double bound = std::fabs(b.D(0));
  smallest = bound;
  for (int64_t i = 0; i < last; ++i) {
    if (std::fabs(b.E(i)) <= tolerance * bound) {
      b.E(i) = 0;
      return true;
    }
    bound = std::fabs(b.D(i + 1)) * (bound / (bound + std::fabs(b.E(i))));
    smallest = std::min(smallest, bound);
  }
  return false;
}

// The smaller singular value of [[f, g], [0, h]].
double smaller_value(double f, double g, double h) {
  f = std::fabs(f), g = std::fabs(g), h = std::fabs(h);
  const double small = std::min(f, h), large = std::max(f, h);
  if (small == 0) return 0;
  const double a = 1 + small / large, b = (large - small) / large;
  if (g < large) {
    const double t = g / large * (g / large);
    return small * (2 / (std::sqrt(a * a + t) + std::sqrt(b * b + t)));
  }
  const double t = large / g;
  if (t == 0) return small * large / g;
  const double x = a * t, y = b * t;
  return 2 * (small * (1 / (std::sqrt(1 + x * x) + std::sqrt(1 + y * y)))) * t;
}

template <typename R>
void step_without_shift(const Block<R>& b) {
  const int64_t last = b.size - 1;
  PlaneRotation right{1, 0, 0}, left{1, 0, 0};
  for (int64_t i = 0; i < last; ++i) {
    right = rotation_of(b.D(i) * right.c, b.E(i));
    if (i > 0) b.E(i - 1) = left.s * right.r;
    left = rotation_of(left.c * right.r, b.D(i + 1) * right.s);
    b.D(i) = left.r;
    b.rotate(left, right);
  }
  const double h = b.D(last) * right.c;
  b.D(last) = h * left.c;
  b.E(last - 1) = h * left.s;
}

template <typename R>
void step_with_shift(const Block<R>& b, double shift) {
  const int64_t last = b.size - 1;
  double f = (std::fabs(b.D(0)) - shift) * (std::copysign(1.0, b.D(0)) + shift / b.D(0)), g = b.E(0);
  for (int64_t i = 0; i < last; ++i) {
    const PlaneRotation right = rotation_of(f, g);
    if (i > 0) b.E(i - 1) = right.r;
    f = right.c * b.D(i) + right.s * b.E(i);
    b.E(i) = right.c * b.E(i) - right.s * b.D(i);
    g = right.s * b.D(i + 1);
    b.D(i + 1) *= right.c;
    const PlaneRotation left = rotation_of(f, g);
    b.D(i) = left.r;
    f = left.c * b.E(i) + left.s * b.D(i + 1);
    b.D(i + 1) = left.c * b.D(i + 1) - left.s * b.E(i);
    if (i + 1 < last) {
      g = left.s * b.E(i + 1);
      b.E(i + 1) *= left.c;
    }
    b.rotate(left, right);
  }
  b.E(last - 1) = f;
}

}  // namespace

template <typename R>
bool diagonalize_bidiagonal(double* d, double* e, int64_t n, double eps, Rotations<R>* left, Rotations<R>* right) {
  const double tolerance = std::max(10.0, std::min(100.0, std::pow(eps, -0.125))) * eps;
  // A lower bound of the smallest singular value says what counts as nothing.
  double bound = n > 0 ? std::fabs(d[0]) : 0, least = bound;
  for (int64_t i = 1; i < n && least > 0; ++i) {
    bound = std::fabs(d[i]) * (bound / (bound + std::fabs(e[i - 1])));
    least = std::min(least, bound);
  }
  const double size = static_cast<double>(n);
  const double threshold = std::max(tolerance * (least / std::sqrt(size)), 6 * size * size * 0x1p-1000);
  int64_t begin_before = -1, end_before = -1, iterations = 0;
  bool from_above = true;
  for (int64_t end = n - 1; end > 0;) {
    double largest = std::fabs(d[end]);
    int64_t begin = end;
    while (begin > 0 && std::fabs(e[begin - 1]) > threshold) {
      --begin;
      largest = std::max({largest, std::fabs(d[begin]), std::fabs(e[begin])});
    }
    if (begin > 0) e[begin - 1] = 0;
    if (begin == end) {
      --end;
      continue;
    }
    if (begin > end_before || end < begin_before) from_above = std::fabs(d[begin]) >= std::fabs(d[end]);
    begin_before = begin;
    end_before = end;
    const Block<R> block(d, e, begin, end, from_above, left, right);
    double smallest = 0;
    if (splits(block, tolerance, smallest)) continue;
    if (++iterations > 30 * n + 100) return false;
    double shift = 0;
    if (size * tolerance * (smallest / largest) > std::max(eps, 0.01 * tolerance)) {
      const int64_t last = block.size - 1;
      shift = smaller_value(block.D(last - 1), block.E(last - 1), block.D(last));
      const double ratio = shift / std::fabs(block.D(0));
      if (ratio * ratio < eps) shift = 0;
    }
    block.begin_sweep();
    shift == 0 ? step_without_shift(block) : step_with_shift(block, shift);
    if (std::fabs(block.E(block.size - 2)) <= threshold) block.E(block.size - 2) = 0;
  }
  return true;
}

template bool diagonalize_bidiagonal(double*, double*, int64_t, double, Rotations<float>*, Rotations<float>*);
template bool diagonalize_bidiagonal(double*, double*, int64_t, double, Rotations<double>*, Rotations<double>*);

}  // namespace thalweg::linear
