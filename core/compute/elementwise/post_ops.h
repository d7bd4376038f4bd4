// Element-wise ops after a contraction (a convolution, a matrix product): fused into it, or applied right after.
#pragma once

#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace thalweg {

struct PostOp {
  enum Kind { relu, relu6, elu, leaky_relu, tanh, sigmoid, sum };
  Kind kind;
  float alpha = 0;  // The slope of leaky_relu.
  bool operator==(const PostOp&) const = default;
};

// The activation that the op of this name computes. Throws if the op is no activation.
PostOp activation_named(const std::string& op, float alpha);

// Replaces `count` elements by the activation of each; `sum` is not one, and changes nothing. For float and double.
template <typename T>
void activate(const PostOp& op, T* elements, int64_t count);

}  // namespace thalweg
