// MatrixTriangularSolve: substitution, forwards or backwards, in batches that broadcast.
#include "compute/elementwise/elementwise.h"
#include "compute/linear/factor.h"

namespace thalweg {
namespace {

using Solvable = Join<WideFloats, Complexes>;

struct MatrixTriangularSolve : Kernel {
  explicit MatrixTriangularSolve(const Construction& c)
      : lower(c.attr<bool>("lower", true)), adjoint(c.attr<bool>("adjoint", false)) {}

  void compute(Context& ctx) override {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    require(a.rank() >= 2, "In[0] ndims must be >= 2: ", a.shape());
    require(b.rank() >= 2, "In[1] ndims must be >= 2: ", b.shape());
    const int64_t n = a.dim(a.rank() - 1), columns = b.dim(b.rank() - 1);
    require(a.dim(a.rank() - 2) == n, "Input matrices must be square, got ", a.shape());
    require(b.dim(b.rank() - 2) == n, "Input matrix and rhs are incompatible: ", a.shape(), " vs. ", b.shape());
    const Shape batch_a(std::vector<int64_t>(a.shape().begin(), a.shape().end() - 2));
    const Shape batch_b(std::vector<int64_t>(b.shape().begin(), b.shape().end() - 2));
    Broadcast broadcast(batch_a, batch_b);
    std::vector<int64_t> dims = broadcast.shape().to_vector();
    dims.push_back(n);
    dims.push_back(columns);
    Tensor& out = ctx.allocate(0, Shape(dims));
    if (out.num_elements() == 0) return;
    dispatch(a.dtype(), Solvable{}, [&]<typename T>() {
      const T* matrices = a.flat<T>();
      for (int64_t m = 0; m < batch_a.num_elements(); ++m)
        for (int64_t i = 0; i < n; ++i)
          require(matrices[m * n * n + i * (n + 1)] != T(0), "Input matrix is not invertible: element ", i,
                  " of its diagonal is zero.");
      const int64_t batches = broadcast.shape().num_elements();
      parallel_for(batches, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, n * n * columns)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t index = begin; index < end; ++index) {
                       int64_t left = index, at_a = 0, at_b = 0;
                       for (int d = broadcast.rank() - 1; d >= 0; --d) {
                         at_a += left % broadcast.size(d) * broadcast.stride_a(d);
                         at_b += left % broadcast.size(d) * broadcast.stride_b(d);
                         left /= broadcast.size(d);
                       }
                       T* x = out.flat<T>() + index * n * columns;
                       std::copy_n(b.flat<T>() + at_b * n * columns, n * columns, x);
                       linear::solve_triangular<T>(
                           {.a = matrices + at_a * n * n, .n = n, .lower = lower, .adjoint = adjoint}, x, columns,
                           batches == 1);
                     }
                   });
    });
  }

  bool lower, adjoint;
};

REGISTER(kernel("MatrixTriangularSolve").types("T", Solvable{}).make<MatrixTriangularSolve>());

}  // namespace
}  // namespace thalweg
