// The functors of element-wise arithmetic and of the activation functions, for kernels of one op and for fused chains.
//
// Integers wrap around: their arithmetic is done without sign, where overflow is defined.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "compute/elementwise/vector_math.h"
#include "compute/elementwise/vector_math_double.h"
#include "compute/elementwise/vector_math_inverse.h"
#include "tensor/tensor.h"

namespace thalweg::functors {

template <typename T>
inline constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
// The type that integers are computed in: no narrower than unsigned, so that nothing is promoted to a signed type.
template <typename T>
using Wrap = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

#define THALWEG_BINARY(Name, expression) \
  struct Name {                          \
    template <typename T>                \
    static T apply(T a, T b) {           \
      expression                         \
    }                                    \
  };
#define THALWEG_UNARY(Name, expression) \
  struct Name {                         \
    template <typename T>               \
    static T apply(T x) {               \
      expression                        \
    }                                   \
  };

struct Add {
  static constexpr bool modular = true;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
    return a + b;
  }
};
struct Sub {
  static constexpr bool modular = true;
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
    return a - b;
  }
};
struct Mul {
  static constexpr bool modular = true;
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
  template <typename T>
  static T apply(T x) {
    if constexpr (is_integer<T>) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(x));
    return -x;
  }
};
struct Square {
  static constexpr bool modular = true;
  template <typename T>
  static T apply(T x) {
    return Mul::apply(x, x);
  }
};
struct SquaredDifference {
  static constexpr bool modular = true;
  template <typename T>
  static T apply(T a, T b) {
    T d = Sub::apply(a, b);
    if constexpr (is_complex<T>) return T(std::norm(d));
    return Square::apply(d);
  }
};
THALWEG_BINARY(MulNoNan, return b == T(0) ? T(0) : Mul::apply(a, b);)

THALWEG_BINARY(RealDiv, return a / b;)
THALWEG_BINARY(DivNoNan, return b == T(0) ? T(0) : a / b;)

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
struct TruncateDiv : CheckDivisor {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>)
      return overflows(a, b) ? a : static_cast<T>(a / b);
    else if constexpr (std::is_floating_point_v<T>)
      return std::trunc(a / b);
    else
      return a / b;
  }
};
struct FloorDiv : CheckDivisor {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) {
      if (overflows(a, b)) return a;
      T quotient = static_cast<T>(a / b);
      return static_cast<T>(quotient - ((a % b != 0) & ((a < 0) != (b < 0))));
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::floor(a / b);
    } else {
      return a / b;
    }
  }
};
struct TruncateMod : CheckDivisor {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>)
      return overflows(a, b) ? T(0) : static_cast<T>(a % b);
    else
      return std::fmod(a, b);
  }
};
struct FloorMod : CheckDivisor {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (is_integer<T>) {
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
THALWEG_BINARY(Maximum, if constexpr (std::is_floating_point_v<T>) return a > b || a != a ? a : b;
               return a > b ? a : b;)
THALWEG_BINARY(Minimum, if constexpr (std::is_floating_point_v<T>) return a < b || a != a ? a : b;
               return a < b ? a : b;)

struct Atan2 {
  template <typename T>
  THALWEG_VECTOR static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>)
      return vector_math::atan2(a, b);
    else
      return std::atan2(a, b);
  }
};
THALWEG_BINARY(NextAfter, return std::nextafter(a, b);)

// --- Functions of one argument ---------------------------------------------------------------------------------------

// Float, or float and double, take the vector form, everything else the standard library's.
#define THALWEG_FUNCTION_OF(Name, function, has_vector_form) \
  struct Name {                                              \
    template <typename T>                                    \
    THALWEG_VECTOR static T apply(T x) {                     \
      if constexpr (has_vector_form)                         \
        return vector_math::function(x);                     \
      else                                                   \
        return std::function(x);                             \
    }                                                        \
  };
#define THALWEG_FLOAT_FUNCTION(Name, function) THALWEG_FUNCTION_OF(Name, function, (std::is_same_v<T, float>))
#define THALWEG_FUNCTION(Name, function) THALWEG_FUNCTION_OF(Name, function, std::is_floating_point_v<T>)
#define THALWEG_TRIGONOMETRIC(Name, function)                    \
  struct Name {                                                  \
    static constexpr float near_limit = vector_math::kTrigLimit; \
    static float far(float x) { return std::function(x); }       \
    template <typename T>                                        \
    THALWEG_VECTOR static T apply(T x) {                         \
      if constexpr (std::is_same_v<T, float>)                    \
        return vector_math::function(x);                         \
      else                                                       \
        return std::function(x);                                 \
    }                                                            \
  };
THALWEG_FUNCTION(Exp, exp)
THALWEG_FUNCTION(Log, log)
THALWEG_FUNCTION(Tanh, tanh)
THALWEG_FLOAT_FUNCTION(Erf, erf)
THALWEG_TRIGONOMETRIC(Sin, sin)
THALWEG_TRIGONOMETRIC(Cos, cos)
THALWEG_TRIGONOMETRIC(Tan, tan)
THALWEG_UNARY(Sqrt, return std::sqrt(x);)
THALWEG_UNARY(Rsqrt, return T(1) / std::sqrt(x);)
THALWEG_FLOAT_FUNCTION(Asin, asin)
THALWEG_FLOAT_FUNCTION(Acos, acos)
THALWEG_FLOAT_FUNCTION(Atan, atan)
THALWEG_FLOAT_FUNCTION(Sinh, sinh)
THALWEG_FLOAT_FUNCTION(Cosh, cosh)
THALWEG_FLOAT_FUNCTION(Asinh, asinh)
THALWEG_FLOAT_FUNCTION(Acosh, acosh)
THALWEG_FLOAT_FUNCTION(Atanh, atanh)
THALWEG_UNARY(Erfc, return std::erfc(x);)
THALWEG_UNARY(Ceil, return std::ceil(x);)
THALWEG_UNARY(Floor, return std::floor(x);)
THALWEG_UNARY(Rint, return std::nearbyint(x);)

struct Expm1 {
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>)
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
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>)
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
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return vector_math::sigmoid(x);
    else
      return T(1) / (T(1) + std::exp(-x));
  }
};
struct Softplus {
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    return vector_math::softplus(x);
  }
};
// A quotient of integers truncates, and of zero is zero.
struct Reciprocal {
  template <typename T>
  static T apply(T x) {
    if constexpr (is_integer<T>)
      return static_cast<T>(x == 1 ? 1 : x == T(-1) ? T(-1) : 0);
    else
      return T(1) / x;
  }
};
struct Abs {
  template <typename T>
  static T apply(T x) {
    if constexpr (is_integer<T>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::fabs(x);
  }
};
struct ComplexAbs {
  template <typename T>
  static typename T::value_type apply(T x) {
    return std::abs(x);
  }
};
struct Sign {
  template <typename T>
  static T apply(T x) {
    if constexpr (is_complex<T>)
      return x == T(0) ? T(0) : x / std::abs(x);
    else if constexpr (std::is_floating_point_v<T>)
      return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // Zero, NaN.
    else
      return static_cast<T>((x > 0) - (x < 0));
  }
};
struct Round {
  template <typename T>
  static T apply(T x) {
    if constexpr (is_complex<T>)
      return T(std::nearbyint(x.real()), std::nearbyint(x.imag()));
    else if constexpr (std::is_floating_point_v<T>)
      return std::nearbyint(x);
    else
      return x;
  }
};
struct IsNan {
  template <typename T>
  static bool apply(T x) {
    return x != x;
  }
};
struct IsInf {
  template <typename T>
  static bool apply(T x) {
    return std::fabs(x) == std::numeric_limits<T>::infinity();
  }
};
struct IsFinite {
  template <typename T>
  static bool apply(T x) {
    return std::fabs(x) < std::numeric_limits<T>::infinity();
  }
};

// --- Gradients in terms of the function's value y (or its argument x) and the incoming gradient ----------------------

template <typename T>
inline T conjugate(T x) {
  if constexpr (is_complex<T>) return std::conj(x);
  return x;
}
// TensorFlow's graphs expect these three to conjugate y, and the two after them not to.
THALWEG_BINARY(SqrtGrad, return b * T(0.5) / conjugate(a);)
THALWEG_BINARY(RsqrtGrad, T y = conjugate(a); return T(-0.5) * b * (y * y * y);)
THALWEG_BINARY(ReciprocalGrad, T y = conjugate(a); return -b * (y * y);)
THALWEG_BINARY(TanhGrad, return b * (T(1) - a * a);)
THALWEG_BINARY(SigmoidGrad, return b * a * (T(1) - a);)

THALWEG_UNARY(Relu, return x < T(0) ? T(0) : x;)
THALWEG_BINARY(ReluGrad, return b > T(0) ? a : T(0);)
THALWEG_UNARY(Relu6, return x < T(0) ? T(0) : x > T(6) ? T(6) : x;)
THALWEG_BINARY(Relu6Grad, return (b > T(0)) & (b < T(6)) ? a : T(0);)
struct Elu {
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    T e = Expm1::apply(x);
    return x < T(0) ? e : x;
  }
};
THALWEG_BINARY(EluGrad, return b < T(0) ? a * (b + T(1)) : a;)
template <typename T>
inline constexpr T kSeluScale = T(1.0507009873554804934193349852946);
template <typename T>
inline constexpr T kSeluScaleAlpha = T(1.7580993408473768599402175208123);
struct Selu {
  template <typename T>
  THALWEG_VECTOR static T apply(T x) {
    T e = kSeluScaleAlpha<T> * Expm1::apply(x);
    return x < T(0) ? e : kSeluScale<T> * x;
  }
};
THALWEG_BINARY(SeluGrad, return b < T(0) ? a * (b + kSeluScaleAlpha<T>) : a * kSeluScale<T>;)
THALWEG_BINARY(SoftplusGrad, return a * Sigmoid::apply(b);)
THALWEG_UNARY(Softsign, return x / (T(1) + std::fabs(x));)
struct SoftsignGrad {
  template <typename T>
  static T apply(T a, T b) {
    T d = T(1) + std::fabs(b);
    return a / (d * d);
  }
};

// --- Products and quotients in which a first factor of zero wins -----------------------------------------------------

THALWEG_BINARY(Xdivy, return a == T(0) ? T(0) : a / b;)
THALWEG_BINARY(Xlogy, return a == T(0) ? T(0) : a * Log::apply(b);)
THALWEG_BINARY(Xlog1py, return a == T(0) ? T(0) : a * Log1p::apply(b);)

// --- Comparisons and bits --------------------------------------------------------------------------------------------

struct Less {
  template <typename T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Equal {
  static constexpr bool modular = true;
  template <typename T>
  static bool apply(const T& a, const T& b) {
    return a == b;
  }
};
struct NotEqual {
  static constexpr bool modular = true;
  template <typename T>
  static bool apply(const T& a, const T& b) {
    return a != b;
  }
};

#undef THALWEG_BINARY
#undef THALWEG_UNARY
#undef THALWEG_FUNCTION
#undef THALWEG_TRIGONOMETRIC

}  // namespace thalweg::functors
