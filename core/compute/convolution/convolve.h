// One pass of a convolution for any element type: by oneDNN where it has a fast implementation, else by our own loops.
#pragma once

#include "compute/onednn/convolution.h"

namespace thalweg {

// Which sums a convolution may form. `any` allows Winograd's algorithm, whose results differ in the last digits.
enum class Sums { direct, any };

// Writes the result of the pass into its part of `data`. Sizes may be zero: a sum without terms is zero. The bias has
// the element type of the rest. Types: float32, float64, float16, bfloat16 (these two summed in float32), int32.
void convolve(ConvolutionPass pass, DType dtype, const ConvolutionShape& shape, const std::vector<PostOp>& post_ops,
              const ConvolutionData& data, Sums sums = Sums::direct);

}  // namespace thalweg
