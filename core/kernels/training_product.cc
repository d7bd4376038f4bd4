// Gradient descent along a product: var -= alpha * (a * b), without storing the product. Passes make this node
// (passes/fuse_updates.py) of the gradient of a matrix and its update, which reads and writes everything once more.
#include "compute/matmul/product.h"
#include "compute/products/sgemm.h"
#include "compute/training/training.h"

namespace thalweg {
namespace {

// The variable is locked meanwhile. Longer products gain little, and other steps would wait for the lock.
constexpr int64_t kLongest = 128;
static_assert(kLongest <= products::kLongestWhole, "else sums would be rounded otherwise than by two nodes");

struct ProductDescent : Kernel {
  explicit ProductDescent(const Construction& c)
      : transpose_a(c.attr<bool>("transpose_a", false)), transpose_b(c.attr<bool>("transpose_b", false)) {}

  void compute(Context& ctx) override {
    const Tensor &a = ctx.input(2), &b = ctx.input(3);
    const float alpha = static_cast<float>(training::read_scalar(ctx.input(1), "alpha"));
    require(a.rank() == 2, "In[0] is not a matrix. Instead it has shape ", a.shape());
    require(b.rank() == 2, "In[1] is not a matrix. Instead it has shape ", b.shape());
    const ProductShape s{1, a.dim(transpose_a), b.dim(!transpose_b), a.dim(!transpose_a)};
    require(b.dim(transpose_b) == s.inner, "Matrix size-incompatible: In[0]: ", a.shape(), ", In[1]: ", b.shape());
    Variable* variable;
    training::find_variables(ctx, DType::float32, {&variable, 1});

    const Shape shape{s.rows, s.columns};
    const MatrixLayout la = layout_of(a.dim(0), a.dim(1), transpose_a, 0);
    const MatrixLayout lb = layout_of(b.dim(0), b.dim(1), transpose_b, 0);
    const double work = static_cast<double>(s.rows) * s.columns * s.inner;
    if (work > kSmallProduct && s.inner <= kLongest)
      return variable->replace(shape, [&](Tensor& out, const Tensor& in) {
        if (out.raw() != in.raw()) std::copy_n(in.flat<float>(), in.num_elements(), out.flat<float>());
        products::sgemm({s.rows,
                         s.columns,
                         s.inner,
                         {a.flat<float>(), la.row_stride, la.column_stride},
                         {b.flat<float>(), lb.row_stride, lb.column_stride},
                         out.flat<float>(),
                         s.columns,
                         true,
                         -alpha});
      });

    Tensor gradient(DType::float32, shape);
    if (work > 0)
      product(DType::float32, s, la, a.raw(), lb, b.raw(), gradient.raw());
    else if (gradient.num_elements() > 0)
      std::memset(gradient.raw(), 0, gradient.bytes());
    const float* g = gradient.flat<float>();
    variable->replace(shape, [&](Tensor& out, const Tensor& in) {
      const float* from = in.flat<float>();
      float* to = out.flat<float>();
      parallel_for(out.num_elements(), kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) to[i] = from[i] - g[i] * alpha;
      });
    });
  }

  bool transpose_a, transpose_b;
};

REGISTER(kernel("_MatMulGradientDescent").make<ProductDescent>());

}  // namespace
}  // namespace thalweg
