// The collective ops: they hand their tensor to the collectives of their task, and end when all members have.
#include "net/collectives.h"

#include "device/device.h"
#include "executor/step.h"
#include "kernel/kernel.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using net::Collective;
using net::Collectives;
using net::Merge;

// The collectives of the device's server; else the default of the process, if it has one; else the session's own.
std::shared_ptr<Collectives> collectives_of(Device& device) {
  DeviceFamily& family = *device.family;
  std::lock_guard lock(family.mutex);
  if (family.collectives) return family.collectives;
  if (auto chosen = Collectives::get_default()) return chosen;
  if (!family.own) family.own = std::make_shared<Collectives>();
  return family.own;
}

Merge merge_of(const std::string& name) {
  if (name == "Add") return Merge::add;
  if (name == "Mul") return Merge::multiply;
  if (name == "Min") return Merge::minimum;
  require(name == "Max", "merge_op must be one of Min, Max, Mul, Add, got '", name, "'");
  return Merge::maximum;
}

template <Collective kind, bool is_root = false>
struct CollectiveKernel : AsyncKernel {
  explicit CollectiveKernel(const Construction& c) {
    call.group = c.attr<int64_t>("group_key");
    call.size = c.attr<int64_t>("group_size");
    call.instance = c.attr<int64_t>("instance_key");
    call.timeout = c.attr<double>("timeout_seconds", 0.0);
    require(call.size >= 0, "group_size must not be negative, got ", call.size);
    require(call.timeout >= 0, "timeout_seconds must not be negative, got ", call.timeout);
    call.device = c.device().name;
    call.account = c.device().memory ? nullptr : c.device().account;
    call.header.kind = kind;
    call.header.is_root = is_root;
    if (kind != Collective::barrier) call.header.dtype = c.attr<DType>("T");
    if constexpr (kind == Collective::reduce || kind == Collective::reduce_scatter) {
      call.header.merge = merge_of(c.attr<std::string>("merge_op"));
      const auto final_op = c.attr<std::string>("final_op");
      require(final_op == "Id" || final_op == "Div", "final_op must be Id or Div, got '", final_op, "'");
      call.header.divides = final_op == "Div";
      require(net::can_merge(call.header.dtype), "elements of type ", call.header.dtype, " cannot be merged");
    }
    if constexpr (kind == Collective::broadcast) call.root = c.attr<int64_t>("root_rank", -1);
    if constexpr (kind == Collective::gather || kind == Collective::broadcast)
      shape = c.attr<PartialShape>("shape", PartialShape());
  }

  void start(std::shared_ptr<AsyncContext> ctx) override {
    net::CollectiveCall asked = call;
    asked.at = ctx->iteration();
    if (ctx->num_inputs() > 0) {
      asked.input = ctx->take_input(0);
      asked.header.shape = asked.input.shape();
      if constexpr (kind == Collective::gather || kind == Collective::reduce_scatter)
        require(asked.input.rank() > 0, "the input must have rows, got a scalar");
    }
    auto collectives = collectives_of(ctx->device());
    auto state = std::make_shared<State>();
    state->ctx = ctx;
    state->shape = shape;
    auto pending = collectives->start(std::move(asked), [state](std::optional<Error> error, Tensor value) {
      state->finish(std::move(error), std::move(value));
    });
    const int64_t token = ctx->step().cancellation().add(
        [collectives, pending] { collectives->cancel(pending, Error(Code::cancelled, "the step was ended")); });
    if (token < 0) collectives->cancel(pending, Error(Code::cancelled, "the step was ended"));
    state->registered(token);
  }

  // The end may come before `start` has registered with the step's cancellation, which must outlive the registration:
  // whichever comes second tells the step.
  struct State {
    std::shared_ptr<AsyncContext> ctx;
    PartialShape shape;
    std::mutex mutex;
    int64_t token = -1;
    bool is_registered = false, is_over = false;
    std::optional<Error> error;
    Tensor value;

    void registered(int64_t given) {
      {
        std::lock_guard lock(mutex);
        token = given;
        is_registered = true;
        if (!is_over) return;
      }
      tell();
    }
    void finish(std::optional<Error> failed, Tensor result) {
      {
        std::lock_guard lock(mutex);
        error = std::move(failed);
        value = std::move(result);
        is_over = true;
        if (!is_registered) return;
      }
      tell();
    }
    void tell() {
      if (token >= 0) ctx->step().cancellation().remove(token);
      auto context = std::move(ctx);
      if (!error && value.defined() && !shape.accepts(value.shape()))
        error =
            Error(Code::invalid_argument, cat("the result has shape ", value.shape(), ", the node declares ", shape));
      if (error) return context->fail(*std::move(error));
      if (context->num_outputs() > 0) context->set_output(0, std::move(value));
      context->done();
    }
  };

  net::CollectiveCall call;
  PartialShape shape;
};

REGISTER(kernel("CollectiveReduce").make<CollectiveKernel<Collective::reduce>>());
REGISTER(kernel("CollectiveReduceScatter").make<CollectiveKernel<Collective::reduce_scatter>>());
REGISTER(kernel("CollectiveGather").make<CollectiveKernel<Collective::gather>>());
REGISTER(kernel("CollectiveBcastSend").make<CollectiveKernel<Collective::broadcast, true>>());
REGISTER(kernel("CollectiveBcastRecv").make<CollectiveKernel<Collective::broadcast>>());
REGISTER(kernel("CollectiveBroadcast").make<CollectiveKernel<Collective::broadcast>>());
REGISTER(kernel("CollectiveBarrier").make<CollectiveKernel<Collective::barrier>>());

}  // namespace
}  // namespace thalweg
