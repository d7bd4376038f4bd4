// Sparse values in common use: into a dense tensor, into row-major order, and times a dense matrix.
//
// A sparse value is three tensors: indices [n, rank], values [n] and the dense shape [rank].
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/sparse/sparse_input.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// The indices as int64, so that the code below is compiled once; copied only if they are narrower.
class Widened {
 public:
  explicit Widened(const Tensor& indices) : size_(indices.num_elements()) {
    if (indices.dtype() == DType::int64) {
      data_ = indices.flat<int64_t>();
      return;
    }
    copy_ = to_int64s(indices.rank() == 1 ? indices : indices.reshaped(Shape{indices.num_elements()}));
    data_ = copy_.data();
  }
  const int64_t* data() const { return data_; }
  int64_t operator[](int64_t i) const { return data_[i]; }
  int64_t size() const { return size_; }

 private:
  std::vector<int64_t> copy_;
  const int64_t* data_;
  int64_t size_;
};

// Texts of errors are put together apart from the loops: on success nothing of them is computed.
[[noreturn, gnu::cold, gnu::noinline]] void refuse_index(int64_t i, const int64_t* row, const Shape& shape) {
  fail(Code::invalid_argument, "indices[", i, "] = ", listed(row, shape.rank()),
       " is out of bounds: need 0 <= index < ", shape);
}
[[noreturn, gnu::cold, gnu::noinline]] void refuse_order(int64_t i, const int64_t* row, int64_t rank, bool repeated) {
  fail(Code::invalid_argument, "indices[", i, "] = ", listed(row, rank),
       repeated ? " is repeated" : " is out of order. Use tf.sparse_reorder to sort the indices first");
}

// Calls each(i, position) with the position of each element in the dense tensor. Throws for indices outside of it.
template <typename Each>
void for_each_position(const Widened& indices, const Shape& shape, const Each& each) {
  const int64_t rank = shape.rank(), n = rank == 0 ? 0 : indices.size() / rank;
  const int64_t* row = indices.data();
  auto unsigned_of = [](int64_t x) { return static_cast<uint64_t>(x); };
  if (rank == 2) {
    const int64_t rows = shape[0], columns = shape[1];
    for (int64_t i = 0; i < n; ++i, row += 2) {
      if ((unsigned_of(row[0]) >= unsigned_of(rows)) | (unsigned_of(row[1]) >= unsigned_of(columns))) [[unlikely]]
        refuse_index(i, row, shape);
      each(i, row[0] * columns + row[1]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i, row += rank) {
    int64_t at = 0;
    for (int64_t d = 0; d < rank; ++d) {
      if (unsigned_of(row[d]) >= unsigned_of(shape[d])) [[unlikely]]
        refuse_index(i, row, shape);
      at = at * shape[d] + row[d];
    }
    each(i, at);
  }
}

// All positions. Where the order matters, also throws for indices that are repeated or not in row-major order.
std::vector<int64_t> positions(const Widened& indices, const Shape& shape, bool ordered) {
  const int64_t rank = shape.rank();
  std::vector<int64_t> result(rank == 0 ? 0 : indices.size() / rank);
  int64_t last = -1;
  for_each_position(indices, shape, [&](int64_t i, int64_t at) {
    result[i] = at;
    if (!ordered) return;
    if (at <= last) [[unlikely]]
      refuse_order(i, indices.data() + i * rank, rank, at == last);
    last = at;
  });
  return result;
}

struct SparseToDense : Kernel {
  explicit SparseToDense(const Construction& c) : validate_(c.attr<bool>("validate_indices", true)) {}
  void compute(Context& ctx) override {
    const Tensor &indices = ctx.input(0), &sizes = ctx.input(1), &values = ctx.input(2), &otherwise = ctx.input(3);
    require(indices.rank() <= 2, "sparse_indices must be a scalar, vector or matrix, got shape ", indices.shape());
    require(sizes.rank() == 1, "output_shape must be a vector, got shape ", sizes.shape());
    const int64_t n = indices.rank() > 0 ? indices.dim(0) : 1, rank = indices.rank() > 1 ? indices.dim(1) : 1;
    require(sizes.num_elements() == rank, "output_shape has ", sizes.num_elements(), " elements, but an index has ",
            rank);
    require(values.rank() == 0 || (values.rank() == 1 && values.dim(0) == n),
            "sparse_values must be a scalar or a vector of ", n, " elements, got shape ", values.shape());
    require(otherwise.rank() == 0, "default_value must be a scalar, got shape ", otherwise.shape());
    const Shape shape(to_int64s(sizes));
    require(rank > 0 || n <= 1, n, " values for a scalar");
    std::vector<int64_t> at = positions(Widened(indices), shape, validate_);
    if (rank == 0) at.assign(n, 0);
    Tensor& out = ctx.allocate(0, shape);
    dispatch_width(out.dtype(), [&]<typename T>() {
      T* to = out.flat<T>();
      const T fill = otherwise.flat<T>()[0];
      parallel_for(out.num_elements(), kElementGrain,
                   [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, fill); });
      const T* x = values.flat<T>();
      const int64_t step = values.rank();
      for (int64_t i = 0; i < n; ++i) to[at[i]] = x[i * step];
    });
  }
  bool validate_;
};
REGISTER(kernel("SparseToDense").types("Tindices", Indices{}).make<SparseToDense>());

void require_sparse(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  require(indices.rank() == 2, "the indices of a sparse value must be a matrix, got shape ", indices.shape());
  require(values.rank() == 1, "the values of a sparse value must be a vector, got shape ", values.shape());
  require(shape.rank() == 1, "the shape of a sparse value must be a vector, got shape ", shape.shape());
  require(indices.dim(0) == values.dim(0), "there are ", indices.dim(0), " indices for ", values.dim(0), " values");
  require(indices.dim(1) == shape.dim(0), "indices have ", indices.dim(1), " columns, but the dense shape has ",
          shape.dim(0), " dimensions");
}

void sparse_reorder(Context& ctx) {
  const Tensor &indices = ctx.input(0), &values = ctx.input(1);
  require_sparse(indices, values, ctx.input(2));
  const int64_t n = indices.dim(0), rank = indices.dim(1);
  std::vector<int64_t> at = positions(Widened(indices), Shape(to_int64s(ctx.input(2))), false);
  at.resize(n, 0);
  const std::vector<uint32_t> order = sorting_order(at);
  if (order.empty()) {
    ctx.set_output(0, indices);
    ctx.set_output(1, values);
    return;
  }
  const int64_t* from = indices.flat<int64_t>();
  int64_t* to = ctx.allocate(0, indices.shape()).flat<int64_t>();
  if (rank == 2) {
    for (int64_t i = 0; i < n; ++i) {
      to[2 * i] = from[2 * static_cast<int64_t>(order[i])];
      to[2 * i + 1] = from[2 * static_cast<int64_t>(order[i]) + 1];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) std::copy_n(from + order[i] * rank, rank, to + i * rank);
  }
  Tensor& sorted = ctx.allocate(1, values.shape());
  dispatch_width(values.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) sorted.flat<T>()[i] = values.flat<T>()[order[i]];
  });
}
REGISTER(kernel("SparseReorder").function<sparse_reorder>());

template <typename T>
inline T conjugate(T x) {
  if constexpr (is_complex<T>)
    return std::conj(x);
  else
    return x;
}

// product = op(a) * op(b). The elements of a are first dealt out to the rows of the product that they contribute to, so
// that threads share nothing and every row is added up in the order of the elements.
struct SparseTensorDenseMatMul : Kernel {
  using Accepted = Join<Floats, Join<Complexes, Types<DType::int32, DType::int64>>>;
  explicit SparseTensorDenseMatMul(const Construction& c)
      : adjoint_a_(c.attr<bool>("adjoint_a", false)), adjoint_b_(c.attr<bool>("adjoint_b", false)) {}

  void compute(Context& ctx) override {
    const Tensor &indices = ctx.input(0), &values = ctx.input(1), &b = ctx.input(3);
    require_sparse(indices, values, ctx.input(2));
    require(indices.dim(1) == 2, "a must be a matrix, but its indices have ", indices.dim(1), " columns");
    require(b.rank() == 2, "b must be a matrix, got shape ", b.shape());
    const Shape shape(to_int64s(ctx.input(2)));
    const int64_t rows = shape[adjoint_a_ ? 1 : 0], inner = shape[adjoint_a_ ? 0 : 1];
    require(inner == b.dim(adjoint_b_ ? 1 : 0), "cannot multiply a of shape ", shape, adjoint_a_ ? " (adjoint)" : "",
            " by b of shape ", b.shape(), adjoint_b_ ? " (adjoint)" : "", ": the inner dimensions are ", inner, " and ",
            b.dim(adjoint_b_ ? 1 : 0));
    const int64_t columns = b.dim(adjoint_b_ ? 0 : 1), n = values.num_elements();
    const Widened at(indices);
    std::vector<int64_t> starts(rows + 1, 0), order;
    bool in_order = true;
    int64_t last = 0;
    for_each_position(at, shape, [&](int64_t i, int64_t) {
      const int64_t to = row(at, i);
      in_order &= to >= last;
      last = to;
      ++starts[to + 1];
    });
    Tensor& out = ctx.allocate(0, Shape{rows, columns});
    if (out.num_elements() == 0) return;

    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    if (!in_order) {
      order.resize(n);
      std::vector<int64_t> next(starts.begin(), starts.end() - 1);
      for (int64_t i = 0; i < n; ++i) order[next[row(at, i)]++] = i;
    }
    dispatch(out.dtype(), Accepted{}, [&]<typename T>() { multiply<T>(values, b, out, at, starts, order); });
  }

 private:
  int64_t row(const Widened& at, int64_t i) const { return at[2 * i + (adjoint_a_ ? 1 : 0)]; }
  int64_t column(const Widened& at, int64_t i) const { return at[2 * i + (adjoint_a_ ? 0 : 1)]; }

  // An empty `order` means that the elements come row by row as they are.
  template <typename T>
  void multiply(const Tensor& values, const Tensor& b, Tensor& out, const Widened& at,
                const std::vector<int64_t>& starts, const std::vector<int64_t>& order) const {
    using C = Compute<T>;
    const int64_t rows = out.dim(0), columns = out.dim(1), inner = b.dim(adjoint_b_ ? 1 : 0);
    // Rows of op(b), in the type that is computed in; b itself where nothing changes.
    std::vector<C> copy;
    const C* right = nullptr;
    if constexpr (std::is_same_v<C, T>) right = b.flat<T>();
    if (adjoint_b_ || !std::is_same_v<C, T>) {
      copy.resize(static_cast<size_t>(inner * columns));
      for (int64_t k = 0; k < inner; ++k)
        for (int64_t j = 0; j < columns; ++j)
          copy[k * columns + j] = adjoint_b_ ? conjugate(static_cast<C>(b.flat<T>()[j * inner + k]))
                                             : static_cast<C>(b.flat<T>()[k * columns + j]);
      right = copy.data();
    }
    std::vector<C> wide(std::is_same_v<C, T> ? 0 : static_cast<size_t>(rows * columns));
    C* sums = wide.data();
    if constexpr (std::is_same_v<C, T>) sums = out.flat<T>();
    const T* x = values.flat<T>();
    const int64_t cost = std::max<int64_t>(1, (starts[rows] / rows + 1) * columns);
    parallel_for(rows, std::max<int64_t>(1, kElementGrain / cost), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        C* to = sums + r * columns;
        std::fill(to, to + columns, C(0));
        for (int64_t e = starts[r]; e < starts[r + 1]; ++e) {
          const int64_t i = order.empty() ? e : order[e];
          const C factor = adjoint_a_ ? conjugate(static_cast<C>(x[i])) : static_cast<C>(x[i]);
          const C* from = right + column(at, i) * columns;
          if (columns == 1) {
            to[0] += factor * from[0];
          } else {
#pragma GCC ivdep
            for (int64_t j = 0; j < columns; ++j) to[j] += factor * from[j];
          }
        }
      }
    });
    if constexpr (!std::is_same_v<C, T>) std::copy(wide.begin(), wide.end(), out.flat<T>());
  }

  bool adjoint_a_, adjoint_b_;
};
REGISTER(kernel("SparseTensorDenseMatMul")
             .types("T", SparseTensorDenseMatMul::Accepted{})
             .types("Tindices", Indices{})
             .make<SparseTensorDenseMatMul>());

}  // namespace
}  // namespace thalweg
