// The ops that call functions: PartitionedCall and its kin, If, Case, While, For.
//
// Each op has a small class that decides which functions it calls, and when (a Logic with a Run for each execution).
// Where none of its functions waits, a node runs the calls on the step's thread; else it starts them on the thread
// pool, one by one.
#include "function/function.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Tensors = std::vector<Tensor>;
using FunctionPtr = std::shared_ptr<Function>;

struct Call {
  const Function* function = nullptr;  // null: nothing more to call, and `values` are the outputs of the node
  Tensors values;
};

void check_call(const Construction& c, const Function& function, size_t num_leading,
                const std::vector<DType>& results) {
  // The leading inputs (a condition, a branch index) control the node; the rest are the function's arguments.
  const size_t given = c.num_inputs() - num_leading;
  require(function.arguments().size() == given, "function '", function.name(), "' takes ", function.arguments().size(),
          " arguments, the node passes ", given);
  for (size_t i = 0; i < given; ++i)
    require(function.arguments()[i].dtype == c.input_dtype(static_cast<int>(i + num_leading)), "argument ", i,
            " of function '", function.name(), "' is ", function.arguments()[i].dtype, ", the node passes ",
            c.input_dtype(static_cast<int>(i + num_leading)));
  require(function.results().size() == results.size(), "function '", function.name(), "' has ",
          function.results().size(), " results, the node expects ", results.size());
  for (size_t i = 0; i < results.size(); ++i)
    require(function.results()[i] == results[i], "result ", i, " of function '", function.name(), "' is ",
            function.results()[i], ", the node expects ", results[i]);
}

// As TensorFlow reads a condition: a scalar by its value, a string by its length, anything else by whether it is empty.
bool is_true(const Tensor& value) {
  if (value.rank() != 0) return value.num_elements() > 0;
  if (value.dtype() == DType::string) return !value.flat<std::string>()->empty();
  bool result = false;
  using Conditions = Types<DType::boolean, DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                           DType::int16, DType::int32, DType::int64, DType::uint8, DType::uint16>;
  dispatch(value.dtype(), Conditions{}, [&]<typename T>() { result = *value.flat<T>() != T(0); });
  return result;
}

// args -> output: one call. RemoteCall has the device to run on before the arguments; here there is but one.
template <int leading>
struct PlainCall {
  explicit PlainCall(const Construction& c) : function(c.attr<FunctionPtr>("f")) {
    check_call(c, *function, leading, c.def().output_dtypes);
  }
  bool blocking() const { return function->blocking(); }
  struct Run {
    Run(const PlainCall& logic, Tensors& inputs) : function(logic.function.get()) {
      inputs.erase(inputs.begin(), inputs.begin() + leading);
    }
    Call next(Tensors values) { return {std::exchange(function, nullptr), std::move(values)}; }
    const Function* function;
  };
  FunctionPtr function;
};

// A first input chooses one of several functions.
struct Branches {
  Branches(const Construction& c, std::vector<FunctionPtr> functions) : functions(std::move(functions)) {
    require(!this->functions.empty(), "there must be at least one branch");
    for (const FunctionPtr& function : this->functions) check_call(c, *function, 1, c.def().output_dtypes);
  }
  bool blocking() const {
    return std::any_of(functions.begin(), functions.end(), [](const FunctionPtr& f) { return f->blocking(); });
  }
  struct Run {
    Run(const Function* chosen, Tensors& inputs) : function(chosen) { inputs.erase(inputs.begin()); }
    Call next(Tensors values) { return {std::exchange(function, nullptr), std::move(values)}; }
    const Function* function;
  };
  std::vector<FunctionPtr> functions;
};

struct If : Branches {
  explicit If(const Construction& c)
      : Branches(c, {c.attr<FunctionPtr>("then_branch"), c.attr<FunctionPtr>("else_branch")}) {}
  struct Run : Branches::Run {
    Run(const If& logic, Tensors& inputs) : Branches::Run(logic.functions[is_true(inputs[0]) ? 0 : 1].get(), inputs) {}
  };
};

struct Case : Branches {
  explicit Case(const Construction& c) : Branches(c, c.attr<std::vector<FunctionPtr>>("branches")) {}
  struct Run : Branches::Run {
    Run(const Case& logic, Tensors& inputs) : Branches::Run(logic.choose(inputs[0]), inputs) {}
  };
  const Function* choose(const Tensor& index) const {
    require(index.dtype() == DType::int32 && index.num_elements() == 1, "the branch index must be one int32, got ",
            index.dtype(), index.shape());
    const int32_t i = *index.flat<int32_t>();
    const auto last = static_cast<int32_t>(functions.size()) - 1;
    return functions[i < 0 || i > last ? last : i].get();
  }
};

struct While {
  explicit While(const Construction& c) : cond(c.attr<FunctionPtr>("cond")), body(c.attr<FunctionPtr>("body")) {
    require(cond->results().size() == 1, "the condition '", cond->name(), "' of a loop must have one result, it has ",
            cond->results().size());
    check_call(c, *cond, 0, cond->results());
    check_call(c, *body, 0, c.def().output_dtypes);
    // The outputs of one iteration are the inputs of the next.
    require(c.def().input_dtypes == c.def().output_dtypes, "the inputs and outputs of a loop must have the same types");
  }
  bool blocking() const { return cond->blocking() || body->blocking(); }
  struct Run {
    Run(const While& logic, Tensors&) : logic(logic) {}
    Call next(Tensors results) {
      if (!in_condition) {
        in_condition = true;
        values = std::move(results);
        return {logic.cond.get(), values};
      }
      in_condition = false;
      if (is_true(results[0])) return {logic.body.get(), std::move(values)};
      return {nullptr, std::move(values)};
    }
    const While& logic;
    Tensors values;
    bool in_condition = false;
  };
  FunctionPtr cond, body;
};

// start, limit, delta, input -> output: the body gets the number of the iteration before the other values.
struct For {
  explicit For(const Construction& c) : body(c.attr<FunctionPtr>("body")) {
    check_call(c, *body, 2, c.def().output_dtypes);
    for (int i = 0; i < 3; ++i)
      require(c.input_dtype(i) == DType::int32, "start, limit and delta of a loop must be int32, got ",
              c.input_dtype(i));
    require(std::equal(c.def().input_dtypes.begin() + 3, c.def().input_dtypes.end(), c.def().output_dtypes.begin(),
                       c.def().output_dtypes.end()),
            "the inputs and outputs of a loop must have the same types");
  }
  bool blocking() const { return body->blocking(); }
  struct Run {
    Run(const For& logic, Tensors& inputs) : logic(logic) {
      int64_t* numbers[] = {&at, &limit, &delta};
      for (int i = 0; i < 3; ++i) {
        require(inputs[i].num_elements() == 1, "start, limit and delta of a loop must be scalars, got shape ",
                inputs[i].shape());
        *numbers[i] = *inputs[i].flat<int32_t>();
      }
      require(at == limit || (delta != 0 && (delta > 0) == (at < limit)), "a loop from ", at, " to ", limit,
              " cannot have the delta ", delta);
      inputs.erase(inputs.begin(), inputs.begin() + 3);
    }
    Call next(Tensors values) {
      if (delta >= 0 ? at >= limit : at <= limit) return {nullptr, std::move(values)};
      Tensor number(DType::int32, Shape{});
      *number.flat<int32_t>() = static_cast<int32_t>(at);
      at += delta;
      values.insert(values.begin(), std::move(number));
      return {logic.body.get(), std::move(values)};
    }
    const For& logic;
    int64_t at = 0, limit = 0, delta = 0;
  };
  FunctionPtr body;
};

Tensors take_inputs(Context& ctx) {
  Tensors inputs(ctx.num_inputs());
  for (int i = 0; i < ctx.num_inputs(); ++i) inputs[i] = ctx.take_input(i);
  return inputs;
}

void set_outputs(Context& ctx, Tensors values) {
  if (static_cast<int>(values.size()) != ctx.num_outputs())
    fail(Code::internal, "a call gave ", values.size(), " values for ", ctx.num_outputs(), " outputs");
  for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, std::move(values[i]));
}

template <typename Logic>
struct Inline : Kernel {
  explicit Inline(Logic logic) : logic(std::move(logic)) {}
  void compute(Context& ctx) override {
    Tensors values = take_inputs(ctx);
    typename Logic::Run run(logic, values);
    for (uint32_t calls = 1;; ++calls) {
      Call call = run.next(std::move(values));
      if (call.function == nullptr) return set_outputs(ctx, std::move(call.values));
      values = call.function->run(ctx.step(), std::move(call.values));
      // Bodies may be too small to notice that the step has ended.
      if (ctx.step().interrupted()) fail(Code::cancelled, "the step was cancelled");
      if (calls % 256 == 0) ctx.step().tick();
    }
  }
  Logic logic;
};

template <typename Logic>
struct Waiting : AsyncKernel {
  explicit Waiting(Logic logic) : logic(std::move(logic)) {}
  struct Execution {
    Execution(const Logic& logic, std::shared_ptr<AsyncContext> ctx, Tensors& inputs)
        : ctx(std::move(ctx)), run(logic, inputs), caller(caller_in(this->ctx->step())) {}
    std::shared_ptr<AsyncContext> ctx;
    typename Logic::Run run;
    const Function::Caller caller;
  };
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Tensors values = take_inputs(*ctx);
    std::shared_ptr<Execution> execution;
    try {
      execution = std::make_shared<Execution>(logic, ctx, values);
    } catch (const Error& error) {
      return ctx->fail(error);
    }
    go_on(std::move(execution), std::move(values));
  }
  static void go_on(std::shared_ptr<Execution> execution, Tensors values) {
    Call call;
    try {
      call = execution->run.next(std::move(values));
    } catch (const Error& error) {
      return execution->ctx->fail(error);
    }
    if (call.function == nullptr) {
      set_outputs(*execution->ctx, std::move(call.values));
      return execution->ctx->done();
    }
    Execution& now = *execution;
    auto done = [execution = std::move(execution)](std::optional<Error> error, Tensors results) mutable {
      if (error) return execution->ctx->fail(std::move(*error));
      go_on(std::move(execution), std::move(results));
    };
    call.function->start(now.ctx->step(), std::move(call.values), std::move(done), now.caller);
  }
  Logic logic;
};

template <typename Logic>
int calling(std::initializer_list<const char*> ops) {
  for (const char* op : ops) {
    Registration registration;
    registration.op = op;
    registration.create = [](const Construction& c) -> std::unique_ptr<Kernel> {
      Logic logic(c);
      if (logic.blocking()) return std::make_unique<Waiting<Logic>>(std::move(logic));
      return std::make_unique<Inline<Logic>>(std::move(logic));
    };
    Registry::global().add(std::move(registration));
  }
  return 0;
}

REGISTER(calling<PlainCall<0>>({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient"}));
REGISTER(calling<PlainCall<1>>({"RemoteCall"}));
REGISTER(calling<If>({"If", "StatelessIf"}));
REGISTER(calling<Case>({"Case", "StatelessCase"}));
REGISTER(calling<While>({"While", "StatelessWhile"}));
REGISTER(calling<For>({"For"}));

}  // namespace
}  // namespace thalweg
