// Function: the body of a graph function, compiled for one session, as a value that kernels call.
//
// A node's attribute holds it; a kernel gets it with `construction.attr<std::shared_ptr<Function>>("f")`. Arguments are
// those of the function, captured ones last; results come in order. Nodes with side effects run even if no result needs
// them. Immutable once it is defined, and callable from any number of threads at once; the kernels of its stateful
// nodes are made once and shared by all calls.
//
// `run` runs the body on the calling thread and throws its first error. Called with a step it belongs to that step: it
// must be called by the thread that drives the step, as a kernel's `compute` is, and a body without control flow and
// asynchronous kernels costs little more than its nodes. Called with a cancellation it may run on any thread; it waits
// where the body waits.
//
// `start` runs it on the thread pool and calls `done` there, once; a body that waits (for a queue) holds no thread.
// The cancellation, or the step, must live until then. Both forms end with CancelledError once the parent is cancelled.
// The nodes of the call are in the trace of a step if the calling node is given (`caller_in`).
//
// An error keeps its code, and its message says in which node of which function it happened.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/executor.h"

namespace thalweg {

class Function : public std::enable_shared_from_this<Function> {
 public:
  struct Argument {
    DType dtype;
    PartialShape shape;
  };
  using Done = std::function<void(std::optional<Error>, std::vector<Tensor>)>;

  // A function is declared first and gets its body later, because a body may call the function itself.
  Function(std::string name, std::vector<Argument> arguments, std::vector<DType> results, bool blocking,
           bool runs_python = false);
  void define(std::shared_ptr<Device> device, std::shared_ptr<const Plan> plan);
  // Drops the body, and with it the functions that it calls; called by the destructor of the session.
  void forget();

  const std::string& name() const { return name_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<DType>& results() const { return results_; }
  // Whether the body, or one that it calls, has asynchronous kernels: then kernels that call it should use `start`.
  bool blocking() const { return blocking_; }
  // Whether the body, or one that it calls, has kernels written in Python: those of a user may wait for anything, and
  // hold their thread meanwhile.
  bool runs_python() const { return runs_python_; }

  std::vector<Tensor> run(Step& parent, std::vector<Tensor> args) const;
  std::vector<Tensor> run(Cancellation& parent, std::vector<Tensor> args) const;
  using Caller = StepStats::Caller;
  void start(Step& parent, std::vector<Tensor> args, Done done, const Caller& caller = {}) const;
  // `streams`: of the traversal that the call belongs to. (A step knows its own.)
  void start(Cancellation& parent, std::vector<Tensor> args, Done done, const Caller& caller = {},
             std::shared_ptr<RandomStreams> streams = nullptr) const;

 private:
  struct Body {
    std::shared_ptr<Device> device;  // which the plan refers to
    std::shared_ptr<const Plan> plan;
  };
  std::shared_ptr<const Body> body() const;
  void check(const std::vector<Tensor>& args) const;
  std::vector<Tensor> run_within(const Body& body, Step& parent, std::vector<Tensor> args) const;
  // The parent of a call that runs as a step of its own.
  struct Parent {
    explicit Parent(Cancellation& cancellation, std::shared_ptr<RandomStreams> streams = nullptr)
        : cancellation(cancellation), streams(std::move(streams)) {}
    explicit Parent(Step& step)
        : cancellation(step.cancellation()), depth(step.depth() + 1), id(step.id()), streams(step.random_streams()) {}
    Cancellation& cancellation;
    int depth = 1;
    int64_t id = 0;  // of the step; 0: none
    std::shared_ptr<RandomStreams> streams;
  };
  std::vector<Tensor> run_as_step(const Body& body, const Parent& parent, Step* driven, std::vector<Tensor> args) const;
  void start_as_step(const Parent& parent, std::vector<Tensor> args, Done done, const Caller& caller) const;
  // The error, with the node that it names moved into the message.
  Error located(const Error& error) const;

  std::string name_;
  std::vector<Argument> arguments_;
  std::vector<DType> results_;
  bool blocking_;
  bool runs_python_;
  std::atomic<std::shared_ptr<const Body>> body_;
};

}  // namespace thalweg
