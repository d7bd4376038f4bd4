// Optimizer steps: one pass over a variable, its slots and its gradient; of all elements, or of the rows in `indices`.
//
// A rule is a class template over the type that it computes in (float16 and bfloat16: float, rounded once per step):
//
//   static constexpr int variables      the variable and its slots: the first inputs of the op
//   static constexpr int gradient       the position of the gradient among the inputs; that of the indices follows it
//   static constexpr const char* scalars[]   the names of the other inputs, in order
//   Rule(const C* scalars, const Flags&)     throws for values that are refused
//   void operator()(C* x, C g) const         one element: x[0] of the variable, x[1], ... of its slots
//   void specialize(body) const              optional: calls body(rule) with a rule that is cheaper in this case
//
// Only the loop over a run of elements is a template, compiled for float and double; it is called through a pointer by
// training.cc, which finds and checks the variables, converts elements of 16 bits, and spreads the work over threads.
//
// The loops are plain, so that they vectorize: a rule has no branches but selections, and calls no function but sqrt.
// Rows that are named several times are updated several times, in order, with any number of threads; where every row is
// updated, no row may be named twice.
#pragma once

#include <array>
#include <cmath>

#include "compute/elementwise/elementwise.h"
#include "embedding/row_layout.h"
#include "kernel/registry.h"
#include "resource/joint_update.h"

namespace thalweg::training {

struct Flags {
  explicit Flags(const Construction& c)
      : use_nesterov(c.attr<bool>("use_nesterov", false)),
        update_slots(c.attr<bool>("update_slots", true)),
        multiply_linear_by_lr(c.attr<bool>("multiply_linear_by_lr", false)) {}
  bool use_nesterov, update_slots, multiply_linear_by_lr;
};

template <typename C>
inline C sign(C x) {
  return x > C(0) ? C(1) : x < C(0) ? C(-1) : C(0);
}
// Pulls x towards zero by `threshold`, and no further. NaN stays NaN.
template <typename C>
inline C shrink(C x, C threshold) {
  C distance = std::abs(x) - threshold;
  return distance <= C(0) ? C(0) : (x < C(0) ? -distance : distance);
}

// The loop of a rule: in[k] and out[k] are n elements of the k-th variable, of the type that the rule computes in.
struct StepLoop {
  const void* rule;
  void (*run)(const void* rule, const void* const* in, void* const* out, const void* gradients, int64_t n);
};

template <typename Rule, int N, typename C>
void step_run(const void* rule, const void* const* from, void* const* to, const void* gradients, int64_t n) {
  const Rule step = *static_cast<const Rule*>(rule);  // A local copy: the stores below cannot change it.
  const C* const g = static_cast<const C*>(gradients);
  [&]<size_t... I>(std::index_sequence<I...>) {
    const std::array<const C*, N> in{static_cast<const C*>(from[I])...};
    const std::array<C*, N> out{static_cast<C*>(to[I])...};
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      C x[N] = {in[I][i]...};
      step(x, g[i]);
      ((out[I][i] = x[I]), ...);
    }
  }(std::make_index_sequence<N>{});
}

// Which elements an op changes: all of them by a gradient of their shape, the rows that the indices name, or all rows,
// where those that no index names have a gradient of zero.
enum class Form { dense, sparse, every_row };

// Which inputs an op has: variables first; the gradient at `gradient`, followed by indices unless it is dense.
struct StepInputs {
  int variables, gradient;
  Form form;
};
// Updates the variables.
void apply_step(Context& ctx, DType dtype, const StepInputs& inputs, const StepLoop& loop);

// The variables behind the first inputs, all of the type that the op works on.
void find_variables(Context& ctx, DType dtype, std::span<Variable*> variables);
// Checks that all values have one shape, and that the gradient has it too, or has it from dimension 1 on and as many
// rows as `indices` (null for a dense update) has elements.
void check_shapes(const JointUpdate& update, std::span<Variable* const> variables, const Tensor& gradient,
                  const Tensor* indices);
double read_scalar(const Tensor& tensor, const char* name);

// The names and first values of an optimizer's slots in the rows of an embedding table, which the op's attributes say.
std::vector<embedding::Slot> slots_of_rows(const Construction& c, int expected);
// Updates the rows of an embedding table that the keys name; inputs: table, gradient at `gradient`, keys behind it.
void apply_rows(Context& ctx, int gradient, std::span<const embedding::Slot> slots, const StepLoop& loop);

// Reads the scalars of a rule and calls apply(rule), specialized if it can be. The op has `variables` handles in front,
// and `behind` inputs belong to the gradient.
template <template <typename> class Rule, typename C, typename Body>
void with_rule(Context& ctx, const Flags& flags, int variables, int behind, const Body& apply) {
  const int gradient = Rule<C>::gradient - Rule<C>::variables + variables;
  std::array<C, std::size(Rule<C>::scalars)> scalars;
  int at = variables;
  for (size_t i = 0; i < scalars.size(); ++i, ++at) {
    if (at == gradient) at += behind;
    scalars[i] = static_cast<C>(read_scalar(ctx.input(at), Rule<C>::scalars[i]));
  }
  const Rule<C> rule(scalars.data(), flags);
  if constexpr (requires { rule.specialize([](const auto&) {}); })
    rule.specialize(apply);
  else
    apply(rule);
}

template <template <typename> class Rule, Form form>
struct Apply : Kernel {
  explicit Apply(const Construction& c) : flags(c), dtype(c.attr<DType>("T")) {}

  void compute(Context& ctx) override {
    if (dtype == DType::float64)
      compute_in<double>(ctx);
    else
      compute_in<float>(ctx);
  }

 private:
  template <typename C>
  void compute_in(Context& ctx) {
    constexpr int kVariables = Rule<C>::variables, kGradient = Rule<C>::gradient;
    with_rule<Rule, C>(ctx, flags, kVariables, form == Form::dense ? 1 : 2, [&]<typename R>(const R& special) {
      apply_step(ctx, dtype, {kVariables, kGradient, form}, {&special, &step_run<R, kVariables, C>});
    });
  }

  Flags flags;
  DType dtype;
};

// The same for rows of an embedding table, which have the slots beside the value: one handle instead of several.
template <template <typename> class Rule>
struct ApplyToTable : Kernel {
  explicit ApplyToTable(const Construction& c) : flags(c), slots(slots_of_rows(c, Rule<float>::variables - 1)) {}

  void compute(Context& ctx) override {
    constexpr int kVariables = Rule<float>::variables, kGradient = Rule<float>::gradient - kVariables + 1;
    with_rule<Rule, float>(ctx, flags, 1, 2, [&]<typename R>(const R& special) {
      apply_rows(ctx, kGradient, slots, {&special, &step_run<R, kVariables, float>});
    });
  }

 private:
  Flags flags;
  std::vector<embedding::Slot> slots;
};

#define REGISTER_TRAINING(Name, Rule)                                                                               \
  REGISTER(kernel("ResourceApply" Name).types("T", Floats{}).make<training::Apply<Rule, training::Form::dense>>()); \
  REGISTER(kernel("EmbeddingTableApply" Name).make<training::ApplyToTable<Rule>>())
#define REGISTER_SPARSE_TRAINING(Name, Rule) \
  REGISTER(                                  \
      kernel("ResourceSparseApply" Name).types("T", Floats{}).make<training::Apply<Rule, training::Form::sparse>>())
#define REGISTER_EVERY_ROW_TRAINING(Name, Rule)            \
  REGISTER(kernel("ResourceSparseApply" Name "OfEveryRow") \
               .types("T", Floats{})                       \
               .make<training::Apply<Rule, training::Form::every_row>>())

}  // namespace thalweg::training
