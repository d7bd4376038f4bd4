// Cholesky's and Gauss' factorizations by blocks of columns, and substitution by blocks of rows.
#include "compute/linear/factor.h"

#include <cmath>
#include <numeric>

#include "compute/linear/lines.h"

namespace thalweg::linear {
namespace {

constexpr int64_t kBlock = 32;
// So few columns are turned into rows: vectors then run along the matrix.
constexpr int64_t kFewColumns = 8;

template <typename T>
auto magnitude(T x) {
  if constexpr (is_complex<T>)
    return std::norm(x);
  else
    return std::abs(x);
}

// Columns [k, k + width) of the rows from k on, by Gauss; rows are exchanged over their whole length.
template <typename T>
int factor_panel(T* a, int64_t n, int64_t k, int64_t width, std::vector<int64_t>& order) {
  int sign = 1;
  for (int64_t column = k; column < k + width; ++column) {
    int64_t pivot = column;
    auto best = magnitude(a[column * n + column]);
    for (int64_t i = column + 1; i < n; ++i) {
      const auto candidate = magnitude(a[i * n + column]);
      if (candidate > best) {
        best = candidate;
        pivot = i;
      }
    }
    if (pivot != column) {
      std::swap_ranges(a + column * n, a + column * n + n, a + pivot * n);
      std::swap(order[column], order[pivot]);
      sign = -sign;
    }
    const T diagonal = a[column * n + column];
    if (diagonal == T(0)) continue;
    const T* row = a + column * n;
    for (int64_t i = column + 1; i < n; ++i) {
      T* to = a + i * n;
      to[column] = to[column] / diagonal;
      subtract(to[column], row + column + 1, to + column + 1, k + width - column - 1);
    }
  }
  return sign;
}

// op(A)[first .. first + rows, from .. from + columns] as a block without gaps, where it is not one in memory.
template <typename T>
void adjoint_block(const Triangle<T>& t, int64_t first, int64_t rows, int64_t from, int64_t columns, T* to) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[i * columns + j] = conjugate(t.a[(from + j) * t.n + first + i]);
}

// Rows of X, `width` of them, from a triangle of which block[i * kBlock + k] is an element, for so many vectors of
// columns (none: one column of scalars).
template <int vectors, typename T>
void solve_strip(const T* block, int64_t width, bool forwards, bool unit, T* x, int64_t stride) {
  constexpr int kCount = vectors == 0 ? 1 : vectors;
  for (int64_t step = 0; step < width; ++step) {
    const int64_t i = forwards ? step : width - 1 - step;
    const int64_t begin = forwards ? 0 : i + 1, end = forwards ? i : width;
    const T* factors = block + i * kBlock;
    T* row = x + i * stride;
    if constexpr (vectors == 0) {
      T value = row[0];
      for (int64_t k = begin; k < end; ++k) value -= times(factors[k], x[k * stride]);
      row[0] = unit ? value : value / factors[i];
    } else {
      using V = lanes::Vector<T>;
      constexpr int64_t W = lanes::kLanes<T>;
      V values[kCount];
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) values[v] = lanes::load<T>(row + v * W);
      for (int64_t k = begin; k < end; ++k) {
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) values[v] -= factors[k] * lanes::load<T>(x + k * stride + v * W);
      }
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) lanes::store<T>(unit ? values[v] : values[v] / factors[i], row + v * W);
    }
  }
}

// Rows of X as long as they are: those of a block by themselves, then all that follow in one product.
template <typename T>
void solve_wide(const Triangle<T>& t, T* x, int64_t columns, bool parallel) {
  const int64_t n = t.n;
  const bool forwards = t.lower != t.adjoint;
  std::vector<T> triangle(kBlock * kBlock), block;
  for (int64_t done = 0; done < n; done += kBlock) {
    const int64_t width = std::min(kBlock, n - done), first = forwards ? done : n - done - width;
    for (int64_t i = 0; i < width; ++i)
      for (int64_t k = forwards ? 0 : i; k < (forwards ? i + 1 : width); ++k)
        triangle[i * kBlock + k] =
            t.adjoint ? conjugate(t.a[(first + k) * n + first + i]) : t.a[(first + i) * n + first + k];
    T* rows_of_block = x + first * columns;
    int64_t column = 0;
    if constexpr (!is_complex<T>) {
      constexpr int64_t W = lanes::kLanes<T>;
      for (; column + 4 * W <= columns; column += 4 * W)
        solve_strip<4>(triangle.data(), width, forwards, t.unit, rows_of_block + column, columns);
      for (; column + W <= columns; column += W)
        solve_strip<1>(triangle.data(), width, forwards, t.unit, rows_of_block + column, columns);
    }
    for (; column < columns; ++column)
      solve_strip<0>(triangle.data(), width, forwards, t.unit, rows_of_block + column, columns);
    const int64_t rest = forwards ? first + width : 0, rows = forwards ? n - rest : first;
    if (rows == 0) continue;
    const T* left = t.a + rest * n + first;
    int64_t stride = n;
    if (t.adjoint) {
      block.resize(rows * width);
      adjoint_block(t, rest, rows, first, width, block.data());
      left = block.data();
      stride = width;
    }
    subtract_product(rows, columns, width, left, stride, x + first * columns, columns, x + rest * columns, columns,
                     parallel);
  }
}

// A few columns, each as a row: sums of products along the rows of A, or, for the adjoint, differences along them.
template <typename T>
void solve_narrow(const Triangle<T>& t, T* x, int64_t columns) {
  const int64_t n = t.n;
  std::vector<T> lines(n * columns);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c) lines[c * n + i] = x[i * columns + c];
  const bool forwards = t.lower != t.adjoint;
  int64_t together = 0;
  if (!t.adjoint) {
    // Four rows share a sum over what was solved before them.
    for (; together + 4 <= n; together += 4) {
      const int64_t first = forwards ? together : n - 4 - together, solved = forwards ? 0 : first + 4;
      const T* rows = t.a + first * n;
      for (int64_t c = 0; c < columns; ++c) {
        T* line = lines.data() + c * n;
        T sums[4];
        dots<4>(rows + solved, n, line + solved, together, sums);
        for (int step = 0; step < 4; ++step) {
          const int64_t r = forwards ? step : 3 - step;
          T value = line[first + r] - sums[r];
          for (int64_t k = forwards ? 0 : r + 1; k < (forwards ? r : 4); ++k)
            value -= times(rows[r * n + first + k], line[first + k]);
          line[first + r] = t.unit ? value : value / rows[r * n + first + r];
        }
      }
    }
  }
  for (int64_t step = together; step < n; ++step) {
    const int64_t i = forwards ? step : n - 1 - step;
    const T* row = t.a + i * n;
    const int64_t begin = t.lower ? 0 : i + 1, count = t.lower ? i : n - 1 - i;
    for (int64_t c = 0; c < columns; ++c) {
      T* line = lines.data() + c * n;
      T value = line[i];
      if (!t.adjoint) value -= dot(row + begin, line + begin, count);
      if (!t.unit) value = value / (t.adjoint ? conjugate(row[i]) : row[i]);
      line[i] = value;
      if (!t.adjoint) continue;
      if constexpr (is_complex<T>)
        for (int64_t k = begin; k < begin + count; ++k) line[k] -= times(std::conj(row[k]), value);
      else
        subtract(value, row + begin, line + begin, count);
    }
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c) x[i * columns + c] = lines[c * n + i];
}

}  // namespace

template <typename T>
bool cholesky(T* a, int64_t n, bool parallel) {
  std::vector<T> panel;
  for (int64_t k = 0; k < n; k += kBlock) {
    const int64_t width = std::min(kBlock, n - k), rest = k + width;
    // All rows of the panel, each from the elements before it in its own row.
    for (int64_t i = k; i < n; ++i) {
      T* row = a + i * n + k;
      for (int64_t j = 0; j < std::min(width, i - k + 1); ++j) {
        const T* other = a + (k + j) * n + k;
        const T left = row[j] - dot<true>(other, row, j);
        if (i == k + j) {
          const auto pivot = std::real(left);
          if (!(pivot > 0) || !std::isfinite(pivot)) return false;
          row[j] = T(std::sqrt(pivot));
        } else {
          row[j] = left / other[j];
        }
      }
    }
    if (rest == n) break;
    // A22 -= L21 L21^H, in strips of columns down from the diagonal.
    const int64_t rows = n - rest;
    panel.resize(width * rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j) panel[j * rows + i] = conjugate(a[(rest + i) * n + k + j]);
    constexpr int64_t kStrip = 64;
    for (int64_t j = 0; j < rows; j += kStrip)
      subtract_product(rows - j, std::min(kStrip, rows - j), width, a + (rest + j) * n + k, n, panel.data() + j, rows,
                       a + (rest + j) * n + rest + j, n, parallel);
  }
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
  return true;
}

template <typename T>
int lu(T* a, int64_t n, std::vector<int64_t>& order, bool parallel) {
  order.resize(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  int sign = 1;
  for (int64_t k = 0; k < n; k += kBlock) {
    const int64_t width = std::min(kBlock, n - k), rest = k + width, columns = n - rest;
    sign *= factor_panel(a, n, k, width, order);
    if (columns == 0) break;
    // The rows of U beside the panel, then what lies below them.
    for (int64_t i = k; i < rest; ++i)
      for (int64_t below = i + 1; below < rest; ++below)
        subtract(a[below * n + i], a + i * n + rest, a + below * n + rest, columns);
    subtract_product(n - rest, columns, width, a + rest * n + k, n, a + k * n + rest, n, a + rest * n + rest, n,
                     parallel);
  }
  return sign;
}

template <typename T>
void solve_triangular(const Triangle<T>& t, T* x, int64_t columns, bool parallel) {
  columns <= kFewColumns ? solve_narrow(t, x, columns) : solve_wide(t, x, columns, parallel);
}

#define THALWEG_INSTANTIATE(T)                               \
  template bool cholesky(T*, int64_t, bool);                 \
  template int lu(T*, int64_t, std::vector<int64_t>&, bool); \
  template void solve_triangular(const Triangle<T>&, T*, int64_t, bool);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
THALWEG_INSTANTIATE(std::complex<float>)
THALWEG_INSTANTIATE(std::complex<double>)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::linear
