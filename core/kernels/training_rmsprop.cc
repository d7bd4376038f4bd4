// RMSProp: steps scaled by an average of the squared gradients; centered: by an estimate of their variance.
#include "compute/training/training.h"

namespace thalweg {
namespace {

template <typename C>
struct RMSProp {
  static constexpr int variables = 3, gradient = 7;
  static constexpr const char* scalars[] = {"lr", "rho", "momentum", "epsilon"};
  RMSProp(const C* s, const training::Flags&) : lr(s[0]), rest(C(1) - s[1]), momentum(s[2]), epsilon(s[3]) {}
  void operator()(C* x, C g) const {
    x[1] += (g * g - x[1]) * rest;
    x[2] = x[2] * momentum + g * lr / std::sqrt(x[1] + epsilon);
    x[0] -= x[2];
  }
  C lr, rest, momentum, epsilon;
};

template <typename C>
struct CenteredRMSProp {
  static constexpr int variables = 4, gradient = 8;
  static constexpr const char* scalars[] = {"lr", "rho", "momentum", "epsilon"};
  CenteredRMSProp(const C* s, const training::Flags&) : lr(s[0]), rest(C(1) - s[1]), momentum(s[2]), epsilon(s[3]) {}
  void operator()(C* x, C g) const {
    x[2] += (g * g - x[2]) * rest;
    x[1] += (g - x[1]) * rest;
    x[3] = x[3] * momentum + g * lr / std::sqrt(x[2] - x[1] * x[1] + epsilon);
    x[0] -= x[3];
  }
  C lr, rest, momentum, epsilon;
};

REGISTER_TRAINING("RMSProp", RMSProp);
REGISTER_SPARSE_TRAINING("RMSProp", RMSProp);
REGISTER_TRAINING("CenteredRMSProp", CenteredRMSProp);
REGISTER_SPARSE_TRAINING("CenteredRMSProp", CenteredRMSProp);

}  // namespace
}  // namespace thalweg
