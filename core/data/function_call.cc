// Calling functions from pulls.
#include "data/function_call.h"

namespace thalweg {

// Outlives the iterator if need be: the function reports to it.
struct FunctionCall::Pending {
  Cancellation cancellation;
  std::shared_ptr<Waker> waker;
  std::mutex mutex;  // guards the rest
  bool waited = false;
  bool done = false;
  std::optional<Error> error;
  Element results;
};

FunctionCall::~FunctionCall() {
  if (pending_) pending_->cancellation.cancel();
}

bool FunctionCall::finish(Pull& pull, Element& args, Element& results) {
  if (!pending_) {
    if (again_) args = args_;
    again_ = false;
    if (!function_->blocking()) {
      std::vector<Tensor> all = std::move(args);
      all.insert(all.end(), captured_->begin(), captured_->end());
      StreamScope scope(pull.step, streams_);
      results = function_->run(pull.step, std::move(all));
      return true;
    }
    args_ = std::move(args);
    std::vector<Tensor> all = args_;
    all.insert(all.end(), captured_->begin(), captured_->end());
    pending_ = std::make_shared<Pending>();
    pending_->waker = waker_;
    auto done = [call = pending_](std::optional<Error> error, std::vector<Tensor> outcome) {
      bool waited;
      {
        std::lock_guard lock(call->mutex);
        call->error = std::move(error);
        call->results = std::move(outcome);
        call->done = true;
        waited = call->waited;
      }
      if (waited) call->waker->wake();
    };
    function_->start(pending_->cancellation, std::move(all), std::move(done), caller_in(pull.step), streams_);
  }
  {
    std::lock_guard lock(pending_->mutex);
    if (!pending_->done) {
      pending_->waited = true;
      return false;
    }
  }
  std::shared_ptr<Pending> finished = std::move(pending_);
  args_.clear();
  if (finished->error) throw *finished->error;
  results = std::move(finished->results);
  return true;
}

void FunctionCall::save(StateWriter& out) const {
  bool begun = pending_ != nullptr || again_;
  out.integer(begun);
  if (begun) out.element(args_);
}

void FunctionCall::restore(StateReader& in) {
  pending_ = nullptr;
  again_ = in.integer() != 0;
  if (again_) args_ = in.element();
}

std::shared_ptr<const Function> function_attr(Context& ctx, const char* attr, const std::vector<DType>& arguments,
                                              const Element& captured, const std::vector<DType>* results) {
  auto function = ctx.def().attr<std::shared_ptr<Function>>(attr);
  std::vector<DType> given = arguments, taken;
  for (const Tensor& t : captured) given.push_back(t.dtype());
  for (const Function::Argument& argument : function->arguments()) taken.push_back(argument.dtype);
  require(given == taken, "function '", function->name(), "' takes arguments of types ", str(taken),
          ", but is called with ", str(given));
  if (results != nullptr)
    require(function->results() == *results, "function '", function->name(), "' has results of types ",
            str(function->results()), ", expected are ", str(*results));
  return function;
}

Element inputs_between(Context& ctx, int first, int last) {
  Element out;
  for (int i = first; i < last; ++i) out.push_back(ctx.input(i).owned());
  return out;
}

}  // namespace thalweg
