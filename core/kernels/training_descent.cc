// Gradient descent: var -= alpha * delta. For floats as a rule; integers and complex numbers have a loop of their own.
#include "compute/training/training.h"

namespace thalweg {
namespace {

template <typename C>
struct GradientDescent {
  static constexpr int variables = 1, gradient = 2;
  static constexpr const char* scalars[] = {"alpha"};
  GradientDescent(const C* s, const training::Flags&) : alpha(s[0]) {}
  void operator()(C* x, C g) const { x[0] -= g * alpha; }
  C alpha;
};

using Others = Join<Ints, Complexes>;

void descend(Context& ctx) {
  const Tensor& alpha = ctx.input(1);
  const Tensor& delta = ctx.input(2);
  require(alpha.rank() == 0, "alpha is not a scalar: it has shape ", alpha.shape());
  Variable* variable;
  training::find_variables(ctx, delta.dtype(), {&variable, 1});
  variable->replace(delta.shape(), [&](Tensor& out, const Tensor& in) {
    dispatch(delta.dtype(), Others{}, [&]<typename T>() {
      const T rate = *alpha.flat<T>();
      const T* a = in.flat<T>();
      const T* b = delta.flat<T>();
      T* o = out.flat<T>();
      parallel_for(out.num_elements(), kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) o[i] = static_cast<T>(a[i] - rate * b[i]);
      });
    });
  });
}

REGISTER_TRAINING("GradientDescent", GradientDescent);
REGISTER(kernel("ResourceApplyGradientDescent").types("T", Others{}).function<descend>());

}  // namespace
}  // namespace thalweg
