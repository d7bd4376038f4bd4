// Calling graph functions: within the caller's step where that is possible, else as steps of their own.
#include "function/function.h"

#include "executor/flat_state.h"
#include "function/stack_guard.h"

namespace thalweg {
namespace {

// Calls that wait do not stand on any stack; each holds the slots of its body.
constexpr int kDeepest = 5000;

Error cancelled() { return Error(Code::cancelled, "the step that called the function was cancelled"); }

}  // namespace

Function::Function(std::string name, std::vector<Argument> arguments, std::vector<DType> results, bool blocking,
                   bool runs_python)
    : name_(std::move(name)),
      arguments_(std::move(arguments)),
      results_(std::move(results)),
      blocking_(blocking),
      runs_python_(runs_python) {}

void Function::define(std::shared_ptr<Device> device, std::shared_ptr<const Plan> plan) {
  require(plan->feeds().size() == arguments_.size(), "function '", name_, "' has ", arguments_.size(),
          " arguments, its body ", plan->feeds().size());
  require(static_cast<size_t>(plan->num_fetches()) == results_.size(), "function '", name_, "' has ", results_.size(),
          " results, its body ", plan->num_fetches());
  for (size_t i = 0; i < results_.size(); ++i)
    require(plan->sink().def.input_dtypes[i] == results_[i], "result ", i, " of function '", name_, "' is ",
            results_[i], ", its body gives ", plan->sink().def.input_dtypes[i]);
  body_.store(std::make_shared<const Body>(std::move(device), std::move(plan)));
}

void Function::forget() { body_.store(nullptr); }

std::shared_ptr<const Function::Body> Function::body() const {
  std::shared_ptr<const Body> body = body_.load();
  if (!body)
    fail(Code::failed_precondition, "function '", name_,
         "' has no body: its session has gone, or could not compile it");
  return body;
}

// Bodies are compiled for the declared types and shapes; kernels rely on them.
void Function::check(const std::vector<Tensor>& args) const {
  require(args.size() == arguments_.size(), "function '", name_, "' takes ", arguments_.size(), " arguments, got ",
          args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Argument& wanted = arguments_[i];
    require(args[i].defined() && args[i].dtype() == wanted.dtype, "argument ", i, " of function '", name_, "' is ",
            wanted.dtype, ", got ", args[i].dtype());
    if (wanted.shape.known_rank)
      require(wanted.shape.accepts(args[i].shape()), "argument ", i, " of function '", name_, "' has shape ",
              wanted.shape, ", got ", args[i].shape());
  }
}

Error Function::located(const Error& error) const {
  // The places of a thousand nested calls are not worth reading.
  constexpr size_t kLongest = 4096;
  if (error.message().size() > kLongest) return Error(error.code(), error.message());
  if (error.node().empty()) return Error(error.code(), cat(error.message(), " [function '", name_, "']"));
  return Error(error.code(),
               cat(error.message(), " [node '", error.node(), "' (op ", error.op(), ") of function '", name_, "']"));
}

std::vector<Tensor> Function::run(Step& parent, std::vector<Tensor> args) const {
  std::shared_ptr<const Body> body = this->body();
  check(args);
  if (stack_is_low())
    fail(Code::resource_exhausted, "function '", name_, "' is called too deep: does its recursion end?");
  try {
    if (StepStats* stats = observer_of(parent)) stats->keep(body);
    if (body->plan->sequential() && !body->plan->pace().needs_team()) return run_within(*body, parent, std::move(args));
    return run_as_step(*body, Parent(parent), &parent, std::move(args));
  } catch (const Error& error) {
    throw located(error);
  }
}

std::vector<Tensor> Function::run(Cancellation& parent, std::vector<Tensor> args) const {
  std::shared_ptr<const Body> body = this->body();
  check(args);
  try {
    return run_as_step(*body, Parent(parent), nullptr, std::move(args));
  } catch (const Error& error) {
    throw located(error);
  }
}

std::vector<Tensor> Function::run_within(const Body& body, Step& parent, std::vector<Tensor> args) const {
  // Gives the state back, also after an error; after a complete run, with the results moved out, it is as good as new.
  struct Borrowed {
    explicit Borrowed(const Plan& plan) : plan(plan), state(plan.take_state()) {}
    ~Borrowed() {
      if (!clean) state->clear();
      plan.give_state(std::move(state));
    }
    const Plan& plan;
    std::unique_ptr<State> state;
    bool clean = false;
  } borrowed(*body.plan);
  auto& state = static_cast<FlatState&>(*borrowed.state);
  state.begin(args, false);
  args.clear();  // So that the body may write into buffers that the caller handed over.
  if (!state.run_within(parent)) throw cancelled();
  std::span<Tensor> fetched = state.fetched();
  std::vector<Tensor> out(std::make_move_iterator(fetched.begin()), std::make_move_iterator(fetched.end()));
  borrowed.clean = true;
  return out;
}

std::vector<Tensor> Function::run_as_step(const Body& body, const Parent& parent, Step* driven,
                                          std::vector<Tensor> args) const {
  auto executor = std::make_shared<Executor>(body.plan, parent.id);
  executor->set_depth(parent.depth);
  executor->set_random_streams(parent.streams);
  if (driven != nullptr) {
    executor->poll_with([driven] { driven->tick(); });
    executor->observe(observer_of(*driven), true);
  }
  int64_t token = parent.cancellation.add([executor] { executor->abort(cancelled()); });
  if (token < 0) throw cancelled();
  struct Registered {
    ~Registered() { parent.remove(token); }
    Cancellation& parent;
    int64_t token;
  } registered{parent.cancellation, token};
  return executor->run(args);
}

void Function::start(Step& parent, std::vector<Tensor> args, Done done, const Caller& caller) const {
  start_as_step(Parent(parent), std::move(args), std::move(done), caller);
}

void Function::start(Cancellation& parent, std::vector<Tensor> args, Done done, const Caller& caller,
                     std::shared_ptr<RandomStreams> streams) const {
  start_as_step(Parent(parent, std::move(streams)), std::move(args), std::move(done), caller);
}

void Function::start_as_step(const Parent& parent, std::vector<Tensor> args, Done done, const Caller& caller) const {
  std::shared_ptr<const Body> body;
  try {
    body = this->body();
    check(args);
    if (parent.depth > kDeepest)
      fail(Code::resource_exhausted, "function '", name_, "' is called ", parent.depth,
           " deep: does its recursion end?");
  } catch (const Error& error) {
    done(error, {});
    return;
  }
  auto executor = std::make_shared<Executor>(body->plan, parent.id);
  executor->set_depth(parent.depth);
  executor->set_random_streams(parent.streams);
  std::shared_ptr<StepStats> stats = caller.begin();
  if (stats) {
    stats->keep(body);
    executor->observe(stats.get(), true);
  }
  int64_t token = parent.cancellation.add([executor] { executor->abort(cancelled()); });
  if (token < 0) {
    done(cancelled(), {});
    return;
  }
  executor->start(std::move(args),
                  [self = shared_from_this(), body, &cancellation = parent.cancellation, token, done = std::move(done),
                   caller, stats](std::optional<Error> error, std::vector<Tensor> results) {
                    cancellation.remove(token);
                    caller.end(stats);
                    if (error) error = self->located(*error);
                    done(std::move(error), std::move(results));
                  });
}

}  // namespace thalweg
