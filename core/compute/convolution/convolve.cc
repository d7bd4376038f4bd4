// One pass of a convolution: the choice between oneDNN and our own loops, conversions, and post-ops where they are not
// fused.
#include "compute/convolution/convolve.h"

#include "compute/convolution/patch_convolution.h"
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/matmul/product.h"
#include "compute/onednn/invalid_operations.h"
#include "compute/weights/filter_cache.h"
#include "compute/winograd/winograd.h"

namespace thalweg {
namespace {

// Below this many multiplications our own loops are done before a oneDNN primitive is set up.
constexpr double kSmall = 8 * 1024;

bool is_pointwise(const ConvolutionShape& s) { return s.filter_area() == 1; }
bool has_strides(const ConvolutionShape& s) { return s.stride != std::array<int64_t, 3>{1, 1, 1}; }

// oneDNN's kernels are made for paddings that leave some of the filter on the image, and compute offsets in 32 bits.
// The gradient of a filter of one pixel with strides writes past its scratch memory if there are fewer channels than a
// block has (issue 6035 of oneDNN): a block has 8 or 16.
bool fits_onednn(ConvolutionPass pass, const ConvolutionShape& s) {
  constexpr int64_t kFar = 1 << 15;
  if (pass == ConvolutionPass::filter_gradient && is_pointwise(s) && has_strides(s) && s.group_inputs() % 16 != 0)
    return false;
  for (int i = 0; i < 3; ++i)
    if (s.before[i] >= s.extent(i) || s.after[i] >= s.extent(i) || s.extent(i) > kFar || s.stride[i] > kFar)
      return false;
  return true;
}

// Bias and post-ops, after the fact.
template <typename T>
void finish(const ConvolutionShape& s, const std::vector<PostOp>& post_ops, const T* bias, const T* addend, T* output) {
  if (bias == nullptr && post_ops.empty()) return;
  const int64_t row = s.channels_first ? s.out_area() : s.out_channels;
  const int64_t rows = s.output_size() / row;
  parallel_for(rows, std::max<int64_t>(1, kElementGrain / row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* to = output + r * row;
      if (bias)
        for (int64_t i = 0; i < row; ++i) to[i] += s.channels_first ? bias[r % s.out_channels] : bias[i];
      for (const PostOp& op : post_ops) {
        if (op.kind == PostOp::sum)
          for (int64_t i = 0; i < row; ++i) to[i] += addend[r * row + i];
        else
          activate(op, to, row);
      }
    }
  });
}

bool has(const std::vector<PostOp>& post_ops, PostOp::Kind kind) {
  return std::any_of(post_ops.begin(), post_ops.end(), [=](const PostOp& op) { return op.kind == kind; });
}

// The pixels that a filter of one pixel meets, without padding.
Tensor strided_pixels(const ConvolutionShape& s, const float* input) {
  Tensor found(DType::float32, Shape{s.batch * s.out_area(), s.in_channels});
  float* to = found.flat<float>();
  const int64_t rows = s.batch * s.out[0] * s.out[1], row = s.out[2] * s.in_channels;
  parallel_for(rows, std::max<int64_t>(1, kElementGrain / row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t y = r % s.out[1] * s.stride[1], z = r / s.out[1] % s.out[0] * s.stride[0];
      const int64_t image = r / s.out[1] / s.out[0];
      const float* from = input + ((image * s.in[0] + z) * s.in[1] + y) * s.in[2] * s.in_channels;
      for (int64_t x = 0; x < s.out[2]; ++x)
        std::copy_n(from + x * s.stride[2] * s.in_channels, s.in_channels, to + r * row + x * s.in_channels);
    }
  });
  return found;
}

// The gradient of a filter of one pixel as a product of matrices: faster than oneDNN's convolution with its reorders.
bool pointwise_filter_gradient(const ConvolutionShape& s, const ConvolutionData& data) {
  if (s.channels_first || s.groups != 1 || !is_pointwise(s)) return false;
  for (int i = 0; i < 3; ++i)
    if (s.before[i] != 0 || (s.out[i] - 1) * s.stride[i] >= s.in[i]) return false;
  const float* input = static_cast<const float*>(data.input);
  Tensor pixels;
  if (s.in != s.out) {
    pixels = strided_pixels(s, input);
    input = pixels.flat<float>();
  }
  product(DType::float32, {1, s.in_channels, s.out_channels, s.batch * s.out_area()}, {0, 1, s.in_channels}, input,
          {0, s.out_channels, 1}, data.output, data.filter);
  return true;
}

// A depthwise convolution with several filters per channel, as one with a filter per channel: every channel of the
// input is repeated, or the gradients of the repeated ones are added. oneDNN has good kernels only for that.
bool repeated_depthwise(ConvolutionPass pass, const ConvolutionShape& s, const ConvolutionData& data) {
  const int64_t filters = s.group_outputs(), pixels = s.batch * s.in_area(), channels = s.in_channels;
  if (s.channels_first || s.groups != channels || channels == 1 || filters < 2) return false;
  ConvolutionShape wide = s;
  wide.in_channels = wide.groups = s.out_channels;
  Tensor repeated(DType::float32, Shape{pixels, s.out_channels});
  float* many = repeated.flat<float>();
  float* input = static_cast<float*>(data.input);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / s.out_channels);
  if (pass != ConvolutionPass::input_gradient)
    parallel_for(pixels * channels, grain * channels, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::fill_n(many + i * filters, filters, input[i]);
    });
  if (!onednn_convolution(pass, DType::float32, wide, {}, {many, data.filter, data.output, nullptr})) return false;
  if (pass == ConvolutionPass::input_gradient)
    parallel_for(pixels * channels, grain * channels, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float sum = 0;
        for (int64_t k = 0; k < filters; ++k) sum += many[i * filters + k];
        input[i] = sum;
      }
    });
  return true;
}

// max(x, 0), at most 6 if `six`; NaN stays NaN.
template <typename T>
void rectify(bool six, T* elements, int64_t count) {
  parallel_for(count, kElementGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float x = static_cast<float>(elements[i]);
      elements[i] = static_cast<T>(x < 0 ? 0 : six && x > 6 ? 6 : x);
    }
  });
}

// By oneDNN, with the post-ops in it. Its relu makes 0 of NaN: where it may have done so, the convolution is repeated
// with our own relu. That gives the same bits if there was no NaN after all: processors also report NaN in unused lanes
// of a vector.
template <typename T>
bool fused_convolution(ConvolutionPass pass, const ConvolutionShape& s, const std::vector<PostOp>& post_ops,
                       const ConvolutionData& data) {
  const bool sums = has(post_ops, PostOp::sum), six = has(post_ops, PostOp::relu6);
  const bool hides_nan = six || (has(post_ops, PostOp::relu) && !sums);
  if (!hides_nan) return onednn_convolution(pass, dtype_of<T>, s, post_ops, data);
  if (post_ops.size() > 1) return false;  // The addend in the output would be lost before the second run.
  InvalidOperations invalid;
  if (!onednn_convolution(pass, dtype_of<T>, s, post_ops, data)) return false;
  if (!invalid.any()) return true;
  if (!onednn_convolution(pass, dtype_of<T>, s, {}, data)) return false;
  rectify(six, static_cast<T*>(data.output), s.output_size());
  return true;
}

// The only place where an algorithm is chosen. Post-ops that oneDNN cannot fuse are applied afterwards.
template <typename T>
void plain_convolution(ConvolutionPass pass, const ConvolutionShape& s, const std::vector<PostOp>& post_ops,
                       const ConvolutionData& data) {
  const bool large = std::is_same_v<T, float> && s.work() > kSmall, onednn = large && fits_onednn(pass, s);
  if (large && pass == ConvolutionPass::filter_gradient && pointwise_filter_gradient(s, data)) return;
  if (onednn && post_ops.empty() && !data.bias && repeated_depthwise(pass, s, data)) return;
  if constexpr (std::is_same_v<T, float>)
    if (onednn && fused_convolution<float>(pass, s, post_ops, data)) return;
  T* output = static_cast<T*>(data.output);
  const bool fused = data.bias || !post_ops.empty();
  Tensor addend;
  if (has(post_ops, PostOp::sum)) {
    addend = Tensor(dtype_of<T>, Shape{s.output_size()});
    copy_large(dtype_of<T>, addend.raw(), output, s.output_size());
  }
  const bool done = onednn && fused &&
                    onednn_convolution(pass, DType::float32, s, {}, {data.input, data.filter, data.output, nullptr});
  if (!done) patch_convolution<T>(pass, s, static_cast<T*>(data.input), static_cast<T*>(data.filter), output);
  if constexpr (std::is_floating_point_v<T>)
    finish<T>(s, post_ops, static_cast<const T*>(data.bias), addend.defined() ? addend.flat<T>() : nullptr, output);
}

template <typename To, typename From>
void convert(const From* from, To* to, int64_t count) {
  parallel_for(count, kElementGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

// float16 and bfloat16: by oneDNN on machines that compute in them, else through float32.
template <typename T>
void reduced_convolution(ConvolutionPass pass, const ConvolutionShape& s, const std::vector<PostOp>& post_ops,
                         const ConvolutionData& data, Sums sums) {
  if (data.bias == nullptr && s.work() > kSmall && fits_onednn(pass, s) &&
      fused_convolution<T>(pass, s, post_ops, data))
    return;
  auto widened = [](const void* from, int64_t count, bool read) {
    Tensor out(DType::float32, Shape{count});
    if (read) convert(static_cast<const T*>(from), out.flat<float>(), count);
    return out;
  };
  const bool forward = pass == ConvolutionPass::forward;
  Tensor input = widened(data.input, s.input_size(), pass != ConvolutionPass::input_gradient);
  Tensor filter = widened(data.filter, s.filter_size(), pass != ConvolutionPass::filter_gradient);
  Tensor output = widened(data.output, s.output_size(), !forward || has(post_ops, PostOp::sum));
  Tensor bias;
  if (data.bias) bias = widened(data.bias, s.out_channels, true);
  convolve(pass, DType::float32, s, post_ops,
           {input.raw(), filter.raw(), output.raw(), data.bias ? bias.raw() : nullptr}, sums);
  auto narrow = [](Tensor& from, void* to) { convert(from.flat<float>(), static_cast<T*>(to), from.num_elements()); };
  if (forward)
    narrow(output, data.output);
  else if (pass == ConvolutionPass::input_gradient)
    narrow(input, data.input);
  else
    narrow(filter, data.filter);
}

// A sum without terms. True if there was nothing else to do.
bool convolve_nothing(ConvolutionPass pass, DType dtype, const ConvolutionShape& s, const ConvolutionData& data) {
  if (s.input_size() > 0 && s.filter_size() > 0 && s.output_size() > 0) return false;
  switch (pass) {
    case ConvolutionPass::forward:
      zero_elements(dtype, data.output, s.output_size());
      break;
    case ConvolutionPass::input_gradient:
      zero_elements(dtype, data.input, s.input_size());
      break;
    case ConvolutionPass::filter_gradient:
      zero_elements(dtype, data.filter, s.filter_size());
      break;
  }
  return true;
}

// By Winograd's algorithm, if it can and is expected to be faster.
bool winograd_convolution(ConvolutionPass pass, const ConvolutionShape& s, const std::vector<PostOp>& post_ops,
                          const ConvolutionData& data) {
  const bool relu = post_ops.size() == 1 && post_ops[0].kind == PostOp::relu;
  if (s.spatial != 2 || s.channels_first || s.groups != 1 || !(post_ops.empty() || relu)) return false;
  for (int i = 1; i < 3; ++i)
    if (s.filter[i] != 3 || s.stride[i] != 1 || s.dilation[i] != 1) return false;
  const winograd::Problem problem{s.batch,  s.in[1],        s.in[2],     s.in_channels, s.out[1],
                                  s.out[2], s.out_channels, s.before[1], s.before[2]};
  if (!winograd::is_faster(problem)) return false;
  float *input = static_cast<float*>(data.input), *filter = static_cast<float*>(data.filter);
  float* output = static_cast<float*>(data.output);
  switch (pass) {
    case ConvolutionPass::forward:
      if (data.cache) {
        const auto points = data.cache->points.get({data.cache_source}, {s.in_channels, s.out_channels},
                                                   [&] { return winograd::Filter(problem, filter); });
        winograd::forward(problem, input, *points, output, {static_cast<const float*>(data.bias), relu});
      } else {
        winograd::forward(problem, input, winograd::Filter(problem, filter), output,
                          {static_cast<const float*>(data.bias), relu});
      }
      break;
    case ConvolutionPass::input_gradient:
      winograd::backward_input(problem, filter, output, input);
      break;
    case ConvolutionPass::filter_gradient:
      winograd::backward_filter(problem, input, output, filter);
      break;
  }
  return true;
}

}  // namespace

void convolve(ConvolutionPass pass, DType dtype, const ConvolutionShape& s, const std::vector<PostOp>& post_ops,
              const ConvolutionData& data, Sums sums) {
  if (s.input_size() == 0 && s.output_size() > 0 && (data.bias || !post_ops.empty()))
    fail(Code::invalid_argument, "a fused convolution needs an input with elements");
  if (convolve_nothing(pass, dtype, s, data)) return;
  switch (dtype) {
    case DType::float32:
      if (sums == Sums::any && winograd_convolution(pass, s, post_ops, data)) return;
      return plain_convolution<float>(pass, s, post_ops, data);
    case DType::float64:
      return plain_convolution<double>(pass, s, post_ops, data);
    case DType::int32:
      return plain_convolution<uint32_t>(pass, s, post_ops, data);
    case DType::float16:
      return reduced_convolution<half>(pass, s, post_ops, data, sums);
    case DType::bfloat16:
      return reduced_convolution<bfloat16>(pass, s, post_ops, data, sums);
    default:
      fail(Code::unimplemented, "there is no convolution of elements of type ", dtype);
  }
}

}  // namespace thalweg
