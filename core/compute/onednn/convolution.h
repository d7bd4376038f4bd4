// Convolutions by oneDNN: the forward pass and the gradients of input and filter, in two or three dimensions, grouped
// (a depthwise convolution has one group per channel), with a bias and element-wise operations fused into the forward
// pass.
//
// Images stay in the layout in which they come. The filter, HWIO in memory, is reordered into the layout that oneDNN
// prefers, for every call: it is small against the work, and no second copy has to be kept in step with the variable.
#pragma once

#include <array>
#include <vector>

#include "compute/elementwise/post_ops.h"
#include "tensor/tensor.h"

namespace thalweg {

// The sizes of a convolution. Of the arrays the last `spatial` entries count, in the order (depth, height, width); the
// others are neutral: sizes and steps of 1, no padding. Paddings may be larger than the filter.
struct ConvolutionShape {
  int spatial = 2;
  bool channels_first = false;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  std::array<int64_t, 3> in{1, 1, 1}, filter{1, 1, 1}, out{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  std::array<int64_t, 3> before{}, after{};  // Padding. `after` need not count pixels that the stride skips.

  int64_t in_area() const { return in[0] * in[1] * in[2]; }
  int64_t out_area() const { return out[0] * out[1] * out[2]; }
  int64_t filter_area() const { return filter[0] * filter[1] * filter[2]; }
  int64_t group_inputs() const { return in_channels / groups; }
  int64_t group_outputs() const { return out_channels / groups; }
  int64_t input_size() const { return batch * in_channels * in_area(); }
  int64_t output_size() const { return batch * out_channels * out_area(); }
  int64_t filter_size() const { return filter_area() * group_inputs() * out_channels; }
  // The extent of the filter along dimension i, with the gaps that dilation leaves.
  int64_t extent(int i) const { return (filter[i] - 1) * dilation[i] + 1; }
  // Multiplications of one pass.
  double work() const { return static_cast<double>(output_size()) * filter_area() * group_inputs(); }
};

enum class ConvolutionPass { forward, input_gradient, filter_gradient };

struct FilterCache;

// The data of a convolution, dense: input and output (or their gradients) in the layout of the shape, filter HWIO. Each
// pass writes one of the three. The post-op `sum` adds to the values in `output`, and may occur once.
struct ConvolutionData {
  void* input = nullptr;
  void* filter = nullptr;
  void* output = nullptr;
  const void* bias = nullptr;  // One per output channel, in the forward pass only; or none.
  // In the forward pass: the cache of the filter's other forms, and the tensor that they are made of; or neither.
  FilterCache* cache = nullptr;
  const Tensor* cache_source = nullptr;
};

// False if oneDNN has no fast implementation on this machine: then nothing was done. All sizes must be positive.
// Thread-safe.
bool onednn_convolution(ConvolutionPass pass, DType dtype, const ConvolutionShape& shape,
                        const std::vector<PostOp>& post_ops, const ConvolutionData& data);

}  // namespace thalweg
