// Two sparse values of one shape, element by element: sums, maxima and minima; and a sparse and a dense one.
#include <numeric>

#include "compute/elementwise/elementwise.h"
#include "compute/sparse/sparse_input.h"

namespace thalweg {
namespace {

// The elements of a sparse value in row-major order.
class Sorted {
 public:
  explicit Sorted(const SparseInput& x)
      : positions_(x.positions()),
        order_(sorting_order(positions_)),
        distinct_(order_.empty() && std::adjacent_find(positions_.begin(), positions_.end()) == positions_.end()) {}
  int64_t size() const { return static_cast<int64_t>(positions_.size()); }
  int64_t element(int64_t k) const { return order_.empty() ? k : order_[k]; }
  int64_t position(int64_t k) const { return positions_[element(k)]; }
  // Whether the elements were in order, and no two of them have one position.
  bool distinct() const { return distinct_; }

 private:
  std::vector<int64_t> positions_;
  std::vector<uint32_t> order_;
  bool distinct_;
};

struct Pair {
  explicit Pair(Context& ctx) : a(ctx, 0, "a"), b(ctx, 3, "b") {
    if (a.sizes != b.sizes)
      fail(Code::invalid_argument, "the operands have shapes ", listed(a.sizes), " and ", listed(b.sizes));
  }
  SparseInput a, b;
};

// Calls take(index row, first and last of a's elements, first and last of b's) for each position that either holds.
template <typename Take>
void for_each_union(const Pair& pair, const Sorted& a, const Sorted& b, const Take& take) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t i = 0, j = 0;
  if (a.distinct() && b.distinct())
    // One branch, which nobody can foresee, for each position.
    while (i < a.size() && j < b.size()) {
      const int64_t in_a = a.position(i), in_b = b.position(j);
      if (in_a < in_b) {
        take(pair.a.row(i), i, i + 1, j, j);
        ++i;
      } else if (in_b < in_a) {
        take(pair.b.row(j), i, i, j, j + 1);
        ++j;
      } else {
        take(pair.a.row(i), i, i + 1, j, j + 1);
        ++i, ++j;
      }
    }
  while (i < a.size() || j < b.size()) {
    const int64_t in_a = i < a.size() ? a.position(i) : kNone, in_b = j < b.size() ? b.position(j) : kNone;
    const int64_t at = std::min(in_a, in_b), first_i = i, first_j = j;
    while (i < a.size() && a.position(i) == at) ++i;
    while (j < b.size() && b.position(j) == at) ++j;
    take(i > first_i ? pair.a.row(a.element(first_i)) : pair.b.row(b.element(first_j)), first_i, i, first_j, j);
  }
}

// Outputs 0 and 1: the indices and values that have been collected.
template <typename T>
void set_elements(Context& ctx, int64_t rank, const std::vector<const int64_t*>& rows, const std::vector<T>& values) {
  const int64_t n = static_cast<int64_t>(rows.size());
  int64_t* to = ctx.allocate(0, Shape{n, rank}).flat<int64_t>();
  for (int64_t i = 0; i < n; ++i) std::copy_n(rows[i], rank, to + i * rank);
  Tensor& out = ctx.allocate(1, Shape{n});
  std::copy(values.begin(), values.end(), out.flat<T>());
}

double threshold_of(const Tensor& t) {
  require(t.rank() == 0, "thresh must be a scalar, got shape ", t.shape());
  double result = 0;
  dispatch(t.dtype(), Reals{}, [&]<typename T>() { result = static_cast<double>(t.flat<T>()[0]); });
  return result;
}

// Sums of the elements at one position, left out if smaller than the threshold.
void sparse_add(Context& ctx) {
  const Pair pair(ctx);
  const double threshold = threshold_of(ctx.input(6));
  const Sorted a(pair.a), b(pair.b);
  dispatch(pair.a.values.dtype(), Numbers{}, [&]<typename T>() {
    using C = Compute<T>;
    const T *x = pair.a.values.flat<T>(), *y = pair.b.values.flat<T>();
    std::vector<const int64_t*> rows;
    std::vector<T> sums;
    rows.reserve(a.size() + b.size());
    sums.reserve(a.size() + b.size());
    for_each_union(pair, a, b, [&](const int64_t* row, int64_t i, int64_t end_i, int64_t j, int64_t end_j) {
      C sum(0);
      for (; i < end_i; ++i) sum = static_cast<C>(sum + static_cast<C>(x[a.element(i)]));
      for (; j < end_j; ++j) sum = static_cast<C>(sum + static_cast<C>(y[b.element(j)]));
      if (!(std::abs(static_cast<std::conditional_t<is_complex<C>, C, double>>(sum)) >= threshold)) return;
      rows.push_back(row);
      sums.push_back(static_cast<T>(sum));
    });
    set_elements(ctx, pair.a.rank, rows, sums);
  });
  ctx.set_output(2, ctx.input(2));
}
REGISTER(kernel("SparseAdd").types("T", Numbers{}).function<sparse_add>());

// For each element of the operands, the gradient of the sum at its place, or 0 if that was left out.
void sparse_add_grad(Context& ctx) {
  const Tensor &grad = ctx.input(0), &total = ctx.input(3);
  require(grad.rank() == 1, "backprop_val_grad must be a vector, got shape ", grad.shape());
  for (int i = 1; i < 4; ++i)
    require(ctx.input(i).rank() == 2 && ctx.input(i).dim(1) == ctx.input(1).dim(1),
            "indices must be matrices with as many columns: ", ctx.input(1).shape(), ", ", ctx.input(2).shape(), ", ",
            total.shape());
  const int64_t n = total.dim(0), rank = total.dim(1);
  require(grad.dim(0) == n, grad.dim(0), " gradients for ", n, " indices");
  const int64_t* rows = total.flat<int64_t>();
  auto less = [rank](const int64_t* a, const int64_t* b) {
    return std::lexicographical_compare(a, a + rank, b, b + rank);
  };
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  auto before = [&](int64_t i, int64_t j) { return less(rows + i * rank, rows + j * rank); };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::stable_sort(order.begin(), order.end(), before);
  dispatch(grad.dtype(), Numbers{}, [&]<typename T>() {
    const T* from = grad.flat<T>();
    for (int operand : {1, 2}) {
      const Tensor& indices = ctx.input(operand);
      const int64_t count = indices.dim(0);
      T* to = ctx.allocate(operand - 1, Shape{count}).template flat<T>();
      // Where the search begins: most often the next of the sums is meant.
      int64_t next = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t* row = indices.flat<int64_t>() + i * rank;
        if (next >= n || !std::equal(row, row + rank, rows + order[next] * rank)) {
          auto found = std::lower_bound(order.begin(), order.end(), row,
                                        [&](int64_t k, const int64_t* r) { return less(rows + k * rank, r); });
          next = found - order.begin();
        }
        const bool hit = next < n && std::equal(row, row + rank, rows + order[next] * rank);
        to[i] = hit ? from[order[next]] : T(0);
        next += hit;
      }
    }
  });
}
REGISTER(kernel("SparseAddGrad").types("T", Numbers{}).function<sparse_add_grad>());

// An element that only one operand holds is compared with zero.
template <bool kLargest>
void sparse_extremum(Context& ctx) {
  const Pair pair(ctx);
  const Sorted a(pair.a), b(pair.b);
  dispatch(pair.a.values.dtype(), Reals{}, [&]<typename T>() {
    using C = Compute<T>;
    const T *x = pair.a.values.flat<T>(), *y = pair.b.values.flat<T>();
    std::vector<const int64_t*> rows;
    std::vector<T> chosen;
    rows.reserve(a.size() + b.size());
    chosen.reserve(a.size() + b.size());
    for_each_union(pair, a, b, [&](const int64_t* row, int64_t i, int64_t end_i, int64_t j, int64_t end_j) {
      // Of repeated elements the last one counts.
      const C left = end_i > i ? static_cast<C>(x[a.element(end_i - 1)]) : C(0);
      const C right = end_j > j ? static_cast<C>(y[b.element(end_j - 1)]) : C(0);
      const bool first = (kLargest ? left > right : left < right) || left != left;
      rows.push_back(row);
      chosen.push_back(static_cast<T>(first ? left : right));
    });
    set_elements(ctx, pair.a.rank, rows, chosen);
  });
}
REGISTER(kernel("SparseSparseMaximum").types("T", Reals{}).function<sparse_extremum<true>>());
REGISTER(kernel("SparseSparseMinimum").types("T", Reals{}).function<sparse_extremum<false>>());

void sparse_tensor_dense_add(Context& ctx) {
  const SparseInput a(ctx, 0, "a");
  const Tensor& b = ctx.input(3);
  if (a.sizes != b.shape().to_vector())
    fail(Code::invalid_argument, "a has shape ", listed(a.sizes), ", b has shape ", b.shape());
  Tensor& out = ctx.forward_or_allocate({3}, 0, b.shape());
  const std::vector<int64_t> at = a.positions();
  dispatch(b.dtype(), Numbers{}, [&]<typename T>() {
    const T* from = b.flat<T>();
    T* to = out.flat<T>();
    if (to != from)
      parallel_for(b.num_elements(), kElementGrain,
                   [=](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
    using C = Compute<T>;
    for (int64_t i = 0; i < a.count; ++i)
      to[at[i]] = static_cast<T>(static_cast<C>(to[at[i]]) + static_cast<C>(a.values.template flat<T>()[i]));
  });
}
REGISTER(kernel("SparseTensorDenseAdd").types("T", Numbers{}).function<sparse_tensor_dense_add>());

}  // namespace
}  // namespace thalweg
