// The sizes of a convolution, from a node's attributes and the shapes of its inputs, checked.
#include "compute/convolution/convolution_shape.h"

namespace thalweg {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;  // No single size reaches it; sums and products of two then fit.

std::string str(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

}  // namespace

double multiplications(const Shape& results, const Shape& filter) {
  const double channels = filter.rank() == 0 ? 1 : std::max<int64_t>(1, filter[filter.rank() - 1]);
  return static_cast<double>(results.num_elements()) * static_cast<double>(filter.num_elements()) / channels;
}

ConvolutionAttributes::ConvolutionAttributes(const Construction& c, int spatial, bool depthwise, const char* dilations)
    : spatial_(spatial),
      depthwise_(depthwise),
      sums_(c.attr<bool>("_any_sums", false) ? Sums::any : Sums::direct),
      padding_(c.attr<std::string>("padding")) {
  const std::string format = c.attr<std::string>("data_format", spatial == 2 ? "NHWC" : "NDHWC");
  channels_first_ = format == "NCHW" || format == "NCDHW";
  require(channels_first_ || format == "NHWC" || format == "NDHWC", "Invalid data format ", format);
  require(padding_ == "SAME" || padding_ == "VALID" || padding_ == "EXPLICIT", "Unknown padding type ", padding_);
  stride_ = spatial_steps(c, "strides");
  // Files from before there were dilations leave them out.
  dilation_ = c.def().find(dilations) ? spatial_steps(c, dilations) : std::array<int64_t, 3>{1, 1, 1};
  const auto pads = c.attr<std::vector<int64_t>>("explicit_paddings", {});
  require((padding_ == "EXPLICIT") == !pads.empty(), "explicit_paddings must be given exactly when padding is EXPLICIT",
          ", got ", str(pads), " with padding ", padding_);
  if (pads.empty()) return;
  require(static_cast<int>(pads.size()) == 2 * (spatial + 2), "explicit_paddings must hold ", 2 * (spatial + 2),
          " values, got ", str(pads));
  for (int64_t pad : pads)
    require(pad >= 0 && pad < kLimit, "All elements of explicit_paddings must be nonnegative, got ", str(pads));
  const int channels = channel_axis();
  require(pads[0] == 0 && pads[1] == 0 && pads[2 * channels] == 0 && pads[2 * channels + 1] == 0,
          "Nonzero explicit padding in the batch or depth dimensions is not supported, got ", str(pads));
  for (int i = 3 - spatial; i < 3; ++i) {
    before_[i] = pads[2 * axis(i)];
    after_[i] = pads[2 * axis(i) + 1];
  }
}

std::array<int64_t, 3> ConvolutionAttributes::spatial_steps(const Construction& c, const char* name) const {
  const auto steps = c.attr<std::vector<int64_t>>(name);
  require(static_cast<int>(steps.size()) == spatial_ + 2, name, " must specify ", spatial_ + 2, " dimensions, got ",
          str(steps));
  require(steps[0] == 1 && steps[channel_axis()] == 1, "Current implementation does not support ", name,
          " in the batch and depth dimensions, got ", str(steps));
  std::array<int64_t, 3> result{1, 1, 1};
  for (int i = 3 - spatial_; i < 3; ++i) {
    result[i] = steps[axis(i)];
    require(result[i] > 0 && result[i] < kLimit, "All ", name, " must be > 0, got ", str(steps));
  }
  return result;
}

ConvolutionShape ConvolutionAttributes::shape_of(const Shape& input, const Shape& filter) const {
  const int rank = spatial_ + 2;
  require(input.rank() == rank, "input must be ", rank, "-dimensional: ", input);
  require(filter.rank() == rank, "filter must be ", rank, "-dimensional: ", filter);
  for (const Shape* shape : {&input, &filter})
    for (int64_t size : *shape) require(size < kLimit, "a dimension is too large: ", *shape);
  ConvolutionShape s;
  s.spatial = spatial_;
  s.channels_first = channels_first_;
  s.batch = input[0];
  s.in_channels = input[channel_axis()];
  const int64_t filter_inputs = filter[spatial_], filter_outputs = filter[spatial_ + 1];
  require(filter_inputs > 0, "filter depth must be positive, got filter shape ", filter);
  if (depthwise_) {
    require(s.in_channels == filter_inputs, "input and filter must have the same depth: ", s.in_channels, " vs ",
            filter_inputs);
    s.groups = s.in_channels;
    require(!__builtin_mul_overflow(s.in_channels, filter_outputs, &s.out_channels) && s.out_channels < kLimit,
            "there are too many output channels: ", s.in_channels, " times ", filter_outputs);
  } else {
    require(s.in_channels % filter_inputs == 0, "input depth must be evenly divisible by filter depth: ", s.in_channels,
            " vs ", filter_inputs);
    s.groups = std::max<int64_t>(1, s.in_channels / filter_inputs);
    s.out_channels = filter_outputs;
    require(s.in_channels > 0, "input depth must be positive, got input shape ", input);
    require(s.out_channels % s.groups == 0,
            "output depth must be evenly divisible by number of groups: ", s.out_channels, " vs ", s.groups);
  }
  s.stride = stride_;
  s.dilation = dilation_;
  for (int i = 3 - spatial_; i < 3; ++i) {
    const int64_t in = s.in[i] = input[axis(i)];
    s.filter[i] = filter[i - (3 - spatial_)];
    require(s.filter[i] > 0, "filter must not have zero elements, got filter shape ", filter);
    const int64_t extent = s.extent(i), stride = stride_[i];
    if (padding_ == "SAME") {
      s.out[i] = (in + stride - 1) / stride;
      const int64_t pad = std::max<int64_t>(0, (s.out[i] - 1) * stride + extent - in);
      s.before[i] = pad / 2;
      s.after[i] = pad - pad / 2;
    } else {
      s.before[i] = before_[i];
      s.after[i] = after_[i];
      const int64_t room = in + before_[i] + after_[i] - extent;
      require(room + stride >= 0, "Computed output size would be negative: ", (room + 1) / stride, " [input_size: ", in,
              ", effective_filter_size: ", extent, ", padding: ", before_[i], " and ", after_[i], ", stride: ", stride,
              "]");
      s.out[i] = (room + stride) / stride;
    }
  }
  return s;
}

Shape ConvolutionAttributes::output_of(const ConvolutionShape& s) const {
  std::vector<int64_t> dims(spatial_ + 2);
  dims[0] = s.batch;
  dims[channel_axis()] = s.out_channels;
  for (int i = 3 - spatial_; i < 3; ++i) dims[axis(i)] = s.out[i];
  return Shape(dims);
}

void ConvolutionAttributes::check_gradient(const ConvolutionShape& s, const Shape& grad) const {
  const Shape expected = output_of(s);
  require(grad == expected, "Size of out_backprop doesn't match computed: actual = ", grad, ", computed = ", expected);
}

Shape ConvolutionAttributes::input_sizes(const Tensor& sizes, const Shape& filter, const Shape& grad) const {
  const int rank = spatial_ + 2;
  require(sizes.rank() == 1 && (sizes.dim(0) == rank || sizes.dim(0) == spatial_), "input_sizes must be a vector of ",
          rank, " or ", spatial_, " elements, got shape ", sizes.shape());
  const std::vector<int64_t> values = to_int64s(sizes);
  if (sizes.dim(0) == rank) return Shape(values);
  require(grad.rank() == rank && filter.rank() == rank, "out_backprop and filter must be ", rank,
          "-dimensional: ", grad, ", ", filter);
  std::vector<int64_t> dims(rank);
  dims[0] = grad[0];
  dims[channel_axis()] = filter[spatial_];
  for (int i = 3 - spatial_; i < 3; ++i) dims[axis(i)] = values[i - (3 - spatial_)];
  return Shape(dims);
}

Shape ConvolutionAttributes::filter_sizes(const Tensor& sizes) const {
  require(sizes.rank() == 1 && sizes.dim(0) == spatial_ + 2, "filter_sizes must be a vector of ", spatial_ + 2,
          " elements, got shape ", sizes.shape());
  return Shape(to_int64s(sizes));
}

}  // namespace thalweg
