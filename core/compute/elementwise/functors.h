// The functors of element-wise arithmetic and of the activation functions, for kernels of one op and for fused chains.
//
// Integers wrap around: their arithmetic is done without sign, where overflow is defined.
//
// One file of more than 500 lines: kernels, fused chains and compiled loops take all functors from one place.
//
// A functor that declares `recorded` can also be applied to Recorded numbers (code/recorded.h) of these types: fused
// chains and loops are compiled from the functors themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <type_traits>

#include "compute/elementwise/vector_math.h"
#include "compute/elementwise/vector_math_double.h"
#include "compute/elementwise/vector_math_inverse.h"
#include "compute/elementwise/vector_math_special.h"
#include "compute/elementwise/vector_math_trigonometric.h"
#include "tensor/tensor.h"

namespace thalweg::functors {

using namespace code::recorded_types;
using code::is_recorded, code::Plain, code::RecordedTypes;
using std::ceil, std::fabs, std::floor, std::nearbyint, std::sqrt, std::trunc;
using vector_math::select;

template <typename T>
inline constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
// The type that integers are computed in: no narrower than unsigned, so that nothing is promoted to a signed type.
template <typename T>
using Wrap = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

#define THALWEG_BINARY(Name, types, expression)      \
  struct Name {                                      \
    static constexpr RecordedTypes recorded = types; \
    template <typename T>                            \
    static T apply(T a, T b) {                       \
      expression                                     \
    }                                                \
  };
#define THALWEG_UNARY(Name, types, expression)       \
  struct Name {                                      \
    static constexpr RecordedTypes recorded = types; \
    template <typename T>                            \
    static T apply(T x) {                            \
      expression                                     \
    }                                                \
  };

struct Add {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
    return a + b;
  }
};
struct Sub {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
    return a - b;
  }
};
struct Mul {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) {
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
    } else if constexpr (is_complex<T>) {
      // The plain formula: the standard's repairs infinities at many times the cost.
      return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    } else {
      return a * b;
    }
  }
};
struct Neg {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T x) {
    if constexpr (is_integer<T>) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(x));
    return -x;
  }
};
struct Square {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T x) {
    return Mul::apply(x, x);
  }
};
struct SquaredDifference {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T a, T b) {
    T d = Sub::apply(a, b);
    if constexpr (is_complex<T>) return T(std::norm(d));
    return Square::apply(d);
  }
};
THALWEG_BINARY(MulNoNan, kFloats, return select(b == T(0), T(0), Mul::apply(a, b));)

THALWEG_BINARY(RealDiv, kFloats, return a / b;)
THALWEG_BINARY(DivNoNan, kFloats, return select(b == T(0), T(0), a / b);)

// Integer division refuses a divisor of zero before the loop starts; the loop itself survives the one quotient that
// overflows.
struct CheckDivisor {
  template <typename T>
  static void check(const Tensor& a, const Tensor& b) {
    if constexpr (is_integer<T>) {
      if (a.num_elements() == 0) return;
      const T* divisor = b.flat<T>();
      bool zero = false;
      for (int64_t i = 0, n = b.num_elements(); i < n; ++i) zero |= divisor[i] == 0;
      require(!zero, "Integer division by zero");
    }
  }
};
template <typename T>
inline bool overflows(T a, T b) {
  if constexpr (std::is_signed_v<T>) return b == T(-1) && a == std::numeric_limits<T>::min();
  return false;
}
// Whether both are below 2**32 and not negative: dividing these takes a fraction of the time of others with 64 bits.
template <typename T>
inline bool is_short_division(T a, T b) {
  if constexpr (sizeof(T) == 8) return ((static_cast<uint64_t>(a) | static_cast<uint64_t>(b)) >> 32) == 0;
  return false;
}
struct TruncateDiv : CheckDivisor {
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_recorded<T> && is_integer<Plain<T>>)
      return record(code::Opcode::quotient, a, b.value, code::kNone, code::kTruncated);
    else if constexpr (is_integer<T>)
      return overflows(a, b) ? a : static_cast<T>(a / b);
    else if constexpr (std::is_floating_point_v<Plain<T>>)
      return trunc(a / b);
    else
      return a / b;
  }
};
struct FloorDiv : CheckDivisor {
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_recorded<T> && is_integer<Plain<T>>)
      return record(code::Opcode::quotient, a, b.value, code::kNone, code::kFloored);
    else if constexpr (is_integer<T>) {
      if (is_short_division(a, b)) return static_cast<T>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b));
      if (overflows(a, b)) return a;
      T quotient = static_cast<T>(a / b);
      return static_cast<T>(quotient - ((a % b != 0) & ((a < 0) != (b < 0))));
    } else if constexpr (std::is_floating_point_v<Plain<T>>) {
      return floor(a / b);
    } else {
      return a / b;
    }
  }
};
struct TruncateMod : CheckDivisor {
  static constexpr RecordedTypes recorded = kInts;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_recorded<T> && is_integer<Plain<T>>)
      return record(code::Opcode::remainder, a, b.value, code::kNone, code::kTruncated);
    else if constexpr (is_integer<T>)
      return overflows(a, b) ? T(0) : static_cast<T>(a % b);
    else
      return std::fmod(a, b);
  }
};
struct FloorMod : CheckDivisor {
  static constexpr RecordedTypes recorded = kInts;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_recorded<T> && is_integer<Plain<T>>)
      return record(code::Opcode::remainder, a, b.value, code::kNone, code::kFloored);
    else if constexpr (is_integer<T>) {
      if (is_short_division(a, b)) return static_cast<T>(static_cast<uint32_t>(a) % static_cast<uint32_t>(b));
      if (overflows(a, b)) return T(0);
      T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      T rest = std::fmod(a, b);
      return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
    }
  }
};

struct Pow {
  template <typename T>
  static void check(const Tensor&, const Tensor& b) {
    if constexpr (is_integer<T> && std::is_signed_v<T>) {
      const T* exponent = b.flat<T>();
      bool negative = false;
      for (int64_t i = 0, n = b.num_elements(); i < n; ++i) negative |= exponent[i] < 0;
      require(!negative, "Integers to negative integer powers are not allowed");
    }
  }
  // Rows of float go block by block: the vector form if all bases are positive and everything is finite.
  static void row(const float* a, int64_t stride_a, const float* b, int64_t stride_b, float* out, int64_t n) {
    if (stride_a == stride_b) return blocks<1, 1>(a, b, out, n);
    stride_a == 0 ? blocks<0, 1>(a, b, out, n) : blocks<1, 0>(a, b, out, n);
  }
  template <int kStrideA, int kStrideB>
  static void blocks(const float* a, const float* b, float* out, int64_t n) {
    constexpr float largest = std::numeric_limits<float>::max();
    const float x = *a, y = *b;  // Where the stride is 0; `out` may be the other operand.
    for (int64_t begin = 0; begin < n; begin += 1024) {
      int64_t end = std::min<int64_t>(n, begin + 1024);
      bool plain = true;
      for (int64_t i = begin; i < end; ++i) {
        float base = kStrideA ? a[i] : x, exponent = kStrideB ? b[i] : y;
        plain &= (base > 0.0f) & (base <= largest) & (std::fabs(exponent) <= largest);
      }
      if (plain) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i)
          out[i] = vector_math::pow_positive(kStrideA ? a[i] : x, kStrideB ? b[i] : y);
      } else {
        for (int64_t i = begin; i < end; ++i) out[i] = std::pow(kStrideA ? a[i] : x, kStrideB ? b[i] : y);
      }
    }
  }
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) {
      Wrap<T> result = 1, base = static_cast<Wrap<T>>(a);
      for (auto left = static_cast<Wrap<T>>(b); left != 0; left >>= 1) {
        if (left & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    } else if constexpr (is_complex<T>) {
      // The standard's form goes through log(0), which is NaN for an exponent of zero.
      if (b == T(0)) return T(1);
      return a == T(0) && b.real() > 0 ? T(0) : std::pow(a, b);
    } else {
      return std::pow(a, b);
    }
  }
};

// NaN in either operand is the result.
THALWEG_BINARY(Maximum, kNumbers,
               if constexpr (std::is_floating_point_v<Plain<T>>) return select((a > b) | (a != a), a, b);
               return select(a > b, a, b);)
THALWEG_BINARY(Minimum, kNumbers,
               if constexpr (std::is_floating_point_v<Plain<T>>) return select((a < b) | (a != a), a, b);
               return select(a < b, a, b);)

struct Atan2 {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T a, T b) {
    return vector_math::atan2(a, b);
  }
};
THALWEG_BINARY(NextAfter, kUnrecorded, return std::nextafter(a, b);)

// --- Functions of one argument ---------------------------------------------------------------------------------------

// Float and double take the vector form, everything else the standard library's.
#define THALWEG_FUNCTION(Name, function, types)         \
  struct Name {                                         \
    static constexpr RecordedTypes recorded = types;    \
    template <typename T>                               \
    THALWEG_VECTOR static T apply(T x) {                \
      if constexpr (std::is_floating_point_v<Plain<T>>) \
        return vector_math::function(x);                \
      else                                              \
        return std::function(x);                        \
    }                                                   \
  };
#define THALWEG_TRIGONOMETRIC(Name, function)                   \
  struct Name {                                                 \
    static constexpr RecordedTypes recorded = kFloats;          \
    template <std::floating_point T>                            \
    static constexpr T near_limit = vector_math::kTrigLimit<T>; \
    template <std::floating_point T>                            \
    static T far(T x) {                                         \
      return std::function(x);                                  \
    }                                                           \
    template <std::floating_point T>                            \
    THALWEG_VECTOR static bool is_near(T x) {                   \
      return !(std::fabs(x) > near_limit<T>);                   \
    }                                                           \
    template <typename T>                                       \
    THALWEG_VECTOR static T apply(T x) {                        \
      if constexpr (std::is_floating_point_v<Plain<T>>)         \
        return vector_math::function(x);                        \
      else                                                      \
        return std::function(x);                                \
    }                                                           \
  };
THALWEG_FUNCTION(Exp, exp, kFloats)
THALWEG_FUNCTION(Log, log, kFloats)
THALWEG_FUNCTION(Tanh, tanh, kFloats)
THALWEG_FUNCTION(Erf, erf, kFloats)
THALWEG_TRIGONOMETRIC(Sin, sin)
THALWEG_TRIGONOMETRIC(Cos, cos)
THALWEG_TRIGONOMETRIC(Tan, tan)
THALWEG_UNARY(Sqrt, kFloats, return sqrt(x);)
THALWEG_UNARY(Rsqrt, kFloats, return T(1) / sqrt(x);)
THALWEG_FUNCTION(Asin, asin, kFloats)
THALWEG_FUNCTION(Acos, acos, kFloats)
THALWEG_FUNCTION(Atan, atan, kFloats)
THALWEG_FUNCTION(Sinh, sinh, kFloats)
THALWEG_FUNCTION(Cosh, cosh, kFloats)
THALWEG_FUNCTION(Asinh, asinh, kFloats)
THALWEG_FUNCTION(Acosh, acosh, kFloats)
THALWEG_FUNCTION(Atanh, atanh, kFloats)
THALWEG_FUNCTION(Erfc, erfc, kFloats)
THALWEG_UNARY(Ceil, kFloats, return ceil(x);)
THALWEG_UNARY(Floor, kFloats, return floor(x);)
THALWEG_UNARY(Rint, kFloats, return nearbyint(x);)

struct Expm1 {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (std::is_floating_point_v<Plain<T>>)
      return vector_math::expm1(x);
    else if constexpr (is_complex<T>) {
      // e^a cos b - 1 = (e^a - 1) cos b - 2 sin^2(b / 2), without the cancellation near zero.
      auto a = x.real(), b = x.imag();
      auto s = std::sin(b / 2);
      return T(std::expm1(a) * std::cos(b) - 2 * s * s, std::exp(a) * std::sin(b));
    } else
      return std::expm1(x);
  }
};
struct Log1p {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (std::is_floating_point_v<Plain<T>>)
      return vector_math::log1p(x);
    else if constexpr (is_complex<T>) {
      auto a = x.real(), b = x.imag();
      if (std::abs(a) < 0.5 && std::abs(b) < 0.5) return T(std::log1p(a * (2 + a) + b * b) / 2, std::atan2(b, 1 + a));
      return std::log(T(1) + x);
    } else
      return std::log1p(x);
  }
};
struct Sigmoid {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (std::is_floating_point_v<Plain<T>>)
      return vector_math::sigmoid(x);
    else
      return T(1) / (T(1) + std::exp(-x));
  }
};
struct Softplus {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    return vector_math::softplus(x);
  }
};
// A quotient of integers truncates, and of zero is zero.
struct Reciprocal {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  static T apply(T x) {
    if constexpr (is_integer<T>)
      return static_cast<T>(x == 1 ? 1 : x == T(-1) ? T(-1) : 0);
    else
      return T(1) / x;
  }
};
struct Abs {
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T x) {
    if constexpr (is_integer<Plain<T>>)
      return select(x < T(0), Neg::apply(x), x);
    else
      return fabs(x);
  }
};
struct ComplexAbs {
  template <typename T>
  static typename T::value_type apply(T x) {
    return std::abs(x);
  }
};
struct Sign {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  static T apply(T x) {
    if constexpr (is_complex<T>)
      return x == T(0) ? T(0) : x / std::abs(x);
    else if constexpr (std::is_floating_point_v<Plain<T>>)
      return select(x > T(0), T(1), select(x < T(0), T(-1), x));  // Zero, NaN.
    else
      return static_cast<T>((x > 0) - (x < 0));
  }
};
struct Round {
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static T apply(T x) {
    if constexpr (is_complex<T>)
      return T(std::nearbyint(x.real()), std::nearbyint(x.imag()));
    else if constexpr (std::is_floating_point_v<Plain<T>>)
      return nearbyint(x);
    else
      return x;
  }
};
struct IsNan {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  static auto apply(T x) {
    return x != x;
  }
};
struct IsInf {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  static auto apply(T x) {
    return fabs(x) == std::numeric_limits<Plain<T>>::infinity();
  }
};
struct IsFinite {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  static auto apply(T x) {
    return fabs(x) < std::numeric_limits<Plain<T>>::infinity();
  }
};

// --- Gradients in terms of the function's value y (or its argument x) and the incoming gradient ----------------------

template <typename T>
inline T conjugate(T x) {
  if constexpr (is_complex<T>) return std::conj(x);
  return x;
}
// TensorFlow's graphs expect these three to conjugate y, and the two after them not to.
THALWEG_BINARY(SqrtGrad, kFloats, return b * T(0.5) / conjugate(a);)
THALWEG_BINARY(RsqrtGrad, kFloats, T y = conjugate(a); return T(-0.5) * b * (y * y * y);)
THALWEG_BINARY(ReciprocalGrad, kFloats, T y = conjugate(a); return -b * (y * y);)
THALWEG_BINARY(TanhGrad, kFloats, return b * (T(1) - a * a);)
THALWEG_BINARY(SigmoidGrad, kFloats, return b * a * (T(1) - a);)

// x, or zero if it is negative. The sign bit decides: in a step, comparisons take subnormal numbers for zero.
template <typename T>
inline T positive_part(T x) {
  if constexpr (std::is_floating_point_v<Plain<T>>)
    return select((vector_math::signed_bits(x) < 0) & (x == x), T(0), x);
  else
    return select(x < T(0), T(0), x);
}
THALWEG_UNARY(Relu, kNumbers, return positive_part(x);)
THALWEG_BINARY(ReluGrad, kNumbers, return select(b > T(0), a, T(0));)
THALWEG_UNARY(Relu6, kNumbers, return select(x > T(6), T(6), positive_part(x));)
THALWEG_BINARY(Relu6Grad, kNumbers, return select((b > T(0)) & (b < T(6)), a, T(0));)
struct Elu {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    T e = Expm1::apply(x);
    return select(x < T(0), e, x);
  }
};
THALWEG_BINARY(EluGrad, kFloats, return select(b < T(0), a*(b + T(1)), a);)
template <typename T>
inline constexpr T kSeluScale = T(1.0507009873554804934193349852946);
template <typename T>
inline constexpr T kSeluScaleAlpha = T(1.7580993408473768599402175208123);
struct Selu {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    T e = kSeluScaleAlpha<Plain<T>> * Expm1::apply(x);
    return select(x < T(0), e, kSeluScale<Plain<T>> * x);
  }
};
THALWEG_BINARY(SeluGrad, kFloats, return select(b < T(0), a*(b + kSeluScaleAlpha<Plain<T>>), a* kSeluScale<Plain<T>>);)
THALWEG_BINARY(SoftplusGrad, kFloats, return a * Sigmoid::apply(b);)
THALWEG_UNARY(Softsign, kFloats, return x / (T(1) + fabs(x));)
struct SoftsignGrad {
  static constexpr RecordedTypes recorded = kFloats;
  template <typename T>
  static T apply(T a, T b) {
    T d = T(1) + fabs(b);
    return a / (d * d);
  }
};

// --- Products and quotients in which a first factor of zero wins -----------------------------------------------------

THALWEG_BINARY(Xdivy, kFloats, return select(a == T(0), T(0), a / b);)
THALWEG_BINARY(Xlogy, kFloats, return select(a == T(0), T(0), a* Log::apply(b));)
THALWEG_BINARY(Xlog1py, kFloats, return select(a == T(0), T(0), a* Log1p::apply(b));)

// --- Comparisons and bits --------------------------------------------------------------------------------------------

struct Less {
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static auto apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  static constexpr RecordedTypes recorded = kNumbers;
  template <typename T>
  static auto apply(T a, T b) {
    return a <= b;
  }
};
struct Equal {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbersAndTruth;
  template <typename T>
  static auto apply(const T& a, const T& b) {
    return a == b;
  }
};
struct NotEqual {
  static constexpr bool modular = true;
  static constexpr RecordedTypes recorded = kNumbersAndTruth;
  template <typename T>
  static auto apply(const T& a, const T& b) {
    return a != b;
  }
};

#undef THALWEG_BINARY
#undef THALWEG_UNARY
#undef THALWEG_FUNCTION
#undef THALWEG_TRIGONOMETRIC

}  // namespace thalweg::functors
