// Element types: TensorFlow's DataType numbers, the C++ type behind each, and dispatch from one to the other.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "error.h"

namespace thalweg {

enum class DType : uint8_t {
  invalid = 0,
  float32 = 1,
  float64 = 2,
  int32 = 3,
  uint8 = 4,
  int16 = 5,
  int8 = 6,
  string = 7,
  complex64 = 8,
  int64 = 9,
  boolean = 10,
  qint8 = 11,
  quint8 = 12,
  qint32 = 13,
  bfloat16 = 14,
  qint16 = 15,
  quint16 = 16,
  uint16 = 17,
  complex128 = 18,
  float16 = 19,
  resource = 20,
  variant = 21,
  uint32 = 22,
  uint64 = 23,
};

// IEEE half precision. Arithmetic happens in float; every operation rounds once.
struct half {
  _Float16 value;
  half() = default;
  half(float x) : value(static_cast<_Float16>(x)) {}  // NOLINT: implicit, as between built-in number types
  operator float() const { return static_cast<float>(value); }
};

// The upper 16 bits of a float, rounded to nearest even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  bfloat16(float x) {  // NOLINT: implicit, as between built-in number types
    uint32_t u = __builtin_bit_cast(uint32_t, x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((u >> 16) | 0x40);
    else
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

template <typename T>
inline constexpr bool is_complex = std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;
template <typename T>
inline constexpr bool is_reduced_float = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <typename T>
inline constexpr bool is_real_float = std::is_floating_point_v<T> || is_reduced_float<T>;

template <DType D>
struct CppType;
template <typename T>
struct DTypeOf;

#define THALWEG_MAP_TYPE(D, T) \
  template <>                  \
  struct CppType<D> {          \
    using type = T;            \
  };
#define THALWEG_TYPE(D, T)            \
  THALWEG_MAP_TYPE(D, T)              \
  template <>                         \
  struct DTypeOf<T> {                 \
    static constexpr DType value = D; \
  };
THALWEG_TYPE(DType::float32, float)
THALWEG_TYPE(DType::float64, double)
THALWEG_TYPE(DType::int32, int32_t)
THALWEG_TYPE(DType::uint8, uint8_t)
THALWEG_TYPE(DType::int16, int16_t)
THALWEG_TYPE(DType::int8, int8_t)
THALWEG_TYPE(DType::string, std::string)
THALWEG_TYPE(DType::complex64, complex64)
THALWEG_TYPE(DType::int64, int64_t)
THALWEG_TYPE(DType::boolean, bool)
THALWEG_TYPE(DType::bfloat16, bfloat16)
THALWEG_TYPE(DType::uint16, uint16_t)
THALWEG_TYPE(DType::complex128, complex128)
THALWEG_TYPE(DType::float16, half)
THALWEG_TYPE(DType::uint32, uint32_t)
THALWEG_TYPE(DType::uint64, uint64_t)
// Quantized types are stored as the plain integers of their width.
THALWEG_MAP_TYPE(DType::qint8, int8_t)
THALWEG_MAP_TYPE(DType::quint8, uint8_t)
THALWEG_MAP_TYPE(DType::qint16, int16_t)
THALWEG_MAP_TYPE(DType::quint16, uint16_t)
THALWEG_MAP_TYPE(DType::qint32, int32_t)
#undef THALWEG_TYPE
#undef THALWEG_MAP_TYPE

template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Bytes per element; 0 for a type this core does not store.
size_t size_of(DType dtype);
// TensorFlow's name of the type, as in "float32".
const char* name_of(DType dtype);
// Whether elements are plain bytes that memcpy may copy.
inline bool is_plain(DType dtype) {
  return dtype != DType::string && dtype != DType::resource && dtype != DType::variant;
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

// A compile-time list of element types, for dispatch and for kernel registrations.
template <DType... Ds>
struct Types {};

template <typename A, typename B>
struct ConcatTypes;
template <DType... As, DType... Bs>
struct ConcatTypes<Types<As...>, Types<Bs...>> {
  using type = Types<As..., Bs...>;
};
template <typename A, typename B>
using Join = typename ConcatTypes<A, B>::type;

using WideFloats = Types<DType::float32, DType::float64>;
using Floats = Join<WideFloats, Types<DType::float16, DType::bfloat16>>;
using SignedInts = Types<DType::int8, DType::int16, DType::int32, DType::int64>;
using UnsignedInts = Types<DType::uint8, DType::uint16, DType::uint32, DType::uint64>;
using Ints = Join<SignedInts, UnsignedInts>;
using Reals = Join<Floats, Ints>;
using Complexes = Types<DType::complex64, DType::complex128>;
using Numbers = Join<Reals, Complexes>;
using NumbersAndBool = Join<Numbers, Types<DType::boolean>>;
using Quantized = Types<DType::qint8, DType::quint8, DType::qint16, DType::quint16, DType::qint32>;
using Indices = Types<DType::int32, DType::int64>;

// Calls f.template operator()<T>() with the C++ type of `dtype`, which must be in the list.
template <DType... Ds, typename F>
inline void dispatch(DType dtype, Types<Ds...>, F&& f) {
  bool found = ((dtype == Ds ? (f.template operator()<typename CppType<Ds>::type>(), true) : false) || ...);
  if (!found) fail(Code::unimplemented, "this kernel does not handle elements of type ", dtype);
}

}  // namespace thalweg
