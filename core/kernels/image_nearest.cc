// ResizeNearestNeighbor, its gradient, and ResizeArea.
#include "compute/copies/elements.h"
#include "compute/images/resize.h"

namespace thalweg {
namespace {

// The input position that each output position copies.
std::vector<int64_t> nearest(int64_t in, int64_t out, const ResizeOptions& options) {
  require_scratch(8.0 * static_cast<double>(out));
  std::vector<int64_t> index(static_cast<size_t>(out));
  float scale = options.scale(in, out), shift = options.half_pixel_centers ? 0.5f : 0.0f;
  for (int64_t i = 0; i < out; ++i) {
    float at = (static_cast<float>(i) + shift) * scale;
    auto position = static_cast<int64_t>(options.align_corners ? std::round(at) : std::floor(at));
    index[i] = std::clamp<int64_t>(position, 0, in - 1);
  }
  return index;
}

struct ResizeNearestNeighbor : Kernel {
  explicit ResizeNearestNeighbor(const Construction& c) : options(c) {}
  void compute(Context& ctx) override {
    ResizeCall call(ctx);
    const auto& [images, in, rows, columns, result] = call;
    Tensor& out = *result;
    if (out.num_elements() == 0) return;
    std::vector<int64_t> down = nearest(in.rows, rows, options), across = nearest(in.columns, columns, options);
    dispatch_width(images.dtype(), [&]<typename T>() {
      const int64_t width = columns * in.channels;
      int64_t grain = std::max<int64_t>(1, kElementGrain / width);
      parallel_for(in.batch * rows, grain, [&, rows = rows, columns = columns](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          T* to = out.flat<T>() + line * width;
          if (line > begin && line % rows > 0 && down[line % rows] == down[line % rows - 1]) {
            std::copy_n(to - width, width, to);
            continue;
          }
          const T* from = images.flat<T>() + (line / rows * in.rows + down[line % rows]) * in.columns * in.channels;
          for (int64_t x = 0; x < columns; ++x)
            for (int64_t c = 0; c < in.channels; ++c) to[x * in.channels + c] = from[across[x] * in.channels + c];
        }
      });
    });
  }
  ResizeOptions options;
};

struct ResizeNearestNeighborGrad : Kernel {
  explicit ResizeNearestNeighborGrad(const Construction& c) : options(c) {}
  void compute(Context& ctx) override {
    const Tensor& grads = ctx.input(0);
    Extent from = image_extent(grads, "grads");
    auto [rows, columns] = image_size(ctx.input(1));
    Tensor& out = ctx.allocate(0, Shape{from.batch, rows, columns, from.channels});
    zero_elements(out.dtype(), out.raw(), out.num_elements());
    std::vector<int64_t> down = nearest(rows, from.rows, options), across = nearest(columns, from.columns, options);
    const int64_t width = columns * from.channels, grad_width = from.columns * from.channels;
    require_scratch(8.0 * static_cast<double>(width));
    dispatch(grads.dtype(), Join<Floats, Types<DType::uint8, DType::int8, DType::int32>>{}, [&]<typename T>() {
      using A = std::conditional_t<std::is_integral_v<T>, uint32_t, Compute<T>>;  // Integers wrap around.
      parallel_for(from.batch, 1, [&, rows = rows](int64_t begin, int64_t end) {
        std::vector<A> sums(static_cast<size_t>(width));
        for (int64_t image = begin; image < end; ++image) {
          for (int64_t y = 0; y < from.rows;) {
            std::fill(sums.begin(), sums.end(), A{0});
            int64_t row = down[y];
            for (; y < from.rows && down[y] == row; ++y) {
              const T* grad = grads.flat<T>() + (image * from.rows + y) * grad_width;
              for (int64_t x = 0; x < from.columns; ++x)
                for (int64_t c = 0; c < from.channels; ++c)
                  sums[across[x] * from.channels + c] += static_cast<A>(grad[x * from.channels + c]);
            }
            T* to = out.flat<T>() + (image * rows + row) * width;
            for (int64_t i = 0; i < width; ++i) to[i] = static_cast<T>(sums[i]);
          }
        }
      });
    });
  }
  ResizeOptions options;
};

// The part of the input that one output position covers along an axis: how much of each pixel, from `first` on.
struct Cover {
  int64_t first;
  std::vector<float> weight;
};

std::vector<Cover> covers(int64_t in, int64_t out, const ResizeOptions& options) {
  // Every cover has a block of its own on the heap.
  require_scratch(64.0 * static_cast<double>(out) + 8.0 * static_cast<double>(in));
  std::vector<Cover> result(static_cast<size_t>(out));
  float scale = options.scale(in, out);
  for (int64_t i = 0; i < out; ++i) {
    float from = static_cast<float>(i) * scale, to = static_cast<float>(i + 1) * scale;
    auto first = static_cast<int64_t>(std::floor(from)), last = static_cast<int64_t>(std::ceil(to));
    Cover& cover = result[i];
    cover.first = std::clamp<int64_t>(first, 0, in - 1);
    for (int64_t v = first; v < last; ++v) {
      auto left = static_cast<float>(v), right = static_cast<float>(v + 1);
      float part = left < from ? (right > to ? scale : right - from) : (right > to ? to - left : 1.0f);
      // The part beyond the image (rounding, aligned corners) counts for the last pixel.
      if (v >= in && !cover.weight.empty())
        cover.weight.back() += part;
      else
        cover.weight.push_back(part);
    }
  }
  return result;
}

struct ResizeArea : Kernel {
  explicit ResizeArea(const Construction& c) : options(c) {}
  void compute(Context& ctx) override {
    ResizeCall call(ctx);
    const auto& [images, in, rows, columns, result] = call;
    Tensor& out = *result;
    if (out.num_elements() == 0) return;
    std::vector<Cover> down = covers(in.rows, rows, options), across = covers(in.columns, columns, options);
    float vertical = options.scale(in.rows, rows), horizontal = options.scale(in.columns, columns);
    require_scratch(8.0 * static_cast<double>(in.columns) * static_cast<double>(in.channels));
    const float share = 1.0f / (vertical * horizontal);
    const int64_t width = columns * in.channels, in_width = in.columns * in.channels;
    int64_t work = std::max<int64_t>(1, in_width * std::max<int64_t>(1, in.rows / rows));
    parallel_for(in.batch * rows, std::max<int64_t>(1, kElementGrain / work),
                 [&, rows = rows, columns = columns](int64_t begin, int64_t end) {
                   std::vector<float> sums(static_cast<size_t>(in_width)), buffer(static_cast<size_t>(in_width));
                   for (int64_t line = begin; line < end; ++line) {
                     const Cover& lines = down[line % rows];
                     std::fill(sums.begin(), sums.end(), 0.0f);
                     for (size_t k = 0; k < lines.weight.size(); ++k) {
                       int64_t y = line / rows * in.rows + lines.first + static_cast<int64_t>(k);
                       const float* row = floats_at(images, y * in_width, in_width, buffer.data());
                       for (int64_t i = 0; i < in_width; ++i) sums[i] += row[i] * lines.weight[k];
                     }
                     float* to = out.flat<float>() + line * width;
                     for (int64_t x = 0; x < columns; ++x) {
                       const Cover& cover = across[x];
                       for (int64_t c = 0; c < in.channels; ++c) {
                         float sum = 0;
                         const float* from = sums.data() + cover.first * in.channels + c;
                         for (size_t k = 0; k < cover.weight.size(); ++k)
                           sum += from[static_cast<int64_t>(k) * in.channels] * cover.weight[k];
                         to[x * in.channels + c] = sum * share;
                       }
                     }
                   }
                 });
  }
  ResizeOptions options;
};

REGISTER(kernel("ResizeNearestNeighbor").types("T", Pixels{}).make<ResizeNearestNeighbor>());
REGISTER(kernel("ResizeNearestNeighborGrad").make<ResizeNearestNeighborGrad>());
REGISTER(kernel("ResizeArea").types("T", Pixels{}).make<ResizeArea>());

}  // namespace
}  // namespace thalweg
