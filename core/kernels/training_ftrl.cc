// FTRL-Proximal: the variable follows from a linear term and a sum of squares, with exact zeros below the L1 threshold.
#include "compute/training/training.h"

namespace thalweg {
namespace {

// `Power` raises the sum of squares to -lr_power; the usual power, a square root, vectorizes.
template <typename C>
struct SquareRoot {
  C operator()(C x) const { return std::sqrt(x); }
};
template <typename C>
struct AnyPower {
  C operator()(C x) const { return std::pow(x, exponent); }
  C exponent;
};

template <typename C, typename Power>
struct FtrlStep {
  void operator()(C* x, C g) const {
    C sum = x[1] + g * g;
    C root = power(sum), shrunk = g + twice_shrinkage * x[0];
    x[2] += shrunk * linear_rate - (root - power(x[1])) * inverse_rate * x[0];
    x[0] = -training::shrink(x[2], threshold) / (root * inverse_rate + twice_l2);
    x[1] = sum;
  }
  // With multiply_linear_by_lr everything is multiplied by the rate, which then may be zero.
  C linear_rate, inverse_rate, threshold, twice_l2, twice_shrinkage;
  Power power;
};

template <typename C, bool with_shrinkage>
struct FtrlRule {
  FtrlRule(const C* s, const training::Flags& flags) : lr_power(s[with_shrinkage ? 4 : 3]) {
    C lr = s[0], l1 = s[1], l2 = s[2], shrinkage = with_shrinkage ? s[3] : C(0);
    bool multiplied = flags.multiply_linear_by_lr;
    require(lr > C(0) || (multiplied && lr == C(0)), "lr is not a positive scalar: ", lr);
    require(l1 >= C(0), "l1 regularization strength is not a non-negative scalar: ", l1);
    require(l2 >= C(0), "l2 regularization strength is not a non-negative scalar: ", l2);
    require(shrinkage >= C(0), "l2 shrinkage regularization strength is not a non-negative scalar: ", shrinkage);
    require(lr_power <= C(0), "lr_power is not a non-positive scalar: ", lr_power);
    linear_rate = multiplied ? lr : C(1);
    inverse_rate = multiplied ? C(1) : C(1) / lr;
    threshold = multiplied ? l1 * lr : l1;
    twice_l2 = multiplied ? C(2) * l2 * lr : C(2) * l2;
    twice_shrinkage = C(2) * shrinkage;
  }
  template <typename Body>
  void specialize(const Body& body) const {
    if (lr_power == C(-0.5))
      body(FtrlStep<C, SquareRoot<C>>{linear_rate, inverse_rate, threshold, twice_l2, twice_shrinkage, {}});
    else
      body(FtrlStep<C, AnyPower<C>>{linear_rate, inverse_rate, threshold, twice_l2, twice_shrinkage, {-lr_power}});
  }
  C lr_power, linear_rate, inverse_rate, threshold, twice_l2, twice_shrinkage;
};

template <typename C>
struct Ftrl : FtrlRule<C, false> {
  static constexpr int variables = 3, gradient = 3;
  static constexpr const char* scalars[] = {"lr", "l1", "l2", "lr_power"};
  using FtrlRule<C, false>::FtrlRule;
};
template <typename C>
struct FtrlWithShrinkage : FtrlRule<C, true> {
  static constexpr int variables = 3, gradient = 3;
  static constexpr const char* scalars[] = {"lr", "l1", "l2", "l2_shrinkage", "lr_power"};
  using FtrlRule<C, true>::FtrlRule;
};

REGISTER_TRAINING("Ftrl", Ftrl);
REGISTER_SPARSE_TRAINING("Ftrl", Ftrl);
REGISTER_TRAINING("FtrlV2", FtrlWithShrinkage);
REGISTER_SPARSE_TRAINING("FtrlV2", FtrlWithShrinkage);

}  // namespace
}  // namespace thalweg
