// Random numbers: RandomUniform, RandomUniformInt, RandomStandardNormal, TruncatedNormal and their stateless forms, by
// seed and by key and counter (TensorFlow 2).
#include "compute/random/random_state.h"
#include "executor/interruptible.h"
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
    Philox generator = state.reserve_outputs(ctx, n);
    const Interruptible interruptible(ctx, 20.0 * static_cast<double>(n));
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
    fill_integers(state.reserve_outputs(ctx, out.num_elements()), ctx.input(1), ctx.input(2), out);
  }
  RandomState state;
};

void stateless_integers(Context& ctx) {
  check_bounds(ctx.input(2), ctx.input(3));
  Shape shape = shape_from(ctx.input(0));
  Philox generator = stateless_generator(ctx.input(1));
  fill_integers(generator, ctx.input(2), ctx.input(3), ctx.allocate(0, std::move(shape)));
}

// The integers that have all bits of the stream.
template <typename T>
struct FullInteger {
  using Value = T;
  static constexpr int kCount = sizeof(T) == 8 ? 2 : 4;
  void operator()(const Philox::Block& x, T* out) const {
    if constexpr (sizeof(T) == 8)
      for (int i = 0; i < 2; ++i) out[i] = static_cast<T>(x[2 * i] | static_cast<uint64_t>(x[2 * i + 1]) << 32);
    else
      for (int i = 0; i < 4; ++i) out[i] = static_cast<T>(x[i]);
  }
};

// The generator that inputs 1 to 3 name: key, counter, algorithm (1: Philox, 3: any).
Philox keyed_generator(const Context& ctx) {
  const Tensor &key = ctx.input(1), &counter = ctx.input(2), &algorithm = ctx.input(3);
  require(key.rank() == 1 && key.num_elements() == 1, "key must have shape [1], got ", key.shape());
  require(counter.rank() == 1 && counter.num_elements() >= 2, "counter must have shape [2], got ", counter.shape());
  require(algorithm.rank() == 0, "alg must be a scalar, got shape ", algorithm.shape());
  const int32_t number = algorithm.flat<int32_t>()[0];
  require(number == 1 || number == 3, "alg must be 1 (Philox) or 3 (any), got ", number);
  const uint64_t k = key.flat<uint64_t>()[0], low = counter.flat<uint64_t>()[0], high = counter.flat<uint64_t>()[1];
  return Philox({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                 static_cast<uint32_t>(high >> 32)},
                {static_cast<uint32_t>(k), static_cast<uint32_t>(k >> 32)});
}

template <template <typename> class D>
void keyed(Context& ctx) {
  Philox generator = keyed_generator(ctx);
  Tensor& out = ctx.allocate(0, shape_from(ctx.input(0)));
  dispatch(out.dtype(), Floats{}, [&]<typename T>() { fill(generator, D<T>{}, out.flat<T>(), out.num_elements()); });
}

using WideIntegers = Types<DType::int32, DType::int64, DType::uint32, DType::uint64>;

void keyed_integers(Context& ctx) {
  const Tensor &low = ctx.input(4), &high = ctx.input(5);
  check_bounds(low, high);
  Philox generator = keyed_generator(ctx);
  Tensor& out = ctx.allocate(0, shape_from(ctx.input(0)));
  if (out.num_elements() == 0) return;
  dispatch(out.dtype(), WideIntegers{}, [&]<typename T>() {
    using Bits = std::make_unsigned_t<T>;
    T from = low.flat<T>()[0], to = high.flat<T>()[0];
    require(from < to, "Need minval < maxval, got ", from, " >= ", to);
    fill(generator, UniformInteger<T>{static_cast<Bits>(from), static_cast<Bits>(to) - static_cast<Bits>(from)},
         out.flat<T>(), out.num_elements());
  });
}

void fill_full(Philox generator, Tensor& out) {
  dispatch(out.dtype(), WideIntegers{},
           [&]<typename T>() { fill(generator, FullInteger<T>{}, out.flat<T>(), out.num_elements()); });
}

void keyed_full_integers(Context& ctx) {
  Philox generator = keyed_generator(ctx);
  fill_full(generator, ctx.allocate(0, shape_from(ctx.input(0))));
}

void stateless_full_integers(Context& ctx) {
  Philox generator = stateless_generator(ctx.input(1));
  fill_full(generator, ctx.allocate(0, shape_from(ctx.input(0))));
}

// The key and the counter of a pair of seeds.
void key_and_counter(Context& ctx) {
  Philox generator = stateless_generator(ctx.input(0));
  const auto& [counter, key] = std::pair(generator.counter(), generator.key());
  auto wide = [](uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; };
  ctx.allocate(0, Shape({1})).flat<uint64_t>()[0] = wide(key[0], key[1]);
  uint64_t* out = ctx.allocate(1, Shape({2})).flat<uint64_t>();
  out[0] = wide(counter[0], counter[1]);
  out[1] = wide(counter[2], counter[3]);
}

void key_counter_and_algorithm(Context& ctx) {
  key_and_counter(ctx);
  ctx.allocate(2, Shape()).flat<int32_t>()[0] = 1;
}

void philox_algorithm(Context& ctx) { ctx.allocate(0, Shape()).flat<int32_t>()[0] = 1; }

REGISTER(kernel("StatelessRandomGetKeyCounter").function<key_and_counter>());
REGISTER(kernel("StatelessRandomGetKeyCounterAlg").function<key_counter_and_algorithm>());
REGISTER(kernel("StatelessRandomGetAlg").function<philox_algorithm>());
REGISTER(kernel("StatelessRandomUniformV2").types("dtype", Floats{}).function<keyed<UniformReal>>());
REGISTER(kernel("StatelessRandomNormalV2").types("dtype", Floats{}).function<keyed<Normal>>());
REGISTER(kernel("StatelessTruncatedNormalV2").types("dtype", Floats{}).function<keyed<TruncatedNormal>>());
REGISTER(kernel("StatelessRandomUniformIntV2").types("dtype", WideIntegers{}).function<keyed_integers>());
REGISTER(kernel("StatelessRandomUniformFullIntV2").types("dtype", WideIntegers{}).function<keyed_full_integers>());
REGISTER(kernel("StatelessRandomUniformFullInt").types("dtype", WideIntegers{}).function<stateless_full_integers>());
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
