// Fourier transforms over the innermost one, two or three dimensions.
#include "compute/elementwise/elementwise.h"
#include "compute/fourier/transform.h"

namespace thalweg {
namespace {

int64_t product_of(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int d = begin; d < end; ++d) product *= shape[d];
  return product;
}

// The input cut, or filled up with zeros, to other sizes of its innermost dimensions.
Tensor resized(const Tensor& x, const std::vector<int64_t>& sizes) {
  const int rank = static_cast<int>(sizes.size()), outer = x.rank() - rank;
  std::vector<int64_t> dims(x.shape().begin(), x.shape().begin() + outer);
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  Tensor out(x.dtype(), Shape(dims));
  if (out.shape() == x.shape()) return x;
  std::memset(out.raw(), 0, out.bytes());
  const int last = x.rank() - 1;
  const int64_t from_width = x.dim(last), to_width = sizes.back(), width = size_of(x.dtype());
  const int64_t copied = std::min(from_width, to_width) * width;
  const int64_t lines = product_of(out.shape(), 0, last);
  for (int64_t line = 0; copied > 0 && line < lines; ++line) {
    int64_t left = line, at = 0, stride = 1;
    bool inside = true;
    for (int d = last - 1; d >= 0; --d) {
      const int64_t index = left % dims[d];
      left /= dims[d];
      inside &= index < x.dim(d);
      at += index * stride;
      stride *= x.dim(d);
    }
    if (inside)
      std::memcpy(static_cast<char*>(out.raw()) + line * to_width * width,
                  static_cast<const char*>(x.raw()) + at * from_width * width, copied);
  }
  return out;
}

// Transforms the dimensions [first, end) of an array, one after another.
template <typename T>
void transform_dimensions(const std::complex<T>* in, std::complex<T>* out, const Shape& shape, int first, int end,
                          bool inverse, T scale) {
  for (int d = end - 1; d >= first; --d) {
    const int64_t inner = product_of(shape, d + 1, shape.rank()), outer = product_of(shape, 0, d);
    fourier::transform_axis<T>(in, out, outer, shape[d], inner, inverse, d == first ? scale : T(1));
    in = out;
  }
}

struct Fourier : Kernel {
  explicit Fourier(const Construction& c)
      : rank_(c.def().op.ends_with("2D")   ? 2
              : c.def().op.ends_with("3D") ? 3
                                           : 1),
        inverse_(c.def().op.starts_with("I")) {}

 protected:
  void require_rank(const Tensor& x) const {
    require(x.rank() >= rank_, "Input must have rank of at least ", rank_, " but got: ", x.shape());
  }
  std::vector<int64_t> lengths(Context& ctx) const {
    const Tensor& given = ctx.input(1);
    require(given.rank() == 1 && given.dim(0) == rank_, "fft_length must have shape [", rank_, "], got ",
            given.shape());
    std::vector<int64_t> result = to_int64s(given);
    for (int64_t n : result) require(n >= 0, "fft_length must be non-negative, got ", n);
    return result;
  }
  static void require_same_width(DType complex, DType real) {
    require(complex == (real == DType::float64 ? DType::complex128 : DType::complex64), "a real transform of ", real,
            " goes with ", real == DType::float64 ? DType::complex128 : DType::complex64, ", not with ", complex);
  }
  const int rank_;
  const bool inverse_;
};

struct ComplexFourier : Fourier {
  using Fourier::Fourier;
  void compute(Context& ctx) override {
    const Tensor& x = ctx.input(0);
    require_rank(x);
    Tensor& out = ctx.forward_or_allocate({0}, 0, x.shape());
    if (out.num_elements() == 0) return;
    dispatch(x.dtype(), Complexes{}, [&]<typename C>() {
      using T = typename C::value_type;
      const int first = x.rank() - rank_;
      const int64_t count = product_of(x.shape(), first, x.rank());
      transform_dimensions<T>(x.flat<C>(), out.flat<C>(), x.shape(), first, x.rank(), inverse_,
                              inverse_ ? static_cast<T>(1.0 / static_cast<double>(count)) : T(1));
    });
  }
};

// From real to complex numbers: the last dimension first, of which about half is kept.
struct RealFourier : Fourier {
  using Fourier::Fourier;
  void compute(Context& ctx) override {
    require_rank(ctx.input(0));
    const std::vector<int64_t> sizes = lengths(ctx);
    std::vector<int64_t> dims(ctx.input(0).shape().begin(), ctx.input(0).shape().end() - rank_);
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    const int64_t n = sizes.back();
    dims.back() = n == 0 ? 0 : n / 2 + 1;
    Tensor& out = ctx.allocate(0, Shape(dims));
    require_same_width(out.dtype(), ctx.input(0).dtype());
    if (out.num_elements() == 0) return;
    const Tensor x = resized(ctx.input(0), sizes);
    dispatch(x.dtype(), WideFloats{}, [&]<typename T>() {
      auto* to = out.flat<std::complex<T>>();
      fourier::transform_real_rows<T>(x.flat<T>(), to, x.num_elements() / n, n);
      transform_dimensions<T>(to, to, out.shape(), out.rank() - rank_, out.rank() - 1, false, T(1));
    });
  }
};

struct InverseRealFourier : Fourier {
  using Fourier::Fourier;
  void compute(Context& ctx) override {
    require_rank(ctx.input(0));
    std::vector<int64_t> sizes = lengths(ctx);
    std::vector<int64_t> dims(ctx.input(0).shape().begin(), ctx.input(0).shape().end() - rank_);
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    Tensor& out = ctx.allocate(0, Shape(dims));
    require_same_width(ctx.input(0).dtype(), out.dtype());
    if (out.num_elements() == 0) return;
    const int64_t n = sizes.back(), count = product_of(out.shape(), out.rank() - rank_, out.rank());
    sizes.back() = n / 2 + 1;
    const Tensor x = resized(ctx.input(0), sizes);
    dispatch(out.dtype(), WideFloats{}, [&]<typename T>() {
      const auto* from = x.flat<std::complex<T>>();
      Tensor middle;
      if (rank_ > 1) {
        middle = Tensor(x.dtype(), x.shape());
        auto* to = middle.flat<std::complex<T>>();
        transform_dimensions<T>(from, to, x.shape(), x.rank() - rank_, x.rank() - 1, true, T(1));
        from = to;
      }
      fourier::transform_to_real_rows<T>(from, out.flat<T>(), out.num_elements() / n, n,
                                         static_cast<T>(1.0 / static_cast<double>(count)));
    });
  }
};

REGISTER(kernel("FFT").make<ComplexFourier>());
REGISTER(kernel("FFT2D").make<ComplexFourier>());
REGISTER(kernel("FFT3D").make<ComplexFourier>());
REGISTER(kernel("IFFT").make<ComplexFourier>());
REGISTER(kernel("IFFT2D").make<ComplexFourier>());
REGISTER(kernel("IFFT3D").make<ComplexFourier>());
REGISTER(kernel("RFFT").make<RealFourier>());
REGISTER(kernel("RFFT2D").make<RealFourier>());
REGISTER(kernel("RFFT3D").make<RealFourier>());
REGISTER(kernel("IRFFT").make<InverseRealFourier>());
REGISTER(kernel("IRFFT2D").make<InverseRealFourier>());
REGISTER(kernel("IRFFT3D").make<InverseRealFourier>());

}  // namespace
}  // namespace thalweg
