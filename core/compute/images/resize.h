// The base of the kernels that resize images: sizes, the map from output to input coordinates, and resampling by taps.
//
// Resizing is separable. Along one axis every output position reads a few input positions (taps) with fixed weights;
// the forward pass combines whole rows, each of them resampled horizontally at most once, and the gradient is the
// transpose of the same taps. Positions are computed in float, as TensorFlow does: graphs must give the same pixels.
#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "compute/elementwise/elementwise.h"
#include "kernel/registry.h"

namespace thalweg {

// The element types of images.
using Pixels = Types<DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32, DType::int64, DType::float16,
                     DType::bfloat16, DType::float32, DType::float64>;

struct ResizeOptions {
  bool align_corners, half_pixel_centers;
  explicit ResizeOptions(const Construction& c)
      : align_corners(c.attr<bool>("align_corners", false)),
        half_pixel_centers(c.attr<bool>("half_pixel_centers", false)) {
    require(!(align_corners && half_pixel_centers), "If half_pixel_centers is True, align_corners must be False.");
  }
  // Input pixels per output pixel.
  float scale(int64_t in, int64_t out) const {
    return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                    : static_cast<float>(in) / static_cast<float>(out);
  }
  // Where the centre of output pixel `i` lies in the input.
  float position(int64_t i, float scale) const {
    return half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
  }
};

struct Extent {
  int64_t batch, rows, columns, channels;
};

inline Extent image_extent(const Tensor& images, const char* what) {
  require(images.rank() == 4, what, " must be 4-dimensional, got shape ", images.shape());
  for (int i = 1; i < 4; ++i)
    require(images.dim(i) > 0 && images.dim(i) < (int64_t{1} << 31), what,
            " must be of non-zero size and smaller than 2^31 along every side, got shape ", images.shape());
  return {images.dim(0), images.dim(1), images.dim(2), images.dim(3)};
}

// The target [height, width].
inline std::pair<int64_t, int64_t> image_size(const Tensor& size) {
  require(size.rank() == 1 && size.num_elements() == 2, "size must have the form [height, width], got shape ",
          size.shape());
  const int32_t* value = size.flat<int32_t>();
  require(value[0] > 0 && value[1] > 0, "output dimensions must be positive, got ", value[0], " x ", value[1]);
  return {value[0], value[1]};
}

// Throws if a kernel needs more scratch memory than the machine has: parallel loops must not fail halfway.
inline void require_scratch(double bytes_per_thread) {
  const Allocator& allocator = Allocator::cpu();
  if (bytes_per_thread * intra_op_threads() > static_cast<double>(allocator.limit() - allocator.bytes_in_use()))
    fail(Code::resource_exhausted, "out of memory: resizing an image of this shape takes ", bytes_per_thread,
         " bytes per thread");
}

// For each output position of one axis: K input positions (within the image) and their weights.
template <int K>
struct Taps {
  std::vector<std::array<int32_t, K>> index;
  std::vector<std::array<float, K>> weight;
  explicit Taps(int64_t n) {
    require_scratch(8.0 * K * static_cast<double>(n));
    index.resize(static_cast<size_t>(n));
    weight.resize(static_cast<size_t>(n));
  }
  int64_t size() const { return static_cast<int64_t>(index.size()); }
};

// The two neighbours, and how far the position lies towards the second.
inline Taps<2> bilinear_taps(int64_t in, int64_t out, const ResizeOptions& options) {
  Taps<2> taps(out);
  float scale = options.scale(in, out);
  for (int64_t i = 0; i < out; ++i) {
    float at = options.position(i, scale), floor = std::floor(at);
    int64_t lower = std::clamp<int64_t>(static_cast<int64_t>(floor), 0, in - 1);
    int64_t upper = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(at)), lower, in - 1);
    taps.index[i] = {static_cast<int32_t>(lower), static_cast<int32_t>(upper)};
    taps.weight[i] = {1 - (at - floor), at - floor};
  }
  return taps;
}

// The cubic convolution of Keys (1981) over four neighbours, its weights from a table of 1024 steps as in TensorFlow.
Taps<4> bicubic_taps(int64_t in, int64_t out, const ResizeOptions& options);

// The weighted sum of from[k][i]; two are interpolated so that equal values stay exactly equal.
template <int K>
inline float mix(const std::array<const float*, K>& from, const std::array<float, K>& weight, int64_t i) {
  if constexpr (K == 2)
    return from[0][i] + (from[1][i] - from[0][i]) * weight[1];
  else
    return from[0][i] * weight[0] + from[1][i] * weight[1] + from[2][i] * weight[2] + from[3][i] * weight[3];
}

// out[i] = mix(i). The arguments are copies: the compiler then knows that writing `out` leaves them alone.
template <int K>
inline void combine(const std::array<const float*, K> rows, const std::array<float, K> weight, int64_t n,
                    float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = mix<K>(rows, weight, i);
}

// One row of an image, resampled to `taps.size()` pixels. C > 0 fixes the number of channels for the compiler.
template <int K, int C>
inline void resample_row(const float* in, const Taps<K>& taps, int64_t channels, float* __restrict out) {
  const int64_t depth = C > 0 ? C : channels, size = taps.size();
  const std::array<int32_t, K>* index = taps.index.data();
  const std::array<float, K>* weights = taps.weight.data();
  for (int64_t x = 0; x < size; ++x) {
    std::array<const float*, K> from;
    for (int k = 0; k < K; ++k) from[k] = in + index[x][k] * depth;
    const std::array<float, K> weight = weights[x];
    if constexpr (C > 0) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) out[x * C + c] = mix<K>(from, weight, c);
    } else {
      combine<K>(from, weight, depth, out + x * depth);
    }
  }
}

template <int K>
inline void resample_row(const float* in, const Taps<K>& taps, int64_t channels, float* out) {
  switch (channels) {
    case 1:
      return resample_row<K, 1>(in, taps, channels, out);
    case 3:
      return resample_row<K, 3>(in, taps, channels, out);
    case 4:
      return resample_row<K, 4>(in, taps, channels, out);
    default:
      return resample_row<K, 0>(in, taps, channels, out);
  }
}

// `count` elements of images from `first` on as floats: the elements themselves, or converted into `buffer`.
inline const float* floats_at(const Tensor& images, int64_t first, int64_t count, float* __restrict buffer) {
  if (images.dtype() == DType::float32) return images.flat<float>() + first;
  dispatch(images.dtype(), Pixels{}, [&]<typename T>() {
    const T* in = images.flat<T>() + first;
    for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(in[i]);
  });
  return buffer;
}

// out[b, y, x, c], from images of the given extent.
template <int K>
void resample(const Tensor& images, const Extent& in, const Taps<K>& down, const Taps<K>& across, Tensor& out) {
  const int64_t width = across.size() * in.channels, in_width = in.columns * in.channels;
  require_scratch(4.0 * (K * static_cast<double>(width) + static_cast<double>(in_width)));
  float* to = out.flat<float>();
  int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width));
  parallel_for(in.batch * down.size(), grain, [&](int64_t begin, int64_t end) {
    std::vector<float> converted(images.dtype() == DType::float32 ? 0 : static_cast<size_t>(in_width));
    std::vector<float> buffers[K];
    int64_t held[K];  // Which input row each buffer holds.
    for (int k = 0; k < K; ++k) {
      buffers[k].resize(static_cast<size_t>(width));
      held[k] = -1;
    }
    for (int64_t line = begin; line < end; ++line) {
      int64_t image = line / down.size(), y = line % down.size();
      std::array<const float*, K> rows;
      for (int k = 0; k < K; ++k) {
        // Rows of neighbouring output lines overlap: input row r always lives in buffer r % K.
        int64_t row = image * in.rows + down.index[y][k], slot = down.index[y][k] % K;
        if (held[slot] != row) {
          const float* from = floats_at(images, row * in_width, in_width, converted.data());
          resample_row<K>(from, across, in.channels, buffers[slot].data());
          held[slot] = row;
        }
        rows[k] = buffers[slot].data();
      }
      combine<K>(rows, down.weight[y], width, to + line * width);
    }
  });
}

// The transpose of `resample`: adds every gradient to the pixels that its output was computed from. `sums` must be
// zero.
template <int K, typename A>
void resample_transposed(const float* grads, const Extent& in, const Taps<K>& down, const Taps<K>& across, A* sums) {
  const int64_t width = in.columns * in.channels, grad_width = across.size() * in.channels;
  require_scratch(static_cast<double>(sizeof(A)) * static_cast<double>(width));
  int64_t work = std::max<int64_t>(1, down.size() * (grad_width + width) / std::max<int64_t>(1, in.rows));
  // A range owns input rows; a gradient row that touches two ranges is read by both.
  parallel_for(in.batch * in.rows, std::max<int64_t>(1, kElementGrain / work), [&](int64_t begin, int64_t end) {
    std::vector<A> row(static_cast<size_t>(width));
    for (int64_t image = begin / in.rows; image * in.rows < end; ++image) {
      int64_t first = std::max<int64_t>(0, begin - image * in.rows), last = std::min(in.rows, end - image * in.rows);
      for (int64_t y = 0; y < down.size(); ++y) {
        bool touched = false;
        for (int k = 0; k < K; ++k) touched |= down.index[y][k] >= first && down.index[y][k] < last;
        if (!touched) continue;
        std::fill(row.begin(), row.end(), A{0});
        const float* grad = grads + (image * down.size() + y) * grad_width;
        for (int64_t x = 0; x < across.size(); ++x) {
          for (int k = 0; k < K; ++k) {
            A weight = across.weight[x][k];
            A* to = row.data() + across.index[x][k] * in.channels;
            for (int64_t c = 0; c < in.channels; ++c) to[c] += weight * grad[x * in.channels + c];
          }
        }
        for (int k = 0; k < K; ++k) {
          int64_t at = down.index[y][k];
          if (at < first || at >= last) continue;
          A weight = down.weight[y][k];
          A* to = sums + (image * in.rows + at) * width;
          for (int64_t i = 0; i < width; ++i) to[i] += weight * row[i];
        }
      }
    }
  });
}

// A call of one of the ops images, size -> resized_images: its arguments, checked, and its output.
struct ResizeCall {
  explicit ResizeCall(Context& ctx) : images(ctx.input(0)), in(image_extent(images, "input image")) {
    std::tie(rows, columns) = image_size(ctx.input(1));
    out = &ctx.allocate(0, Shape{in.batch, rows, columns, in.channels});
  }
  const Tensor& images;
  Extent in;
  int64_t rows, columns;
  Tensor* out;
};

// With taps from `make(in, out, options)`.
template <int K, auto make>
struct Resize : Kernel {
  explicit Resize(const Construction& c) : options(c) {}
  void compute(Context& ctx) override {
    ResizeCall call(ctx);
    const Extent& in = call.in;
    if (call.out->num_elements() == 0) return;
    Taps<K> down = make(in.rows, call.rows, options), across = make(in.columns, call.columns, options);
    resample<K>(call.images, in, down, across, *call.out);
  }
  ResizeOptions options;
};

// grads (float), original_image -> the gradient of the images.
template <int K, auto make, typename TypeList>
struct ResizeGrad : Kernel {
  explicit ResizeGrad(const Construction& c) : options(c) {}
  void compute(Context& ctx) override {
    Extent grads = image_extent(ctx.input(0), "grads"), in = image_extent(ctx.input(1), "original_image");
    require(grads.batch == in.batch && grads.channels == in.channels,
            "grads and original_image must agree in batch and channels, got ", ctx.input(0).shape(), " and ",
            ctx.input(1).shape());
    Taps<K> down = make(in.rows, grads.rows, options), across = make(in.columns, grads.columns, options);
    Tensor& out = ctx.allocate(0, ctx.input(1).shape());
    dispatch(out.dtype(), TypeList{}, [&]<typename T>() {
      using A = Compute<T>;
      Tensor sums = is_reduced_float<T> ? Tensor(DType::float32, out.shape()) : out;
      std::fill_n(sums.flat<A>(), sums.num_elements(), A{0});
      resample_transposed<K, A>(ctx.input(0).flat<float>(), in, down, across, sums.flat<A>());
      if constexpr (is_reduced_float<T>) std::copy_n(sums.flat<A>(), out.num_elements(), out.flat<T>());
    });
  }
  ResizeOptions options;
};

}  // namespace thalweg
