// Filling and copying runs of elements.
#include "compute/copies/elements.h"

namespace thalweg {
namespace {

bool all_zero(const void* value, size_t bytes) {
  const char* p = static_cast<const char*>(value);
  return std::all_of(p, p + bytes, [](char c) { return c == 0; });
}

}  // namespace

void fill_elements(DType dtype, void* to, const void* value, int64_t count) {
  if (count == 0) return;
  size_t width = size_of(dtype);
  if (is_plain(dtype) && all_zero(value, width)) {
    parallel_for(count, move_grain(dtype), [&](int64_t begin, int64_t end) {
      std::memset(element_at(dtype, to, begin), 0, static_cast<size_t>(end - begin) * width);
    });
    return;
  }
  dispatch_width(dtype, [&]<typename T>() {
    const T item = *static_cast<const T*>(value);
    T* out = static_cast<T*>(to);
    if constexpr (std::is_trivially_copyable_v<T>) {
      parallel_for(count, move_grain(dtype),
                   [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, item); });
    } else {
      std::fill_n(out, count, item);
    }
  });
}

void zero_elements(DType dtype, void* to, int64_t count) {
  static const std::string empty;
  static const ResourceHandle none;
  static const Bytes16 zero{};
  const void* value = &zero;
  if (dtype == DType::string) value = &empty;
  if (dtype == DType::resource || dtype == DType::variant) value = &none;
  fill_elements(dtype, to, value, count);
}

void copy_large(DType dtype, void* to, const void* from, int64_t count) {
  if (!is_plain(dtype)) return copy_elements(dtype, to, from, count);
  parallel_for(count, move_grain(dtype), [&](int64_t begin, int64_t end) {
    copy_elements(dtype, element_at(dtype, to, begin), element_at(dtype, from, begin), end - begin);
  });
}

}  // namespace thalweg
