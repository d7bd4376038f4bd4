// Convolutions with 3 by 3 filters, stride 1, by Winograd's algorithm: a quarter of the multiplications.
//
// Data are NHWC, filters HWIO, float32. The image is cut into tiles of 4 by 4 outputs; each tile is transformed, the 36
// points of all tiles are multiplied with those of the filter as 36 matrix products, and the results are transformed
// back. Rounding errors are some ten times those of the direct sum (relative to the largest term: 1e-5), so a pass
// decides whether to allow it: docs/decisions/0007-convolution.md.
#pragma once

#include "tensor/tensor.h"

namespace thalweg::winograd {

struct Problem {
  int64_t batch, in_rows, in_columns, in_channels;
  int64_t out_rows, out_columns, out_channels;
  int64_t pad_top, pad_left;  // zeros before the image; those after it follow from the sizes
};

// Whether Winograd's algorithm is expected to be faster than the direct one. False for unsupported sizes: channels that
// are not multiples of eight.
bool is_faster(const Problem& problem);

// The operations on each output before it is stored.
struct Epilogue {
  const float* bias = nullptr;  // of out_channels
  bool relu = false;
};

// A filter's points, packed for the forward products.
class Filter {
 public:
  Filter(const Problem& problem, const float* filter);
  const float* point(int k) const { return data_.flat<float>() + k * stride_; }

 private:
  friend void backward_input(const Problem&, const float*, const float*, float*);
  Filter(const Problem& problem, const float* filter, bool adjoint);
  Tensor data_;
  int64_t stride_;  // of a point
};

void forward(const Problem& problem, const float* in, const Filter& filter, float* out, const Epilogue& epilogue = {});
// The gradient with respect to `in`: `problem` is that of the forward convolution.
void backward_input(const Problem& problem, const float* filter, const float* grad_out, float* grad_in);
void backward_filter(const Problem& problem, const float* in, const float* grad_out, float* grad_filter);

}  // namespace thalweg::winograd
