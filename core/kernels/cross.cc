// Cross: the vector product along the last dimension, which has size 3.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

void cross(Context& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  require(a.shape() == b.shape(), "Both inputs must be of same shape: ", a.shape(), " vs. ", b.shape());
  require(a.rank() >= 1, "Input must be at least 1D, got shape ", a.shape());
  require(a.dim(a.rank() - 1) == 3, "Cross-products are only defined for 3-element vectors, got shape ", a.shape());
  Tensor& out = ctx.allocate(0, a.shape());
  dispatch(a.dtype(), Reals{}, [&]<typename T>() {
    using C = Compute<T>;
    const T* p = a.flat<T>();
    const T* q = b.flat<T>();
    T* r = out.flat<T>();
    parallel_for(out.num_elements() / 3, kElementGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = 3 * begin; i < 3 * end; i += 3)
        for (int k = 0; k < 3; ++k) {
          const int x = (k + 1) % 3, y = (k + 2) % 3;
          r[i + k] = static_cast<T>(static_cast<C>(p[i + x]) * static_cast<C>(q[i + y]) -
                                    static_cast<C>(p[i + y]) * static_cast<C>(q[i + x]));
        }
    });
  });
}

REGISTER(kernel("Cross").types("T", Reals{}).function<cross>());

}  // namespace
}  // namespace thalweg
