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
// The loops are plain, so that they vectorize: a rule has no branches but selections, and calls no function but sqrt.
// Rows that are named several times are updated several times, in order, whatever the number of threads.
#pragma once

#include <array>
#include <cmath>

#include "compute/copies/gather.h"
#include "compute/elementwise/elementwise.h"
#include "kernel/registry.h"
#include "resource/joint_update.h"
#include "tensor/reduced_floats.h"

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

template <size_t N, typename T>
struct Places {
  std::array<const T*, N> in;
  std::array<T*, N> out;
};

template <typename Rule, size_t N, typename C>
inline void step_wide(const Rule& rule, const Places<N, C>& places, int64_t at, const C* gradients, int64_t n) {
  const Rule step = rule;  // A local copy: the stores below cannot change it.
  [&]<size_t... I>(std::index_sequence<I...>) {
    const std::array<const C*, N> in{(places.in[I] + at)...};
    const std::array<C*, N> out{(places.out[I] + at)...};
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      C x[N] = {in[I][i]...};
      step(x, gradients[i]);
      ((out[I][i] = x[I]), ...);
    }
  }(std::make_index_sequence<N>{});
}

// Elements of 16 bits are widened block by block: one loop for all float types, and conversions that vectorize.
template <typename Rule, size_t N, typename T>
inline void step_run(const Rule& rule, const Places<N, T>& places, int64_t at, const T* gradients, int64_t n) {
  if constexpr (!is_reduced_float<T>) {
    step_wide(rule, places, at, gradients, n);
  } else {
    constexpr int64_t kBlock = 256;
    alignas(32) float x[N][kBlock];
    alignas(32) float g[kBlock];
    Places<N, float> wide;
    for (size_t k = 0; k < N; ++k) wide.in[k] = wide.out[k] = x[k];
    for (int64_t i = 0; i < n; i += kBlock) {
      int64_t m = std::min(kBlock, n - i);
      widen_row(gradients + i, g, m);
      for (size_t k = 0; k < N; ++k) widen_row(places.in[k] + at + i, x[k], m);
      step_wide(rule, wide, 0, g, m);
      for (size_t k = 0; k < N; ++k) narrow_row(x[k], places.out[k] + at + i, m);
    }
  }
}

template <typename Rule, size_t N, typename T>
void step_all(const Rule& rule, const Places<N, T>& places, const T* gradients, int64_t n) {
  parallel_for(n, kElementGrain,
               [&](int64_t begin, int64_t end) { step_run(rule, places, begin, gradients + begin, end - begin); });
}

// As in scatter.cc, every thread goes through the rows in order, each within columns or rows of its own.
template <typename Rule, size_t N, typename T>
void step_rows(const Rule& rule, const Places<N, T>& places, const T* gradients, std::span<const int64_t> offsets,
               int64_t row, int64_t rows) {
  int64_t n = static_cast<int64_t>(offsets.size());
  if (n * row <= kElementGrain) {
    for (int64_t i = 0; i < n; ++i) step_run(rule, places, offsets[i], gradients + i * row, row);
  } else if (row >= 256) {
    parallel_for(row, std::max<int64_t>(128, kElementGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i)
        step_run(rule, places, offsets[i] + begin, gradients + i * row + begin, end - begin);
    });
  } else {
    parallel_for(rows, std::max<int64_t>(1, rows / (n * row / kElementGrain + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i)
        if (offsets[i] >= begin * row && offsets[i] < end * row)
          step_run(rule, places, offsets[i], gradients + i * row, row);
    });
  }
}

// The variables behind the first inputs, all of the type that the op works on.
void find_variables(Context& ctx, DType dtype, std::span<Variable*> variables);
// Checks that all values have one shape, and that the gradient has it too, or has it from dimension 1 on and as many
// rows as `indices` (null for a dense update) has elements.
void check_shapes(const JointUpdate& update, std::span<Variable* const> variables, const Tensor& gradient,
                  const Tensor* indices);
double read_scalar(const Tensor& tensor, const char* name);

template <template <typename> class Rule, bool sparse>
struct Apply : Kernel {
  explicit Apply(const Construction& c) : flags(c), dtype(c.attr<DType>("T")) {}

  void compute(Context& ctx) override {
    dispatch(dtype, Floats{}, [&]<typename T>() {
      using C = Compute<T>;
      Rule<C> rule(scalars<C>(ctx).data(), flags);
      if constexpr (requires { rule.specialize([](const auto&) {}); })
        rule.specialize([&](const auto& special) { run<T>(ctx, special); });
      else
        run<T>(ctx, rule);
    });
  }

 private:
  static constexpr size_t kVariables = Rule<float>::variables;
  static constexpr int kGradient = Rule<float>::gradient;

  template <typename C>
  static auto scalars(Context& ctx) {
    std::array<C, std::size(Rule<float>::scalars)> values;
    int at = kVariables;
    for (size_t i = 0; i < values.size(); ++i, ++at) {
      if (at == kGradient) at += sparse ? 2 : 1;
      values[i] = static_cast<C>(read_scalar(ctx.input(at), Rule<float>::scalars[i]));
    }
    return values;
  }

  template <typename T, typename R>
  void run(Context& ctx, const R& rule) {
    std::array<Variable*, kVariables> variables;
    find_variables(ctx, dtype, variables);
    const Tensor& gradient = ctx.input(kGradient);
    const Tensor* indices = sparse ? &ctx.input(kGradient + 1) : nullptr;
    JointUpdate update(variables);
    check_shapes(update, variables, gradient, indices);
    int64_t elements = update.old_value(0).num_elements();
    int64_t rows = 1, row = elements;
    std::vector<int64_t> offsets;
    if (sparse) {
      rows = update.old_value(0).dim(0);
      row = rows == 0 ? 0 : elements / rows;
      offsets = row_offsets(*indices, rows, row);
    }
    update.prepare(sparse);
    Places<kVariables, T> places;
    for (size_t i = 0; i < kVariables; ++i) {
      places.out[i] = update.new_value(i).template flat<T>();
      places.in[i] = sparse ? places.out[i] : update.old_value(i).template flat<T>();
    }
    if constexpr (sparse)
      step_rows(rule, places, gradient.flat<T>(), offsets, row, rows);
    else
      step_all(rule, places, gradient.flat<T>(), elements);
    update.commit();
  }

  Flags flags;
  DType dtype;
};

#define REGISTER_TRAINING(Name, Rule) \
  REGISTER(kernel("ResourceApply" Name).types("T", Floats{}).make<training::Apply<Rule, false>>())
#define REGISTER_SPARSE_TRAINING(Name, Rule) \
  REGISTER(kernel("ResourceSparseApply" Name).types("T", Floats{}).make<training::Apply<Rule, true>>())

}  // namespace thalweg::training
