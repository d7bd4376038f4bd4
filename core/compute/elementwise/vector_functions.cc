// The functors as functions of vectors: the compiler makes one vector instruction of eight equal ones.
#include "compute/elementwise/vector_functions.h"

#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

template <typename F>
Vector8 unary(Vector8 x) {
  Vector8 y;
  for (int i = 0; i < 8; ++i) y[i] = F::apply(static_cast<float>(x[i]));
  return y;
}
template <typename F>
Vector8 binary(Vector8 a, Vector8 b) {
  Vector8 y;
  for (int i = 0; i < 8; ++i) y[i] = F::apply(static_cast<float>(a[i]), static_cast<float>(b[i]));
  return y;
}

struct Entry {
  std::string_view op;
  VectorFunction function;
};
#define THALWEG_UNARY_ENTRY(Name)              \
  {                                            \
    #Name, { .unary = &unary<functors::Name> } \
  }
#define THALWEG_BINARY_ENTRY(Name)               \
  {                                              \
    #Name, { .binary = &binary<functors::Name> } \
  }

// The functors without a branch or a call in their inner loop; chains with other functors go through memory.
constexpr Entry kFunctions[] = {
    THALWEG_UNARY_ENTRY(Exp),           THALWEG_UNARY_ENTRY(Expm1),
    THALWEG_UNARY_ENTRY(Log),           THALWEG_UNARY_ENTRY(Log1p),
    THALWEG_UNARY_ENTRY(Tanh),          THALWEG_UNARY_ENTRY(Erf),
    THALWEG_UNARY_ENTRY(Sigmoid),       THALWEG_UNARY_ENTRY(Softplus),
    THALWEG_UNARY_ENTRY(Rsqrt),         THALWEG_UNARY_ENTRY(Reciprocal),
    THALWEG_UNARY_ENTRY(Sign),          THALWEG_UNARY_ENTRY(Relu6),
    THALWEG_UNARY_ENTRY(Elu),           THALWEG_UNARY_ENTRY(Selu),
    THALWEG_UNARY_ENTRY(Softsign),      THALWEG_BINARY_ENTRY(Maximum),
    THALWEG_BINARY_ENTRY(Minimum),      THALWEG_BINARY_ENTRY(DivNoNan),
    THALWEG_BINARY_ENTRY(MulNoNan),     THALWEG_BINARY_ENTRY(SqrtGrad),
    THALWEG_BINARY_ENTRY(RsqrtGrad),    THALWEG_BINARY_ENTRY(ReciprocalGrad),
    THALWEG_BINARY_ENTRY(TanhGrad),     THALWEG_BINARY_ENTRY(SigmoidGrad),
    THALWEG_BINARY_ENTRY(ReluGrad),     THALWEG_BINARY_ENTRY(Relu6Grad),
    THALWEG_BINARY_ENTRY(EluGrad),      THALWEG_BINARY_ENTRY(SeluGrad),
    THALWEG_BINARY_ENTRY(SoftplusGrad), THALWEG_BINARY_ENTRY(SoftsignGrad),
};

}  // namespace

VectorFunction vector_function(std::string_view op) {
  for (const Entry& entry : kFunctions)
    if (entry.op == op) return entry.function;
  return {};
}

}  // namespace thalweg
