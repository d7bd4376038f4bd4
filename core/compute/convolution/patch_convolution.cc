// Convolution as a product of matrices: patches are copied out, block by block, so that a block stays in the cache.
#include "compute/convolution/patch_convolution.h"

#include <algorithm>

#include "compute/matmul/gemm.h"
#include "tensor/tensor.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

constexpr int64_t kBlockElements = 64 * 1024;

// Where the elements of an image lie: offsets per image, channel and position.
struct ImageLayout {
  int64_t image, channel, position;
  ImageLayout(bool channels_first, int64_t channels, int64_t area)
      : image(channels * area), channel(channels_first ? area : 1), position(channels_first ? 1 : channels) {}
};

template <typename T>
class Blocks {
 public:
  explicit Blocks(const ConvolutionShape& shape)
      : s_(shape),
        in_(shape.channels_first, shape.in_channels, shape.in_area()),
        out_(shape.channels_first, shape.out_channels, shape.out_area()),
        depth_(shape.filter_area() * shape.group_inputs()),
        width_(shape.group_outputs()),
        rows_(std::clamp<int64_t>(kBlockElements / depth_, 1, shape.out_area())),
        per_image_((shape.out_area() + rows_ - 1) / rows_) {}

  void forward(const T* input, const T* filter, T* output) const {
    spread(s_.batch * per_image_, [&](int64_t block, T* patches, T* results) {
      const Range r = range(block);
      for (int64_t g = 0; g < s_.groups; ++g) {
        gather(input, r, g, patches);
        gemm<T>(r.count, width_, depth_, {0, depth_, 1}, patches, {0, s_.out_channels, 1}, filter + g * width_, results,
                false);
        T* to = output + r.image * out_.image + r.first * out_.position + g * width_ * out_.channel;
        for (int64_t p = 0; p < r.count; ++p)
          for (int64_t c = 0; c < width_; ++c) to[p * out_.position + c * out_.channel] = results[p * width_ + c];
      }
    });
  }

  void input_gradient(T* input, const T* filter, const T* output) const {
    // Patches overlap, so one worker adds up all of an image.
    spread(s_.batch, [&](int64_t image, T* patches, T* grads) {
      std::fill_n(input + image * in_.image, in_.image, T(0));
      for (int64_t block = image * per_image_; block < (image + 1) * per_image_; ++block) {
        const Range r = range(block);
        for (int64_t g = 0; g < s_.groups; ++g) {
          gather_grads(output, r, g, grads);
          gemm<T>(r.count, depth_, width_, {0, width_, 1}, grads, {0, 1, s_.out_channels}, filter + g * width_, patches,
                  false);
          scatter(patches, r, g, input);
        }
      }
    });
  }

  void filter_gradient(const T* input, T* filter, const T* output) const {
    std::fill_n(filter, s_.filter_size(), T(0));
    // Workers share the groups, and then the rows of the product: sums are made in a fixed order.
    const bool many = s_.groups >= 4;
    auto one = [&](int64_t g, T* patches, T* grads, T* sums) {
      for (int64_t block = 0; block < s_.batch * per_image_; ++block) {
        const Range r = range(block);
        gather(input, r, g, patches);
        gather_grads(output, r, g, grads);
        gemm<T>(depth_, width_, r.count, {0, 1, depth_}, patches, {0, width_, 1}, grads, sums, !many);
        for (int64_t k = 0; k < depth_; ++k)
          for (int64_t c = 0; c < width_; ++c) filter[k * s_.out_channels + g * width_ + c] += sums[k * width_ + c];
      }
    };
    const int64_t size = depth_ * width_;
    const int64_t workers = many ? std::min<int64_t>(intra_op_threads(), s_.groups) : 1;
    Tensor memory(dtype_of<T>, Shape{workers, rows_ * (depth_ + width_) + size});
    parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        T* patches = memory.flat<T>() + w * memory.dim(1);
        T* grads = patches + rows_ * depth_;
        for (int64_t g = w; g < s_.groups; g += workers) one(g, patches, grads, grads + rows_ * width_);
      }
    });
  }

 private:
  struct Range {
    int64_t image, first, count;  // Positions [first, first + count) of an image of the output.
  };
  Range range(int64_t block) const {
    const int64_t first = block % per_image_ * rows_;
    return {block / per_image_, first, std::min(rows_, s_.out_area() - first)};
  }

  // Calls body(task, patches, results) for each task, with memory for one block of both.
  template <typename Body>
  void spread(int64_t tasks, const Body& body) const {
    const int64_t workers = s_.work() < 32 * 1024 ? 1 : std::min<int64_t>(intra_op_threads(), tasks);
    Tensor memory(dtype_of<T>, Shape{workers, rows_ * (depth_ + width_)});
    parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        T* patches = memory.flat<T>() + w * memory.dim(1);
        for (int64_t task = w; task < tasks; task += workers) body(task, patches, patches + rows_ * depth_);
      }
    });
  }

  // Calls cell(offset in the image or -1 for padding) for each filter position of each patch of a block.
  template <typename Cell>
  void for_each_cell(const Range& r, const Cell& cell) const {
    for (int64_t p = r.first; p < r.first + r.count; ++p) {
      const int64_t x0 = p % s_.out[2] * s_.stride[2] - s_.before[2];
      const int64_t y0 = p / s_.out[2] % s_.out[1] * s_.stride[1] - s_.before[1];
      const int64_t z0 = p / s_.out[2] / s_.out[1] * s_.stride[0] - s_.before[0];
      for (int64_t i = 0; i < s_.filter[0]; ++i)
        for (int64_t j = 0; j < s_.filter[1]; ++j)
          for (int64_t k = 0; k < s_.filter[2]; ++k) {
            const int64_t z = z0 + i * s_.dilation[0], y = y0 + j * s_.dilation[1], x = x0 + k * s_.dilation[2];
            const bool inside = z >= 0 && z < s_.in[0] && y >= 0 && y < s_.in[1] && x >= 0 && x < s_.in[2];
            cell(inside ? ((z * s_.in[1] + y) * s_.in[2] + x) * in_.position : -1);
          }
    }
  }

  void gather(const T* input, const Range& r, int64_t g, T* patches) const {
    const int64_t channels = s_.group_inputs();
    const T* from = input + r.image * in_.image + g * channels * in_.channel;
    for_each_cell(r, [&](int64_t offset) {
      if (offset < 0)
        std::fill_n(patches, channels, T(0));
      else if (in_.channel == 1)
        std::copy_n(from + offset, channels, patches);
      else
        for (int64_t c = 0; c < channels; ++c) patches[c] = from[offset + c * in_.channel];
      patches += channels;
    });
  }

  void scatter(const T* patches, const Range& r, int64_t g, T* input) const {
    const int64_t channels = s_.group_inputs();
    T* to = input + r.image * in_.image + g * channels * in_.channel;
    for_each_cell(r, [&](int64_t offset) {
      if (offset >= 0)
        for (int64_t c = 0; c < channels; ++c) to[offset + c * in_.channel] += patches[c];
      patches += channels;
    });
  }

  void gather_grads(const T* output, const Range& r, int64_t g, T* grads) const {
    const T* from = output + r.image * out_.image + r.first * out_.position + g * width_ * out_.channel;
    for (int64_t p = 0; p < r.count; ++p)
      for (int64_t c = 0; c < width_; ++c) grads[p * width_ + c] = from[p * out_.position + c * out_.channel];
  }

  const ConvolutionShape& s_;
  ImageLayout in_, out_;
  int64_t depth_, width_;     // The filter of a group as a matrix.
  int64_t rows_, per_image_;  // Patches in a block, and blocks in an image.
};

}  // namespace

template <typename T>
void patch_convolution(ConvolutionPass pass, const ConvolutionShape& shape, T* input, T* filter, T* output) {
  const Blocks<T> blocks(shape);
  switch (pass) {
    case ConvolutionPass::forward:
      return blocks.forward(input, filter, output);
    case ConvolutionPass::input_gradient:
      return blocks.input_gradient(input, filter, output);
    case ConvolutionPass::filter_gradient:
      return blocks.filter_gradient(input, filter, output);
  }
}

template void patch_convolution(ConvolutionPass, const ConvolutionShape&, float*, float*, float*);
template void patch_convolution(ConvolutionPass, const ConvolutionShape&, double*, double*, double*);
template void patch_convolution(ConvolutionPass, const ConvolutionShape&, uint32_t*, uint32_t*, uint32_t*);

}  // namespace thalweg
