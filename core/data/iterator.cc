// Serving requests.
#include "data/iterator.h"

#include <thread>

#include "executor/step.h"
#include "thread/blocking.h"
#include "thread/thread_pool.h"

namespace thalweg {

namespace {

// The iterators that a traversal owns must not own it.
struct Relay final : Waker {
  explicit Relay(std::weak_ptr<Traversal> to) : to(std::move(to)) {}
  void wake() override {
    if (std::shared_ptr<Traversal> traversal = to.lock()) traversal->wake();
  }
  const std::weak_ptr<Traversal> to;
};

}  // namespace

std::shared_ptr<Traversal> Traversal::begin(const Dataset& dataset, Device& device) {
  auto made = std::make_shared<Traversal>();
  made->iterator_ = dataset.iterate(Making{device, std::make_shared<Relay>(made)});
  made->inline_wake_ = made->iterator_->buffered();
  return made;
}

bool Traversal::serve(Request& request, Step& step) {
  AsyncContext& ctx = *request.ctx;
  std::optional<Error> error;
  try {
    if (!iterator_) fail(Code::cancelled, "the iterator has gone with its session");
    Pull pull{step};
    Pulled pulled = iterator_->next(pull, element_);
    if (pulled == Pulled::later) return false;
    request.deliver(ctx, pulled == Pulled::end ? nullptr : &element_);
  } catch (const Error& e) {
    error = e;
  } catch (const std::bad_alloc&) {
    error.emplace(Code::resource_exhausted, "out of memory");
  }
  element_.clear();
  if (error)
    ctx.fail(std::move(*error));
  else
    ctx.done();
  return true;
}

void Traversal::request(std::shared_ptr<AsyncContext> ctx, Deliver deliver) {
  Request request{std::move(ctx), deliver, -1, shared_from_this()};
  {
    std::lock_guard lock(mutex_);
    if (driving_ || !queue_.empty()) {
      enqueue(std::move(request), false);
      return;
    }
    driving_ = true;
    woken_ = false;
  }
  std::shared_ptr<Traversal> self = request.self;
  if (!serve(request, request.ctx->step())) {
    std::lock_guard lock(mutex_);
    enqueue(std::move(request), true);
    if (!woken_) {
      driving_ = false;
      return;
    }
  }
  size_t waiting;
  {
    std::lock_guard lock(mutex_);
    waiting = queue_.size();
    if (waiting == 0) {
      driving_ = false;
      return;
    }
  }
  // Serves the requests that came meanwhile, but no later ones: they must not keep this thread.
  drive(static_cast<int64_t>(waiting));
}

std::optional<Tensor> Traversal::peek(size_t component) {
  std::lock_guard lock(mutex_);  // No other thread begins to drive meanwhile.
  if (driving_ || !queue_.empty() || !iterator_) return std::nullopt;
  return iterator_->peek(component);
}

void Traversal::drive(int64_t most) {
  while (true) {
    Request request;
    {
      std::lock_guard lock(mutex_);
      woken_ = false;
      if (queue_.empty()) {
        driving_ = false;
        return;
      }
      if (most == 0) {
        if (hand_over()) return;
        most = -1;
      }
      request = std::move(queue_.front());
      queue_.pop_front();
    }
    if (most > 0) --most;
    request.ctx->step().cancellation().remove(request.token);
    if (serve(request, step_)) continue;
    std::lock_guard lock(mutex_);
    enqueue(std::move(request), true);
    if (woken_) continue;
    driving_ = false;
    return;
  }
}

void Traversal::enqueue(Request request, bool first) {
  AsyncContext* ctx = request.ctx.get();
  request.token = ctx->step().cancellation().add([self = request.self, ctx] { self->cancel(ctx); });
  if (request.token < 0) {
    // Failing it may end the step on this thread, which must not hold the lock.
    ThreadPool::shared().submit(
        [ctx = std::move(request.ctx)] { ctx->fail(Error(Code::cancelled, "the step was cancelled")); });
    return;
  }
  if (first)
    queue_.push_front(std::move(request));
  else
    queue_.push_back(std::move(request));
}

void Traversal::cancel(AsyncContext* ctx) {
  Request found;
  {
    std::lock_guard lock(mutex_);
    for (auto it = queue_.begin(); it != queue_.end(); ++it) {
      if (it->ctx.get() != ctx) continue;
      found = std::move(*it);
      queue_.erase(it);
      break;
    }
  }
  if (found.ctx) found.ctx->fail(Error(Code::cancelled, "the step was cancelled while it waited for an element"));
}

void Traversal::wake() {
  std::shared_ptr<Traversal> self;
  {
    std::lock_guard lock(mutex_);
    if (driving_) {
      woken_ = true;
      return;
    }
    if (queue_.empty()) return;
    driving_ = true;
    self = queue_.front().self;
  }
  if (inline_wake_)
    drive(1);
  else if (!hand_over())
    drive(-1);
}

bool Traversal::hand_over() {
  try {
    ThreadPool::shared().submit([self = shared_from_this()] { self->drive(-1); });
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Traversal::exclusively(const std::function<void()>& body) {
  blocking([this] {
    // Pulls never block, so this is short.
    for (std::unique_lock lock(mutex_); driving_; lock.lock()) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  {
    std::unique_lock lock(mutex_);
    if (driving_) {
      lock.unlock();
      return exclusively(body);
    }
    driving_ = true;
  }
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    thrown = std::current_exception();
  }
  drive(0);
  if (thrown) std::rethrow_exception(thrown);
}

void Traversal::close() {
  step_.end();
  exclusively([this] { iterator_.reset(); });
}

std::string Traversal::save() {
  StateWriter out;
  exclusively([&] { iterator_->save(out); });
  return out.take();
}

void Traversal::restore(const std::string& state) {
  StateReader in(state);
  exclusively([&] { iterator_->restore(in); });
}

void check_signature(const Signature& declared, const Signature& actual, const char* whose) {
  require(declared.types == actual.types, "the ", whose, " has elements of types ", str(declared.types),
          ", but got elements of types ", str(actual.types));
  for (size_t i = 0; i < declared.shapes.size(); ++i) {
    const PartialShape &a = declared.shapes[i], &b = actual.shapes[i];
    bool fits = !a.known_rank || !b.known_rank || a.dims.size() == b.dims.size();
    for (size_t k = 0; fits && a.known_rank && b.known_rank && k < a.dims.size(); ++k)
      fits = a.dims[k] < 0 || b.dims[k] < 0 || a.dims[k] == b.dims[k];
    require(fits, "the ", whose, " has shape ", a, " in component ", i, ", but got shape ", b);
  }
}

IteratorResource::~IteratorResource() {
  // Its background work must end before the device goes, even if a request is just being finished elsewhere.
  if (current_) current_->close();
}

void IteratorResource::initialize(const DatasetPtr& dataset) {
  if (!signature_.types.empty()) check_signature(signature_, dataset->signature(), "iterator");
  std::shared_ptr<Traversal> fresh = Traversal::begin(*dataset, device_), old;
  std::lock_guard lock(mutex_);
  dataset_ = dataset;
  old = std::exchange(current_, std::move(fresh));
}

bool IteratorResource::initialized() {
  std::lock_guard lock(mutex_);
  return current_ != nullptr;
}

std::shared_ptr<Traversal> IteratorResource::traversal() {
  std::lock_guard lock(mutex_);
  if (!current_)
    fail(Code::failed_precondition,
         "GetNext() failed because the iterator has not been initialized. Ensure that you have run the initializer "
         "operation for this iterator before getting the next element.");
  return current_;
}

void IteratorResource::restore(const std::string& state) {
  DatasetPtr dataset;
  {
    std::lock_guard lock(mutex_);
    dataset = dataset_;
  }
  if (!dataset)
    fail(Code::failed_precondition,
         "The position of an iterator can be restored only after the iterator has been initialized with its dataset.");
  std::shared_ptr<Traversal> fresh = Traversal::begin(*dataset, device_), old;
  fresh->restore(state);
  std::lock_guard lock(mutex_);
  old = std::exchange(current_, std::move(fresh));
}

}  // namespace thalweg
