// The activations that may follow a contraction.
#include "compute/elementwise/post_ops.h"

#include <cmath>
#include <map>

#include "compute/elementwise/vector_math.h"
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
  constexpr bool kFloat = std::is_same_v<T, float>;
  switch (op.kind) {
    case PostOp::relu:
      return each([](T v) { return v < T(0) ? T(0) : v; });  // NaN stays NaN.
    case PostOp::relu6:
      return each([](T v) { return v < T(0) ? T(0) : v > T(6) ? T(6) : v; });
    case PostOp::elu:
      return each([](T v) {
        if constexpr (kFloat) return v < T(0) ? vector_math::expm1(v) : v;
        return v < T(0) ? static_cast<T>(std::expm1(v)) : v;
      });
    case PostOp::leaky_relu:
      return each([alpha = static_cast<T>(op.alpha)](T v) { return v < T(0) ? v * alpha : v; });
    case PostOp::tanh:
      return each([](T v) {
        if constexpr (kFloat) return vector_math::tanh(v);
        return static_cast<T>(std::tanh(v));
      });
    case PostOp::sigmoid:
      return each([](T v) {
        if constexpr (kFloat) return 1.0f / (1.0f + vector_math::exp(-v));
        return static_cast<T>(T(1) / (T(1) + std::exp(-v)));
      });
    case PostOp::sum:
      return;
  }
}

template void activate<float>(const PostOp&, float*, int64_t);
template void activate<double>(const PostOp&, double*, int64_t);

}  // namespace thalweg
