// Steps along an average of the gradients: Momentum; AddSign and PowerSign, which compare its sign with the gradient's.
#include "compute/training/training.h"

namespace thalweg {
namespace {

template <typename C, bool nesterov>
struct MomentumStep {
  void operator()(C* x, C g) const {
    x[1] = x[1] * momentum + g;
    x[0] -= nesterov ? g * lr + x[1] * momentum * lr : x[1] * lr;
  }
  C lr, momentum;
};

// The average is of the steps, not of the gradients: it keeps its size when the rate changes.
template <typename C, bool nesterov>
struct KerasMomentumStep {
  void operator()(C* x, C g) const {
    x[1] = x[1] * momentum - g * lr;
    x[0] += nesterov ? x[1] * momentum - g * lr : x[1];
  }
  C lr, momentum;
};

template <typename C, template <typename, bool> class Step>
struct MomentumRule {
  static constexpr int variables = 2, gradient = 3;
  static constexpr const char* scalars[] = {"lr", "momentum"};
  MomentumRule(const C* s, const training::Flags& flags) : lr(s[0]), momentum(s[1]), nesterov(flags.use_nesterov) {}
  template <typename Body>
  void specialize(const Body& body) const {
    if (nesterov)
      body(Step<C, true>{lr, momentum});
    else
      body(Step<C, false>{lr, momentum});
  }
  C lr, momentum;
  bool nesterov;
};
template <typename C>
using Momentum = MomentumRule<C, MomentumStep>;
template <typename C>
using KerasMomentum = MomentumRule<C, KerasMomentumStep>;

template <typename C>
struct AddSign {
  static constexpr int variables = 2, gradient = 6;
  static constexpr const char* scalars[] = {"lr", "alpha", "sign_decay", "beta"};
  AddSign(const C* s, const training::Flags&) : lr(s[0]), alpha(s[1]), sign_decay(s[2]), beta(s[3]) {}
  void operator()(C* x, C g) const {
    x[1] = x[1] * beta + g * (C(1) - beta);
    x[0] -= lr * (alpha + sign_decay * training::sign(g) * training::sign(x[1])) * g;
  }
  C lr, alpha, sign_decay, beta;
};

template <typename C>
struct PowerSign {
  static constexpr int variables = 2, gradient = 6;
  static constexpr const char* scalars[] = {"lr", "logbase", "sign_decay", "beta"};
  PowerSign(const C* s, const training::Flags&)
      : lr(s[0]), agree(std::exp(s[1] * s[2])), differ(std::exp(-s[1] * s[2])), beta(s[3]) {}
  void operator()(C* x, C g) const {
    x[1] = x[1] * beta + g * (C(1) - beta);
    C both = training::sign(g) * training::sign(x[1]);
    x[0] -= lr * (both > C(0) ? agree : both < C(0) ? differ : C(1)) * g;
  }
  C lr, agree, differ, beta;
};

REGISTER_TRAINING("Momentum", Momentum);
REGISTER_SPARSE_TRAINING("Momentum", Momentum);
REGISTER_TRAINING("KerasMomentum", KerasMomentum);
REGISTER_SPARSE_TRAINING("KerasMomentum", KerasMomentum);
REGISTER_TRAINING("AddSign", AddSign);
REGISTER_TRAINING("PowerSign", PowerSign);

}  // namespace
}  // namespace thalweg
