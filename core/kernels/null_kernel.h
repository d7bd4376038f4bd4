// The null device: `_Null` nodes replace operations that it schedules and does not compute.
//
// Their outputs have the right type and shape and are zeros, in memory that all of them share: a tensor of any size
// costs its header. Strings are empty. A shape that is not known when the step is compiled follows from the inputs'
// when the node runs: a Python function applies the shape function of the op, and is called once for each combination
// of shapes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg {

// A tensor of zeros that takes no memory of its own.
Tensor shared_zeros(DType dtype, Shape shape);

// Computes the output shapes of the operation called `key` from its inputs.
using ShapeRule = std::function<std::vector<std::vector<int64_t>>(const std::string& key, const std::vector<Tensor>&)>;
void set_shape_rule(ShapeRule rule);

}  // namespace thalweg
