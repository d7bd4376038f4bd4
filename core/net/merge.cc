// The loops of merge.
#include "net/merge.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "thread/parallel.h"

namespace thalweg::net {
namespace {

using Mergeable = Join<Floats, Ints>;
// A block of the result stays in the first-level cache while the inputs are merged into it.
constexpr int64_t kBlockBytes = 16 << 10;
constexpr int64_t kGrainBytes = 256 << 10;

// Signed overflow is undefined: integers are combined as unsigned ones.
template <typename T>
struct Wrapping {
  using type = T;
};
template <typename T>
  requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

template <typename T>
T combine(T a, T b, std::integral_constant<Merge, Merge::add>) {
  using W = typename Wrapping<T>::type;
  return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
}
template <typename T>
T combine(T a, T b, std::integral_constant<Merge, Merge::multiply>) {
  using W = std::conditional_t<(std::is_integral_v<T> && sizeof(T) < 4), uint32_t, typename Wrapping<T>::type>;
  return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
}
// NaN is smaller and larger than everything else.
template <typename T>
T combine(T a, T b, std::integral_constant<Merge, Merge::minimum>) {
  return a < b || a != a ? a : b;
}
template <typename T>
T combine(T a, T b, std::integral_constant<Merge, Merge::maximum>) {
  return a > b || a != a ? a : b;
}

template <typename T, Merge op>
void merge_rows(const T* a, const T* b, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = combine<T>(a[i], b[i], std::integral_constant<Merge, op>());
}

template <typename T>
void divide_row(T* out, int64_t by, int64_t n) {
  const T divisor = static_cast<T>(by);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(out[i] / divisor);
}

template <typename T, Merge op>
void merge_all(int64_t divisor, std::span<const void* const> inputs, T* out, int64_t count) {
  const auto in = [&](size_t k) { return static_cast<const T*>(inputs[k]); };
  constexpr int64_t kBlock = kBlockBytes / static_cast<int64_t>(sizeof(T));
  const auto size = static_cast<int64_t>(inputs.size());
  parallel_for(count, kGrainBytes / static_cast<int64_t>(sizeof(T)), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      if (size == 1) {
        if (in(0) != out) std::memcpy(out + at, in(0) + at, static_cast<size_t>(n) * sizeof(T));
      } else {
        merge_rows<T, op>(in(0) + at, in(1) + at, out + at, n);
      }
      for (size_t k = 2; k < inputs.size(); ++k) merge_rows<T, op>(out + at, in(k) + at, out + at, n);
      if (divisor != 0) divide_row(out + at, divisor, n);
    }
  });
}

}  // namespace

void merge(DType dtype, Merge op, int64_t divisor, std::span<const void* const> inputs, void* out, int64_t count) {
  dispatch(dtype, Mergeable{}, [&]<typename T>() {
    T* to = static_cast<T*>(out);
    switch (op) {
      case Merge::add:
        return merge_all<T, Merge::add>(divisor, inputs, to, count);
      case Merge::multiply:
        return merge_all<T, Merge::multiply>(divisor, inputs, to, count);
      case Merge::minimum:
        return merge_all<T, Merge::minimum>(divisor, inputs, to, count);
      case Merge::maximum:
        return merge_all<T, Merge::maximum>(divisor, inputs, to, count);
    }
  });
}

bool can_merge(DType dtype) {
  return is_plain(dtype) && [&]<DType... Ds>(Types<Ds...>) { return ((dtype == Ds) || ...); }(Mergeable{});
}

}  // namespace thalweg::net
