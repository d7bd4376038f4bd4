// ShapedKernel: what a kernel offers that can also compute on plain memory, once the shapes of its operands are known.
//
// Compiled loops (executor/compiled_loop.h) keep values where there are no tensors. The results have the bits that
// `compute` gives for the same operands.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "tensor/tensor.h"

namespace thalweg {

struct ShapedOperand {
  DType dtype = DType::invalid;
  Shape shape;
  Tensor constant{};  // defined if the value is known in advance
};

struct ShapedWork {
  Shape shape;  // of the result
  // Operands and result are dense and do not overlap; an operand that was constant may be null. Thread-safe; lives as
  // long as the kernel.
  std::function<void(const void* const* operands, void* result)> run;
};

class ShapedKernel {
 public:
  virtual ~ShapedKernel() = default;
  // None for operands that `compute` refuses, or that it treats in a way of its own. May throw Error for the former.
  virtual std::optional<ShapedWork> for_shapes(std::span<const ShapedOperand> operands) const = 0;
};

}  // namespace thalweg
