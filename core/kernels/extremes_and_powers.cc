// Maximum, Minimum, Pow and the other functions of two arguments that are neither sum nor quotient.
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using Inexact = Join<Floats, Complexes>;
using PowTypes = Join<Inexact, SignedInts>;

// Common scalar exponents need no general power.
struct PowKernel : Kernel {
  explicit PowKernel(const Construction&) {}
  void compute(Context& ctx) override {
    const Tensor& exponent = ctx.input(1);
    if (exponent.dtype() == DType::float32 && exponent.rank() == 0) {
      float e = exponent.flat<float>()[0];
      if (e == 2.0f) return one<Square>(ctx);
      if (e == 3.0f) return one<Cube>(ctx);
      if (e == -1.0f) return one<Reciprocal>(ctx);
    }
    compute_binary<Pow, PowTypes>(ctx, 0, 1);
  }
  struct Cube {
    static float apply(float x) { return x * x * x; }
  };
  template <typename F>
  static void one(Context& ctx) {
    compute_unary(ctx, unary_loop<F, Types<DType::float32>>(DType::float32));
  }
};

REGISTER(kernel("Maximum").types("T", Reals{}).make<Binary<Maximum, Reals>>());
REGISTER(kernel("Minimum").types("T", Reals{}).make<Binary<Minimum, Reals>>());
REGISTER(kernel("Pow").types("T", PowTypes{}).make<PowKernel>());
REGISTER(kernel("Xlogy").types("T", Inexact{}).make<Binary<Xlogy, Inexact>>());
REGISTER(kernel("Xlog1py").types("T", Inexact{}).make<Binary<Xlog1py, Inexact>>());
REGISTER(kernel("Atan2").types("T", Floats{}).make<Binary<Atan2, Floats>>());
REGISTER(kernel("NextAfter").types("T", WideFloats{}).make<Binary<NextAfter, WideFloats>>());

}  // namespace
}  // namespace thalweg
