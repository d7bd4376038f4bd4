// Sizes and names of the element types.
#include "tensor/dtype.h"

#include "tensor/resource_handle.h"

namespace thalweg {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::int8:
    case DType::uint8:
    case DType::qint8:
    case DType::quint8:
      return 1;
    case DType::int16:
    case DType::uint16:
    case DType::qint16:
    case DType::quint16:
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::float32:
    case DType::int32:
    case DType::uint32:
    case DType::qint32:
      return 4;
    case DType::float64:
    case DType::int64:
    case DType::uint64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
    case DType::string:
      return sizeof(std::string);
    case DType::resource:
    case DType::variant:  // a handle without a name: its object is counted and immutable
      return sizeof(ResourceHandle);
    case DType::invalid:
      return 0;
  }
  return 0;
}

const char* name_of(DType dtype) {
  static const char* const names[] = {"invalid",    "float32", "float64",   "int32",   "uint8",   "int16",
                                      "int8",       "string",  "complex64", "int64",   "bool",    "qint8",
                                      "quint8",     "qint32",  "bfloat16",  "qint16",  "quint16", "uint16",
                                      "complex128", "float16", "resource",  "variant", "uint32",  "uint64"};
  size_t index = static_cast<size_t>(dtype);
  return index < std::size(names) ? names[index] : "unknown";
}

}  // namespace thalweg
