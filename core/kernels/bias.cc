// BiasAdd and its gradient (a vector along the channel dimension), and L2Loss.
#include "kernels/elementwise.h"
#include "kernels/functors.h"

namespace thalweg {
namespace {

// A tensor seen as [outer, channels, inner].
struct Channels {
  Channels(const Shape& shape, bool first) {
    int rank = shape.rank();
    require(rank >= 2, "the input must be at least 2-D, got shape ", shape);
    int axis = first ? 1 : rank - 1;
    outer = shape.product(0, axis);
    channels = shape[axis];
    inner = shape.product(axis + 1, rank);
  }
  int64_t outer, channels, inner;
};

struct BiasAdd : Kernel {
  explicit BiasAdd(const Construction& c) : channels_first(c.attr<std::string>("data_format", "NHWC") == "NCHW") {}
  void compute(Context& ctx) override {
    const Shape shape = ctx.input(0).shape();
    const Tensor& bias = ctx.input(1);
    Channels view(shape, channels_first);
    require(bias.rank() == 1, "Biases must be 1D: ", bias.shape());
    require(bias.dim(0) == view.channels,
            "Must provide as many biases as the channel dimension of the input tensor: ", bias.shape(), " vs. ",
            view.channels, " in ", shape);
    Tensor& out = ctx.forward_or_allocate({0}, 0, shape);
    dispatch_for<functors::Add, Numbers>(out.dtype(), [&]<typename T>() {
      const T* in = ctx.input(0).flat<T>();
      const T* b = bias.flat<T>();
      T* to = out.flat<T>();
      if (view.inner == 1) {
        parallel_for(view.outer, grain(view.channels), [=](int64_t begin, int64_t end) {
          int64_t n = view.channels;
          for (int64_t r = begin; r < end; ++r) binary_row<functors::Add>(in + r * n, 1, b, 1, to + r * n, n);
        });
      } else {
        parallel_for(view.outer * view.channels, grain(view.inner), [=](int64_t begin, int64_t end) {
          int64_t n = view.inner;
          for (int64_t r = begin; r < end; ++r)
            binary_row<functors::Add>(in + r * n, 1, b + r % view.channels, 0, to + r * n, n);
        });
      }
    });
  }
  static int64_t grain(int64_t width) { return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width)); }
  bool channels_first;
};

struct BiasAddGrad : Kernel {
  explicit BiasAddGrad(const Construction& c) : channels_first(c.attr<std::string>("data_format", "NHWC") == "NCHW") {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    Channels view(in.shape(), channels_first);
    Tensor& out = ctx.allocate(0, Shape{view.channels});
    dispatch_for<functors::Add, Numbers>(in.dtype(), [&]<typename T>() {
      const T* from = in.flat<T>();
      T* to = out.flat<T>();
      // Threads share the channels, so that each sum is made by one of them, in a fixed order.
      int64_t each = std::max<int64_t>(1, view.outer * view.inner);
      parallel_for(view.channels, std::max<int64_t>(view.inner == 1 ? 16 : 1, kElementGrain / each),
                   [=](int64_t begin, int64_t end) { sum(view, from, to, begin, end); });
    });
  }
  template <typename T>
  static void sum(const Channels& view, const T* from, T* to, int64_t begin, int64_t end) {
    using C = Compute<T>;
    using functors::Add;
    if (view.inner == 1) {
      constexpr int64_t kBlock = 256;
      for (int64_t start = begin; start < end; start += kBlock) {
        int64_t n = std::min(kBlock, end - start);
        C total[kBlock];
        std::fill(total, total + n, C(0));
        for (int64_t r = 0; r < view.outer; ++r) {
          const T* row = from + r * view.channels + start;
          for (int64_t i = 0; i < n; ++i) total[i] = Add::apply(total[i], static_cast<C>(row[i]));
        }
        for (int64_t i = 0; i < n; ++i) to[start + i] = static_cast<T>(total[i]);
      }
      return;
    }
    for (int64_t c = begin; c < end; ++c) {
      C lanes[16] = {};
      for (int64_t r = 0; r < view.outer; ++r) {
        const T* row = from + (r * view.channels + c) * view.inner;
        int64_t i = 0;
        for (; i + 16 <= view.inner; i += 16)
          for (int k = 0; k < 16; ++k) lanes[k] = Add::apply(lanes[k], static_cast<C>(row[i + k]));
        for (; i < view.inner; ++i) lanes[0] = Add::apply(lanes[0], static_cast<C>(row[i]));
      }
      C total = lanes[0];
      for (int k = 1; k < 16; ++k) total = Add::apply(total, lanes[k]);
      to[c] = static_cast<T>(total);
    }
  }
  bool channels_first;
};

// sum(t^2) / 2
void l2_loss(Context& ctx) {
  const Tensor& t = ctx.input(0);
  Tensor& out = ctx.allocate(0, Shape{});
  dispatch(t.dtype(), Floats{}, [&]<typename T>() {
    const T* x = t.flat<T>();
    // Blocks of a fixed size, added in order: the same result for any number of threads.
    constexpr int64_t kBlock = 16 * 1024;
    int64_t n = t.num_elements(), blocks = (n + kBlock - 1) / kBlock;
    std::vector<double> sums(blocks);
    parallel_for(blocks, 2, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        using C = Compute<T>;
        C lanes[16] = {};
        int64_t i = b * kBlock, stop = std::min(n, i + kBlock);
        for (; i + 16 <= stop; i += 16)
          for (int k = 0; k < 16; ++k) lanes[k] += static_cast<C>(x[i + k]) * static_cast<C>(x[i + k]);
        for (; i < stop; ++i) lanes[0] += static_cast<C>(x[i]) * static_cast<C>(x[i]);
        for (C v : lanes) sums[b] += v;
      }
    });
    double total = 0;
    for (double v : sums) total += v;
    out.flat<T>()[0] = static_cast<T>(static_cast<Compute<T>>(total / 2));
  });
}

REGISTER(kernel("BiasAdd").types("T", Numbers{}).make<BiasAdd>());
REGISTER(kernel("BiasAddV1").types("T", Numbers{}).make<BiasAdd>());
REGISTER(kernel("BiasAddGrad").types("T", Numbers{}).make<BiasAddGrad>());
REGISTER(kernel("L2Loss").types("T", Floats{}).function<l2_loss>());

}  // namespace
}  // namespace thalweg
