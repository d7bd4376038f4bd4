// The sizes of a convolution, from a node's attributes and the shapes of its inputs, checked.
#pragma once

#include <string>

#include "compute/convolution/convolve.h"
#include "kernel/kernel.h"

namespace thalweg {

// About how many multiplications a convolution with these results takes.
double multiplications(const Shape& results, const Shape& filter);

// The attributes that all convolutions have in common. Refuses impossible ones when made.
class ConvolutionAttributes {
 public:
  // `spatial`: 2 or 3 dimensions. `depthwise`: the filter is [..., in_channels, multiplier], one group per channel.
  // `dilations`: the name of the attribute.
  ConvolutionAttributes(const Construction& construction, int spatial, bool depthwise,
                        const char* dilations = "dilations");

  // The convolution of an input with a filter. Throws if they do not fit.
  ConvolutionShape shape_of(const Shape& input, const Shape& filter) const;
  // The shape of its result.
  Shape output_of(const ConvolutionShape& shape) const;
  // Throws unless `grad` is the gradient of such a result.
  void check_gradient(const ConvolutionShape& shape, const Shape& grad) const;
  // A tensor's shape as a program computed it. Without batch and channels, those of `grad` and `filter` are meant.
  Shape input_sizes(const Tensor& sizes, const Shape& filter, const Shape& grad) const;
  Shape filter_sizes(const Tensor& sizes) const;
  // The order of summation that the passes allow (passes/choose_algorithms.py).
  Sums sums() const { return sums_; }

 private:
  // A list attribute with one entry per dimension, of which batch and channels must be 1: the spatial ones.
  std::array<int64_t, 3> spatial_steps(const Construction& construction, const char* name) const;
  // Where the i-th spatial dimension (of three, the first unused in 2-D) stands in an image's shape.
  int axis(int i) const { return i - (3 - spatial_) + (channels_first_ ? 2 : 1); }
  int channel_axis() const { return channels_first_ ? 1 : spatial_ + 1; }

  int spatial_;
  bool depthwise_, channels_first_;
  Sums sums_;
  std::string padding_;
  std::array<int64_t, 3> stride_, dilation_, before_{}, after_{};
};

}  // namespace thalweg
