// Operations on the bits of integers. Shifts beyond the width of the type are limited to it.
#include <bit>

#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

struct And {
  static constexpr bool modular = true;
  static constexpr code::RecordedTypes recorded = code::recorded_types::kInts;
  template <typename T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  static constexpr bool modular = true;
  static constexpr code::RecordedTypes recorded = code::recorded_types::kInts;
  template <typename T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  static constexpr bool modular = true;
  static constexpr code::RecordedTypes recorded = code::recorded_types::kInts;
  template <typename T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
struct Invert {
  static constexpr bool modular = true;
  template <typename T>
  static T apply(T x) {
    return static_cast<T>(~x);
  }
};
template <typename T>
inline int places(T y) {
  constexpr T last = 8 * sizeof(T) - 1;
  return static_cast<int>(y < 0 ? T(0) : y > last ? last : y);
}
struct LeftShift {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << places(y));
  }
};
struct RightShift {
  template <typename T>
  static T apply(T x, T y) {
    return static_cast<T>(x >> places(y));
  }
};
struct PopulationCount {
  static constexpr bool modular = true;
  template <typename T>
  static uint8_t apply(T x) {
    return static_cast<uint8_t>(std::popcount(x));
  }
};

REGISTER(kernel("BitwiseAnd").types("T", Ints{}).make<Binary<And, Ints>>());
REGISTER(kernel("BitwiseOr").types("T", Ints{}).make<Binary<Or, Ints>>());
REGISTER(kernel("BitwiseXor").types("T", Ints{}).make<Binary<Xor, Ints>>());
REGISTER(kernel("Invert").types("T", Ints{}).make<Unary<Invert, Ints>>());
REGISTER(kernel("LeftShift").types("T", Ints{}).make<Binary<LeftShift, Ints>>());
REGISTER(kernel("RightShift").types("T", Ints{}).make<Binary<RightShift, Ints>>());
REGISTER(kernel("PopulationCount").types("T", Ints{}).make<Unary<PopulationCount, Ints>>());

}  // namespace
}  // namespace thalweg
