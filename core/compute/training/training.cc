// The base of all optimizer steps: finding and checking variables, and spreading the loop of a rule over their
// elements.
#include "compute/training/training.h"

#include <algorithm>

#include "compute/copies/elements.h"
#include "compute/copies/gather.h"
#include "compute/copies/rows_ahead.h"
#include "embedding/table.h"
#include "tensor/reduced_floats.h"

namespace thalweg::training {

void find_variables(Context& ctx, DType dtype, std::span<Variable*> variables) {
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i] = &ctx.resource<Variable>(static_cast<int>(i));
    require(variables[i]->dtype() == dtype, "variable '", variables[i]->name(), "' has type ", variables[i]->dtype(),
            ", this op works on type ", dtype);
  }
}

void check_shapes(const JointUpdate& update, std::span<Variable* const> variables, const Tensor& gradient,
                  const Tensor* indices) {
  const Shape& shape = update.old_value(0).shape();
  for (size_t i = 1; i < variables.size(); ++i)
    require(update.old_value(i).shape() == shape, "variables '", variables[0]->name(), "' and '", variables[i]->name(),
            "' do not have the same shape: ", shape, " and ", update.old_value(i).shape());
  if (indices == nullptr) {
    require(gradient.shape() == shape, "variable '", variables[0]->name(), "' and its gradient do not have the same ",
            "shape: ", shape, " and ", gradient.shape());
    return;
  }
  require(indices->rank() == 1, "indices must be one-dimensional, got shape ", indices->shape());
  require(shape.rank() >= 1, "variable '", variables[0]->name(), "' must be at least 1 dimensional, got a scalar");
  bool fits = gradient.rank() == shape.rank();
  for (int d = 1; fits && d < shape.rank(); ++d) fits = gradient.dim(d) == shape[d];
  require(fits, "variable '", variables[0]->name(), "' of shape ", shape, " and a sparse gradient of shape ",
          gradient.shape(), " must match from dimension 1 on");
  require(gradient.dim(0) == indices->dim(0),
          "the gradient must be the same size as indices in the first dimension: ", gradient.shape(), " and ",
          indices->shape());
}

double read_scalar(const Tensor& tensor, const char* name) {
  require(tensor.rank() == 0, name, " is not a scalar: it has shape ", tensor.shape());
  double value = 0;
  dispatch(tensor.dtype(), Join<Floats, Types<DType::int64>>{},
           [&]<typename T>() { value = static_cast<double>(*tensor.flat<T>()); });
  return value;
}

std::vector<embedding::Slot> slots_of_rows(const Construction& c, int expected) {
  const auto names = c.attr<std::vector<std::string>>("slots");
  const auto initial = c.attr<std::vector<double>>("slot_initial_values");
  require(static_cast<int>(names.size()) == expected && names.size() == initial.size(), "the rule has ", expected,
          " slots; got ", names.size(), " names and ", initial.size(), " first values");
  std::vector<embedding::Slot> out;
  for (size_t i = 0; i < names.size(); ++i) out.push_back({names[i], static_cast<float>(initial[i])});
  return out;
}

void apply_rows(Context& ctx, int gradient, std::span<const embedding::Slot> slots, const StepLoop& loop) {
  auto& table = ctx.resource<embedding::EmbeddingTable>(0);
  const Tensor &values = ctx.input(gradient), &keys = ctx.input(gradient + 1);
  require(keys.rank() == 1, "keys must be one-dimensional, got shape ", keys.shape());
  require(values.rank() == 2 && values.dim(0) == keys.dim(0) && values.dim(1) == table.options().dim,
          "the gradient of embedding table '", table.name(), "' must have shape ",
          (Shape{keys.dim(0), table.options().dim}), ", got ", values.shape());
  table.apply(keys, values.flat<float>(), slots, {loop.rule, loop.run});
}

namespace {

constexpr size_t kMost = JointUpdate::kMost;

// The elements of the variables of one update, and of its gradient.
struct Run {
  DType dtype;
  size_t variables;
  std::array<const void*, kMost> in;
  std::array<void*, kMost> out;
  const void* gradients;

  // Steps `n` elements from `at` on in the variables, from `from` on in the gradient.
  void step(const StepLoop& loop, int64_t at, int64_t from, int64_t n) const {
    step_by(loop, at, element_at(dtype, gradients, from), n);
  }
  // The same with a gradient of zero.
  void step_by_zero(const StepLoop& loop, int64_t at, int64_t n) const {
    constexpr int64_t kBlock = 2048;
    alignas(64) static constexpr std::array<double, kBlock> kZeros{};
    for (int64_t done = 0; done < n; done += kBlock)
      step_by(loop, at + done, kZeros.data(), std::min(kBlock, n - done));
  }
  // Fetches the elements of a row from `at` on into the cache.
  void fetch(const RowsAhead& ahead, int64_t at) const {
    for (size_t k = 0; k < variables; ++k) ahead.fetch(element_at(dtype, in[k], at));
  }

 private:
  void step_by(const StepLoop& loop, int64_t at, const void* g, int64_t n) const {
    std::array<const void*, kMost> some_in;
    std::array<void*, kMost> some_out;
    for (size_t k = 0; k < variables; ++k) {
      some_in[k] = element_at(dtype, in[k], at);
      some_out[k] = element_at(dtype, out[k], at);
    }
    if (dtype == DType::float16)
      step_reduced<half>(loop, some_in, some_out, g, n);
    else if (dtype == DType::bfloat16)
      step_reduced<bfloat16>(loop, some_in, some_out, g, n);
    else
      loop.run(loop.rule, some_in.data(), some_out.data(), g, n);
  }

  // Elements of 16 bits are widened block by block.
  template <typename T>
  void step_reduced(const StepLoop& loop, const std::array<const void*, kMost>& from,
                    const std::array<void*, kMost>& to, const void* gradients, int64_t n) const {
    constexpr int64_t kBlock = 256;
    alignas(32) float x[kMost][kBlock];
    alignas(32) float g[kBlock];
    std::array<const void*, kMost> wide_in;
    std::array<void*, kMost> wide_out;
    for (size_t k = 0; k < variables; ++k) wide_in[k] = wide_out[k] = x[k];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      widen_row(static_cast<const T*>(gradients) + i, g, m);
      for (size_t k = 0; k < variables; ++k) widen_row(static_cast<const T*>(from[k]) + i, x[k], m);
      loop.run(loop.rule, wide_in.data(), wide_out.data(), g, m);
      for (size_t k = 0; k < variables; ++k) narrow_row(x[k], static_cast<T*>(to[k]) + i, m);
    }
  }
};

// As in scatter.cc, every thread goes through the rows in order, each within columns or rows of its own.
void step_rows(const Run& run, const StepLoop& loop, std::span<const int64_t> offsets, int64_t row, int64_t rows) {
  const int64_t n = static_cast<int64_t>(offsets.size());
  // Columns [begin, end) of the rows that begin in [first, last).
  auto step = [&](int64_t begin, int64_t end, int64_t first, int64_t last) {
    const RowsAhead ahead(static_cast<size_t>(end - begin) * static_cast<size_t>(size_of(run.dtype)), run.variables);
    auto is_own = [&](int64_t i) { return offsets[i] >= first && offsets[i] < last; };
    auto fetch = [&](int64_t i) {
      if (i < n && is_own(i)) run.fetch(ahead, offsets[i] + begin);
    };
    for (int64_t i = 0; i < ahead.rows(); ++i) fetch(i);
    for (int64_t i = 0; i < n; ++i) {
      fetch(i + ahead.rows());
      if (is_own(i)) run.step(loop, offsets[i] + begin, i * row + begin, end - begin);
    }
  };
  if (n * row <= kElementGrain) {
    step(0, row, 0, rows * row);
  } else if (row >= 256) {
    parallel_for(row, std::max<int64_t>(128, kElementGrain / n),
                 [&](int64_t begin, int64_t end) { step(begin, end, 0, rows * row); });
  } else {
    parallel_for(rows, std::max<int64_t>(1, rows / (n * row / kElementGrain + 1)),
                 [&](int64_t begin, int64_t end) { step(0, row, begin * row, end * row); });
  }
}

// Goes through all rows once: no gradient of the size of the variable is made.
void step_every_row(const Run& run, const StepLoop& loop, std::span<const int64_t> offsets, int64_t row, int64_t rows) {
  std::vector<std::pair<int64_t, int64_t>> named;  // where a row is in the variable, and in the gradient
  for (size_t i = 0; i < offsets.size(); ++i) named.emplace_back(offsets[i], static_cast<int64_t>(i) * row);
  std::sort(named.begin(), named.end());
  for (size_t i = 1; row > 0 && i < named.size(); ++i)
    require(named[i].first != named[i - 1].first, "row ", named[i].first / row, " is named twice");
  parallel_for(rows, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, row)), [&](int64_t begin, int64_t end) {
    int64_t at = begin * row;
    for (auto next = std::lower_bound(named.begin(), named.end(), std::pair<int64_t, int64_t>(at, 0));
         next != named.end() && next->first < end * row; ++next) {
      run.step_by_zero(loop, at, next->first - at);
      run.step(loop, next->first, next->second, row);
      at = next->first + row;
    }
    run.step_by_zero(loop, at, end * row - at);
  });
}

}  // namespace

void apply_step(Context& ctx, DType dtype, const StepInputs& inputs, const StepLoop& loop) {
  std::array<Variable*, kMost> found;
  const std::span<Variable*> variables(found.data(), static_cast<size_t>(inputs.variables));
  find_variables(ctx, dtype, variables);
  const Tensor& gradient = ctx.input(inputs.gradient);
  const bool has_rows = inputs.form != Form::dense, in_place = inputs.form == Form::sparse;
  const Tensor* indices = has_rows ? &ctx.input(inputs.gradient + 1) : nullptr;
  JointUpdate update(variables);
  check_shapes(update, variables, gradient, indices);
  const int64_t elements = update.old_value(0).num_elements();
  int64_t rows = 1, row = elements;
  std::vector<int64_t> offsets;
  if (has_rows) {
    rows = update.old_value(0).dim(0);
    row = rows == 0 ? 0 : elements / rows;
    offsets = row_offsets(*indices, rows, row);
  }
  update.prepare(in_place);
  Run run{dtype, variables.size(), {}, {}, gradient.raw()};
  for (size_t i = 0; i < variables.size(); ++i) {
    run.out[i] = update.new_value(i).raw();
    run.in[i] = in_place ? run.out[i] : update.old_value(i).raw();
  }
  if (inputs.form == Form::sparse)
    step_rows(run, loop, offsets, row, rows);
  else if (inputs.form == Form::every_row)
    step_every_row(run, loop, offsets, row, rows);
  else
    parallel_for(elements, kElementGrain,
                 [&](int64_t begin, int64_t end) { run.step(loop, begin, begin, end - begin); });
  update.commit();
}

}  // namespace thalweg::training
