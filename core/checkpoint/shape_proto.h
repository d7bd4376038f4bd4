// Shapes and element types as checkpoints store them. Stored values are not trusted: bad ones throw DataLoss.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/proto.h"
#include "tensor/shape.h"

namespace thalweg {

// As a TensorShapeProto, and back; sizes are not checked.
inline std::string dims_to_proto(std::span<const int64_t> dims) {
  std::string out;
  for (int64_t size : dims) {
    std::string dim;
    proto::put_number(dim, 1, static_cast<uint64_t>(size));
    proto::put_bytes(out, 2, dim);
  }
  return out;
}

inline std::vector<int64_t> dims_from_proto(std::string_view message, const std::string& what) {
  std::vector<int64_t> dims;
  for (proto::Fields part(message, what); part.next();) {
    if (part.field != 2) continue;
    int64_t size = 0;
    for (proto::Fields dim(part.text, what); dim.next();) {
      if (dim.field == 1) size = static_cast<int64_t>(dim.number);
    }
    dims.push_back(size);
  }
  return dims;
}

inline Shape checked_shape(const std::vector<int64_t>& dims, const std::string& what) {
  try {
    return Shape(dims);
  } catch (const Error& error) {
    fail(Code::data_loss, "corrupted ", what, ": ", error.message());
  }
}

inline DType dtype_from_number(uint64_t number) { return static_cast<DType>(number < 24 ? number : 0); }

}  // namespace thalweg
