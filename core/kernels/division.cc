// Element-wise quotients and remainders.
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using Inexact = Join<Floats, Complexes>;

REGISTER(kernel("RealDiv").types("T", Inexact{}).make<Binary<RealDiv, Inexact>>());
REGISTER(kernel("Div").types("T", Inexact{}).make<Binary<RealDiv, Inexact>>());
REGISTER(kernel("Div").types("T", Ints{}).make<Binary<TruncateDiv, Ints>>());
REGISTER(kernel("DivNoNan").types("T", Inexact{}).make<Binary<DivNoNan, Inexact>>());
REGISTER(kernel("TruncateDiv").types("T", Ints{}).make<Binary<TruncateDiv, Ints>>());
REGISTER(kernel("TruncateDiv").types("T", Floats{}).make<Binary<TruncateDiv, Floats>>());
REGISTER(kernel("FloorDiv").types("T", Reals{}).make<Binary<FloorDiv, Reals>>());
REGISTER(kernel("FloorMod").types("T", Reals{}).make<Binary<FloorMod, Reals>>());

using TruncateModTypes = Join<Floats, Indices>;
REGISTER(kernel("Mod").types("T", TruncateModTypes{}).make<Binary<TruncateMod, TruncateModTypes>>());
REGISTER(kernel("TruncateMod").types("T", TruncateModTypes{}).make<Binary<TruncateMod, TruncateModTypes>>());
REGISTER(kernel("Xdivy").types("T", Inexact{}).make<Binary<Xdivy, Inexact>>());

}  // namespace
}  // namespace thalweg
