// Complex numbers: made from parts, taken apart, conjugated.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

struct MakeComplex {
  template <typename T>
  static std::complex<T> apply(T real, T imag) {
    return {real, imag};
  }
};
struct Real {
  template <typename T>
  static typename T::value_type apply(T x) {
    return x.real();
  }
};
struct Imag {
  template <typename T>
  static typename T::value_type apply(T x) {
    return x.imag();
  }
};
struct Angle {
  template <typename T>
  static typename T::value_type apply(T x) {
    return std::arg(x);
  }
};
struct Conj {
  template <typename T>
  static T apply(T x) {
    return std::conj(x);
  }
};

REGISTER(kernel("Complex").types("T", WideFloats{}).make<Binary<MakeComplex, WideFloats>>());
REGISTER(kernel("Real").types("T", Complexes{}).make<Unary<Real, Complexes>>());
REGISTER(kernel("Imag").types("T", Complexes{}).make<Unary<Imag, Complexes>>());
REGISTER(kernel("Angle").types("T", Complexes{}).make<Unary<Angle, Complexes>>());
REGISTER(kernel("Conj").types("T", Complexes{}).make<Unary<Conj, Complexes>>());

}  // namespace
}  // namespace thalweg
