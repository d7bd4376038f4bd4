// Random numbers: RandomUniform, RandomUniformInt, RandomStandardNormal, TruncatedNormal and their stateless forms.
#include "compute/random/random_state.h"
#include "kernel/registry.h"
#include "random/distributions.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

constexpr int64_t kGroupGrain = 2048;

// Distributions that use one block per group of values.
template <typename D>
void fill(Philox start, const D& distribution, typename D::Value* out, int64_t n) {
  using T = typename D::Value;
  constexpr int kCount = D::kCount;
  parallel_for((n + kCount - 1) / kCount, kGroupGrain, [=](int64_t begin, int64_t end) {
    Philox generator = start;
    generator.skip(static_cast<uint64_t>(begin));
    Philox::Block blocks[Philox::kLanes];
    for (int64_t first = begin; first < end; first += Philox::kLanes) {
      generator.blocks(blocks);
      T* to = out + first * kCount;
      if (std::min(first + Philox::kLanes, end) == first + Philox::kLanes && (first + Philox::kLanes) * kCount <= n) {
        for (int i = 0; i < Philox::kLanes; ++i) distribution(blocks[i], to + i * kCount);
        continue;
      }
      T values[Philox::kLanes * kCount];
      for (int i = 0; i < Philox::kLanes; ++i) distribution(blocks[i], values + i * kCount);
      std::copy_n(values, std::min(n, end * kCount) - first * kCount, to);
    }
  });
}

// Distributions that use a varying number of words: each group starts at its own, fixed, place in the stream.
template <typename T>
void fill(Philox start, const TruncatedNormal<T>& distribution, T* out, int64_t n) {
  constexpr int kCount = TruncatedNormal<T>::kCount;
  constexpr uint64_t kBlocksPerGroup = kCount * kBlocksPerOutput / 4;
  parallel_for((n + kCount - 1) / kCount, kGroupGrain, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      Philox generator = start;
      generator.skip(static_cast<uint64_t>(group) * kBlocksPerGroup);
      PhiloxWords words(generator);
      T values[kCount];
      distribution(words, values);
      std::copy_n(values, std::min<int64_t>(kCount, n - group * kCount), out + group * kCount);
    }
  });
}

template <template <typename> class D>
struct Random : Kernel {
  explicit Random(const Construction& c) : state(c) {}
  void compute(Context& ctx) override {
    Tensor& out = ctx.allocate(0, shape_from(ctx.input(0)));
    int64_t n = out.num_elements();
    Philox generator = state.reserve_outputs(n);
    dispatch(out.dtype(), Floats{}, [&]<typename T>() { fill(generator, D<T>{}, out.flat<T>(), n); });
  }
  RandomState state;
};

template <template <typename> class D>
void stateless(Context& ctx) {
  Shape shape = shape_from(ctx.input(0));
  Philox generator = stateless_generator(ctx.input(1));
  Tensor& out = ctx.allocate(0, std::move(shape));
  dispatch(out.dtype(), Floats{}, [&]<typename T>() { fill(generator, D<T>{}, out.flat<T>(), out.num_elements()); });
}

void fill_integers(Philox generator, const Tensor& low, const Tensor& high, Tensor& out) {
  if (out.num_elements() == 0) return;
  dispatch(out.dtype(), Indices{}, [&]<typename T>() {
    using Bits = std::make_unsigned_t<T>;
    T from = low.flat<T>()[0], to = high.flat<T>()[0];
    require(from < to, "Need minval < maxval, got ", from, " >= ", to);
    Bits range = static_cast<Bits>(to) - static_cast<Bits>(from);
    fill(generator, UniformInteger<T>{static_cast<Bits>(from), range}, out.flat<T>(), out.num_elements());
  });
}

void check_bounds(const Tensor& low, const Tensor& high) {
  require(low.rank() == 0, "minval must be 0-D, got shape ", low.shape());
  require(high.rank() == 0, "maxval must be 0-D, got shape ", high.shape());
}

struct RandomUniformInt : Kernel {
  explicit RandomUniformInt(const Construction& c) : state(c) {}
  void compute(Context& ctx) override {
    check_bounds(ctx.input(1), ctx.input(2));
    Tensor& out = ctx.allocate(0, shape_from(ctx.input(0)));
    fill_integers(state.reserve_outputs(out.num_elements()), ctx.input(1), ctx.input(2), out);
  }
  RandomState state;
};

void stateless_integers(Context& ctx) {
  check_bounds(ctx.input(2), ctx.input(3));
  Shape shape = shape_from(ctx.input(0));
  Philox generator = stateless_generator(ctx.input(1));
  fill_integers(generator, ctx.input(2), ctx.input(3), ctx.allocate(0, std::move(shape)));
}

REGISTER(kernel("RandomUniform").types("dtype", Floats{}).make<Random<UniformReal>>());
REGISTER(kernel("RandomStandardNormal").types("dtype", Floats{}).make<Random<Normal>>());
REGISTER(kernel("TruncatedNormal").types("dtype", Floats{}).make<Random<TruncatedNormal>>());
REGISTER(kernel("RandomUniformInt").types("Tout", Indices{}).make<RandomUniformInt>());
REGISTER(kernel("StatelessRandomUniform").types("dtype", Floats{}).function<stateless<UniformReal>>());
REGISTER(kernel("StatelessRandomNormal").types("dtype", Floats{}).function<stateless<Normal>>());
REGISTER(kernel("StatelessTruncatedNormal").types("dtype", Floats{}).function<stateless<TruncatedNormal>>());
REGISTER(kernel("StatelessRandomUniformInt").types("dtype", Indices{}).function<stateless_integers>());

}  // namespace
}  // namespace thalweg
