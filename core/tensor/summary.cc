// Writing tensors as text: the short form of assertions and the nested form of tf.print.
#include "tensor/summary.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace thalweg {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (c == '"' || c == '\\' || c == '\'')
      out += {'\\', c};
    else if (byte < 0x20 || byte >= 0x7f) {
      char octal[5];
      std::snprintf(octal, sizeof(octal), "\\%03o", byte);
      out += octal;
    } else
      out += c;
  }
  return out + '"';
}

std::string element_text(const Tensor& t, int64_t i, bool quote) {
  if (t.dtype() == DType::string) return quote ? quoted(t.strings()[i]) : t.strings()[i];
  if (!is_plain(t.dtype())) return "<handle>";
  std::string text;
  dispatch(t.dtype(), Join<NumbersAndBool, Quantized>{}, [&]<typename T>() {
    T value = t.flat<T>()[i];
    if constexpr (is_complex<T>)
      text = "(" + number_text(value.real()) + "," + number_text(value.imag()) + ")";
    else if constexpr (is_reduced_float<T>)
      text = number_text(static_cast<float>(value));
    else if constexpr (std::is_floating_point_v<T>)
      text = number_text(value);
    else
      text = std::to_string(value);
  });
  return text;
}

template <typename T>
std::string shortest(T value, int few, int many, T (*parse)(const char*, char**)) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%.*g", few, static_cast<double>(value));
  if (parse(buffer, nullptr) != value) std::snprintf(buffer, sizeof(buffer), "%.*g", many, static_cast<double>(value));
  return buffer;
}

void write_summary(const Tensor& t, int dim, int64_t limit, int64_t& at, std::string& out) {
  for (int64_t i = 0; i < t.dim(dim); ++i) {
    if (dim == t.rank() - 1) {
      if (at >= limit) {
        if (dim != 0) out += "...";
        return;
      }
      if (i > 0) out += " ";
      out += element_text(t, at++, false);
    } else {
      if (at >= limit) return;
      out += "[";
      write_summary(t, dim + 1, limit, at, out);
      out += "]";
    }
  }
}

void write_nested(const Tensor& t, int dim, int64_t first, int64_t edge, std::string& out) {
  if (dim == t.rank()) {
    out += element_text(t, first, true);
    return;
  }
  int64_t n = t.dim(dim), stride = t.shape().product(dim + 1, t.rank());
  bool cut = edge >= 0 && n > 2 * edge;
  std::string between = " ";
  if (dim < t.rank() - 1) between = std::string(t.rank() - 1 - dim, '\n') + std::string(dim + 1, ' ');
  out += "[";
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) out += between;
    if (cut && i == edge) {
      out += "...";
      i = n - edge - 1;
      continue;
    }
    write_nested(t, dim + 1, first + i * stride, edge, out);
  }
  out += "]";
}

}  // namespace

std::string number_text(double value) { return shortest<double>(value, 15, 17, std::strtod); }
std::string number_text(float value) { return shortest<float>(value, 6, 9, std::strtof); }

std::string summarize(const Tensor& t, int64_t limit) {
  int64_t n = t.num_elements();
  if (n == 0) return "";
  int64_t most = limit < 0 ? n : std::min(limit, n), at = 0;
  if (t.rank() == 0) return most == 0 ? "..." : element_text(t, 0, false);
  std::string out;
  write_summary(t, 0, most, at, out);
  if (n > most) out += "...";
  return out;
}

std::string format(const Tensor& t, int64_t edge) {
  std::string out;
  // Only the outer shape of an empty tensor is worth a line.
  if (t.num_elements() == 0) return "[]";
  write_nested(t, 0, 0, edge, out);
  return out;
}

}  // namespace thalweg
