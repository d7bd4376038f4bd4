// Kernels of the special functions: vector code for the arguments that it holds for, and double for the others.
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/special_functions.h"
#include "compute/elementwise/vector_math_special.h"

namespace thalweg {
namespace {

template <double (*function)(double, double)>
struct TwoArguments {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(function(static_cast<double>(a), static_cast<double>(b)));
  }
};

// Results of float need no more terms than their precision does.
template <double (*function)(double, double, double)>
struct WithPrecision {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(function(static_cast<double>(a), static_cast<double>(b), sizeof(T) == 4 ? 1e-9 : 2.2e-16));
  }
};

#define THALWEG_SPECIAL(Name, function, holds, Computed)                      \
  struct Name {                                                               \
    template <typename T>                                                     \
    THALWEG_VECTOR static bool is_near(T x) {                                 \
      return vector_math::holds(static_cast<Computed>(x));                    \
    }                                                                         \
    template <typename T>                                                     \
    static T far(T x) {                                                       \
      return static_cast<T>(special::function(static_cast<double>(x)));       \
    }                                                                         \
    template <typename T>                                                     \
    THALWEG_VECTOR static T apply(T x) {                                      \
      return static_cast<T>(vector_math::function(static_cast<Computed>(x))); \
    }                                                                         \
  };
// Differences of large terms are taken in double.
THALWEG_SPECIAL(LgammaOfDouble, lgamma, gamma_holds, double)
THALWEG_SPECIAL(Digamma, digamma, gamma_holds, double)
THALWEG_SPECIAL(Erfinv, erfinv, erfinv_holds, T)
THALWEG_SPECIAL(Ndtri, ndtri, ndtri_holds, T)
THALWEG_SPECIAL(BesselI0e, bessel_i0e, bessel_holds, T)
THALWEG_SPECIAL(BesselI1e, bessel_i1e, bessel_holds, T)
#undef THALWEG_SPECIAL

struct Lgamma : LgammaOfDouble {
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (sizeof(T) == 4) return static_cast<T>(vector_math::short_lgamma(x));
    return LgammaOfDouble::apply(x);
  }
};

// Its arguments have one shape, or are scalars.
void betainc(Context& ctx) {
  Shape shape;
  for (int i = 0; i < 3; ++i)
    if (ctx.input(i).rank() > 0) shape = ctx.input(i).shape();
  static const char* names[] = {"a", "b", "x"};
  for (int i = 0; i < 3; ++i)
    require(ctx.input(i).rank() == 0 || ctx.input(i).shape() == shape,
            "Shapes of a, b and x are inconsistent: ", names[i], " has shape ", ctx.input(i).shape(),
            ", expected a scalar or ", shape);
  Tensor& out = ctx.allocate(0, shape);
  dispatch(out.dtype(), WideFloats{}, [&]<typename T>() {
    const T* in[3];
    int64_t step[3];
    for (int i = 0; i < 3; ++i) {
      in[i] = ctx.input(i).template flat<T>();
      step[i] = ctx.input(i).rank() == 0 ? 0 : 1;
    }
    T* to = out.template flat<T>();
    parallel_for(out.num_elements(), kElementGrain / 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = static_cast<T>(special::betainc(in[0][i * step[0]], in[1][i * step[1]], in[2][i * step[2]]));
    });
  });
}

REGISTER(kernel("Lgamma").types("T", Floats{}).make<Unary<Lgamma, Floats>>());
REGISTER(kernel("Digamma").types("T", Floats{}).make<Unary<Digamma, Floats>>());
REGISTER(kernel("Erfinv").types("T", Floats{}).make<Unary<Erfinv, Floats>>());
REGISTER(kernel("Ndtri").types("T", Floats{}).make<Unary<Ndtri, Floats>>());
REGISTER(kernel("Igamma").types("T", Floats{}).make<Binary<WithPrecision<special::igamma>, Floats>>());
REGISTER(kernel("Igammac").types("T", Floats{}).make<Binary<WithPrecision<special::igammac>, Floats>>());
REGISTER(
    kernel("IgammaGradA").types("T", WideFloats{}).make<Binary<TwoArguments<special::igamma_grad_a>, WideFloats>>());
REGISTER(kernel("RandomGammaGrad")
             .types("T", WideFloats{})
             .make<Binary<TwoArguments<special::gamma_sample_grad>, WideFloats>>());
REGISTER(kernel("Zeta").types("T", WideFloats{}).make<Binary<TwoArguments<special::zeta>, WideFloats>>());
REGISTER(kernel("Polygamma").types("T", WideFloats{}).make<Binary<TwoArguments<special::polygamma>, WideFloats>>());
REGISTER(kernel("BesselI0e").types("T", Floats{}).make<Unary<BesselI0e, Floats>>());
REGISTER(kernel("BesselI1e").types("T", Floats{}).make<Unary<BesselI1e, Floats>>());
REGISTER(kernel("Betainc").types("T", WideFloats{}).function<betainc>());

}  // namespace
}  // namespace thalweg
