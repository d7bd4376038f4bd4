// FunctionCall: a graph function as stages call it: with captured arguments, inline where its body does not wait.
//
// One call at a time. A body with asynchronous kernels runs in the background: `finish` is then false until the waker
// has been called.
#pragma once

#include <mutex>

#include "data/dataset.h"
#include "function/function.h"

namespace thalweg {

// A function and its captured tensors.
struct Called {
  std::shared_ptr<const Function> function;
  std::shared_ptr<const Element> captured;
};

class FunctionCall {
 public:
  FunctionCall(std::shared_ptr<const Function> function, std::shared_ptr<const Element> captured, const Making& making)
      : function_(std::move(function)),
        captured_(std::move(captured)),
        waker_(making.waker),
        streams_(making.streams) {}
  FunctionCall(const Called& called, const Making& making) : FunctionCall(called.function, called.captured, making) {}
  ~FunctionCall();
  FunctionCall(const FunctionCall&) = delete;

  // Whether a call was begun and is not finished.
  bool pending() const { return pending_ != nullptr || again_; }
  // Begins a call if none is pending, with the elements of `args`, which are taken. True: `results` are set.
  bool finish(Pull& pull, Element& args, Element& results);

  // The arguments of a pending call, without the captured ones.
  const Element& args() const { return args_; }
  // A pending call is saved as its arguments, and begun again.
  void save(StateWriter& out) const;
  void restore(StateReader& in);

 private:
  struct Pending;

  const std::shared_ptr<const Function> function_;
  const std::shared_ptr<const Element> captured_;
  const std::shared_ptr<Waker> waker_;
  const std::shared_ptr<RandomStreams> streams_;
  Element args_;        // of the pending call
  bool again_ = false;  // restored: the call with args_ must be begun again
  std::shared_ptr<Pending> pending_;
};

// For kernels: the function of an attribute, checked against the types of its arguments and of the expected results
// (null: any), and the captured arguments among the inputs.
std::shared_ptr<const Function> function_attr(Context& ctx, const char* attr, const std::vector<DType>& arguments,
                                              const Element& captured, const std::vector<DType>* results);
Element inputs_between(Context& ctx, int first, int last);

}  // namespace thalweg
