// Kernel: the implementation of one op on one device type; Context: the inputs, outputs and surroundings of one
// execution.
//
// A kernel object belongs to one node. It is made once, from the node's attributes (throw Error for bad ones), and then
// run by any number of steps at the same time: `compute` must not change members without a lock. Stateful ops keep one
// kernel per session and node; others are made anew for each compiled step.
//
// `compute` runs on the step's thread. It reads inputs, allocates or sets every output, and throws Error for bad input.
// It must check every shape, size and index before it touches memory. An output left unset is an error, except for the
// control-flow kernels, where an unset output is the dead token.
//
// An AsyncKernel may finish later and on another thread: `start` keeps the context and calls `done()` or `fail(error)`
// exactly once. It must not block, and must register with the step's cancellation before it waits.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "kernel/frame_iteration.h"
#include "kernel/node_def.h"

namespace thalweg {

class Step;

class Construction {
 public:
  Construction(const NodeDef& def, Device& device) : def_(def), device_(device) {}
  const NodeDef& def() const { return def_; }
  Device& device() const { return device_; }
  template <typename T>
  T attr(std::string_view name) const {
    return def_.attr<T>(name);
  }
  template <typename T>
  T attr(std::string_view name, T otherwise) const {
    return def_.attr<T>(name, std::move(otherwise));
  }
  int num_inputs() const { return static_cast<int>(def_.input_dtypes.size()); }
  int num_outputs() const { return static_cast<int>(def_.output_dtypes.size()); }
  DType input_dtype(int i) const { return def_.input_dtypes[i]; }
  DType output_dtype(int i) const { return def_.output_dtypes[i]; }

 private:
  const NodeDef& def_;
  Device& device_;
};

class Context {
 public:
  Context(const NodeDef& def, Device& device, Step& step, Tensor* inputs, Tensor* outputs, FrameIteration iteration)
      : def_(&def), device_(&device), step_(&step), inputs_(inputs), outputs_(outputs), iteration_(iteration) {}

  int num_inputs() const { return static_cast<int>(def_->input_dtypes.size()); }
  int num_outputs() const { return static_cast<int>(def_->output_dtypes.size()); }
  const Tensor& input(int i) const { return inputs_[i]; }
  // Hands the input over to the kernel, which may then write it in place if it is `writable()`.
  Tensor take_input(int i) { return std::move(inputs_[i]); }
  DType output_dtype(int i) const { return def_->output_dtypes[i]; }
  bool output_defined(int i) const { return outputs_[i].defined(); }
  const Tensor& output(int i) const { return outputs_[i]; }

  void set_output(int i, Tensor value) { outputs_[i] = std::move(value); }
  // A new, uninitialized output of the node's element type.
  Tensor& allocate(int i, Shape shape) {
    outputs_[i] = Tensor(def_->output_dtypes[i], std::move(shape));
    return outputs_[i];
  }
  // Output i in the buffer of an input without another reference, if shape and element width agree; else a new one. The
  // input stays readable: it shares the memory, so the kernel must read element k before it writes element k.
  Tensor& forward_or_allocate(std::initializer_list<int> candidates, int i, const Shape& shape) {
    DType dtype = def_->output_dtypes[i];
    for (int candidate : candidates) {
      Tensor& in = inputs_[candidate];
      if (in.writable() && in.dtype() == dtype && in.shape() == shape) {
        outputs_[i] = in;
        return outputs_[i];
      }
    }
    return allocate(i, shape);
  }

  const NodeDef& def() const { return *def_; }
  Device& device() const { return *device_; }
  Step& step() const { return *step_; }
  // Which iteration of which loop the node runs in.
  FrameIteration iteration() const { return iteration_; }

  template <typename T>
  T& resource(int i) const {
    const Tensor& handle = inputs_[i];
    require(handle.dtype() == DType::resource && handle.num_elements() == 1, "expected a resource handle, got ",
            handle.dtype(), handle.shape());
    return handle.flat<ResourceHandle>()->template get<T>();
  }

 protected:
  const NodeDef* def_;
  Device* device_;
  Step* step_;
  Tensor* inputs_;
  Tensor* outputs_;
  FrameIteration iteration_;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void compute(Context& ctx) = 0;
};

// A kernel of a fused node. For observers it can also run the ops of the node one by one, and pass each of them on with
// its inputs and its output.
class DivisibleKernel : public Kernel {
 public:
  using Part = std::function<void(const NodeDef& node, std::span<const Tensor> inputs, const Tensor& output)>;
  virtual void compute_in_parts(Context& ctx, const Part& part) = 0;
};

// The context of an asynchronous kernel: it owns its inputs and outputs until it is done.
class AsyncContext : public Context {
 public:
  using Finish = std::function<void(AsyncContext&, std::optional<Error>)>;
  AsyncContext(const NodeDef& def, Device& device, Step& step, Tensor* inputs, FrameIteration iteration, Finish finish)
      : Context(def, device, step, nullptr, nullptr, iteration), finish_(std::move(finish)) {
    for (size_t i = 0; i < def.input_dtypes.size(); ++i) own_inputs_.push_back(std::move(inputs[i]));
    own_outputs_.resize(def.output_dtypes.size());
    inputs_ = own_inputs_.data();
    outputs_ = own_outputs_.data();
  }
  void done() { std::exchange(finish_, nullptr)(*this, std::nullopt); }
  void fail(Error error) { std::exchange(finish_, nullptr)(*this, std::move(error)); }
  Tensor* outputs() { return outputs_; }

 private:
  std::vector<Tensor> own_inputs_;
  std::vector<Tensor> own_outputs_;
  Finish finish_;
};

class AsyncKernel : public Kernel {
 public:
  void compute(Context&) final { thalweg::fail(Code::internal, "an asynchronous kernel was run as a synchronous one"); }
  virtual void start(std::shared_ptr<AsyncContext> ctx) = 0;
};

}  // namespace thalweg
