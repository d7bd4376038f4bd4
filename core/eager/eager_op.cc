// Running single ops.
#include "eager/eager_op.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "executor/run_node.h"
#include "executor/step.h"
#include "kernel/prompt_kernel.h"
#include "kernel/registry.h"
#include "thread/denormals.h"
#include "thread/forks.h"

namespace thalweg {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);

// How the op that this thread runs by itself lets its caller handle signals.
thread_local const std::function<void()>* poll_of_thread = nullptr;

struct PollScope {
  explicit PollScope(const std::function<void()>& poll) : outer(std::exchange(poll_of_thread, &poll)) {}
  ~PollScope() { poll_of_thread = outer; }
  PollScope(const PollScope&) = delete;
  const std::function<void()>* const outer;
};

// What kernels see as their step. It never ends by itself; that of a waiting kernel is cancelled if the caller gives
// up.
class EagerStep final : public Step {
 public:
  void tick() override {
    if (poll_of_thread != nullptr) (*poll_of_thread)();
  }
  void abort(const Error&) override {
    interrupted_.store(true, std::memory_order_relaxed);
    cancellation().cancel();
  }
};

EagerStep& common_step() {
  static EagerStep* step = new EagerStep;
  return *step;
}

// The end of an asynchronous kernel, which may come on any thread.
struct Ending {
  std::mutex mutex;
  std::condition_variable came;
  bool ended = false;
  std::optional<Error> error;
  std::vector<Tensor> outputs;
};

}  // namespace

EagerOp::EagerOp(NodeDef def, std::shared_ptr<Device> device) : def_(std::move(def)), device_(std::move(device)) {
  kernel_ = Registry::global().create(def_, *device_);
  async_ = dynamic_cast<AsyncKernel*>(kernel_.get()) != nullptr;
  prompt_ = dynamic_cast<PromptKernel*>(kernel_.get());
}

void EagerOp::run(Tensor* inputs, Tensor* outputs, const std::function<void()>& poll) const {
  Forks::check();
  FlushDenormals flush;
  PollScope polled(poll);
  if (async_) [[unlikely]] {
    wait(inputs, outputs, poll);
  } else {
    compute_node({*device_, common_step()}, def_, *kernel_, inputs, outputs, {});
  }
  require_outputs(def_, num_outputs(), outputs);
}

void EagerOp::wait(Tensor* inputs, Tensor* outputs, const std::function<void()>& poll) const {
  auto step = std::make_shared<EagerStep>();
  const bool done = run_node({*device_, *step}, def_, kernel_.get(), inputs, outputs, {},
                             [&](Context& ctx, int32_t) { return prompt_ != nullptr && prompt_->attempt(ctx); });
  if (done) return;
  auto ending = std::make_shared<Ending>();
  // The step outlives the kernel's work, also if the caller has given up meanwhile.
  auto finish = [ending, step](AsyncContext& context, std::optional<Error> error) {
    std::lock_guard lock(ending->mutex);
    ending->error = std::move(error);
    if (!ending->error)
      for (size_t i = 0; i < context.def().output_dtypes.size(); ++i)
        ending->outputs.push_back(std::move(context.outputs()[i]));
    ending->ended = true;
    ending->came.notify_all();
  };
  run_node({*device_, *step}, def_, kernel_.get(), inputs, outputs, {}, [&](Context&, int32_t) {
    auto context = std::make_shared<AsyncContext>(def_, *device_, *step, inputs, FrameIteration{}, finish);
    static_cast<AsyncKernel&>(*kernel_).start(std::move(context));
    return true;
  });
  std::unique_lock lock(ending->mutex);
  while (!ending->came.wait_for(lock, kPollInterval, [&] { return ending->ended; })) {
    lock.unlock();
    try {
      poll();
    } catch (...) {
      step->abort(Error(Code::cancelled, "the caller has given up"));
      lock.lock();
      ending->came.wait(lock, [&] { return ending->ended; });
      throw;
    }
    lock.lock();
  }
  if (ending->error) {
    ending->error->set_node(def_.name, def_.op);
    throw *ending->error;
  }
  for (int i = 0; i < num_outputs(); ++i) outputs[i] = std::move(ending->outputs[static_cast<size_t>(i)]);
}

}  // namespace thalweg
