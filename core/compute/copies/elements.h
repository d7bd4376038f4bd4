// Kernels that only move elements: dispatch on the width of an element instead of on its type.
//
// One instantiation per width serves all plain types; strings and handles (resources and variants) have one of their
// own.
#pragma once

#include "kernel/kernel.h"
#include "tensor/resource_handle.h"
#include "thread/parallel.h"

namespace thalweg {

// 16 bytes that are copied as one element: complex128.
struct Bytes16 {
  uint64_t low, high;
};

// Calls f.template operator()<T>() with a type that copies like the elements of `dtype`.
template <typename F>
inline void dispatch_width(DType dtype, F&& f) {
  if (dtype == DType::string) return f.template operator()<std::string>();
  if (dtype == DType::resource || dtype == DType::variant) return f.template operator()<ResourceHandle>();
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
      return f.template operator()<Bytes16>();
    default:
      fail(Code::unimplemented, "this kernel does not handle elements of type ", dtype);
  }
}

// Bytes that are worth a thread of their own when they are only moved.
constexpr int64_t kMoveGrain = 128 * 1024;

// The same in elements.
inline int64_t move_grain(DType dtype) { return kMoveGrain / std::max<int64_t>(1, size_of(dtype)); }

// Sets `count` elements to `*value`, in parallel where it pays.
void fill_elements(DType dtype, void* to, const void* value, int64_t count);

// Sets `count` elements to zero, false or the empty string.
void zero_elements(DType dtype, void* to, int64_t count);

// copy_elements, in parallel where it pays.
void copy_large(DType dtype, void* to, const void* from, int64_t count);

inline void* element_at(DType dtype, void* data, int64_t index) {
  return static_cast<char*>(data) + index * static_cast<int64_t>(size_of(dtype));
}
inline const void* element_at(DType dtype, const void* data, int64_t index) {
  return static_cast<const char*>(data) + index * static_cast<int64_t>(size_of(dtype));
}

}  // namespace thalweg
