// Adam and its relatives: an average of the gradients, scaled by an average of their size.
#include "compute/training/training.h"

namespace thalweg {
namespace {

// The rate, corrected for averages that started at zero.
template <typename C>
C corrected_rate(const C* s) {
  return s[2] * std::sqrt(C(1) - s[1]) / (C(1) - s[0]);
}

template <typename C, bool nesterov>
struct AdamStep {
  void operator()(C* x, C g) const {
    x[1] += (g - x[1]) * rest1;
    x[2] += (g * g - x[2]) * rest2;
    C ahead = nesterov ? g * rest1 + x[1] * beta1 : x[1];
    x[0] -= ahead * rate / (std::sqrt(x[2]) + epsilon);
  }
  C rate, beta1, rest1, rest2, epsilon;
};

template <typename C>
struct Adam {
  static constexpr int variables = 3, gradient = 9;
  static constexpr const char* scalars[] = {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"};
  Adam(const C* s, const training::Flags& flags)
      : step{corrected_rate(s), s[3], C(1) - s[3], C(1) - s[4], s[5]}, nesterov(flags.use_nesterov) {}
  template <typename Body>
  void specialize(const Body& body) const {
    if (nesterov)
      body(AdamStep<C, true>{step.rate, step.beta1, step.rest1, step.rest2, step.epsilon});
    else
      body(step);
  }
  AdamStep<C, false> step;
  bool nesterov;
};

template <typename C>
struct Amsgrad {
  static constexpr int variables = 4, gradient = 10;
  static constexpr const char* scalars[] = {"beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"};
  Amsgrad(const C* s, const training::Flags&)
      : rate(corrected_rate(s)), rest1(C(1) - s[3]), rest2(C(1) - s[4]), epsilon(s[5]) {}
  void operator()(C* x, C g) const {
    x[1] += (g - x[1]) * rest1;
    x[2] += (g * g - x[2]) * rest2;
    x[3] = x[3] < x[2] ? x[2] : x[3];
    x[0] -= x[1] * rate / (std::sqrt(x[3]) + epsilon);
  }
  C rate, rest1, rest2, epsilon;
};

template <typename C>
struct AdaMax {
  static constexpr int variables = 3, gradient = 8;
  static constexpr const char* scalars[] = {"beta1_power", "lr", "beta1", "beta2", "epsilon"};
  AdaMax(const C* s, const training::Flags&)
      : rate(s[1] / (C(1) - s[0])), rest1(C(1) - s[2]), beta2(s[3]), epsilon(s[4]) {}
  void operator()(C* x, C g) const {
    x[1] += (g - x[1]) * rest1;
    C decayed = x[2] * beta2, size = std::abs(g);
    x[2] = decayed < size ? size : decayed;
    x[0] -= rate * (x[1] / (x[2] + epsilon));
  }
  C rate, rest1, beta2, epsilon;
};

REGISTER_TRAINING("Adam", Adam);
REGISTER_EVERY_ROW_TRAINING("Adam", Adam);
REGISTER_SPARSE_TRAINING("LazyAdam", Adam);
REGISTER_TRAINING("AdamWithAmsgrad", Amsgrad);
REGISTER_TRAINING("AdaMax", AdaMax);

}  // namespace
}  // namespace thalweg
