// Roots, powers, rounding and classification of single elements.
#include "compute/elementwise/coded_unary.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using Inexact = Join<Floats, Complexes>;
using SignedReals = Join<Floats, SignedInts>;
using Signed = Join<SignedReals, Complexes>;

struct ClearSign {
  static uint16_t apply(uint16_t bits) { return bits & 0x7fff; }
};
REGISTER(kernel("Abs").types("T", SignedReals{}).make<BitwiseUnary<Abs, ClearSign, SignedReals>>());
REGISTER(kernel("ComplexAbs").types("T", Complexes{}).make<Unary<ComplexAbs, Complexes>>());
REGISTER(kernel("Sign").types("T", Signed{}).make<CodedUnary<Sign, Signed>>());
REGISTER(kernel("Sqrt").types("T", Inexact{}).make<CodedUnary<Sqrt, Inexact>>());
REGISTER(kernel("SqrtGrad").types("T", Inexact{}).make<Binary<SqrtGrad, Inexact>>());
REGISTER(kernel("Rsqrt").types("T", Inexact{}).make<CodedUnary<Rsqrt, Inexact>>());
REGISTER(kernel("RsqrtGrad").types("T", Inexact{}).make<Binary<RsqrtGrad, Inexact>>());
REGISTER(kernel("Reciprocal").types("T", Signed{}).make<CodedUnary<Reciprocal, Signed>>());
REGISTER(kernel("Inv").types("T", Signed{}).make<CodedUnary<Reciprocal, Signed>>());
REGISTER(kernel("ReciprocalGrad").types("T", Inexact{}).make<Binary<ReciprocalGrad, Inexact>>());
REGISTER(kernel("InvGrad").types("T", Inexact{}).make<Binary<ReciprocalGrad, Inexact>>());
REGISTER(kernel("Ceil").types("T", Floats{}).make<CodedUnary<Ceil, Floats>>());
REGISTER(kernel("Floor").types("T", Floats{}).make<CodedUnary<Floor, Floats>>());
REGISTER(kernel("Rint").types("T", Floats{}).make<CodedUnary<Rint, Floats>>());
REGISTER(kernel("Round").types("T", Signed{}).make<CodedUnary<Round, Signed>>());
REGISTER(kernel("IsNan").types("T", Floats{}).make<Unary<IsNan, Floats>>());
REGISTER(kernel("IsInf").types("T", Floats{}).make<Unary<IsInf, Floats>>());
REGISTER(kernel("IsFinite").types("T", Floats{}).make<Unary<IsFinite, Floats>>());

}  // namespace
}  // namespace thalweg
