// The activation functions of neural networks and their gradients.
#include "compute/elementwise/coded_unary.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using QuantizedRelu = Types<DType::qint8>;

// Inlined by force: a loop with a call in it is not vectorized.
struct InlinedSoftplusGrad {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T gradient, T feature) {
    return gradient * Sigmoid::apply(feature);
  }
};

REGISTER(kernel("Relu").types("T", Reals{}).make<Unary<Relu, Reals>>());
REGISTER(kernel("Relu").types("T", QuantizedRelu{}).make<Unary<Relu, QuantizedRelu>>());
REGISTER(kernel("ReluGrad").types("T", Reals{}).make<Binary<ReluGrad, Reals>>());
REGISTER(kernel("Relu6").types("T", Reals{}).make<Unary<Relu6, Reals>>());
REGISTER(kernel("Relu6Grad").types("T", Reals{}).make<Binary<Relu6Grad, Reals>>());
REGISTER(kernel("Elu").types("T", Floats{}).make<CodedUnary<Elu, Floats>>());
REGISTER(kernel("EluGrad").types("T", Floats{}).make<Binary<EluGrad, Floats>>());
REGISTER(kernel("Selu").types("T", Floats{}).make<CodedUnary<Selu, Floats>>());
REGISTER(kernel("SeluGrad").types("T", Floats{}).make<Binary<SeluGrad, Floats>>());
REGISTER(kernel("Softplus").types("T", Floats{}).make<CodedUnary<Softplus, Floats>>());
REGISTER(kernel("SoftplusGrad").types("T", Floats{}).make<Binary<InlinedSoftplusGrad, Floats>>());
REGISTER(kernel("Softsign").types("T", Floats{}).make<Unary<Softsign, Floats>>());
REGISTER(kernel("SoftsignGrad").types("T", Floats{}).make<Binary<SoftsignGrad, Floats>>());

// max(x, alpha x), and its gradient: the slope belongs to the node.
struct LeakyRelu : Kernel {
  explicit LeakyRelu(const Construction& c) : alpha(c.attr<float>("alpha", 0.2f)) {}
  void compute(Context& ctx) override {
    Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
    dispatch(out.dtype(), Floats{}, [&]<typename T>() {
      const T* in = ctx.input(0).flat<T>();
      T* to = out.flat<T>();
      parallel_for(out.num_elements(), kElementGrain, [=, this](int64_t begin, int64_t end) {
        const Compute<T> slope(alpha);
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) {
          Compute<T> x = in[i];
          to[i] = T(x * (x > 0 ? Compute<T>(1) : slope));  // A selection of numbers does not branch.
        }
      });
    });
  }
  float alpha;
};

struct LeakyReluGrad : Kernel {
  explicit LeakyReluGrad(const Construction& c) : alpha(c.attr<float>("alpha", 0.2f)) {}
  void compute(Context& ctx) override {
    const Tensor& gradients = ctx.input(0);
    const Tensor& features = ctx.input(1);
    require(gradients.shape() == features.shape(), "the gradients have shape ", gradients.shape(),
            ", but the features have shape ", features.shape());
    Tensor& out = ctx.forward_or_allocate({0, 1}, 0, features.shape());
    dispatch(out.dtype(), Floats{}, [&]<typename T>() {
      const T* g = ctx.input(0).flat<T>();
      const T* x = ctx.input(1).flat<T>();
      T* to = out.flat<T>();
      parallel_for(out.num_elements(), kElementGrain, [=, this](int64_t begin, int64_t end) {
        const Compute<T> slope(alpha);
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) {
          Compute<T> from = g[i];
          to[i] = T(from * (Compute<T>(x[i]) > 0 ? Compute<T>(1) : slope));
        }
      });
    });
  }
  float alpha;
};

REGISTER(kernel("LeakyRelu").types("T", Floats{}).make<LeakyRelu>());
REGISTER(kernel("LeakyReluGrad").types("T", Floats{}).make<LeakyReluGrad>());

}  // namespace
}  // namespace thalweg
