// Sparse values joined and split, and their elements combined with a dense tensor or normalized in rows.
#include "compute/copies/elements.h"
#include "compute/elementwise/functors.h"
#include "compute/sparse/sparse_input.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

int64_t checked_axis(int64_t axis, int64_t rank, const char* name) {
  require(axis >= -rank && axis < rank, name, " ", axis, " is out of range for rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

struct SparseConcat : Kernel {
  explicit SparseConcat(const Construction& c) : axis_(c.attr<int64_t>("concat_dim")) {}
  void compute(Context& ctx) override {
    const int n = ctx.num_inputs() / 3;
    std::vector<SparseInput> parts;
    parts.reserve(n);
    for (int i = 0; i < n; ++i)
      parts.emplace_back(ctx.input(i), ctx.input(n + i), ctx.input(2 * n + i), cat("input ", i));
    const int64_t rank = parts[0].rank, axis = checked_axis(axis_, rank, "concat_dim");
    std::vector<int64_t> sizes = parts[0].sizes;
    sizes[axis] = 0;
    int64_t count = 0;
    for (int i = 0; i < n; ++i) {
      bool fits = parts[i].rank == rank;
      for (int64_t d = 0; fits && d < rank; ++d) fits = d == axis || parts[i].sizes[d] == sizes[d];
      if (!fits)
        fail(Code::invalid_argument, "input ", i, " has shape ", listed(parts[i].sizes), ", which does not fit ",
             listed(parts[0].sizes), " beside axis ", axis);
      require(!__builtin_add_overflow(sizes[axis], parts[i].sizes[axis], &sizes[axis]), "the joined axis is too long");
      count += parts[i].count;
    }
    const Tensor joined_shape = Tensor::vector<int64_t>(sizes);
    checked_dense_shape(joined_shape, "the result");
    std::vector<int64_t> joined(count * rank), at(count);
    int64_t offset = 0, to = 0;
    for (const SparseInput& part : parts) {
      for (int64_t i = 0; i < part.count; ++i, ++to)
        for (int64_t d = 0; d < rank; ++d) {
          const int64_t index = part.row(i)[d] + (d == axis ? offset : 0);
          joined[to * rank + d] = index;
          at[to] = at[to] * sizes[d] + index;
        }
      offset += part.sizes[axis];
    }
    const std::vector<uint32_t> order = sorting_order(at);
    Tensor& indices = ctx.allocate(0, Shape{count, rank});
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(joined.data() + (order.empty() ? i : order[i]) * rank, rank, indices.flat<int64_t>() + i * rank);
    Tensor& values = ctx.allocate(1, Shape{count});
    dispatch_width(values.dtype(), [&]<typename T>() {
      std::vector<const T*> from;
      from.reserve(count);
      for (const SparseInput& part : parts)
        for (int64_t i = 0; i < part.count; ++i) from.push_back(part.values.flat<T>() + i);
      for (int64_t i = 0; i < count; ++i) values.flat<T>()[i] = *from[order.empty() ? i : order[i]];
    });
    ctx.set_output(2, joined_shape);
  }
  int64_t axis_;
};
REGISTER(kernel("SparseConcat").make<SparseConcat>());

void sparse_split(Context& ctx) {
  const SparseInput x(ctx, 1);
  require(ctx.input(0).num_elements() == 1, "split_dim must be a scalar, got shape ", ctx.input(0).shape());
  const int64_t axis = checked_axis(ctx.input(0).flat<int64_t>()[0], x.rank, "split_dim");
  const int64_t n = ctx.num_outputs() / 3, size = x.sizes[axis];
  require(n >= 1 && n <= size, "num_split ", n, " must be between 1 and ", size, ", the size of dimension ", axis);
  // The first pieces are one longer where the size does not divide.
  const int64_t each = size / n, longer = size % n, boundary = longer * (each + 1);
  auto piece_of = [&](int64_t index) {
    return index < boundary ? index / (each + 1) : longer + (index - boundary) / each;
  };
  auto start_of = [&](int64_t piece) { return piece * each + std::min(piece, longer); };
  std::vector<int64_t> counts(n), pieces(x.count), next(n);
  for (int64_t i = 0; i < x.count; ++i) ++counts[pieces[i] = piece_of(x.row(i)[axis])];
  std::vector<int64_t*> indices(n);
  for (int64_t p = 0; p < n; ++p) {
    indices[p] = ctx.allocate(static_cast<int>(p), Shape{counts[p], x.rank}).flat<int64_t>();
    ctx.allocate(static_cast<int>(n + p), Shape{counts[p]});
    std::vector<int64_t> sizes = x.sizes;
    sizes[axis] = start_of(p + 1) - start_of(p);
    ctx.set_output(static_cast<int>(2 * n + p), Tensor::vector<int64_t>(sizes));
  }
  dispatch_width(x.values.dtype(), [&]<typename T>() {
    std::vector<T*> values(n);
    for (int64_t p = 0; p < n; ++p) values[p] = static_cast<T*>(ctx.output(static_cast<int>(n + p)).raw());
    for (int64_t i = 0; i < x.count; ++i) {
      const int64_t p = pieces[i], k = next[p]++;
      std::copy_n(x.row(i), x.rank, indices[p] + k * x.rank);
      indices[p][k * x.rank + axis] -= start_of(p);
      values[p][k] = x.values.flat<T>()[i];
    }
  });
}
REGISTER(kernel("SparseSplit").function<sparse_split>());

// Rows may be scattered over the elements: numbered by their positions.
void sparse_softmax(Context& ctx) {
  const SparseInput x(ctx, 0);
  require(x.rank >= 2, "softmax needs a sparse value of rank 2 or more, got shape ", listed(x.sizes));
  std::vector<int64_t> outer(x.rank - 1);
  for (int64_t d = 0; d + 1 < x.rank; ++d) outer[d] = d;
  const std::vector<int64_t> at = x.positions(outer);
  const std::vector<uint32_t> order = sorting_order(at);
  Tensor& out = ctx.allocate(0, x.values.shape());
  dispatch(out.dtype(), Types<DType::float16, DType::float32, DType::float64>{}, [&]<typename T>() {
    const T* from = x.values.flat<T>();
    T* to = out.flat<T>();
    auto element = [&](int64_t i) { return order.empty() ? i : static_cast<int64_t>(order[i]); };
    std::vector<double> powers;
    for (int64_t begin = 0, end; begin < x.count; begin = end) {
      const int64_t row = at[element(begin)];
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (end = begin; end < x.count && at[element(end)] == row; ++end) {
        const double value = static_cast<double>(from[element(end)]);
        largest = value > largest || value != value ? value : largest;
      }
      powers.resize(end - begin);
      for (int64_t i = begin; i < end; ++i) powers[i - begin] = static_cast<double>(from[element(i)]) - largest;
#pragma GCC ivdep
      for (double& power : powers) power = vector_math::exp(power);
      for (double power : powers) sum += power;
      for (int64_t i = begin; i < end; ++i) to[element(i)] = static_cast<T>(powers[i - begin] / sum);
    }
  });
}
REGISTER(kernel("SparseSoftmax").function<sparse_softmax>());

// output[i] = F(value i, the element of the dense operand, broadcast, at its place).
template <typename F>
void sparse_dense(Context& ctx) {
  const SparseInput x(ctx, 0, "sparse operand");
  const Tensor& dense = ctx.input(3);
  const int64_t skipped = x.rank - dense.rank();
  bool fits = skipped >= 0;
  for (int64_t d = 0; fits && d < dense.rank(); ++d)
    fits = dense.dim(static_cast<int>(d)) == 1 || dense.dim(static_cast<int>(d)) == x.sizes[skipped + d];
  if (!fits)
    fail(Code::invalid_argument, "cannot broadcast the dense operand of shape ", dense.shape(), " to ",
         listed(x.sizes));
  std::vector<int64_t> strides(x.rank, 0);
  int64_t stride = 1;
  for (int64_t d = x.rank; d-- > skipped;) {
    const int64_t size = dense.dim(static_cast<int>(d - skipped));
    strides[d] = size == 1 ? 0 : stride;
    stride *= size;
  }
  Tensor& out = ctx.allocate(0, x.values.shape());
  dispatch(out.dtype(), Numbers{}, [&]<typename T>() {
    using Wide = std::conditional_t<is_reduced_float<T>, float, T>;
    const T *values = x.values.flat<T>(), *others = dense.flat<T>();
    T* to = out.flat<T>();
    bool divides_by_zero = false;
    for (int64_t i = 0; i < x.count; ++i) {
      int64_t at = 0;
      for (int64_t d = skipped; d < x.rank; ++d) at += x.row(i)[d] * strides[d];
      if constexpr (functors::is_integer<T> && std::is_base_of_v<functors::TruncateDiv, F>) {
        if (others[at] == 0) {
          divides_by_zero = true;
          break;
        }
      }
      to[i] = static_cast<T>(F::apply(static_cast<Wide>(values[i]), static_cast<Wide>(others[at])));
    }
    require(!divides_by_zero, "integer division by zero");
  });
}

// The quotient of integers is cut off, that of others exact.
struct Quotient : functors::TruncateDiv {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (functors::is_integer<T>)
      return functors::TruncateDiv::apply(a, b);
    else
      return a / b;
  }
};
REGISTER(kernel("SparseDenseCwiseMul").types("T", Numbers{}).function<sparse_dense<functors::Mul>>());
REGISTER(kernel("SparseDenseCwiseDiv").types("T", Numbers{}).function<sparse_dense<Quotient>>());
REGISTER(kernel("SparseDenseCwiseAdd").types("T", Numbers{}).function<sparse_dense<functors::Add>>());

}  // namespace
}  // namespace thalweg
