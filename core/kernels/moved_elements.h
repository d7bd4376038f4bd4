// Dispatch for kernels that only move elements: on the width of an element instead of its type.
#pragma once

#include "kernel/registry.h"

namespace thalweg {

// Calls f.template operator()<T>() with a type that copies as the elements do; strings are moved as strings.
template <typename F>
inline void dispatch_moved(DType dtype, F&& f) {
  if (dtype == DType::string) return f.template operator()<std::string>();
  if (!is_plain(dtype)) fail(Code::unimplemented, "this kernel does not handle elements of type ", dtype);
  switch (size_of(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    case 16:
      return f.template operator()<complex128>();
    default:
      fail(Code::unimplemented, "this kernel does not handle elements of type ", dtype);
  }
}

// Sets `count` elements to zero, or to the empty string.
inline void clear_elements(Tensor& t) {
  if (is_plain(t.dtype()) && t.num_elements() > 0) std::memset(t.raw(), 0, t.bytes());
}

}  // namespace thalweg
