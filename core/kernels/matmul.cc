// MatMul and the BatchMatMul family: shapes, transposes and broadcasting.
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/post_ops.h"
#include "compute/matmul/product.h"
#include "compute/products/sgemm.h"
#include "compute/weights/weight_cache.h"
#include "executor/interruptible.h"
#include "kernel/shaped_kernel.h"
#include "tensor/reduced_floats.h"

namespace thalweg {
namespace {

Tensor conjugated(const Tensor& t) {
  Tensor out(t.dtype(), t.shape());
  dispatch(t.dtype(), Complexes{}, [&]<typename T>() {
    for (int64_t i = 0; i < t.num_elements(); ++i) out.flat<T>()[i] = std::conj(t.flat<T>()[i]);
  });
  return out;
}

void multiply(Context& ctx, Tensor a, Tensor b, bool transpose_a, bool transpose_b, bool adjoint, bool batched,
              bool broadcasting) {
  if (batched) {
    require(a.rank() >= 2, "In[0] ndims must be >= 2: ", a.shape());
    require(b.rank() >= 2, "In[1] ndims must be >= 2: ", b.shape());
  } else {
    require(a.rank() == 2, "In[0] is not a matrix. Instead it has shape ", a.shape());
    require(b.rank() == 2, "In[1] is not a matrix. Instead it has shape ", b.shape());
  }
  require(a.dtype() == b.dtype(), "the operands have types ", a.dtype(), " and ", b.dtype());
  const int ra = a.rank(), rb = b.rank();
  const int64_t rows_a = a.dim(ra - 2), columns_a = a.dim(ra - 1), rows_b = b.dim(rb - 2), columns_b = b.dim(rb - 1);
  ProductShape s;
  s.rows = transpose_a ? columns_a : rows_a;
  s.inner = transpose_a ? rows_a : columns_a;
  s.columns = transpose_b ? rows_b : columns_b;
  const int64_t inner_b = transpose_b ? columns_b : rows_b;
  require(s.inner == inner_b, "Matrix size-incompatible: In[0]: ", a.shape(), ", In[1]: ", b.shape(), ": ", s.inner,
          " columns of the one meet ", inner_b, " rows of the other");

  std::vector<int64_t> dims_a(a.shape().begin(), a.shape().end() - 2), dims_b(b.shape().begin(), b.shape().end() - 2);
  require(broadcasting || dims_a == dims_b, "In[0] and In[1] must have the same batch dimensions: ", a.shape(), " vs. ",
          b.shape());
  const Shape batch_a(dims_a), batch_b(dims_b);
  Shape batch = batch_a;
  std::optional<Broadcast> broadcast;
  if (!(batch_a == batch_b)) {
    broadcast.emplace(batch_a, batch_b);
    batch = broadcast->shape();
  }
  std::vector<int64_t> dims = batch.to_vector();
  dims.push_back(s.rows);
  dims.push_back(s.columns);
  Tensor& out = ctx.allocate(0, Shape(dims));
  if (out.num_elements() == 0) return;
  if (s.inner == 0) {
    std::memset(out.raw(), 0, out.bytes());
    return;
  }
  const Interruptible interruptible(ctx, static_cast<double>(out.num_elements()) * s.inner);
  if (adjoint && transpose_a) a = conjugated(a);
  if (adjoint && transpose_b) b = conjugated(b);

  const int64_t size_a = rows_a * columns_a, size_b = rows_b * columns_b;
  s.batch = batch.num_elements();
  MatrixLayout la = layout_of(rows_a, columns_a, transpose_a, batch_a.num_elements() == 1 ? 0 : size_a);
  MatrixLayout lb = layout_of(rows_b, columns_b, transpose_b, batch_b.num_elements() == 1 ? 0 : size_b);
  const bool regular = !broadcast || batch_a.num_elements() == 1 || batch_b.num_elements() == 1;
  if (regular) {
    if (s.batch > 1 && lb.batch_stride == 0 && !transpose_a) {
      // One right-hand side for all: the batch is just more rows.
      s.rows *= s.batch;
      s.batch = 1;
    }
    product(a.dtype(), s, la, a.raw(), lb, b.raw(), out.raw());
    return;
  }
  const size_t width = size_of(a.dtype());
  const int last = broadcast->rank() - 1;
  s.batch = 1;
  la.batch_stride = lb.batch_stride = 0;
  for (int64_t i = 0; i < batch.num_elements(); ++i) {
    int64_t left = i, index_a = 0, index_b = 0;
    for (int d = last; d >= 0; --d) {
      index_a += left % broadcast->size(d) * broadcast->stride_a(d);
      index_b += left % broadcast->size(d) * broadcast->stride_b(d);
      left /= broadcast->size(d);
    }
    product(a.dtype(), s, la, static_cast<const char*>(a.raw()) + index_a * size_a * width, lb,
            static_cast<const char*>(b.raw()) + index_b * size_b * width,
            static_cast<char*>(out.raw()) + i * s.rows * s.columns * width);
  }
}

// The product of two matrices, which most products are: without the dimensions of batches.
void multiply_matrices(Context& ctx, bool transpose_a, bool transpose_b) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  ProductShape s;
  s.rows = a.dim(transpose_a ? 1 : 0);
  s.inner = a.dim(transpose_a ? 0 : 1);
  s.columns = b.dim(transpose_b ? 0 : 1);
  s.batch = 1;
  Tensor& out = ctx.allocate(0, Shape{s.rows, s.columns});
  const Interruptible interruptible(ctx, static_cast<double>(out.num_elements()) * s.inner);
  product(a.dtype(), s, layout_of(a.dim(0), a.dim(1), transpose_a, 0), a.raw(),
          layout_of(b.dim(0), b.dim(1), transpose_b, 0), b.raw(), out.raw());
}

// A matrix in the order in which the micro kernel reads its right-hand side.
Tensor pack(const Tensor& b, bool transposed) {
  const int64_t inner = b.dim(transposed ? 1 : 0), columns = b.dim(transposed ? 0 : 1);
  Tensor made(DType::float32, Shape{products::packed_b_size(columns, inner)});
  const MatrixLayout layout = layout_of(b.dim(0), b.dim(1), transposed, 0);
  products::pack_b({b.flat<float>(), layout.row_stride, layout.column_stride}, columns, inner, made.flat<float>());
  return made;
}

// Packs a matrix that several products of the step use; they have the attribute `_packed`.
struct PackWeights : Kernel {
  explicit PackWeights(const Construction& c) : transposed(c.attr<bool>("transpose_b", false)) {}
  void compute(Context& ctx) override {
    const Tensor& b = ctx.input(0);
    require(b.rank() == 2 && b.num_elements() > 0, "expected a matrix with elements, got shape ", b.shape());
    ctx.set_output(0, pack(b, transposed));
  }
  bool transposed;
};

struct MatMul : Kernel, ShapedKernel {
  explicit MatMul(const Construction& c)
      : transpose_a(c.attr<bool>("transpose_a", false)),
        transpose_b(c.attr<bool>("transpose_b", false)),
        keep(c.attr<bool>("_keep_weights", false) && c.input_dtype(1) == DType::float32),
        packed_size(c.attr<std::vector<int64_t>>("_packed", {})) {
    const bool packed = !packed_size.empty();
    // Attributes are not trusted: they may be so large that the number of elements overflows.
    auto is_size = [](int64_t n) { return n > 0 && n <= int64_t{1} << 31; };
    require(!packed || (packed_size.size() == 2 && is_size(packed_size[0]) && is_size(packed_size[1]) && !transpose_a &&
                        c.input_dtype(1) == DType::float32),
            "packed weights have two positive dimensions and float32 elements, and meet an operand as it is");
  }
  void compute(Context& ctx) override {
    const Packed b = packed_weights(ctx);
    if (!b.weights && are_matrices(ctx.input(0), ctx.input(1))) return multiply_matrices(ctx, transpose_a, transpose_b);
    if (!b.weights) return multiply(ctx, ctx.input(0), ctx.input(1), transpose_a, transpose_b, false, false, false);
    const Tensor& a = ctx.input(0);
    Tensor& out = ctx.allocate(0, Shape{a.dim(0), b.columns});
    const Interruptible interruptible(ctx, static_cast<double>(out.num_elements()) * b.inner);
    b.multiply(a, out, false);
  }
  std::optional<ShapedWork> for_shapes(std::span<const ShapedOperand> x) const override {
    // SparseMatMul computes narrower types in float32.
    if (!packed_size.empty() || x.size() < 2 || x[0].dtype != x[1].dtype || size_of(x[0].dtype) < 4)
      return std::nullopt;
    const Shape &a = x[0].shape, &b = x[1].shape;
    if (a.rank() != 2 || b.rank() != 2 || a.num_elements() == 0 || b.num_elements() == 0) return std::nullopt;
    ProductShape s;
    s.rows = a[transpose_a ? 1 : 0];
    s.inner = a[transpose_a ? 0 : 1];
    s.columns = b[transpose_b ? 0 : 1];
    s.batch = 1;
    if (b[transpose_b ? 1 : 0] != s.inner) return std::nullopt;
    const MatrixLayout la = layout_of(a[0], a[1], transpose_a, 0), lb = layout_of(b[0], b[1], transpose_b, 0);
    const auto multiply = [=, dtype = x[0].dtype](const void* const* from, void* to) {
      product(dtype, s, la, from[0], lb, from[1], to);
    };
    return ShapedWork{Shape{s.rows, s.columns}, multiply};
  }

 protected:
  // A right-hand side in the order of the micro kernel.
  struct Packed {
    std::shared_ptr<const Tensor> weights;  // or none
    int64_t inner = 0, columns = 0;
    void multiply(const Tensor& a, Tensor& out, bool accumulate) const {
      if (out.num_elements() == 0) return;
      products::sgemm_packed(a.dim(0), columns, inner, a.flat<float>(), inner, weights->flat<float>(),
                             out.flat<float>(), columns, accumulate);
    }
  };
  // The right-hand side as another node has packed it, or as it was packed for an earlier step; none if it is to be
  // read as it is.
  Packed packed_weights(Context& ctx) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    if (!packed_size.empty()) {
      const int64_t inner = packed_size[0], columns = packed_size[1];
      require(a.rank() == 2 && a.dim(1) == inner, "a matrix of shape ", a.shape(),
              " cannot be multiplied by one of shape ", Shape{inner, columns});
      require(b.num_elements() == products::packed_b_size(columns, inner), "weights of ", b.num_elements(),
              " elements are not packed from a matrix of shape ", Shape{inner, columns});
      return {std::make_shared<const Tensor>(b), inner, columns};
    }
    if (!keep || transpose_a || a.rank() != 2 || b.rank() != 2) return {};
    const int64_t inner = a.dim(1), columns = b.dim(transpose_b ? 0 : 1);
    const double work = static_cast<double>(a.dim(0)) * inner * columns;
    if (b.dim(transpose_b ? 1 : 0) != inner || work <= kSmallProduct) return {};
    return {cache.get({&b}, {inner, columns}, [&] { return pack(b, transpose_b); }), inner, columns};
  }
  bool transpose_a, transpose_b, keep;
  std::vector<int64_t> packed_size;  // of the right-hand side, if a _PackWeights node has packed it: inner, columns

 private:
  // Whether they are matrices with elements that can be multiplied.
  bool are_matrices(const Tensor& a, const Tensor& b) const {
    return a.rank() == 2 && b.rank() == 2 && a.dtype() == b.dtype() && a.num_elements() != 0 && b.num_elements() != 0 &&
           a.dim(transpose_a ? 0 : 1) == b.dim(transpose_b ? 1 : 0);
  }
  WeightCache<Tensor> cache;
};

// A product and the ops after it, which a pass has fused into one node: `fused_ops` is BiasAdd or Add (of a matrix of
// the product's shape), then at most one activation.
struct FusedMatMul : MatMul {
  explicit FusedMatMul(const Construction& c) : MatMul(c) {
    const auto names = c.attr<std::vector<std::string>>("fused_ops", {});
    biased = !names.empty() && names[0] == "BiasAdd";
    summed = !names.empty() && names[0] == "Add";
    const int arguments = biased || summed;
    for (size_t i = arguments; i < names.size(); ++i)
      activations.push_back(activation_named(names[i], c.attr<float>("leakyrelu_alpha", 0.2f)));
    require(c.num_inputs() == 2 + arguments, "fused_ops take ", arguments, " arguments, got ", c.num_inputs() - 2);
  }
  void compute(Context& ctx) override {
    if (summed && accumulate(ctx)) {
      if (!activations.empty()) finish_output<float>(ctx, nullptr);
      return;
    }
    if (biased) {
      // Checked first, so that a mismatch costs nothing.
      const Tensor &b = ctx.input(1), &bias = ctx.input(2);
      const bool known = !packed_size.empty() || b.rank() == 2;
      const int64_t columns = !known ? 0 : packed_size.empty() ? b.dim(transpose_b ? 0 : 1) : packed_size[1];
      require(bias.rank() == 1 && (!known || bias.dim(0) == columns),
              "the bias must be a vector with one element per column of the product, ", columns, ", got shape ",
              bias.shape());
    }
    MatMul::compute(ctx);
    if (summed)
      require(ctx.input(2).shape() == ctx.output(0).shape(), "a matrix of shape ", ctx.input(2).shape(),
              " cannot be added to a product of shape ", ctx.output(0).shape());
    dispatch(ctx.output_dtype(0), Floats{},
             [&]<typename T>() { finish_output<T>(ctx, biased || summed ? ctx.input(2).flat<T>() : nullptr); });
  }
  std::optional<ShapedWork> for_shapes(std::span<const ShapedOperand> x) const override {
    std::optional<ShapedWork> work = MatMul::for_shapes(x);
    if (!work || (x[0].dtype != DType::float32 && x[0].dtype != DType::float64)) return std::nullopt;
    const int64_t rows = work->shape[0], columns = work->shape[1];
    if (biased && !(x[2].shape == Shape{columns})) return std::nullopt;
    if (summed && !(x[2].shape == work->shape)) return std::nullopt;
    work->run = [=, this, dtype = x[0].dtype, multiply = std::move(work->run)](const void* const* from, void* to) {
      multiply(from, to);
      dispatch(dtype, WideFloats{}, [&]<typename T>() {
        finish<T>(static_cast<T*>(to), rows, columns, biased || summed ? static_cast<const T*>(from[2]) : nullptr);
      });
    };
    return work;
  }
  // Adds the product to the matrix, in place if the input holds the only reference. False if types or sizes rule it
  // out.
  bool accumulate(Context& ctx) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &c = ctx.input(2);
    if (a.dtype() != DType::float32) return false;
    const Packed packed = packed_weights(ctx);
    if (!packed.weights && (a.rank() != 2 || b.rank() != 2)) return false;
    const int64_t rows = a.dim(transpose_a), inner = a.dim(!transpose_a);
    const int64_t columns = packed.weights ? packed.columns : b.dim(!transpose_b);
    const Shape shape{rows, columns};
    if ((!packed.weights && b.dim(transpose_b) != inner) || !(c.shape() == shape)) return false;
    if (inner > products::kLongestWhole) return false;  // The sum would be rounded differently from two nodes.
    Tensor& out = ctx.forward_or_allocate({2}, 0, shape);
    if (out.raw() != c.raw()) {
      float* to = out.flat<float>();
      const float* from = c.flat<float>();
      parallel_for(out.num_elements(), kElementGrain,
                   [=](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
    }
    if (packed.weights) {
      packed.multiply(a, out, true);
      return true;
    }
    const MatrixLayout la = layout_of(a.dim(0), a.dim(1), transpose_a, 0);
    const MatrixLayout lb = layout_of(b.dim(0), b.dim(1), transpose_b, 0);
    products::sgemm({rows,
                     columns,
                     inner,
                     {a.flat<float>(), la.row_stride, la.column_stride},
                     {b.flat<float>(), lb.row_stride, lb.column_stride},
                     out.flat<float>(),
                     columns,
                     true},
                    true);
    return true;
  }
  // Adds the terms, one per column or one per element, and applies the activation.
  template <typename T>
  void finish_output(Context& ctx, const T* terms) const {
    Tensor out = ctx.output(0);
    finish<T>(out.flat<T>(), out.dim(0), out.dim(1), terms);
  }
  template <typename T>
  void finish(T* elements, int64_t rows, int64_t columns, const T* terms) const {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const int64_t terms_stride = summed ? columns : 0;
    parallel_for(rows, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, columns)),
                 [&](int64_t begin, int64_t end) {
                   constexpr int64_t kBlock = 256;
                   Wide block[kBlock];
                   for (int64_t i = begin; i < end; ++i)
                     for (int64_t j = 0; j < columns; j += kBlock) {
                       const int64_t count = std::min(kBlock, columns - j);
                       T* to = elements + i * columns + j;
                       for (int64_t k = 0; k < count; ++k) {
                         const T sum = terms ? static_cast<T>(to[k] + terms[i * terms_stride + j + k]) : to[k];
                         block[k] = static_cast<Wide>(sum);
                       }
                       for (const PostOp& op : activations) activate(op, block, count);
                       for (int64_t k = 0; k < count; ++k) to[k] = static_cast<T>(block[k]);
                     }
                 });
  }
  bool biased = false, summed = false;
  std::vector<PostOp> activations;
};

template <bool kBroadcasting>
struct BatchMatMul : Kernel {
  explicit BatchMatMul(const Construction& c)
      : adjoint_x(c.attr<bool>("adj_x", false)), adjoint_y(c.attr<bool>("adj_y", false)) {
    complex = c.input_dtype(0) == DType::complex64 || c.input_dtype(0) == DType::complex128;
    require(c.input_dtype(0) == c.output_dtype(0), "products of ", c.input_dtype(0), " with results of type ",
            c.output_dtype(0), " are not supported: cast the operands first");
  }
  void compute(Context& ctx) override {
    multiply(ctx, ctx.input(0), ctx.input(1), adjoint_x, adjoint_y, complex, true, kBroadcasting);
  }
  bool adjoint_x, adjoint_y, complex;
};

// A product that a program has called sparse: no faster than the dense one here. One operand may be float32 and the
// other bfloat16.
struct SparseMatMul : MatMul {
  using MatMul::MatMul;
  void compute(Context& ctx) override {
    Tensor inputs[2];
    for (int i = 0; i < 2; ++i) {
      const Tensor& given = ctx.input(i);
      inputs[i] = given;
      if (given.dtype() != DType::bfloat16) continue;
      inputs[i] = Tensor(DType::float32, given.shape());
      widen_row(given.flat<bfloat16>(), inputs[i].flat<float>(), given.num_elements());
    }
    multiply(ctx, inputs[0], inputs[1], transpose_a, transpose_b, false, false, false);
  }
};

REGISTER(kernel("SparseMatMul").make<SparseMatMul>());
REGISTER(kernel("MatMul").types("T", Numbers{}).make<MatMul>());
REGISTER(kernel("_PackWeights").make<PackWeights>());
REGISTER(kernel("_FusedMatMul").types("T", Floats{}).make<FusedMatMul>());
REGISTER(kernel("BatchMatMul").types("T", Numbers{}).make<BatchMatMul<false>>());
REGISTER(kernel("BatchMatMulV2").types("T", Numbers{}).make<BatchMatMul<true>>());
REGISTER(kernel("BatchMatMulV3").types("Ta", Numbers{}).make<BatchMatMul<true>>());

}  // namespace
}  // namespace thalweg
