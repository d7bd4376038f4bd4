// _FusedElementwise: several element-wise ops over float32 tensors as one pass over memory.
//
// `ops` are the op types in order; op i reads the values `operands[2i]` and `operands[2i + 1]` (-1: it is unary), where
// the node's inputs come first among the values and the results follow. The last result is the output. The pass that
// makes such nodes (passes/fuse_elementwise.py) sees to it that all ops have loops over rows of float32.
//
// Operands of one shape, and scalars, are computed by machine code made for the chain (elementwise_code.h), or, where
// there is none, block by block: all ops on one block, whose intermediate results stay in the first-level cache, then
// the next block. Operands that are rows or columns of the result are computed in the same way, one row of it after the
// other. Operands that have to be broadcast otherwise are computed op by op. All three give the same bits.
//
// With the attribute `reduction`, an op type, the result is reduced along the axes in the last input, and `keep_dims`.
// Where the last dimension is reduced, each row is computed into the cache and reduced from there.
#include <mutex>

#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/elementwise_code.h"
#include "compute/reduction/reduction.h"
#include "executor/run_node.h"

namespace thalweg {
namespace {

// So short that the processor is still busy with one block's tanh when it already reads the next one's memory, and so
// long that calling the loops does not count: 128 to 256 are a fifth faster than 1024.
constexpr int64_t kBlock = 256;
// Less than this is computed on the stack.
constexpr int64_t kFewElements = 16;
constexpr size_t kFewValues = 64;
// From here on code is made for a chain: it takes some 20 microseconds, once.
constexpr int64_t kWorthCode = 1024;
// Rows of a result with broadcast operands are worth computing one by one from this length on.
constexpr int64_t kWorthRows = 64;

struct FusedElementwise : DivisibleKernel {
  struct Op {
    std::unique_ptr<Kernel> kernel;
    NodeDef def;
    Rows rows;
    int left, right;  // values; right is -1 for a unary op
    int place;        // the block buffer of the result
  };

  explicit FusedElementwise(const Construction& c) : num_inputs(c.num_inputs()) {
    const auto reduction_op = c.attr<std::string>("reduction", {});
    if (!reduction_op.empty()) {
      --num_inputs;
      reduction_def.name = c.def().name;
      reduction_def.op = reduction_op;
      reduction_def.attrs["T"] = DType::float32;
      reduction_def.attrs["keep_dims"] = c.attr<bool>("keep_dims", false);
      reduction_def.input_dtypes = {DType::float32, c.input_dtype(num_inputs)};
      reduction_def.output_dtypes = {DType::float32};
      reduction = Registry::global().create(reduction_def, c.device());
      require(dynamic_cast<ReductionKernel*>(reduction.get()) != nullptr, reduction_op, " is not a reduction");
    }
    const auto names = c.attr<std::vector<std::string>>("ops");
    const auto operands = c.attr<std::vector<int64_t>>("operands");
    const auto origins = c.attr<std::vector<std::string>>("origins", {});
    require(!names.empty() && operands.size() == 2 * names.size() && c.num_outputs() == 1,
            "a fused node needs two operands for each of its ops");
    ops.resize(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      Op& op = ops[i];
      const int64_t values = num_inputs + static_cast<int64_t>(i), left = operands[2 * i], right = operands[2 * i + 1];
      require(left >= 0 && left < values && right >= -1 && right < values, "op ", i,
              " of a fused node reads a value that is not there");
      op.left = static_cast<int>(left);
      op.right = static_cast<int>(right);
      op.def.name = i < origins.size() ? origins[i] : c.def().name;
      op.def.op = names[i];
      op.def.attrs["T"] = DType::float32;
      op.def.input_dtypes.assign(right < 0 ? 1 : 2, DType::float32);
      op.def.output_dtypes = {DType::float32};
      op.kernel = Registry::global().create(op.def, c.device());
      op.rows = Registry::global().rows(names[i]);
      require(right < 0 ? op.rows.unary != nullptr : op.rows.binary != nullptr, names[i], " cannot be fused");
    }
    assign_places();
  }

  // A buffer for each result, taken again after its last use.
  void assign_places() {
    std::vector<int> last(num_inputs + ops.size(), -1), place(num_inputs + ops.size(), -1), free;
    for (size_t i = 0; i < ops.size(); ++i)
      for (int value : {ops[i].left, ops[i].right})
        if (value >= 0) last[value] = static_cast<int>(i);
    for (size_t i = 0; i < ops.size(); ++i) {
      // Taken before the operands' buffers are freed: a loop must not overwrite an operand that it reads at another
      // stride.
      if (free.empty()) free.push_back(num_places++);
      place[num_inputs + i] = ops[i].place = free.back();
      free.pop_back();
      for (int value : {ops[i].left, ops[i].right}) {
        if (value < num_inputs || last[value] != static_cast<int>(i)) continue;
        free.push_back(place[value]);
        last[value] = -1;  // An op may read one value twice.
      }
    }
  }

  // How the result lies: a matrix, of which each operand is the whole (strides: columns, 1), a row (0, 1), a column (1,
  // 0) or a scalar. One row, unless operands are broadcast.
  struct Layout {
    Shape shape;
    int64_t columns = 0;
    std::vector<int64_t> row_strides, strides;  // of the inputs; strides also of the ops' results
  };

  void compute(Context& ctx) override {
    if (!reduction && has_scalars_only(ctx)) return compute_scalar(ctx);
    const std::optional<Layout> layout = find_layout(ctx);
    if (!layout) return compute_in_parts(ctx, nullptr);
    if (reduction) return compute_reduced(ctx, *layout);
    // A block of the output is written after all inputs of the same elements are read, so the output may alias an
    // input.
    for (int i = 0; i < num_inputs; ++i)
      if (ctx.input(i).writable() && ctx.input(i).shape() == layout->shape)
        return in_blocks(ctx, *layout, ctx.forward_or_allocate({i}, 0, layout->shape));
    in_blocks(ctx, *layout, ctx.allocate(0, layout->shape));
  }

  bool has_scalars_only(Context& ctx) const {
    for (int i = 0; i < num_inputs; ++i)
      if (ctx.input(i).rank() != 0) return false;
    return num_inputs + ops.size() <= kFewValues;
  }
  // A chain of scalars takes some ten nanoseconds an op: nothing is allocated but its result.
  [[gnu::hot]] void compute_scalar(Context& ctx) {
    static constexpr int64_t kNoStrides[kFewValues] = {};
    const float* at[kFewValues];
    float memory[kFewValues];
    for (int i = 0; i < num_inputs; ++i) at[i] = ctx.input(i).flat<float>();
    run_block(kNoStrides, 1, ctx.allocate(0, Shape{}).flat<float>(), 1, memory, at);
  }

  // None if operands do not fit, or are broadcast in a way that rows and columns do not show.
  std::optional<Layout> find_layout(Context& ctx) const {
    const Shape* shape = nullptr;
    for (int i = 0; i < num_inputs; ++i) {
      const Shape& s = ctx.input(i).shape();
      if (shape == nullptr || s.num_elements() > shape->num_elements() ||
          (s.num_elements() == shape->num_elements() && s.rank() > shape->rank()))
        shape = &s;
    }
    Layout layout{*shape, shape->num_elements(), std::vector<int64_t>(num_inputs), {}};
    layout.strides.resize(num_inputs + ops.size());
    bool is_flat = true;
    for (int i = 0; i < num_inputs; ++i) {
      const Tensor& t = ctx.input(i);
      layout.strides[i] = shape->num_elements() != 1 && t.shape() == *shape;
      is_flat = is_flat && (t.shape() == *shape || (t.num_elements() == 1 && t.rank() <= shape->rank()));
    }
    if (!is_flat && !find_rows(ctx, layout)) return std::nullopt;
    for (size_t i = 0; i < ops.size(); ++i)
      layout.strides[num_inputs + i] =
          layout.strides[ops[i].left] | (ops[i].right < 0 ? 0 : layout.strides[ops[i].right]);
    return layout;
  }

  // The layout of operands that are rows and columns of the result.
  bool find_rows(Context& ctx, Layout& layout) const {
    Shape& shape = layout.shape;
    for (int i = 0; i < num_inputs; ++i) {
      if (!Broadcast::possible(shape, ctx.input(i).shape())) return false;
      shape = Broadcast(shape, ctx.input(i).shape()).shape();
    }
    const int rank = shape.rank();
    layout.columns = 1;
    for (int first = rank - 1; first > 0; --first) {  // the first dimension of the columns
      layout.columns *= shape[first];
      if (layout.columns < kWorthRows) continue;
      bool fits = true;
      for (int i = 0; i < num_inputs && fits; ++i) {
        const Shape& s = ctx.input(i).shape();
        bool whole_rows = true, whole_columns = true, one_row = true, one_column = true;
        for (int d = 0; d < rank; ++d) {
          const int64_t size = d < rank - s.rank() ? 1 : s[d - (rank - s.rank())];
          (d < first ? whole_rows : whole_columns) &= size == shape[d];
          (d < first ? one_row : one_column) &= size == 1;
        }
        fits = (whole_rows || one_row) && (whole_columns || one_column);
        layout.strides[i] = whole_columns;
        layout.row_strides[i] = one_row ? 0 : whole_columns ? layout.columns : 1;
      }
      if (fits) return true;
    }
    return false;
  }

  // The operands of one run: how they lie, and the code for them.
  struct Run {
    const Layout& layout;
    const ElementwiseCode* code;
  };
  Run prepare(const Layout& layout) {
    const bool is_worth_it = layout.shape.num_elements() >= kWorthCode;
    return {layout, is_worth_it ? code_for(layout.strides) : nullptr};
  }
  // to[0, end - begin) = the elements [begin, end) of the result.
  void run_range(Context& ctx, const Run& run, int64_t begin, int64_t end, float* to) const {
    const Layout& layout = run.layout;
    std::vector<const float*> at(num_inputs + ops.size());
    std::vector<float> scalars;
    std::unique_ptr<float[]> memory;
    while (begin < end) {
      const int64_t row = begin / layout.columns, column = begin - row * layout.columns;
      int64_t count = std::min(end, (row + 1) * layout.columns) - begin;
      begin += count;
      for (int i = 0; i < num_inputs; ++i)
        at[i] = ctx.input(i).flat<float>() + row * layout.row_strides[i] + column * layout.strides[i];
      if (run.code != nullptr) {
        find_scalars(at.data(), layout.strides, scalars);
        const int64_t vectors = count / ElementwiseCode::kWidth * ElementwiseCode::kWidth;
        run.code->run(at.data(), scalars.data(), to, vectors);
        for (int i = 0; i < num_inputs; ++i) at[i] += vectors * layout.strides[i];
        to += vectors;
        count -= vectors;
      }
      if (count > 0 && !memory) memory.reset(new float[num_places * kBlock]);
      while (count > 0) {
        const int64_t some = std::min(kBlock, count);
        run_block(layout.strides.data(), some, to, kBlock, memory.get(), at.data());
        for (int i = 0; i < num_inputs; ++i) at[i] += some * layout.strides[i];
        to += some;
        count -= some;
      }
    }
  }

  void compute_reduced(Context& ctx, const Layout& chain) {
    auto& kernel = static_cast<ReductionKernel&>(*reduction);
    const Shape& shape = chain.shape;
    const ReductionLayout layout(shape, ctx.input(num_inputs), kernel.keep_dims);
    const bool by_rows = layout.inner_reduced && layout.reduced.empty() && layout.kept.size() <= 1;
    if (by_rows && shape.num_elements() >= kWorthCode) {
      const Run run = prepare(chain);
      Tensor& out = ctx.allocate(0, layout.shape);
      const auto produce = [&](int64_t first, int64_t count, float* to) {
        run_range(ctx, run, first, first + count, to);
      };
      return reduce_produced_rows(produce, layout.num_kept, layout.inner, kernel.float_loops(),
                                  kernel.variant_of_finish(), out);
    }
    Tensor middle(DType::float32, shape);
    in_blocks(ctx, chain, middle);
    reduce(ctx, std::move(middle), nullptr);
  }
  void reduce(Context& ctx, Tensor middle, const Part& part) {
    Tensor inputs[2] = {std::move(middle), ctx.input(num_inputs)}, result;
    compute_node({ctx.device(), ctx.step()}, reduction_def, *reduction, inputs, &result, ctx.iteration());
    if (part) part(reduction_def, std::span(inputs, 2), result);
    ctx.set_output(0, std::move(result));
  }

  // Hot, as the loops over rows are: the linker puts them side by side. Far apart, calls of one element take twice as
  // long on some processors, which predict the targets of indirect calls nearby only.
  [[gnu::hot]] void in_blocks(Context& ctx, const Layout& layout, Tensor& out) {
    const int64_t total = out.num_elements();
    const size_t values = num_inputs + ops.size();
    if (values <= kFewValues && total <= kFewElements) {
      // Scalars, mostly: nothing is allocated for them.
      const float* at[kFewValues];
      float memory[kFewValues * kFewElements];
      for (int i = 0; i < num_inputs; ++i) at[i] = ctx.input(i).flat<float>();
      run_block(layout.strides.data(), total, out.flat<float>(), kFewElements, memory, at);
      return;
    }
    float* to = out.flat<float>();
    const Run run = prepare(layout);
    parallel_for(total, std::max<int64_t>(kBlock, kElementGrain / static_cast<int64_t>(ops.size())),
                 [&](int64_t begin, int64_t end) { run_range(ctx, run, begin, end, to + begin); });
  }

  // The code for operands of which some are scalars; null if there can be none. Made when first asked for.
  const ElementwiseCode* code_for(const std::vector<int64_t>& strides) {
    if (num_inputs > 64) return nullptr;
    uint64_t pattern = 0;
    for (int i = 0; i < num_inputs; ++i) pattern |= static_cast<uint64_t>(strides[i] == 0) << i;
    std::lock_guard lock(mutex);
    for (const auto& [known, code] : codes)
      if (known == pattern) return code.get();
    std::vector<ElementwiseCode::Op> chain;
    for (const Op& op : ops) chain.push_back({op.def.op, op.left, op.right});
    std::vector<char> scalar(strides.size());
    for (size_t v = 0; v < strides.size(); ++v) scalar[v] = strides[v] == 0;
    codes.emplace_back(pattern, ElementwiseCode::compile(num_inputs, chain, scalar));
    return codes.back().second.get();
  }

  // The values that are scalars, also those that ops make of scalars; zero for the others.
  void find_scalars(const float* const* at, const std::vector<int64_t>& strides, std::vector<float>& found) const {
    found.assign(strides.size(), 0.0f);
    for (int i = 0; i < num_inputs; ++i)
      if (strides[i] == 0) found[i] = *at[i];
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t value = num_inputs + i;
      if (strides[value] != 0) continue;
      if (ops[i].right < 0)
        ops[i].rows.unary(&found[ops[i].left], &found[value], 1);
      else
        ops[i].rows.binary(&found[ops[i].left], 0, &found[ops[i].right], 0, &found[value], 1);
    }
  }

  // All ops on `count` elements, whose results go to `to`. `memory` has num_places buffers of `length` floats, `at` a
  // pointer per value, of which the inputs' are set.
  void run_block(const int64_t* strides, int64_t count, float* to, int64_t length, float* memory,
                 const float** at) const {
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      const size_t value = num_inputs + i;
      float* result = i + 1 == ops.size() ? to : memory + op.place * length;
      const int64_t n = strides[value] ? count : 1;
      if (op.right < 0)
        op.rows.unary(at[op.left], result, n);
      else
        op.rows.binary(at[op.left], strides[op.left], at[op.right], strides[op.right], result, n);
      at[value] = result;
    }
  }

  void compute_in_parts(Context& ctx, const Part& part) override {
    std::vector<Tensor> values(num_inputs + ops.size());
    for (int i = 0; i < num_inputs; ++i) values[i] = ctx.input(i);
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      Tensor inputs[2] = {values[op.left], op.right < 0 ? Tensor() : values[op.right]};
      compute_node({ctx.device(), ctx.step()}, op.def, *op.kernel, inputs, &values[num_inputs + i], ctx.iteration());
      if (part) part(op.def, std::span(inputs, op.right < 0 ? 1 : 2), values[num_inputs + i]);
    }
    if (reduction) return reduce(ctx, std::move(values.back()), part);
    ctx.set_output(0, std::move(values.back()));
  }

  int num_inputs, num_places = 0;
  NodeDef reduction_def;
  std::unique_ptr<Kernel> reduction;
  std::vector<Op> ops;
  std::mutex mutex;  // guards `codes`, whose elements stay where they are
  std::vector<std::pair<uint64_t, std::unique_ptr<ElementwiseCode>>> codes;
};

REGISTER(kernel("_FusedElementwise").make<FusedElementwise>());

}  // namespace
}  // namespace thalweg
