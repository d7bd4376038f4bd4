// The activations that may follow a contraction, with the bits of the ops of the same names.
#include "compute/elementwise/post_ops.h"

#include <cmath>
#include <map>

#include "compute/elementwise/vector_math_double.h"
#include "error.h"

namespace thalweg {

PostOp activation_named(const std::string& op, float alpha) {
  static const std::map<std::string, PostOp::Kind> kinds = {{"Relu", PostOp::relu}, {"Relu6", PostOp::relu6},
                                                            {"Elu", PostOp::elu},   {"LeakyRelu", PostOp::leaky_relu},
                                                            {"Tanh", PostOp::tanh}, {"Sigmoid", PostOp::sigmoid}};
  auto found = kinds.find(op);
  require(found != kinds.end(), "fused_ops cannot have ", op, " at this place");
  return {found->second, alpha};
}

template <typename T>
void activate(const PostOp& op, T* x, int64_t count) {
  auto each = [&](auto function) {
    for (int64_t i = 0; i < count; ++i) x[i] = function(x[i]);
  };
  switch (op.kind) {
    case PostOp::relu:
      return each([](T v) { return v < T(0) ? T(0) : v; });  // NaN stays NaN.
    case PostOp::relu6:
      return each([](T v) { return v < T(0) ? T(0) : v > T(6) ? T(6) : v; });
    case PostOp::elu:
      return each([](T v) { return v < T(0) ? vector_math::expm1(v) : v; });
    case PostOp::leaky_relu:
      return each([alpha = static_cast<T>(op.alpha)](T v) { return v < T(0) ? v * alpha : v; });
    case PostOp::tanh:
      return each([](T v) { return vector_math::tanh(v); });
    case PostOp::sigmoid:
      return each([](T v) { return vector_math::sigmoid(v); });
    case PostOp::sum:
      return;
  }
}

template void activate<float>(const PostOp&, float*, int64_t);
template void activate<double>(const PostOp&, double*, int64_t);

}  // namespace thalweg
