// Recorded<T>: stands for a number of type T whose arithmetic is recorded instead of carried out.
//
// A function template over the number's type (compute/elementwise/vector_math.h, functors.h) computes with float, and
// with Recorded<float> it writes down its own instructions: one definition, the same bits. It must do without branches
// on values: `select(truth, a, b)` in the place of `truth ? a : b`. Comparisons give bool, or Recorded<bool>.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "code/recording.h"

namespace thalweg::code {

template <typename T>
inline constexpr Lane lane_of = std::is_same_v<T, float>     ? Lane::float32
                                : std::is_same_v<T, double>  ? Lane::float64
                                : std::is_same_v<T, int64_t> ? Lane::int64
                                : std::is_same_v<T, bool>    ? Lane::truth
                                                             : Lane::int32;

template <typename T>
struct Recorded {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> ||
                std::is_same_v<T, int64_t> || std::is_same_v<T, bool>);
  int value;

  static Recorded of(int value) {
    Recorded result;
    result.value = value;
    return result;
  }
  template <typename U>
    requires std::is_arithmetic_v<U>
  Recorded(U constant) : value(Recording::current().constant(lane_of<T>, bits_of(static_cast<T>(constant)))) {}

 private:
  Recorded() = default;
  static uint64_t bits_of(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return x ? ~uint64_t{0} : 0;
    else if constexpr (sizeof(T) == 8)
      return std::bit_cast<uint64_t>(x);
    else
      return std::bit_cast<uint32_t>(x);
  }
};

template <typename T>
struct PlainOf {
  using type = T;
};
template <typename T>
struct PlainOf<Recorded<T>> {
  using type = T;
};
// The type of number that a type stands for: float for float and for Recorded<float>.
template <typename T>
using Plain = typename PlainOf<T>::type;
template <typename T>
inline constexpr bool is_recorded = !std::is_same_v<Plain<T>, T>;

// The types of numbers that a function template can be recorded for.
using RecordedTypes = int;
namespace recorded_types {
constexpr RecordedTypes kUnrecorded = 0, kFloat32 = 1, kFloat64 = 2, kInts = 4, kTruth = 8;
constexpr RecordedTypes kFloats = kFloat32 | kFloat64, kNumbers = kFloats | kInts, kNumbersAndTruth = kNumbers | kTruth;
}  // namespace recorded_types

template <typename T>
Recorded<T> record(Opcode op, Recorded<T> a, int b = kNone, int c = kNone, int64_t immediate = 0) {
  return Recorded<T>::of(Recording::current().add({op, lane_of<T>, a.value, b, c, immediate}));
}

// Operators; a literal on either side becomes a constant.
#define THALWEG_RECORDED(symbol, opcode)                                            \
  template <typename T>                                                             \
  Recorded<T> operator symbol(Recorded<T> a, std::type_identity_t<Recorded<T>> b) { \
    return record(Opcode::opcode, a, b.value);                                      \
  }                                                                                 \
  template <typename T, typename U>                                                 \
    requires std::is_arithmetic_v<U>                                                \
  Recorded<T> operator symbol(U a, Recorded<T> b) {                                 \
    return Recorded<T>(a) symbol b;                                                 \
  }
THALWEG_RECORDED(+, add)
THALWEG_RECORDED(-, sub)
THALWEG_RECORDED(*, mul)
THALWEG_RECORDED(/, div)
THALWEG_RECORDED(&, bit_and)
THALWEG_RECORDED(|, bit_or)
THALWEG_RECORDED(^, bit_xor)
#undef THALWEG_RECORDED
#define THALWEG_RECORDED(symbol, relation)                                                           \
  template <typename T>                                                                              \
  Recorded<bool> operator symbol(Recorded<T> a, std::type_identity_t<Recorded<T>> b) {               \
    return Recorded<bool>::of(Recording::current().compare(relation, lane_of<T>, a.value, b.value)); \
  }
THALWEG_RECORDED(<, kLess)
THALWEG_RECORDED(<=, kLessEqual)
THALWEG_RECORDED(>, kGreater)
THALWEG_RECORDED(>=, kGreaterEqual)
THALWEG_RECORDED(==, kEqual)
THALWEG_RECORDED(!=, kNotEqual)
#undef THALWEG_RECORDED
inline Recorded<bool> operator!(Recorded<bool> a) { return a ^ true; }

template <typename T>
Recorded<T> operator-(Recorded<T> x) {
  if constexpr (std::is_same_v<T, float>)
    return Recorded<T>::of((Recorded<int32_t>::of(x.value) ^ INT32_MIN).value);
  else if constexpr (std::is_same_v<T, double>)
    return Recorded<T>::of((Recorded<int64_t>::of(x.value) ^ INT64_MIN).value);
  else
    return T(0) - x;
}
// The integers as wide as a float.
template <typename T>
using SameWidth = std::conditional_t<std::is_same_v<T, float>, int32_t, int64_t>;

template <typename T>
Recorded<T> select(Recorded<bool> truth, Recorded<T> a, std::type_identity_t<Recorded<T>> b) {
  return Recorded<T>::of(Recording::current().select(lane_of<T>, truth.value, a.value, b.value));
}
template <typename T>
Recorded<T> fabs(Recorded<T> x) {
  using Bits = SameWidth<T>;
  return Recorded<T>::of((Recorded<Bits>::of(x.value) & std::numeric_limits<Bits>::max()).value);
}
template <typename T>
Recorded<T> copysign(Recorded<T> x, Recorded<T> sign) {
  using Bits = SameWidth<T>;
  return Recorded<T>::of(
      (Recorded<Bits>::of(fabs(x).value) | (Recorded<Bits>::of(sign.value) & std::numeric_limits<Bits>::min())).value);
}
template <typename T>
Recorded<T> sqrt(Recorded<T> x) {
  return record(Opcode::sqrt, x);
}
template <typename T>
Recorded<T> floor(Recorded<T> x) {
  return record(Opcode::round, x, kNone, kNone, kDown);
}
template <typename T>
Recorded<T> ceil(Recorded<T> x) {
  return record(Opcode::round, x, kNone, kNone, kUp);
}
template <typename T>
Recorded<T> trunc(Recorded<T> x) {
  return record(Opcode::round, x, kNone, kNone, kToZero);
}
template <typename T>
Recorded<T> nearbyint(Recorded<T> x) {
  return record(Opcode::round, x, kNone, kNone, kToEven);
}

}  // namespace thalweg::code
