// TridiagonalSolve: elimination with exchanges of neighbouring rows.
#include <atomic>

#include "compute/elementwise/elementwise.h"
#include "compute/linear/lines.h"

namespace thalweg {
namespace {

using linear::times;

// Without a square root, and without overflow.
template <typename T>
auto magnitude(T x) {
  return std::abs(std::real(x)) + std::abs(std::imag(x));
}

// A matrix of n rows: its diagonals, and one more above them for what exchanges bring.
template <typename T>
class Tridiagonal {
 public:
  // `diagonals`: the upper one, whose last number does not matter; the main one; the lower one, whose first does not.
  Tridiagonal(const T* diagonals, int64_t n) : n_(n), parts_(4 * n) {
    std::copy_n(diagonals, n - 1, upper());
    std::copy_n(diagonals + n, n, main());
    std::copy_n(diagonals + 2 * n + 1, n - 1, lower());
  }
  // Makes a singular matrix a regular one, most often.
  void perturb() {
    auto largest = magnitude(T(1));
    for (const T& x : parts_) largest = std::max(largest, magnitude(x));
    for (int64_t i = 0; i < n_; ++i) main()[i] += T(std::numeric_limits<decltype(largest)>::epsilon() * largest);
  }
  // Solves in place for a right-hand side [n, columns]; false if the matrix is singular. Changes the matrix.
  bool solve(T* x, int64_t columns) {
    T *above = upper(), *d = main(), *below = lower(), *second = above + 3 * n_;
    for (int64_t i = 0; i + 1 < n_; ++i) {
      T *row = x + i * columns, *next = row + columns;
      if (magnitude(d[i]) >= magnitude(below[i])) {
        if (d[i] == T(0)) return false;
        const T factor = below[i] / d[i];
        d[i + 1] -= times(factor, above[i]);
        linear::subtract(factor, row, next, columns);
        second[i] = T(0);
        continue;
      }
      const T factor = d[i] / below[i], moved = d[i + 1];
      d[i] = below[i];
      d[i + 1] = above[i] - times(factor, moved);
      above[i] = moved;
      second[i] = i + 2 < n_ ? above[i + 1] : T(0);
      if (i + 2 < n_) above[i + 1] = -times(factor, above[i + 1]);
      std::swap_ranges(row, next, next);
      linear::subtract(factor, row, next, columns);
    }
    if (d[n_ - 1] == T(0)) return false;
    for (int64_t i = n_; i-- > 0;) {
      T* row = x + i * columns;
      if (i + 1 < n_) linear::subtract(above[i], row + columns, row, columns);
      if (i + 2 < n_) linear::subtract(second[i], row + 2 * columns, row, columns);
      for (int64_t c = 0; c < columns; ++c) row[c] = row[c] / d[i];
    }
    return true;
  }

 private:
  T* upper() { return parts_.data(); }
  T* main() { return parts_.data() + n_; }
  T* lower() { return parts_.data() + 2 * n_; }

  const int64_t n_;
  std::vector<T> parts_;
};

struct TridiagonalSolve : Kernel {
  explicit TridiagonalSolve(const Construction& c) : perturb(c.attr<bool>("perturb_singular", false)) {}
  void compute(Context& ctx) override {
    const Tensor &diagonals = ctx.input(0), &rhs = ctx.input(1);
    const Shape &found = diagonals.shape(), &shape = rhs.shape();
    const int rank = found.rank();
    require(rank >= 2 && found[rank - 2] == 3, "diagonals must have shape [..., 3, M], got ", found);
    require(shape.rank() == rank, "rhs of shape ", shape, " must have the rank of diagonals ", found);
    bool fits = shape[rank - 2] == found[rank - 1];
    for (int d = 0; d + 2 < rank; ++d) fits &= shape[d] == found[d];
    require(fits, "rhs of shape ", shape, " does not fit diagonals of shape ", found);
    Tensor& out = ctx.allocate(0, shape);
    if (out.num_elements() == 0) return;
    const int64_t n = shape[rank - 2], columns = shape[rank - 1], batch = shape.product(0, rank - 2);
    std::atomic<bool> regular = true;
    dispatch(out.dtype(), Join<WideFloats, Complexes>{}, [&]<typename T>() {
      const T *from = diagonals.flat<T>(), *right = rhs.flat<T>();
      T* to = out.flat<T>();
      parallel_for(batch, std::max<int64_t>(1, kElementGrain / (8 * n * columns)), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          T* x = to + b * n * columns;
          auto attempt = [&](bool perturbed) {
            std::copy_n(right + b * n * columns, n * columns, x);
            Tridiagonal<T> matrix(from + b * 3 * n, n);
            if (perturbed) matrix.perturb();
            return matrix.solve(x, columns);
          };
          if (!attempt(false) && !(perturb && attempt(true))) regular = false;
        }
      });
    });
    require(regular.load(), "The first element of diagonal is zero, or the matrix is singular");
  }
  bool perturb;
};
REGISTER(kernel("TridiagonalSolve").types("T", Join<WideFloats, Complexes>{}).make<TridiagonalSolve>());

}  // namespace
}  // namespace thalweg
