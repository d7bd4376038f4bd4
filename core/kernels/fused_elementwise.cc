// _FusedElementwise: several element-wise ops over float32 tensors as one pass over memory.
//
// `ops` are the op types in order; op i reads the values `operands[2i]` and `operands[2i + 1]` (-1: it is unary), where
// the node's inputs come first among the values and the results follow. The last result is the output. The pass that
// makes such nodes (passes/fuse_elementwise.py) sees to it that all ops have loops over rows of float32.
//
// Operands of one shape, and scalars, are computed by machine code made for the chain (elementwise_code.h), or, where
// there is none, block by block: all ops on one block, whose intermediate results stay in the first-level cache, then
// the next block. Operands that have to be broadcast otherwise are computed op by op. All three give the same bits.
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

  void compute(Context& ctx) override {
    const Shape* shape = nullptr;
    for (int i = 0; i < num_inputs; ++i) {
      const Shape& s = ctx.input(i).shape();
      if (shape == nullptr || s.num_elements() > shape->num_elements() ||
          (s.num_elements() == shape->num_elements() && s.rank() > shape->rank()))
        shape = &s;
    }
    for (int i = 0; i < num_inputs; ++i) {
      const Tensor& t = ctx.input(i);
      if (!(t.shape() == *shape) && !(t.num_elements() == 1 && t.rank() <= shape->rank()))
        return compute_in_parts(ctx, nullptr);
    }
    const Shape result = *shape;
    if (reduction) return compute_reduced(ctx, result);
    // A block of the output is written after all inputs of the same elements are read, so the output may alias an
    // input.
    for (int i = 0; i < num_inputs; ++i)
      if (ctx.input(i).writable() && ctx.input(i).shape() == result)
        return in_blocks(ctx, ctx.forward_or_allocate({i}, 0, result));
    in_blocks(ctx, ctx.allocate(0, result));
  }

  // The operands of one run: their strides, the code for them, and the values of scalars.
  struct Run {
    std::vector<int64_t> strides;
    const ElementwiseCode* code;
    std::vector<float> scalars;
  };
  Run prepare(Context& ctx, const Shape& shape) {
    Run run{std::vector<int64_t>(num_inputs + ops.size()), nullptr, {}};
    find_strides(ctx, shape, run.strides.data());
    if (shape.num_elements() >= kWorthCode) run.code = code_for(run.strides);
    if (run.code != nullptr) run.scalars = find_scalars(ctx, run.strides);
    return run;
  }
  // to[0, end - begin) = the elements [begin, end) of the result.
  void run_range(Context& ctx, const Run& run, int64_t begin, int64_t end, float* to) const {
    std::vector<const float*> at(num_inputs + ops.size());
    if (run.code != nullptr) {
      for (int i = 0; i < num_inputs; ++i) at[i] = ctx.input(i).flat<float>() + begin * run.strides[i];
      const int64_t count = (end - begin) / ElementwiseCode::kWidth * ElementwiseCode::kWidth;
      run.code->run(at.data(), run.scalars.data(), to, count);
      begin += count;
      to += count;
    }
    if (begin == end) return;
    const int64_t length = std::min(kBlock, end - begin);
    std::unique_ptr<float[]> memory(new float[num_places * length]);
    for (int64_t first = begin; first < end; first += kBlock) {
      run_block(ctx, run.strides.data(), first, std::min(kBlock, end - first), to, length, memory.get(), at.data());
      to += kBlock;
    }
  }

  void compute_reduced(Context& ctx, const Shape& shape) {
    auto& kernel = static_cast<ReductionKernel&>(*reduction);
    const ReductionLayout layout(shape, ctx.input(num_inputs), kernel.keep_dims);
    const bool by_rows = layout.inner_reduced && layout.reduced.empty() && layout.kept.size() <= 1;
    if (by_rows && shape.num_elements() >= kWorthCode) {
      const Run run = prepare(ctx, shape);
      Tensor& out = ctx.allocate(0, layout.shape);
      const auto produce = [&](int64_t first, int64_t count, float* to) {
        run_range(ctx, run, first, first + count, to);
      };
      return reduce_produced_rows(produce, layout.num_kept, layout.inner, kernel.float_loops(),
                                  kernel.variant_of_finish(), out);
    }
    Tensor middle(DType::float32, shape);
    in_blocks(ctx, middle);
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
  [[gnu::hot]] void in_blocks(Context& ctx, Tensor& out) {
    const int64_t total = out.num_elements();
    const size_t values = num_inputs + ops.size();
    if (values <= kFewValues && total <= kFewElements) {
      // Scalars, mostly: nothing is allocated for them.
      int64_t strides[kFewValues];
      const float* at[kFewValues];
      float memory[kFewValues * kFewElements];
      find_strides(ctx, out.shape(), strides);
      run_block(ctx, strides, 0, total, out.flat<float>(), kFewElements, memory, at);
      return;
    }
    float* to = out.flat<float>();
    const Run run = prepare(ctx, out.shape());
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
  std::vector<float> find_scalars(Context& ctx, const std::vector<int64_t>& strides) const {
    std::vector<float> found(strides.size());
    for (int i = 0; i < num_inputs; ++i)
      if (strides[i] == 0) found[i] = *ctx.input(i).flat<float>();
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t value = num_inputs + i;
      if (strides[value] != 0) continue;
      if (ops[i].right < 0)
        ops[i].rows.unary(&found[ops[i].left], &found[value], 1);
      else
        ops[i].rows.binary(&found[ops[i].left], 0, &found[ops[i].right], 0, &found[value], 1);
    }
    return found;
  }

  // The stride of each value: 1, or 0 for a scalar.
  void find_strides(Context& ctx, const Shape& shape, int64_t* strides) const {
    for (int i = 0; i < num_inputs; ++i) strides[i] = shape.num_elements() != 1 && ctx.input(i).shape() == shape;
    for (size_t i = 0; i < ops.size(); ++i)
      strides[num_inputs + i] = strides[ops[i].left] | (ops[i].right < 0 ? 0 : strides[ops[i].right]);
  }

  // All ops on the elements [first, first + count), whose results go to `to`. `memory` has num_places buffers of
  // `length` floats, `at` a pointer per value.
  void run_block(Context& ctx, const int64_t* strides, int64_t first, int64_t count, float* to, int64_t length,
                 float* memory, const float** at) const {
    for (int i = 0; i < num_inputs; ++i) at[i] = ctx.input(i).flat<float>() + first * strides[i];
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
