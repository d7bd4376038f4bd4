// Adagrad and its relatives: rates that fall with the sum, or the average, of the squared gradients.
#include "compute/training/training.h"

namespace thalweg {
namespace {

template <typename C, bool update, bool with_epsilon>
struct AdagradStep {
  void operator()(C* x, C g) const {
    if constexpr (update) x[1] += g * g;
    x[0] -= g * lr / (with_epsilon ? std::sqrt(x[1]) + epsilon : std::sqrt(x[1]));
  }
  C lr, epsilon;
};

template <typename C, bool with_epsilon>
struct AdagradRule {
  AdagradRule(const C* s, const training::Flags& flags)
      : lr(s[0]), epsilon(with_epsilon ? s[1] : C(0)), update(flags.update_slots) {}
  template <typename Body>
  void specialize(const Body& body) const {
    if (update)
      body(AdagradStep<C, true, with_epsilon>{lr, epsilon});
    else
      body(AdagradStep<C, false, with_epsilon>{lr, epsilon});
  }
  C lr, epsilon;
  bool update;
};

template <typename C>
struct Adagrad : AdagradRule<C, false> {
  static constexpr int variables = 2, gradient = 3;
  static constexpr const char* scalars[] = {"lr"};
  using AdagradRule<C, false>::AdagradRule;
};
template <typename C>
struct AdagradWithEpsilon : AdagradRule<C, true> {
  static constexpr int variables = 2, gradient = 4;
  static constexpr const char* scalars[] = {"lr", "epsilon"};
  using AdagradRule<C, true>::AdagradRule;
};

// The variable follows from the sums of the gradients and of their squares alone: dual averaging.
template <typename C>
struct DualAveraging {
  static constexpr int variables = 3, gradient = 3;
  static constexpr const char* scalars[] = {"lr", "l1", "l2", "global_step"};
  DualAveraging(const C* s, const training::Flags&)
      : lr(s[0]), threshold(s[1] > C(0) ? s[1] * s[3] : C(0)), decay(s[2] * s[3] * s[0]) {}
  void operator()(C* x, C g) const {
    x[1] += g;
    x[2] += g * g;
    x[0] = -lr * training::shrink(x[1], threshold) / (decay + std::sqrt(x[2]));
  }
  C lr, threshold, decay;
};

template <typename C>
struct Adadelta {
  static constexpr int variables = 3, gradient = 6;
  static constexpr const char* scalars[] = {"lr", "rho", "epsilon"};
  Adadelta(const C* s, const training::Flags&) : lr(s[0]), rho(s[1]), rest(C(1) - s[1]), epsilon(s[2]) {}
  void operator()(C* x, C g) const {
    x[1] = x[1] * rho + g * g * rest;
    C step = std::sqrt(x[2] + epsilon) / std::sqrt(x[1] + epsilon) * g;
    x[0] -= step * lr;
    x[2] = x[2] * rho + step * step * rest;
  }
  C lr, rho, rest, epsilon;
};

REGISTER_TRAINING("Adagrad", Adagrad);
REGISTER_SPARSE_TRAINING("Adagrad", Adagrad);
REGISTER_TRAINING("AdagradV2", AdagradWithEpsilon);
REGISTER_SPARSE_TRAINING("AdagradV2", AdagradWithEpsilon);
REGISTER_TRAINING("AdagradDA", DualAveraging);
REGISTER_SPARSE_TRAINING("AdagradDA", DualAveraging);
REGISTER_TRAINING("Adadelta", Adadelta);
REGISTER_SPARSE_TRAINING("Adadelta", Adadelta);

}  // namespace
}  // namespace thalweg
