// Element-wise sums, differences and products.
#include "compute/elementwise/coded_unary.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using Inexact = Join<Floats, Complexes>;

struct Join2 {
  static std::string apply(const std::string& a, const std::string& b) { return a + b; }
};

REGISTER(kernel("Add").types("T", Numbers{}).make<Binary<Add, Numbers>>());
REGISTER(kernel("Add").types("T", Types<DType::string>{}).make<Binary<Join2, Types<DType::string>>>());
REGISTER(kernel("AddV2").types("T", Numbers{}).make<Binary<Add, Numbers>>());
REGISTER(kernel("Sub").types("T", Numbers{}).make<Binary<Sub, Numbers>>());
REGISTER(kernel("Mul").types("T", Numbers{}).make<Binary<Mul, Numbers>>());
REGISTER(kernel("MulNoNan").types("T", Inexact{}).make<Binary<MulNoNan, Inexact>>());
REGISTER(kernel("SquaredDifference").types("T", Numbers{}).make<Binary<SquaredDifference, Numbers>>());
struct FlipSign {
  static uint16_t apply(uint16_t bits) { return bits ^ 0x8000; }
};
REGISTER(kernel("Neg").types("T", Numbers{}).make<BitwiseUnary<Neg, FlipSign, Numbers>>());
REGISTER(kernel("Square").types("T", Numbers{}).make<CodedUnary<Square, Numbers>>());

}  // namespace
}  // namespace thalweg
