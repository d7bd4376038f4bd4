// Element-wise arithmetic: sums, differences, products, quotients and their relatives.
#include "kernels/elementwise.h"

namespace thalweg {
namespace {

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct RealDiv {
  template <typename T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct Neg {
  template <typename T>
  static T apply(T x) {
    return -x;
  }
};
struct Square {
  template <typename T>
  static T apply(T x) {
    return x * x;
  }
};
struct Tanh {
  template <typename T>
  static T apply(T x) {
    return std::tanh(x);
  }
};

using FloatsAndComplexes = Join<Floats, Complexes>;

REGISTER(kernel("Add").types("T", Numbers{}).make<Binary<Add, Numbers>>());
REGISTER(kernel("AddV2").types("T", Numbers{}).make<Binary<Add, Numbers>>());
REGISTER(kernel("Sub").types("T", Numbers{}).make<Binary<Sub, Numbers>>());
REGISTER(kernel("Mul").types("T", Numbers{}).make<Binary<Mul, Numbers>>());
REGISTER(kernel("RealDiv").types("T", FloatsAndComplexes{}).make<Binary<RealDiv, FloatsAndComplexes>>());
REGISTER(kernel("Neg").types("T", Numbers{}).make<Unary<Neg, Numbers>>());
REGISTER(kernel("Square").types("T", Numbers{}).make<Unary<Square, Numbers>>());
REGISTER(kernel("Tanh").types("T", FloatsAndComplexes{}).make<Unary<Tanh, FloatsAndComplexes>>());

}  // namespace
}  // namespace thalweg
