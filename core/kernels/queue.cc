// The ops on queues. They finish inline when the queue has room or elements, and wait in line without a thread if not.
#include "resource/queue.h"

#include "executor/step.h"
#include "kernel/completion.h"
#include "kernel/prompt_kernel.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void check_timeout(const Construction& c) {
  require(c.attr<int64_t>("timeout_ms", -1) == -1, "Timeout not supported yet.");
}

std::string list_of(std::span<const DType> dtypes) {
  std::string out;
  for (DType dtype : dtypes) out += (out.empty() ? "" : ", ") + std::string(name_of(dtype));
  return "(" + out + ")";
}

void check_types(const Queue& queue, std::span<const DType> declared) {
  const std::vector<DType>& held = queue.dtypes();
  require(std::equal(held.begin(), held.end(), declared.begin(), declared.end()), "Signature mismatch: queue '",
          queue.name(), "' has components of types ", list_of(held), ", this op expects ", list_of(declared));
}

template <bool many>
struct Enqueue : PromptKernel {
  explicit Enqueue(const Construction& c) { check_timeout(c); }

  bool attempt(Context& ctx) override {
    Queue& queue = ctx.resource<Queue>(0);
    check_types(queue, std::span(ctx.def().input_dtypes).subspan(1));
    return many ? queue.try_enqueue_many(components(ctx)) : queue.try_enqueue(components(ctx));
  }

  void start(std::shared_ptr<AsyncContext> ctx) override {
    Queue& queue = ctx->resource<Queue>(0);
    std::span<const Tensor> inputs = components(*ctx);
    Queue::Tuple tuple(inputs.begin(), inputs.end());
    Cancellation& cancellation = ctx->step().cancellation();
    if constexpr (many)
      queue.enqueue_many(std::move(tuple), cancellation, completion(std::move(ctx)));
    else
      queue.enqueue(std::move(tuple), cancellation, completion(std::move(ctx)));
  }

  static std::span<const Tensor> components(Context& ctx) {
    return {&ctx.input(1), static_cast<size_t>(ctx.num_inputs()) - 1};
  }
};

struct Dequeue : PromptKernel {
  explicit Dequeue(const Construction& c) { check_timeout(c); }

  bool attempt(Context& ctx) override {
    Queue& queue = ctx.resource<Queue>(0);
    check_types(queue, ctx.def().output_dtypes);
    Queue::Tuple tuple;
    if (!queue.try_dequeue(tuple)) return false;
    set_outputs(ctx, std::move(tuple));
    return true;
  }
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Queue& queue = ctx->resource<Queue>(0);
    Cancellation& cancellation = ctx->step().cancellation();
    queue.dequeue(cancellation, completion_with_outputs(std::move(ctx)));
  }
};

template <bool up_to>
struct DequeueMany : PromptKernel {
  explicit DequeueMany(const Construction& c) { check_timeout(c); }

  bool attempt(Context& ctx) override {
    Queue& queue = ctx.resource<Queue>(0);
    check_types(queue, ctx.def().output_dtypes);
    Queue::Tuple batch;
    if (!queue.try_dequeue_many(requested(ctx), batch)) return false;
    set_outputs(ctx, std::move(batch));
    return true;
  }
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Queue& queue = ctx->resource<Queue>(0);
    Cancellation& cancellation = ctx->step().cancellation();
    int64_t count = requested(*ctx);
    queue.dequeue_many(count, up_to, cancellation, completion_with_outputs(std::move(ctx)));
  }
  static int64_t requested(Context& ctx) {
    require(ctx.input(1).rank() == 0, "the number of elements to dequeue must be a scalar, got shape ",
            ctx.input(1).shape());
    return to_int64(ctx.input(1));
  }
};

struct Close : AsyncKernel {
  explicit Close(const Construction& c) : cancel_pending(c.attr<bool>("cancel_pending_enqueues", false)) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Queue& queue = ctx->resource<Queue>(0);
    Cancellation& cancellation = ctx->step().cancellation();
    queue.close(cancel_pending, cancellation, completion(std::move(ctx)));
  }
  bool cancel_pending;
};

void size(Context& ctx) { ctx.set_output(0, Tensor::scalar(static_cast<int32_t>(ctx.resource<Queue>(0).size()))); }
void is_closed(Context& ctx) { ctx.set_output(0, Tensor::scalar(ctx.resource<Queue>(0).closed())); }

// A component of the elements that the next dequeue of `n` will take, as far as they are there: all their values, one
// after the other. Does not wait.
struct Peek : Kernel {
  explicit Peek(const Construction& c) : component(c.attr<int64_t>("component")) {}
  void compute(Context& ctx) override {
    Queue& queue = ctx.resource<Queue>(0);
    require(component >= 0 && component < static_cast<int64_t>(queue.dtypes().size()), "queue '", queue.name(),
            "' has elements of ", queue.dtypes().size(), " components, there is no number ", component);
    const DType dtype = ctx.output_dtype(0);
    require(queue.dtypes()[static_cast<size_t>(component)] == dtype, "component ", component, " of queue '",
            queue.name(), "' has type ", queue.dtypes()[static_cast<size_t>(component)], ", the op declares ", dtype);
    const std::vector<Tensor> coming = queue.peek(to_int64(ctx.input(1)), static_cast<size_t>(component));
    int64_t values = 0;
    for (const Tensor& tensor : coming) values += tensor.num_elements();
    Tensor& out = ctx.allocate(0, Shape{values});
    auto* to = static_cast<char*>(out.raw());
    for (const Tensor& tensor : coming) {
      copy_elements(dtype, to, tensor.raw(), tensor.num_elements());
      to += static_cast<size_t>(tensor.num_elements()) * size_of(dtype);
    }
  }
  const int64_t component;
};

REGISTER(kernel("_QueuePeek").make<Peek>());
REGISTER(kernel("QueueEnqueueV2").make<Enqueue<false>>());
REGISTER(kernel("QueueEnqueueManyV2").make<Enqueue<true>>());
REGISTER(kernel("QueueDequeueV2").make<Dequeue>());
REGISTER(kernel("QueueDequeueManyV2").make<DequeueMany<false>>());
REGISTER(kernel("QueueDequeueUpToV2").make<DequeueMany<true>>());
REGISTER(kernel("QueueCloseV2").make<Close>());
REGISTER(kernel("QueueSizeV2").function<size>());
REGISTER(kernel("QueueIsClosedV2").function<is_closed>());

}  // namespace
}  // namespace thalweg
