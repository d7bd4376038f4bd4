// Convolution as a product of matrices: patches of the input, one per row, times the filter.
//
// For cases that oneDNN does not support: float64, integers, paddings larger than the filter; and for sizes so small
// that setting up a primitive would take longer.
#pragma once

#include "compute/onednn/convolution.h"

namespace thalweg {

// One pass over dense data. Instantiated for float, double and uint32_t (int32 has the same bits). All sizes must be
// positive. Post-ops and bias are the caller's.
template <typename T>
void patch_convolution(ConvolutionPass pass, const ConvolutionShape& shape, T* input, T* filter, T* output);

}  // namespace thalweg
