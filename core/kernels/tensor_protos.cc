// SerializeTensor and ParseTensor: tensors as TensorProto messages, byte for byte as TensorFlow writes them.
#include <bit>

#include "io/example.h"
#include "io/wire.h"
#include "kernel/registry.h"
#include "kernels/example_features.h"

namespace thalweg {
namespace {

// The fields of TensorProto.
constexpr int kDtype = 1, kShape = 2, kContent = 4, kFloats = 5, kDoubles = 6, kInts = 7, kStrings = 8, kComplex64s = 9,
              kInt64s = 10, kBools = 11, kComplex128s = 12, kHalves = 13, kUint32s = 16, kUint64s = 17;

void serialize_tensor(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.dtype() != DType::resource && in.dtype() != DType::variant, "cannot serialize a tensor of type ",
          in.dtype());
  std::string shape, out;
  for (int64_t d : in.shape()) {
    std::string dim;
    if (d != 0) {
      wire::put_key(dim, 1, wire::Kind::varint);
      wire::put_varint(dim, static_cast<uint64_t>(d));
    }
    wire::put_bytes(shape, 2, dim);
  }
  wire::put_key(out, kDtype, wire::Kind::varint);
  wire::put_varint(out, static_cast<uint64_t>(in.dtype()));
  wire::put_bytes(out, kShape, shape);
  if (in.dtype() == DType::string) {
    for (int64_t i = 0; i < in.num_elements(); ++i) wire::put_bytes(out, kStrings, in.strings()[i]);
  } else if (in.bytes() > 0) {
    wire::put_bytes(out, kContent, {static_cast<const char*>(in.raw()), in.bytes()});
  }
  ctx.set_output(0, Tensor::scalar(std::move(out)));
}

// The field that holds the values of a type.
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

// Numbers of a repeated field, packed or not, as their bits.
bool read_numbers(example::Cursor& cursor, uint32_t kind, std::vector<uint64_t>& out) {
  std::string_view bytes;
  uint64_t number;
  switch (kind) {
    case 0:
      if (!cursor.varint(&number)) return false;
      out.push_back(number);
      return true;
    case 1:
    case 5: {
      if (!cursor.take(kind == 1 ? 8 : 4, &bytes)) return false;
      number = 0;
      std::memcpy(&number, bytes.data(), bytes.size());
      out.push_back(number);
      return true;
    }
    default:
      return false;
  }
}

struct Parsed {
  uint64_t dtype = 0;
  std::vector<int64_t> dims;
  bool unknown_rank = false;
  std::string_view content;
  std::vector<uint64_t> numbers;
  std::vector<std::string_view> strings;
};

bool read_shape(std::string_view message, Parsed& out) {
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

bool read_proto(std::string_view message, DType wanted, Parsed& out) {
  int field = field_of(wanted);
  uint32_t width = wanted == DType::float32 || wanted == DType::complex64    ? 5
                   : wanted == DType::float64 || wanted == DType::complex128 ? 1
                                                                             : 0;
  example::Cursor cursor(message);
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view bytes;
    if (!cursor.tag(&tag)) return false;
    if (tag == (kDtype << 3)) {
      if (!cursor.varint(&out.dtype)) return false;
    } else if (tag == example::bytes_tag(kShape)) {
      if (!cursor.bytes(&bytes) || !read_shape(bytes, out)) return false;
    } else if (tag == example::bytes_tag(kContent)) {
      if (!cursor.bytes(&out.content)) return false;
    } else if (static_cast<int>(tag >> 3) == field && wanted == DType::string && (tag & 7) == 2) {
      if (!cursor.bytes(&bytes)) return false;
      out.strings.push_back(bytes);
    } else if (static_cast<int>(tag >> 3) == field && wanted != DType::string && (tag & 7) == 2) {
      if (!cursor.bytes(&bytes)) return false;
      for (example::Cursor packed(bytes); !packed.done();)
        if (!read_numbers(packed, width, out.numbers)) return false;
    } else if (static_cast<int>(tag >> 3) == field && wanted != DType::string && (tag & 7) == width) {
      if (!read_numbers(cursor, width, out.numbers)) return false;
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
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

// The last of the values given stands for all that are left out; none at all means zeros.
template <typename T>
void fill(Tensor& out, const std::vector<uint64_t>& bits) {
  size_t given = bits.size() / (is_complex<T> ? 2 : 1);
  T* to = out.flat<T>();
  auto n = static_cast<size_t>(out.num_elements());
  size_t copied = std::min(given, n);
  for (size_t i = 0; i < copied; ++i) to[i] = from_bits<T>(bits, i);
  std::fill(to + copied, to + n, given == 0 ? T{} : from_bits<T>(bits, given - 1));
}

void parse_tensor(Context& ctx) {
  const Tensor& serialized = ctx.input(0);
  require(serialized.rank() == 0, "Expected `serialized` to be a scalar, got shape: ", serialized.shape());
  const std::string& message = *serialized.strings();
  DType wanted = ctx.output_dtype(0);
  Parsed parsed;
  require(read_proto(message, wanted, parsed), "Could not parse `serialized` as TensorProto: '", excerpt(message), "'");
  auto dtype = static_cast<DType>(parsed.dtype <= 23 ? parsed.dtype : 0);
  require(dtype == wanted, "Type mismatch between parsed tensor (", list_name(dtype), ") and dtype (",
          list_name(wanted), ")");
  require(!parsed.unknown_rank, "Cannot parse tensor from proto: its rank is unknown");
  Shape shape(parsed.dims);
  if (!parsed.content.empty() && wanted != DType::string)
    require(parsed.content.size() / size_of(wanted) == static_cast<uint64_t>(shape.num_elements()) &&
                parsed.content.size() % size_of(wanted) == 0,
            "Cannot parse tensor from proto: a tensor of shape ", shape, " and type ", wanted, " needs ",
            shape.num_elements(), " elements of ", size_of(wanted), " bytes, got ", parsed.content.size(), " bytes");
  Tensor& out = ctx.allocate(0, shape);
  if (wanted == DType::string) {
    for (int64_t i = 0; i < shape.num_elements() && !parsed.strings.empty(); ++i)
      out.strings()[i].assign(parsed.strings[std::min(static_cast<size_t>(i), parsed.strings.size() - 1)]);
  } else if (!parsed.content.empty()) {
    std::memcpy(out.raw(), parsed.content.data(), parsed.content.size());
    if (wanted == DType::boolean)
      for (size_t i = 0; i < parsed.content.size(); ++i) out.flat<bool>()[i] = parsed.content[i] != 0;
  } else {
    dispatch(wanted, Join<NumbersAndBool, Quantized>{}, [&]<typename T>() { fill<T>(out, parsed.numbers); });
  }
}

using Serializable = Join<Join<NumbersAndBool, Quantized>, Types<DType::string>>;
REGISTER(kernel("SerializeTensor").types("T", Serializable{}).function<serialize_tensor>());
REGISTER(kernel("ParseTensor").types("out_type", Serializable{}).function<parse_tensor>());

}  // namespace
}  // namespace thalweg
