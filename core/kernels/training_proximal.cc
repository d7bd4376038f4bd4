// Steps that end in a proximal map: small weights become exactly zero (L1), all are drawn to zero (L2).
#include "compute/training/training.h"

namespace thalweg {
namespace {

template <typename C>
inline C proximal(C x, C rate, C l1, C l2) {
  return training::shrink(x, rate * l1) / (C(1) + rate * l2);
}

template <typename C>
struct ProximalGradientDescent {
  static constexpr int variables = 1, gradient = 4;
  static constexpr const char* scalars[] = {"alpha", "l1", "l2"};
  ProximalGradientDescent(const C* s, const training::Flags&) : alpha(s[0]), l1(std::max(s[1], C(0))), l2(s[2]) {}
  void operator()(C* x, C g) const { x[0] = proximal(x[0] - g * alpha, alpha, l1, l2); }
  C alpha, l1, l2;
};

template <typename C>
struct ProximalAdagrad {
  static constexpr int variables = 2, gradient = 5;
  static constexpr const char* scalars[] = {"lr", "l1", "l2"};
  ProximalAdagrad(const C* s, const training::Flags&) : lr(s[0]), l1(std::max(s[1], C(0))), l2(s[2]) {}
  void operator()(C* x, C g) const {
    x[1] += g * g;
    C rate = lr / std::sqrt(x[1]);
    x[0] = proximal(x[0] - g * rate, rate, l1, l2);
  }
  C lr, l1, l2;
};

REGISTER_TRAINING("ProximalGradientDescent", ProximalGradientDescent);
REGISTER_SPARSE_TRAINING("ProximalGradientDescent", ProximalGradientDescent);
REGISTER_TRAINING("ProximalAdagrad", ProximalAdagrad);
REGISTER_SPARSE_TRAINING("ProximalAdagrad", ProximalAdagrad);

}  // namespace
}  // namespace thalweg
