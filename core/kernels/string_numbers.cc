// Between numbers and strings: StringToNumber, AsString, DecodeRaw.
#include <charconv>
#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "kernel/registry.h"

namespace thalweg {
namespace {

using Parsed = Types<DType::float32, DType::float64, DType::int32, DType::int64, DType::uint32, DType::uint64>;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

template <typename T>
bool parse(std::string_view text, T* out) {
  text = trimmed(text);
  if (text.empty()) return false;
  if constexpr (std::is_integral_v<T>) {
    if (text.front() == '+') {
      text.remove_prefix(1);
      if (text.starts_with('-')) return false;
    }
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && end == text.data() + text.size();
  } else {
    // The C library's reader in the C locale: from_chars knows neither "+1" nor hexadecimal, and refuses overflow.
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
    std::string terminated(text);
    char* end = nullptr;
    if constexpr (std::is_same_v<T, float>)
      *out = strtof_l(terminated.c_str(), &end, locale);
    else
      *out = strtod_l(terminated.c_str(), &end, locale);
    return end == terminated.c_str() + terminated.size();
  }
}

void string_to_number(Context& ctx) {
  const Tensor& in = ctx.input(0);
  Tensor& out = ctx.allocate(0, in.shape());
  dispatch(out.dtype(), Parsed{}, [&]<typename T>() {
    for (int64_t i = 0; i < in.num_elements(); ++i)
      require(parse(in.strings()[i], out.flat<T>() + i),
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

REGISTER(kernel("StringToNumber").types("out_type", Parsed{}).function<string_to_number>());
REGISTER(kernel("AsString").types("T", Join<NumbersAndBool, Types<DType::string>>{}).make<AsString>());
REGISTER(kernel("DecodeRaw").types("out_type", NumbersAndBool{}).make<DecodeRaw>());

}  // namespace
}  // namespace thalweg
