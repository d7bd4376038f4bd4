// Reading and writing TensorProto messages.
#include "io/tensor_proto.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/example.h"
#include "io/wire.h"
#include "tensor/reduced_floats.h"

namespace thalweg::tensor_proto {
namespace {

// The wire type of the numbers of a type.
uint32_t wire_type(DType dtype) {
  return dtype == DType::float32 || dtype == DType::complex64    ? 5
         : dtype == DType::float64 || dtype == DType::complex128 ? 1
                                                                 : 0;
}

// A number of a repeated field, as its bits.
bool read_number(example::Cursor& cursor, uint32_t kind, std::vector<uint64_t>& out) {
  std::string_view bytes;
  uint64_t number = 0;
  if (kind == 0) {
    if (!cursor.varint(&number)) return false;
  } else {
    if (!cursor.take(kind == 1 ? 8 : 4, &bytes)) return false;
    std::memcpy(&number, bytes.data(), bytes.size());
  }
  out.push_back(number);
  return true;
}

bool read_shape(std::string_view message, Values& out) {
  example::Cursor cursor(message);
  while (!cursor.done()) {
    uint32_t tag;
    uint64_t number;
    std::string_view dim;
    if (!cursor.tag(&tag)) return false;
    if (tag == example::bytes_tag(2)) {
      if (!cursor.bytes(&dim)) return false;
      uint64_t size = 0;
      for (example::Cursor fields(dim); !fields.done();) {
        if (!fields.tag(&tag)) return false;
        if (tag == (1 << 3) ? !fields.varint(&size) : !fields.skip(tag)) return false;
      }
      out.dims.push_back(static_cast<int64_t>(size));
    } else if (tag == (3 << 3)) {
      if (!cursor.varint(&number)) return false;
      out.unknown_rank = number != 0;
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

bool unpack(std::string_view bytes, uint32_t kind, Values& out) {
  for (example::Cursor packed(bytes); !packed.done();)
    if (!read_number(packed, kind, out.numbers)) return false;
  return true;
}

// Numbers that come in one piece, as they nearly always do, stay where they are.
bool read_packed(std::string_view bytes, uint32_t kind, Values& out) {
  if (kind == 0 || bytes.size() % (kind == 1 ? 8 : 4) != 0) return unpack(bytes, kind, out);
  if (out.packed.empty() && out.numbers.empty()) {
    out.packed = bytes;
    return true;
  }
  return unpack(std::exchange(out.packed, {}), kind, out) && unpack(bytes, kind, out);
}

template <typename T>
T from_bits(const std::vector<uint64_t>& bits, size_t i) {
  if constexpr (std::is_same_v<T, complex64>)
    return {std::bit_cast<float>(static_cast<uint32_t>(bits[2 * i])),
            std::bit_cast<float>(static_cast<uint32_t>(bits[2 * i + 1]))};
  else if constexpr (std::is_same_v<T, complex128>)
    return {std::bit_cast<double>(bits[2 * i]), std::bit_cast<double>(bits[2 * i + 1])};
  else if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(bits[i]));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(bits[i]);
  else if constexpr (is_reduced_float<T>)
    return std::bit_cast<T>(static_cast<uint16_t>(bits[i]));
  else
    return static_cast<T>(bits[i]);
}

template <typename T>
void fill_with(const Values& values, Tensor& out) {
  const size_t given = values.given(out.dtype()), n = static_cast<size_t>(out.num_elements());
  const size_t copied = std::min(given, n);
  T* to = out.flat<T>();
  T last{};
  if (!values.packed.empty()) {
    if (copied > 0) std::memcpy(static_cast<void*>(to), values.packed.data(), copied * sizeof(T));
    if (given > 0) std::memcpy(static_cast<void*>(&last), values.packed.data() + (given - 1) * sizeof(T), sizeof(T));
  } else {
    for (size_t i = 0; i < copied; ++i) to[i] = from_bits<T>(values.numbers, i);
    if (given > 0) last = from_bits<T>(values.numbers, given - 1);
  }
  std::fill(to + copied, to + n, last);
}

}  // namespace

int field_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return kFloats;
    case DType::float64:
      return kDoubles;
    case DType::string:
      return kStrings;
    case DType::complex64:
      return kComplex64s;
    case DType::complex128:
      return kComplex128s;
    case DType::int64:
      return kInt64s;
    case DType::boolean:
      return kBools;
    case DType::float16:
    case DType::bfloat16:
      return kHalves;
    case DType::uint32:
      return kUint32s;
    case DType::uint64:
      return kUint64s;
    default:
      return kInts;
  }
}

bool has_fixed_width(DType dtype) { return wire_type(dtype) != 0; }

size_t Values::given(DType dtype) const {
  if (dtype == DType::string) return strings.size();
  if (!packed.empty()) return packed.size() / size_of(dtype);
  return numbers.size() / (dtype == DType::complex64 || dtype == DType::complex128 ? 2 : 1);
}

bool read(std::string_view message, DType wanted, Values& out) {
  const int field = field_of(wanted);
  const uint32_t kind = wire_type(wanted);
  example::Cursor cursor(message);
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view bytes;
    if (!cursor.tag(&tag)) return false;
    const bool is_value = static_cast<int>(tag >> 3) == field;
    if (tag == (kDtype << 3)) {
      if (!cursor.varint(&out.dtype)) return false;
    } else if (tag == example::bytes_tag(kShape)) {
      if (!cursor.bytes(&bytes) || !read_shape(bytes, out)) return false;
    } else if (tag == example::bytes_tag(kContent)) {
      if (!cursor.bytes(&out.content)) return false;
    } else if (is_value && (tag & 7) == 2) {
      if (!cursor.bytes(&bytes)) return false;
      if (wanted == DType::string)
        out.strings.push_back(bytes);
      else if (!read_packed(bytes, kind, out))
        return false;
    } else if (is_value && wanted != DType::string && (tag & 7) == kind) {
      if (!unpack(std::exchange(out.packed, {}), kind, out) || !read_number(cursor, kind, out.numbers)) return false;
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

void put_head(std::string& out, DType dtype, std::span<const int64_t> dims) {
  std::string shape;
  for (int64_t d : dims) {
    std::string dim;
    if (d != 0) wire::put_number(dim, 1, static_cast<uint64_t>(d));
    wire::put_bytes(shape, 2, dim);
  }
  wire::put_number(out, kDtype, static_cast<uint64_t>(dtype));
  wire::put_bytes(out, kShape, shape);
}

void put_content(std::string& out, std::string_view bytes) {
  if (!bytes.empty()) wire::put_bytes(out, kContent, bytes);
}

void put_string(std::string& out, std::string_view element) { wire::put_bytes(out, kStrings, element); }

void fill(const Values& values, Tensor& out) {
  if (out.dtype() == DType::string) {
    for (int64_t i = 0; i < out.num_elements() && !values.strings.empty(); ++i)
      out.strings()[i].assign(values.strings[std::min(static_cast<size_t>(i), values.strings.size() - 1)]);
    return;
  }
  dispatch(out.dtype(), Join<NumbersAndBool, Quantized>{}, [&]<typename T>() { fill_with<T>(values, out); });
}

}  // namespace thalweg::tensor_proto
