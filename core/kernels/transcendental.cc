// Exponentials, logarithms, trigonometric and hyperbolic functions.
#include "compute/elementwise/coded_unary.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using Inexact = Join<Floats, Complexes>;

#define THALWEG_REGISTER(Name) REGISTER(kernel(#Name).types("T", Inexact{}).make<CodedUnary<Name, Inexact>>())
THALWEG_REGISTER(Sin);
THALWEG_REGISTER(Cos);
THALWEG_REGISTER(Tan);
THALWEG_REGISTER(Asin);
THALWEG_REGISTER(Acos);
THALWEG_REGISTER(Atan);
THALWEG_REGISTER(Sinh);
THALWEG_REGISTER(Cosh);
THALWEG_REGISTER(Asinh);
THALWEG_REGISTER(Acosh);
THALWEG_REGISTER(Atanh);
THALWEG_REGISTER(Exp);
THALWEG_REGISTER(Expm1);
THALWEG_REGISTER(Log);
THALWEG_REGISTER(Log1p);
THALWEG_REGISTER(Tanh);
THALWEG_REGISTER(Sigmoid);
#undef THALWEG_REGISTER
REGISTER(kernel("TanhGrad").types("T", Inexact{}).make<Binary<TanhGrad, Inexact>>());
REGISTER(kernel("SigmoidGrad").types("T", Inexact{}).make<Binary<SigmoidGrad, Inexact>>());
REGISTER(kernel("Erf").types("T", Floats{}).make<CodedUnary<Erf, Floats>>());
REGISTER(kernel("Erfc").types("T", Floats{}).make<CodedUnary<Erfc, Floats>>());

}  // namespace
}  // namespace thalweg
