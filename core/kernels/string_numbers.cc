// Between numbers and strings: StringToNumber, AsString, DecodeRaw, DecodePaddedRaw.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernel/registry.h"
#include "strings/numbers.h"

namespace thalweg {
namespace {

using Parsed = Types<DType::float32, DType::float64, DType::int32, DType::int64, DType::uint32, DType::uint64>;

void string_to_number(Context& ctx) {
  const Tensor& in = ctx.input(0);
  Tensor& out = ctx.allocate(0, in.shape());
  dispatch(out.dtype(), Parsed{}, [&]<typename T>() {
    for (int64_t i = 0; i < in.num_elements(); ++i)
      require(parse_number(in.strings()[i], out.flat<T>() + i),
              "StringToNumberOp could not correctly convert string: ", in.strings()[i]);
  });
}

struct AsString : Kernel {
  explicit AsString(const Construction& c) : dtype(c.input_dtype(0)) {
    int64_t precision = c.attr<int64_t>("precision", -1), width = c.attr<int64_t>("width", -1);
    bool scientific = c.attr<bool>("scientific", false), shortest = c.attr<bool>("shortest", false);
    std::string fill = c.attr<std::string>("fill", "");
    bool real = dtype == DType::float32 || dtype == DType::float64 || dtype == DType::float16 ||
                dtype == DType::bfloat16 || dtype == DType::complex64 || dtype == DType::complex128;
    require(!(scientific && shortest), "Cannot select both scientific and shortest notation");
    require(fill.size() <= 1, "Fill string must be one or fewer characters, got '", fill, "'");
    require(fill.empty() || std::string_view(" +-0#").find(fill[0]) != std::string_view::npos,
            "Fill argument not supported: \"", fill, "\"");
    require(real || precision < 0, "precision not supported for datatype ", dtype);
    require(real || (!scientific && !shortest), "scientific and shortest format not supported for datatype ", dtype);
    constexpr int64_t kMost = 1 << 16;
    require(width <= kMost && precision <= kMost, "width ", width, " and precision ", precision, " must be at most ",
            kMost);
    format = "%" + fill;
    if (width > -1) format += std::to_string(width);
    if (precision > -1) format += "." + std::to_string(precision);
    format += real ? (shortest ? "g" : scientific ? "e" : "f") : "";
  }

  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    if (dtype == DType::string) {
      ctx.set_output(0, in);
      return;
    }
    Tensor& out = ctx.allocate(0, in.shape());
    dispatch(dtype, NumbersAndBool{}, [&]<typename T>() {
      for (int64_t i = 0; i < in.num_elements(); ++i) out.strings()[i] = text(in.flat<T>()[i]);
    });
  }

  template <typename T>
  std::string text(T value) const {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (is_complex<T>) {
      return "(" + print(format, static_cast<double>(value.real())) + "," +
             print(format, static_cast<double>(value.imag())) + ")";
    } else if constexpr (std::is_integral_v<T>) {
      if constexpr (std::is_signed_v<T>) return print(format + "lld", static_cast<long long>(value));
      return print(format + "llu", static_cast<unsigned long long>(value));
    } else {
      return print(format, static_cast<double>(value));
    }
  }
  template <typename V>
  static std::string print(const std::string& format, V value) {
    char small[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = std::snprintf(small, sizeof(small), format.c_str(), value);
    if (n < static_cast<int>(sizeof(small))) return std::string(small, std::max(n, 0));
    std::string large(n, '\0');
    std::snprintf(large.data(), n + 1, format.c_str(), value);
#pragma GCC diagnostic pop
    return large;
  }

  DType dtype;
  std::string format;
};

struct DecodeRaw : Kernel {
  explicit DecodeRaw(const Construction& c) : little_endian(c.attr<bool>("little_endian", true)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    DType dtype = ctx.output_dtype(0);
    auto width = static_cast<int64_t>(size_of(dtype));
    int64_t n = in.num_elements(), bytes = n == 0 ? 0 : static_cast<int64_t>(in.strings()[0].size());
    for (int64_t i = 1; i < n; ++i)
      require(static_cast<int64_t>(in.strings()[i].size()) == bytes,
              "DecodeRaw requires input strings to all be the same size, but element ", i, " has size ",
              in.strings()[i].size(), " != ", bytes);
    require(bytes % width == 0, "Input to DecodeRaw has length ", bytes, " that is not a multiple of ", width,
            ", the size of ", dtype);
    std::vector<int64_t> dims = in.shape().to_vector();
    dims.push_back(bytes / width);
    Tensor& out = ctx.allocate(0, Shape(dims));
    auto* to = static_cast<char*>(out.raw());
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * bytes, in.strings()[i].data(), bytes);
    if (dtype == DType::boolean)
      for (int64_t i = 0; i < n * bytes; ++i) to[i] = to[i] != 0;
    int64_t part = dtype == DType::complex64 || dtype == DType::complex128 ? width / 2 : width;
    if (!little_endian && part > 1)
      for (int64_t at = 0; at < n * bytes; at += part) std::reverse(to + at, to + at + part);
  }
  bool little_endian;
};

struct DecodePaddedRaw : Kernel {
  explicit DecodePaddedRaw(const Construction& c) : little_endian(c.attr<bool>("little_endian", true)) {}
  void compute(Context& ctx) override {
    const Tensor &in = ctx.input(0), &given = ctx.input(1);
    DType dtype = ctx.output_dtype(0);
    auto width = static_cast<int64_t>(size_of(dtype));
    require(given.num_elements() == 1, "k must be scalar, got shape ", given.shape());
    int64_t length = to_int64(given);
    require(length > 0, "fixed_length (", length, ") must be greater than zero.");
    require(length % width == 0, "fixed_length (", length, ") must be a multiple of the size of out_type (", width,
            ")");
    Shape shape = in.shape();
    Tensor& out = ctx.allocate(0, shape.inserted(shape.rank(), length / width));
    auto* to = static_cast<char*>(out.raw());
    for (int64_t i = 0; i < in.num_elements(); ++i, to += length) {
      const std::string& text = in.strings()[i];
      size_t used = std::min(text.size(), static_cast<size_t>(length));
      std::memcpy(to, text.data(), used);
      std::memset(to + used, 0, static_cast<size_t>(length) - used);
      if (!little_endian && width > 1)
        for (int64_t at = 0; at < length; at += width) std::reverse(to + at, to + at + width);
    }
  }
  bool little_endian;
};

REGISTER(kernel("StringToNumber").types("out_type", Parsed{}).function<string_to_number>());
REGISTER(kernel("AsString").types("T", Join<NumbersAndBool, Types<DType::string>>{}).make<AsString>());
REGISTER(kernel("DecodePaddedRaw").types("out_type", Reals{}).make<DecodePaddedRaw>());
REGISTER(kernel("DecodeRaw").types("out_type", NumbersAndBool{}).make<DecodeRaw>());

}  // namespace
}  // namespace thalweg
