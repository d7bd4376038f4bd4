// BiasAdd and its gradient (a vector along the channel dimension), and L2Loss.
#include "compute/copies/elements.h"
#include "compute/elementwise/functors.h"
#include "compute/reduction/column_sums.h"
#include "compute/reduction/reduction.h"
#include "compute/windows/pooling.h"
#include "tensor/reduced_floats.h"

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
    const BinaryLoop add = binary_loop<functors::Add, Numbers>(out.dtype());
    const DType dtype = out.dtype();
    const void *in = ctx.input(0).raw(), *b = bias.raw();
    void* to = out.raw();
    if (view.inner == 1) {
      // So many rows of few channels count as one: a call of the loop costs as much as some hundred elements.
      const int64_t n = view.channels, together = n > 0 && n < kFewChannels ? kFewChannels / n : 1;
      Tensor repeated;
      if (together > 1 && view.outer >= 2 * together) {
        repeated = Tensor(dtype, Shape{together * n});
        for (int64_t k = 0; k < together; ++k) copy_elements(dtype, element_at(dtype, repeated.raw(), k * n), b, n);
      }
      const int64_t rows = repeated.defined() ? together : 1;
      const void* row = repeated.defined() ? repeated.raw() : b;
      parallel_for(view.outer, grain(n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r += rows)
          add(element_at(dtype, in, r * n), 1, row, 1, element_at(dtype, to, r * n), std::min(rows, end - r) * n);
      });
    } else {
      parallel_for(view.outer * view.channels, grain(view.inner), [&](int64_t begin, int64_t end) {
        const int64_t n = view.inner;
        for (int64_t r = begin; r < end; ++r)
          add(element_at(dtype, in, r * n), 1, element_at(dtype, b, r % view.channels), 0, element_at(dtype, to, r * n),
              n);
      });
    }
  }
  static constexpr int64_t kFewChannels = 1024;
  static int64_t grain(int64_t width) { return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width)); }
  bool channels_first;
};

using Inexact = Join<Floats, Complexes>;

struct BiasAddGrad : Kernel {
  explicit BiasAddGrad(const Construction& c) : channels_first(c.attr<std::string>("data_format", "NHWC") == "NCHW") {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    Channels view(in.shape(), channels_first);
    Tensor& out = ctx.allocate(0, Shape{view.channels});
    dispatch(in.dtype(), Inexact{}, [&]<typename T>() {
      const T* from = in.flat<T>();
      T* to = out.flat<T>();
      if (view.inner == 1)
        sum_columns(view.outer, view.channels, from, to);
      else
        parallel_for(view.channels, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, view.outer * view.inner)),
                     [=](int64_t begin, int64_t end) { sum_planes(view, from, to, begin, end); });
    });
  }

  template <typename T>
  static void sum_columns(int64_t rows, int64_t channels, const T* from, T* to) {
    using C = Compute<T>;
    // Few channels: several rows count as one, so that it fills registers, and their sums are added at the end.
    const int64_t fold = channels > 0 && channels < 64 && rows >= 64 ? 8 : 1;
    const int64_t folded = rows / fold, width = fold * channels;
    std::vector<C> sums(width), total(channels);
    sum_pieces(folded, width, width, sums.data(), [&](int64_t begin, int64_t end, C* out) {
      constexpr int64_t kBlock = 4096;
      C buffer[is_reduced_float<T> ? kBlock : 1];
      // Blocks of columns that stay in the cache while several rows of them are added.
      for (int64_t first = 0; first < width; first += kBlock)
        for (int64_t r = begin; r < end; ++r) {
          const int64_t n = std::min(kBlock, width - first);
          if constexpr (is_reduced_float<T>) {
            add_row(widened_row(from + r * width + first, buffer, n), out + first, n);
          } else {
            const int64_t several = std::min<int64_t>(end - r, 16);
            add_rows(from + r * width + first, several, width, out + first, n);
            r += several - 1;
          }
        }
    });
    for (int64_t k = 0; k < fold; ++k)
      for (int64_t c = 0; c < channels; ++c) total[c] = functors::Add::apply(total[c], sums[k * channels + c]);
    for (int64_t r = folded * fold; r < rows; ++r)
      for (int64_t c = 0; c < channels; ++c)
        total[c] = functors::Add::apply(total[c], static_cast<C>(from[r * channels + c]));
    for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<T>(total[c]);
  }
  template <typename C>
  static void add_row(const C* row, C* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = functors::Add::apply(out[i], row[i]);
  }
  template <typename C>
  static void add_rows(const C* from, int64_t rows, int64_t width, C* out, int64_t n) {
    if constexpr (std::is_arithmetic_v<C> && sizeof(C) >= 4) {
      for_channels<C, 4>(n, [&]<typename P, int N>(int64_t c) {
        typename P::type sum[N];
#pragma GCC unroll 4
        for (int k = 0; k < N; ++k) sum[k] = P::load(out + c + k * P::size);
        for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
          for (int k = 0; k < N; ++k) sum[k] += P::load(from + r * width + c + k * P::size);
#pragma GCC unroll 4
        for (int k = 0; k < N; ++k) P::store(out + c + k * P::size, sum[k]);
      });
    } else {
      for (int64_t r = 0; r < rows; ++r) add_row(from + r * width, out, n);
    }
  }

  // Adds rows of 32 elements, in registers.
  template <typename C>
  static void add_runs(const C* row, int64_t count, C* lanes) {
    using P = Pack<C>;
    constexpr int kCount = 32 / P::size;
    typename P::type sum[kCount];
    for (int k = 0; k < kCount; ++k) sum[k] = P::load(lanes + k * P::size);
    for (int64_t i = 0; i < count; ++i)
      for (int k = 0; k < kCount; ++k) sum[k] += P::load(row + i * 32 + k * P::size);
    for (int k = 0; k < kCount; ++k) P::store(lanes + k * P::size, sum[k]);
  }

  template <typename T>
  static void sum_planes(const Channels& view, const T* from, T* to, int64_t begin, int64_t end) {
    using C = Compute<T>;
    using functors::Add;
    for (int64_t c = begin; c < end; ++c) {
      C lanes[32] = {};
      constexpr int64_t kBlock = 512;
      C buffer[is_reduced_float<T> ? kBlock : 1];
      for (int64_t r = 0; r < view.outer; ++r)
        for (int64_t start = 0; start < view.inner; start += kBlock) {
          const int64_t n = std::min(kBlock, view.inner - start);
          const C* row = widened_row(from + (r * view.channels + c) * view.inner + start, buffer, n);
          int64_t i = 0;
          if constexpr (std::is_arithmetic_v<C> && sizeof(C) >= 4) {
            add_runs(row, n / 32, lanes);
            i = n / 32 * 32;
          }
          for (; i < n; ++i) lanes[i % 32] = Add::apply(lanes[i % 32], row[i]);
        }
      C total = lanes[0];
      for (int k = 1; k < 32; ++k) total = Add::apply(total, lanes[k]);
      to[c] = static_cast<T>(total);
    }
  }
  bool channels_first;
};

// Of integers, which hardly ever have gradients: in one thread.
struct IntegerBiasAddGrad : Kernel {
  explicit IntegerBiasAddGrad(const Construction& c)
      : channels_first(c.attr<std::string>("data_format", "NHWC") == "NCHW") {}
  void compute(Context& ctx) override {
    const Channels view(ctx.input(0).shape(), channels_first);
    Tensor& out = ctx.allocate(0, Shape{view.channels});
    const DType dtype = out.dtype();
    zero_elements(dtype, out.raw(), view.channels);
    dispatch(unsigned_of(dtype), UnsignedInts{}, [&]<typename T>() {
      const T* from = ctx.input(0).flat<T>();
      for (int64_t i = 0; i < view.outer * view.channels * view.inner; ++i)
        out.flat<T>()[i / view.inner % view.channels] += from[i];
    });
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
        using Vector = typename VectorOf<C>::type;
        constexpr int kLanes = VectorOf<C>::kLanes, kVectors = 16 / kLanes;
        Vector squares[kVectors] = {};
        int64_t i = b * kBlock, stop = std::min(n, i + kBlock);
        for (; i + 16 <= stop; i += 16)
#pragma GCC unroll 4
          for (int k = 0; k < kVectors; ++k) {
            const Vector v = load_lanes<T, C>(x + i + k * kLanes);
            squares[k] += v * v;
          }
        for (; i < stop; ++i) squares[0][0] += static_cast<C>(x[i]) * static_cast<C>(x[i]);
        for (int k = 0; k < 16; ++k) sums[b] += squares[k / kLanes][k % kLanes];
      }
    });
    double total = 0;
    for (double v : sums) total += v;
    out.flat<T>()[0] = static_cast<T>(static_cast<Compute<T>>(total / 2));
  });
}

REGISTER(kernel("BiasAdd").types("T", Numbers{}).make<BiasAdd>());
REGISTER(kernel("BiasAddV1").types("T", Numbers{}).make<BiasAdd>());
REGISTER(kernel("BiasAddGrad").types("T", Inexact{}).make<BiasAddGrad>());
REGISTER(kernel("BiasAddGrad").types("T", Ints{}).make<IntegerBiasAddGrad>());
REGISTER(kernel("L2Loss").types("T", Floats{}).function<l2_loss>());

}  // namespace
}  // namespace thalweg
