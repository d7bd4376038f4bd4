// merge: the element-wise combination of the members' tensors, in the order in which they are given.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace thalweg::net {

enum class Merge : uint8_t { add = 1, multiply, minimum, maximum };

// out[i] = (…((inputs[0][i] op inputs[1][i]) op inputs[2][i])…), divided by `divisor` unless that is 0. Every
// operation rounds to the element type, so that the result is that of a program which combines whole tensors one after
// the other. `out` may be one of the inputs only if it is the first. Integers wrap around.
void merge(DType dtype, Merge op, int64_t divisor, std::span<const void* const> inputs, void* out, int64_t count);

// Whether elements of this type can be merged.
bool can_merge(DType dtype);

}  // namespace thalweg::net
