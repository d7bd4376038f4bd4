// Stacks: last in, first out, within one step. Loops keep values for their gradients on them.
#include "executor/step.h"
#include "kernel/registry.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

class Stack : public Resource {
 public:
  Stack(std::string name, DType dtype, int64_t most) : name_(std::move(name)), dtype_(dtype), most_(most) {}
  const char* kind() const override { return "a stack"; }
  void push(const Tensor& value) {
    require(value.dtype() == dtype_, "Stack[", name_, "] has elements of type ", dtype_, ", cannot push ",
            value.dtype());
    Tensor owned = value.owned();
    std::lock_guard lock(mutex_);
    require(!closed_, "Stack[", name_, "] has already been closed.");
    require(most_ < 0 || static_cast<int64_t>(values_.size()) < most_, "Stack[", name_, "] overflowed its max_size (",
            most_, ")");
    values_.push_back(std::move(owned));
  }
  Tensor pop(DType dtype) {
    require(dtype == dtype_, "Stack[", name_, "] has elements of type ", dtype_, ", cannot pop ", dtype);
    std::lock_guard lock(mutex_);
    require(!closed_, "Stack[", name_, "] has already been closed.");
    require(!values_.empty(), "Stack[", name_, "] is empty when calling Pop().");
    Tensor out = std::move(values_.back());
    values_.pop_back();
    return out;
  }
  void close() {
    std::vector<Tensor> gone;
    std::lock_guard lock(mutex_);
    closed_ = true;
    gone.swap(values_);
  }

 private:
  const std::string name_;
  const DType dtype_;
  const int64_t most_;
  std::mutex mutex_;  // guards the rest
  bool closed_ = false;
  std::vector<Tensor> values_;
};

struct Create : Kernel {
  explicit Create(const Construction& c)
      : dtype(c.attr<DType>("elem_type")), name(c.attr<std::string>("stack_name", "")) {
    if (name.empty()) name = c.def().name;
  }
  void compute(Context& ctx) override {
    auto stack = std::make_shared<Stack>(name, dtype, to_int64(ctx.input(0)));
    ctx.set_output(0, handle_tensor({ctx.device().name, ctx.step().container(), name, std::move(stack)}));
  }
  DType dtype;
  std::string name;
};

void push(Context& ctx) {
  ctx.resource<Stack>(0).push(ctx.input(1));
  ctx.set_output(0, ctx.take_input(1));
}
void pop(Context& ctx) { ctx.set_output(0, ctx.resource<Stack>(0).pop(ctx.output_dtype(0))); }
void close(Context& ctx) { ctx.resource<Stack>(0).close(); }

REGISTER(kernel("StackV2").make<Create>());
REGISTER(kernel("StackPushV2").function<push>());
REGISTER(kernel("StackPopV2").function<pop>());
REGISTER(kernel("StackCloseV2").function<close>());

}  // namespace
}  // namespace thalweg
