// _FusedElementwise: several element-wise ops as one pass over memory.
//
// `ops` are the op types in order; op i reads the values `operands[2i]` and `operands[2i + 1]` (-1: it is unary), where
// the node's inputs come first among the values and the results follow. The last result is the output. The pass that
// makes such nodes (passes/fuse_elementwise.py) sees to it that all ops have loops over rows of float32. With the
// attribute `dtypes`, the element types of the results, ops may have three operands each and any types that machine
// code can be made for (compute/elementwise/record_op.h); where there is none, they are computed one by one.
//
// Operands of one shape, and scalars, are computed by machine code made for the chain (elementwise_code.h), or, where
// there is none, block by block: all ops on one block, whose intermediate results stay in the first-level cache, then
// the next block. Operands that are rows or columns of the result are computed in the same way, one row of it after the
// other. Operands that have to be broadcast otherwise are computed op by op. All three give the same bits.
// Short rows that are broadcast are repeated first, so that several rows of the result are one.
//
// With the attribute `reduction`, an op type, the result is reduced along the axes in the last input, and `keep_dims`.
// Where the last dimension is reduced, each row is computed into the cache and reduced from there.
#include <cstring>
#include <mutex>

#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/elementwise_code.h"
#include "compute/elementwise/record_op.h"
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
// Shorter ones than this are repeated where that is possible.
constexpr int64_t kLongRow = 1024;

struct FusedElementwise : DivisibleKernel {
  struct Op {
    std::unique_ptr<Kernel> kernel;
    NodeDef def;
    Rows rows;
    std::vector<int> operands;  // values
    int place;                  // the block buffer of the result
    int left() const { return operands[0]; }
    int right() const { return operands.size() > 1 ? operands[1] : -1; }
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
    const auto dtypes = c.attr<std::vector<DType>>("dtypes", {});
    typed = !dtypes.empty();
    const size_t most = typed ? ElementwiseCode::kMostOperands : 2;
    require(!names.empty() && operands.size() == most * names.size() && c.num_outputs() == 1 &&
                (!typed || dtypes.size() == names.size()),
            "a fused node needs ", most, " operands for each of its ops");
    for (int i = 0; i < num_inputs; ++i) types.push_back(c.input_dtype(i));
    ops.resize(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      Op& op = ops[i];
      const int64_t values = num_inputs + static_cast<int64_t>(i);
      for (size_t k = 0; k < most; ++k) {
        const int64_t value = operands[most * i + k];
        require((value >= 0 || (value == -1 && k > 0)) && value < values, "op ", i,
                " of a fused node reads a value that is not there");
        if (value >= 0) op.operands.push_back(static_cast<int>(value));
      }
      types.push_back(typed ? dtypes[i] : DType::float32);
      op.def = definition(i < origins.size() ? origins[i] : c.def().name, names[i], op.operands, types);
      op.kernel = Registry::global().create(op.def, c.device());
      if (typed) {
        require(can_record(names[i], op.def.input_dtypes, dtypes[i]), names[i], " cannot be fused");
        continue;
      }
      op.rows = Registry::global().rows(names[i]);
      require(op.right() < 0 ? op.rows.unary != nullptr : op.rows.binary != nullptr, names[i], " cannot be fused");
    }
    assign_places();
  }

  // The node of an op by itself; its result is the last of the types.
  static NodeDef definition(const std::string& name, const std::string& op, const std::vector<int>& operands,
                            const std::vector<DType>& types) {
    NodeDef def;
    def.name = name;
    def.op = op;
    for (int value : operands) def.input_dtypes.push_back(types[value]);
    def.output_dtypes = {types.back()};
    if (op == "Cast") {
      def.attrs["SrcT"] = def.input_dtypes[0];
      def.attrs["DstT"] = types.back();
    } else {
      def.attrs["T"] = def.input_dtypes.back();
    }
    return def;
  }

  // A buffer for each result, taken again after its last use.
  void assign_places() {
    std::vector<int> last(num_inputs + ops.size(), -1), place(num_inputs + ops.size(), -1), free;
    for (size_t i = 0; i < ops.size(); ++i)
      for (int value : ops[i].operands) last[value] = static_cast<int>(i);
    for (size_t i = 0; i < ops.size(); ++i) {
      // Taken before the operands' buffers are freed: a loop must not overwrite an operand that it reads at another
      // stride.
      if (free.empty()) free.push_back(num_places++);
      place[num_inputs + i] = ops[i].place = free.back();
      free.pop_back();
      for (int value : ops[i].operands) {
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
    std::vector<Tensor> repeated;               // by input, in its place where defined
  };
  static const char* input_of(Context& ctx, const Layout& layout, int i) {
    return static_cast<const char*>((layout.repeated[i].defined() ? layout.repeated[i] : ctx.input(i)).raw());
  }

  void compute(Context& ctx) override {
    if (!typed && !reduction && has_scalars_only(ctx)) return compute_scalar(ctx);
    const std::optional<Layout> layout = find_layout(ctx);
    if (!layout || (typed && prepare(*layout).code == nullptr)) return compute_in_parts(ctx, nullptr);
    if (reduction) return compute_reduced(ctx, *layout);
    // A block of the output is written after all inputs of the same elements are read, so the output may alias an
    // input.
    for (int i = 0; i < num_inputs; ++i)
      if (types[i] == types.back() && ctx.input(i).writable() && ctx.input(i).shape() == layout->shape)
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
    const void* at[kFewValues];
    float memory[kFewValues];
    for (int i = 0; i < num_inputs; ++i) at[i] = ctx.input(i).raw();
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
    Layout layout{*shape, shape->num_elements(), std::vector<int64_t>(num_inputs), {}, std::vector<Tensor>(num_inputs)};
    layout.strides.resize(num_inputs + ops.size());
    bool is_flat = true;
    for (int i = 0; i < num_inputs; ++i) {
      const Tensor& t = ctx.input(i);
      layout.strides[i] = shape->num_elements() != 1 && t.shape() == *shape;
      is_flat = is_flat && (t.shape() == *shape || (t.num_elements() == 1 && t.rank() <= shape->rank()));
    }
    if (!is_flat && !find_rows(ctx, layout)) return std::nullopt;
    for (size_t i = 0; i < ops.size(); ++i)
      for (int value : ops[i].operands) layout.strides[num_inputs + i] |= layout.strides[value];
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
      bool fits = true, are_rows = true;
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
        are_rows &= whole_columns || (one_row && one_column);
      }
      fits = fits && layout.columns > 0 && (are_rows || layout.columns >= kWorthRows);
      if (fits && are_rows && layout.columns < kLongRow) repeat_rows(ctx, layout);
      if (fits) return true;
    }
    return false;
  }

  // Makes longer rows, where no operand is a column.
  void repeat_rows(Context& ctx, Layout& layout) const {
    const int64_t columns = layout.columns, times = (kLongRow + columns - 1) / columns;
    layout.columns *= times;
    for (int i = 0; i < num_inputs; ++i) {
      if (layout.row_strides[i] != 0) layout.row_strides[i] = layout.columns;
      if (layout.row_strides[i] != 0 || layout.strides[i] == 0) continue;
      Tensor repeated(types[i], Shape{layout.columns});
      const size_t bytes = static_cast<size_t>(columns) * size_of(types[i]);
      for (int64_t k = 0; k < times; ++k)
        std::memcpy(static_cast<char*>(repeated.raw()) + static_cast<size_t>(k) * bytes, ctx.input(i).raw(), bytes);
      layout.repeated[i] = std::move(repeated);
    }
  }

  // The operands of one run: how they lie, and the code for them.
  struct Run {
    const Layout& layout;
    const ElementwiseCode* code;
  };
  Run prepare(const Layout& layout) {
    // Without code, typed chains are no faster than their ops.
    const bool is_worth_it = layout.shape.num_elements() >= (typed ? kWorthCode / 4 : kWorthCode);
    return {layout, is_worth_it ? code_for(layout.strides) : nullptr};
  }
  // to[0, end - begin) = the elements [begin, end) of the result.
  void run_range(Context& ctx, const Run& run, int64_t begin, int64_t end, void* to) const {
    const Layout& layout = run.layout;
    std::vector<const void*> at(num_inputs + ops.size()), scalars(at.size());
    std::vector<float> found;
    std::unique_ptr<float[]> memory;
    char* out = static_cast<char*>(to);
    while (begin < end) {
      const int64_t row = begin / layout.columns, column = begin - row * layout.columns;
      int64_t count = std::min(end, (row + 1) * layout.columns) - begin;
      begin += count;
      for (int i = 0; i < num_inputs; ++i)
        at[i] = input_of(ctx, layout, i) +
                (row * layout.row_strides[i] + column * layout.strides[i]) * static_cast<int64_t>(size_of(types[i]));
      if (run.code != nullptr) {
        find_scalars(at.data(), layout.strides, found, scalars.data());
        run.code->run(at.data(), scalars.data(), out, count);
        out += count * static_cast<int64_t>(size_of(types.back()));
        continue;
      }
      if (!memory) memory.reset(new float[num_places * kBlock]);
      while (count > 0) {
        const int64_t some = std::min(kBlock, count);
        run_block(layout.strides.data(), some, reinterpret_cast<float*>(out), kBlock, memory.get(), at.data());
        for (int i = 0; i < num_inputs; ++i) at[i] = static_cast<const float*>(at[i]) + some * layout.strides[i];
        out += some * static_cast<int64_t>(sizeof(float));
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
    if (!typed && values <= kFewValues && total <= kFewElements) {
      // Scalars, mostly: nothing is allocated for them.
      const void* at[kFewValues];
      float memory[kFewValues * kFewElements];
      for (int i = 0; i < num_inputs; ++i) at[i] = input_of(ctx, layout, i);  // Rows are longer than this.
      run_block(layout.strides.data(), total, out.flat<float>(), kFewElements, memory, at);
      return;
    }
    char* to = static_cast<char*>(out.raw());
    const auto size = static_cast<int64_t>(size_of(types.back()));
    const Run run = prepare(layout);
    parallel_for(total, std::max<int64_t>(kBlock, kElementGrain / static_cast<int64_t>(ops.size())),
                 [&](int64_t begin, int64_t end) { run_range(ctx, run, begin, end, to + begin * size); });
  }

  // The code for operands of which some are scalars; null if there can be none. Made when first asked for.
  const ElementwiseCode* code_for(const std::vector<int64_t>& strides) {
    if (num_inputs > 64) return nullptr;
    uint64_t pattern = 0;
    for (int i = 0; i < num_inputs; ++i) pattern |= static_cast<uint64_t>(strides[i] == 0) << i;
    const code::Vectors vectors = best_vectors();
    std::lock_guard lock(mutex);
    for (const auto& [known, code] : codes)
      if (known == pattern) return code.get();
    std::vector<ElementwiseCode::Op> chain;
    for (size_t i = 0; i < ops.size(); ++i) {
      chain.push_back({ops[i].def.op, {-1, -1, -1}, types[num_inputs + i]});
      std::copy(ops[i].operands.begin(), ops[i].operands.end(), chain.back().operands.begin());
    }
    std::vector<char> scalar(strides.size());
    for (size_t v = 0; v < strides.size(); ++v)
      scalar[v] = strides[v] == 0 && (!typed || v < static_cast<size_t>(num_inputs));
    codes.emplace_back(pattern, ElementwiseCode::compile(std::span(types).first(num_inputs), chain, scalar, vectors));
    return codes.back().second.get();
  }

  // Where the scalars are: inputs, and in `found` what ops over float32 make of scalars.
  void find_scalars(const void* const* at, const std::vector<int64_t>& strides, std::vector<float>& found,
                    const void** scalars) const {
    for (int i = 0; i < num_inputs; ++i)
      if (strides[i] == 0) scalars[i] = at[i];
    if (typed) return;
    found.resize(ops.size());
    for (size_t i = 0; i < ops.size(); ++i) {
      if (strides[num_inputs + i] != 0) continue;
      if (ops[i].right() < 0)
        ops[i].rows.unary(scalars[ops[i].left()], &found[i], 1);
      else
        ops[i].rows.binary(scalars[ops[i].left()], 0, scalars[ops[i].right()], 0, &found[i], 1);
      scalars[num_inputs + i] = &found[i];
    }
  }

  // All ops on `count` elements, whose results go to `to`. `memory` has num_places buffers of `length` floats, `at` a
  // pointer per value, of which the inputs' are set.
  void run_block(const int64_t* strides, int64_t count, float* to, int64_t length, float* memory,
                 const void** at) const {
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      const size_t value = num_inputs + i;
      float* result = i + 1 == ops.size() ? to : memory + op.place * length;
      const int64_t n = strides[value] ? count : 1;
      if (op.right() < 0)
        op.rows.unary(at[op.left()], result, n);
      else
        op.rows.binary(at[op.left()], strides[op.left()], at[op.right()], strides[op.right()], result, n);
      at[value] = result;
    }
  }

  void compute_in_parts(Context& ctx, const Part& part) override {
    std::vector<Tensor> values(num_inputs + ops.size());
    for (int i = 0; i < num_inputs; ++i) values[i] = ctx.input(i);
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      Tensor inputs[ElementwiseCode::kMostOperands];
      for (size_t k = 0; k < op.operands.size(); ++k) inputs[k] = values[op.operands[k]];
      compute_node({ctx.device(), ctx.step()}, op.def, *op.kernel, inputs, &values[num_inputs + i], ctx.iteration());
      if (part) part(op.def, std::span(inputs, op.operands.size()), values[num_inputs + i]);
    }
    if (reduction) return reduce(ctx, std::move(values.back()), part);
    ctx.set_output(0, std::move(values.back()));
  }

  int num_inputs, num_places = 0;
  bool typed = false;
  std::vector<DType> types;  // of the values
  NodeDef reduction_def;
  std::unique_ptr<Kernel> reduction;
  std::vector<Op> ops;
  std::mutex mutex;  // guards `codes`, whose elements stay where they are
  std::vector<std::pair<uint64_t, std::unique_ptr<ElementwiseCode>>> codes;
};

REGISTER(kernel("_FusedElementwise").make<FusedElementwise>());

}  // namespace
}  // namespace thalweg
