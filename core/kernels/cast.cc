// Cast: from every number type to every other, in two steps, so that n types need not n * n loops.
//
// Blocks of the source are widened to one of six carriers (no step if it is one already), and from there converted to
// the target. A float outside an integer's range becomes the smallest integer, as in x86's conversion.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

using Castable = NumbersAndBool;
constexpr int64_t kBlock = 1024;

// Quantized types are cast as the integers that store them.
DType storage_type(DType dtype) {
  switch (dtype) {
    case DType::qint8:
      return DType::int8;
    case DType::quint8:
      return DType::uint8;
    case DType::qint16:
      return DType::int16;
    case DType::quint16:
      return DType::uint16;
    case DType::qint32:
      return DType::int32;
    default:
      return dtype;
  }
}

template <typename T>
using Carrier = std::conditional_t<
    is_complex<T>, complex128,
    std::conditional_t<
        is_reduced_float<T>, float,
        std::conditional_t<std::is_floating_point_v<T> || std::is_same_v<T, uint64_t>, T,
                           std::conditional_t<(sizeof(T) < 4) || std::is_same_v<T, int32_t>, int32_t, int64_t>>>>;

template <typename Int, typename Float>
inline Int truncate(Float x) {
  constexpr Float limit = -static_cast<Float>(std::numeric_limits<Int>::min());
  return x >= -limit && x < limit ? static_cast<Int>(x) : std::numeric_limits<Int>::min();
}

template <typename To, typename From>
inline To convert(From x) {
  if constexpr (std::is_same_v<To, bool> && !is_complex<From>) {
    return x != From(0);
  } else if constexpr (is_complex<From>) {  // Only the real part counts for a type that is not complex.
    if constexpr (is_complex<To>)
      return To(static_cast<typename To::value_type>(x.real()), static_cast<typename To::value_type>(x.imag()));
    else
      return convert<To>(x.real());
  } else if constexpr (is_complex<To>) {
    return To(static_cast<typename To::value_type>(x));
  } else if constexpr (is_reduced_float<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (std::is_same_v<To, uint64_t>) {
      constexpr From half = static_cast<From>(9223372036854775808.0);
      return x >= half ? static_cast<uint64_t>(truncate<int64_t>(x - half)) ^ (uint64_t{1} << 63)
                       : static_cast<uint64_t>(truncate<int64_t>(x));
    } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint32_t>) {
      return static_cast<To>(truncate<int64_t>(x));
    } else {
      return static_cast<To>(truncate<int32_t>(x));
    }
  } else {
    return static_cast<To>(x);
  }
}

using Load = void (*)(const void* from, void* carrier, int64_t n);
using Store = void (*)(const void* carrier, void* to, int64_t n);

template <typename From, typename To>
void convert_loop(const void* from, void* to, int64_t n) {
  const From* in = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(static_cast<From>(in[i]));
}
template <typename From>
void load_loop(const void* from, void* to, int64_t n) {
  const From* in = static_cast<const From*>(from);
  Carrier<From>* out = static_cast<Carrier<From>*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Carrier<From>>(in[i]);
}

template <typename C>
Store store_to(DType to) {
  Store result = nullptr;
  dispatch(to, Castable{}, [&]<typename To>() { result = convert_loop<C, To>; });
  return result;
}

struct Cast : Kernel {
  explicit Cast(const Construction& c) : from(storage_type(c.input_dtype(0))), to(storage_type(c.output_dtype(0))) {
    same = from == to;
    if (same) return;
    if (!size_of(from) || !size_of(to) || !is_plain(from) || !is_plain(to))
      fail(Code::unimplemented, "Cast ", c.input_dtype(0), " to ", c.output_dtype(0), " is not supported");
    cut = to == DType::bfloat16 && from == DType::float32 && c.attr<bool>("Truncate", false);
    dispatch(from, Castable{}, [&]<typename T>() {
      using C = Carrier<T>;
      if constexpr (!std::is_same_v<T, C>) load = load_loop<T>;
      store = store_to<C>(to);
    });
    // Pictures are cast all the time: in one step.
    if (from == DType::uint8 && to == DType::float32) {
      load = nullptr;
      store = convert_loop<uint8_t, float>;
    }
  }

  void compute(Context& ctx) override {
    if (same)
      return ctx.set_output(0, ctx.input(0).dtype() == ctx.output_dtype(0)
                                   ? ctx.take_input(0)
                                   : ctx.input(0).viewed_as(ctx.output_dtype(0)));
    const Tensor& in = ctx.input(0);
    Tensor& out = ctx.allocate(0, in.shape());
    const char* source = static_cast<const char*>(in.raw());
    char* target = static_cast<char*>(out.raw());
    size_t from_size = size_of(from), to_size = size_of(to);
    parallel_for(in.num_elements(), kElementGrain, [&, this](int64_t begin, int64_t end) {
      if (cut) return truncate_to_bfloat16(in, out, begin, end);
      if (load == nullptr) return store(source + begin * from_size, target + begin * to_size, end - begin);
      alignas(64) char carrier[kBlock * sizeof(complex128)];
      for (int64_t i = begin; i < end; i += kBlock) {
        int64_t n = std::min(kBlock, end - i);
        load(source + i * from_size, carrier, n);
        store(carrier, target + i * to_size, n);
      }
    });
  }

  // Drops the low half instead of rounding.
  static void truncate_to_bfloat16(const Tensor& in, Tensor& out, int64_t begin, int64_t end) {
    const uint32_t* bits = in.flat<uint32_t>();
    uint16_t* to = out.flat<uint16_t>();
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<uint16_t>(bits[i] >> 16);
  }

  DType from, to;
  bool same = false, cut = false;
  Load load = nullptr;
  Store store = nullptr;
};

// The same bits as elements of another type: a wider type splits into a new last dimension, a narrower one joins it.
struct Bitcast : Kernel {
  explicit Bitcast(const Construction& c) : to(c.output_dtype(0)) {
    require(is_plain(c.input_dtype(0)) && is_plain(to) && size_of(c.input_dtype(0)) && size_of(to), "cannot bitcast ",
            c.input_dtype(0), " to ", to);
  }
  void compute(Context& ctx) override {
    Tensor in = ctx.take_input(0);
    int64_t from_size = static_cast<int64_t>(size_of(in.dtype())), to_size = static_cast<int64_t>(size_of(to));
    Shape shape = in.shape();
    if (from_size > to_size) {
      shape = shape.inserted(shape.rank(), from_size / to_size);
    } else if (from_size < to_size) {
      int64_t ratio = to_size / from_size;
      require(shape.rank() > 0 && shape[shape.rank() - 1] == ratio, "Cannot bitcast from ", in.dtype(), " to ", to,
              ": the last dimension of shape ", in.shape(), " must be ", ratio);
      shape = shape.removed(shape.rank() - 1);
    }
    if (in.buffer() == nullptr) {
      ctx.allocate(0, shape);
      return;
    }
    in.buffer()->ref();
    ctx.set_output(0, Tensor(to, shape, in.buffer(), in.raw()));
  }
  DType to;
};

REGISTER(kernel("Cast").make<Cast>());
REGISTER(kernel("Bitcast").make<Bitcast>());

}  // namespace
}  // namespace thalweg
