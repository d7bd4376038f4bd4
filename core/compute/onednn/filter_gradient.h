// Gradients of filters by oneDNN, whose bits do not depend on the number of threads.
//
// oneDNN shares the images of a gradient out among its threads and adds their sums, and it decides by the number of
// threads how. Here the gradient is cut into pieces instead, by its sizes alone: some images and some output channels
// each. A thread computes a piece by itself, with a primitive made for one thread. Sums over images are added in order.
#pragma once

#include <memory>

#include "compute/onednn/convolution.h"

namespace thalweg {

// The gradient of a filter, as onednn_convolution computes it.
bool onednn_filter_gradient(DType dtype, const ConvolutionShape& shape, const ConvolutionData& data);

// A piece of a gradient: some images and some output channels of a convolution. The output and the filter have
// `all_out_channels` in memory; the data points to the first of the piece. The filter is float32 for every dtype.
struct FilterGradientPiece {
  DType dtype;
  ConvolutionShape shape;
  int64_t all_out_channels;
  ConvolutionData data;
};

// An input in the layout that a primitive expects.
struct BlockedInput;

// The input of a piece, for all pieces with the same images, by all threads. Null if the layout of data.input is as
// fast, or if oneDNN has no fast implementation for the piece.
std::shared_ptr<const BlockedInput> onednn_blocked_input(const FilterGradientPiece& piece);

// Computes a piece, on the calling thread. `input` may be null. False as for onednn_convolution.
bool onednn_filter_gradient_piece(const FilterGradientPiece& piece, const BlockedInput* input);

}  // namespace thalweg
