// Parallel calls: threads that pull, that run the function, and that wait.
#include "data/parallel_map.h"

#include <chrono>

#include "data/function_call.h"
#include "data/stages.h"
#include "kernel/registry.h"
#include "thread/blocking.h"
#include "thread/parallel.h"
#include "thread/serial_scope.h"
#include "thread/thread_pool.h"

namespace thalweg {
namespace {

constexpr double kChunkSeconds = 50e-6;  // work between two acquisitions of the lock
constexpr size_t kLargestChunk = 32;
constexpr double kCheapSeconds = 3e-6;  // the least cost of passing an element between threads
// Workers that are inside a call, by thread: closing from there must not wait for itself.
thread_local const ParallelCalls* working_for = nullptr;

}  // namespace

std::shared_ptr<ParallelCalls> ParallelCalls::make(Options options, const Dataset& input, const Making& making) {
  std::shared_ptr<ParallelCalls> made(new ParallelCalls(std::move(options), making));
  // The input must not own its owner.
  struct Relay final : Waker {
    explicit Relay(std::weak_ptr<ParallelCalls> to) : to(std::move(to)) {}
    void wake() override {
      if (auto calls = to.lock()) calls->wake();
    }
    const std::weak_ptr<ParallelCalls> to;
  };
  made->input_ = input.iterate(making.woken_by(std::make_shared<Relay>(made)));
  return made;
}

bool ParallelCalls::room() const {
  return !pulling_ && !stalled_ && !ended_ && !closed_ && !held_ && calls_.size() < options_.calls * chunk_ &&
         started_ < options_.calls;
}

ParallelCalls::Call* ParallelCalls::ready() const {
  if (calls_.empty()) return nullptr;
  if (calls_.front()->done) return calls_.front().get();
  if (!options_.in_order)
    for (const auto& call : calls_)
      if (call->done) return call.get();
  return nullptr;
}

void ParallelCalls::measure(double seconds, size_t calls) {
  double each = seconds / static_cast<double>(calls);
  mean_seconds_ = mean_seconds_ < 0 ? each : 0.8 * mean_seconds_ + 0.2 * each;
  if (options_.may_wait) return;  // The elements of a chunk would wait for each other.
  chunk_ = std::clamp<size_t>(static_cast<size_t>(kChunkSeconds / std::max(mean_seconds_, 1e-9)), 1, kLargestChunk);
}

bool ParallelCalls::work(Lock& lock, Step& step) {
  if (!room()) return false;
  pulling_ = true;
  woken_ = false;
  const auto begin = std::chrono::steady_clock::now();
  const bool starts = options_.function->blocking();
  const size_t most = starts ? 1 : std::min(chunk_, options_.calls * chunk_ - calls_.size());
  std::vector<std::unique_ptr<Call>> pulled;
  for (size_t i = 0; i < most && !spare_.empty(); ++i) {
    pulled.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  lock.unlock();
  Pull pull{step};
  size_t count = 0;
  Pulled last = Pulled::element;
  for (; count < most; ++count) {
    if (count == pulled.size()) pulled.push_back(std::make_unique<Call>());
    Call& call = *pulled[count];
    call.done = false;
    call.error.reset();
    try {
      last = input_->next(pull, call.args);
    } catch (const Error& error) {
      call.error = error;
      call.done = true;
    } catch (const std::bad_alloc&) {
      call.error.emplace(Code::resource_exhausted, "out of memory");
      call.done = true;
    }
    if (last != Pulled::element) break;
  }
  lock.lock();
  pulling_ = false;
  if (last == Pulled::end) ended_ = true;
  if (last == Pulled::later) stalled_ = !woken_;
  std::vector<Call*> mine;
  for (size_t i = 0; i < count; ++i) {
    mine.push_back(pulled[i].get());
    calls_.push_back(std::move(pulled[i]));
  }
  if (starts) {
    for (Call* call : mine)
      if (!call->done) start_call(lock, call);
  } else if (!mine.empty()) {
    recruit();
    run_calls(lock, step, mine);
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    measure(spent.count(), mine.size());
  }
  return count > 0 || (last == Pulled::later && !stalled_);
}

void ParallelCalls::run_calls(Lock& lock, Step& step, const std::vector<Call*>& mine) {
  lock.unlock();
  std::optional<SerialScope> serial;
  if (options_.calls > 1) serial.emplace();
  StreamScope scope(step, streams_);
  for (Call* call : mine) {
    if (call->done) continue;  // its element failed
    try {
      std::vector<Tensor> all = std::move(call->args);
      all.insert(all.end(), options_.captured->begin(), options_.captured->end());
      call->results = options_.function->run(step, std::move(all));
    } catch (const Error& error) {
      call->error = error;
    } catch (const std::bad_alloc&) {
      call->error.emplace(Code::resource_exhausted, "out of memory");
    }
  }
  serial.reset();
  lock.lock();
  for (Call* call : mine) call->done = true;
}

void ParallelCalls::start_call(Lock& lock, Call* call) {
  ++started_;
  std::vector<Tensor> all = call->args;
  all.insert(all.end(), options_.captured->begin(), options_.captured->end());
  lock.unlock();
  options_.function->start(
      step_.cancellation(), std::move(all),
      [self = shared_from_this(), call](std::optional<Error> error, std::vector<Tensor> results) {
        Lock lock(self->mutex_);
        call->error = std::move(error);
        call->results = std::move(results);
        self->finished(lock, call);
      },
      {}, streams_);
  lock.lock();
}

void ParallelCalls::finished(Lock& lock, Call* call) {
  call->done = true;
  --started_;
  recruit();
  if (started_ == 0) idle_.notify_all();
  bool wanted = waiting_ && ready() != nullptr;
  if (wanted) waiting_ = false;
  lock.unlock();
  if (wanted) consumer_->wake();
}

bool ParallelCalls::recruit() {
  if (workers_ >= options_.calls || !room()) return true;
  // Elements that cost less than a second thread are left to the consumer, unless it waits.
  if (!options_.may_wait && !waiting_ && mean_seconds_ >= 0 && mean_seconds_ < kCheapSeconds) return true;
  try {
    // The worker waits for the lock.
    ThreadPool::shared().submit([self = shared_from_this()] { self->worker(); });
  } catch (const Error&) {
    return false;
  }
  ++workers_;
  return true;
}

void ParallelCalls::worker() {
  const ParallelCalls* outer = std::exchange(working_for, this);
  Lock lock(mutex_);
  while (true) {
    bool worked = work(lock, step_);
    bool wanted = waiting_ && (ready() != nullptr || (ended_ && calls_.empty()));
    if (wanted) {
      waiting_ = false;
      lock.unlock();
      consumer_->wake();
      lock.lock();
    }
    if (!worked && !wanted) break;
  }
  --workers_;
  if (workers_ == 0) idle_.notify_all();
  working_for = outer;
}

Pulled ParallelCalls::next(Pull& pull, Element& out) {
  Lock lock(mutex_);
  while (true) {
    if (Call* call = ready()) {
      std::optional<Error> error = std::move(call->error);
      std::swap(out, call->results);
      call->results.clear();
      call->args.clear();
      auto place = std::find_if(calls_.begin(), calls_.end(), [call](const auto& c) { return c.get() == call; });
      if (spare_.size() < kLargestChunk) spare_.push_back(std::move(*place));
      calls_.erase(place);
      recruit();
      lock.unlock();
      if (error) throw *error;
      return Pulled::element;
    }
    if (ended_ && calls_.empty() && !pulling_) return Pulled::end;
    // The caller counts as one of the `calls` threads.
    if (!options_.may_wait && workers_ < options_.calls && room()) {
      ++workers_;
      bool worked = work(lock, pull.step);
      if (--workers_ == 0) idle_.notify_all();
      if (worked || ready() != nullptr || ended_) continue;
    }
    waiting_ = true;
    if (!recruit()) {
      waiting_ = false;
      fail(Code::resource_exhausted, "cannot start a thread for the calls of a dataset's function");
    }
    return Pulled::later;
  }
}

void ParallelCalls::wake() {
  Lock lock(mutex_);
  if (pulling_) woken_ = true;
  stalled_ = false;
  if (closed_) return;
  if ((waiting_ || !calls_.empty()) && !recruit() && std::exchange(waiting_, false)) {
    lock.unlock();
    consumer_->wake();  // It hears of the failure when it asks again.
  }
}

void ParallelCalls::hold(Lock& lock) {
  idle_.wait(lock, [this] { return !held_; });
  held_ = true;
  idle_.wait(lock, [this] { return workers_ == 0 && started_ == 0; });
}

void ParallelCalls::release(Lock&) {
  held_ = false;
  idle_.notify_all();
  if (waiting_) recruit();
}

void ParallelCalls::close() {
  {
    Lock lock(mutex_);
    closed_ = true;
  }
  step_.end();
  if (working_for == this) return;
  blocking([this] {
    Lock lock(mutex_);
    idle_.wait(lock, [this] { return workers_ == 0 && started_ == 0; });
  });
}

void ParallelCalls::save(StateWriter& out) {
  Lock lock(mutex_, std::defer_lock);
  blocking([&] {
    lock.lock();
    hold(lock);
  });
  try {
    out.tag("ParallelMapDataset");
    out.integer(ended_);
    out.integer(static_cast<int64_t>(calls_.size()));
    for (const auto& call : calls_) {
      out.integer(call->error ? static_cast<int64_t>(call->error->code()) : 0);
      if (call->error)
        out.text(call->error->message());
      else
        out.element(call->results);
    }
    // No worker is left, but an input with threads of its own may have to call the waker before it can stop.
    lock.unlock();
    input_->save(out);
    lock.lock();
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    release(lock);
    throw;
  }
  release(lock);
}

void ParallelCalls::restore(StateReader& in) {
  Lock lock(mutex_);
  in.tag("ParallelMapDataset");
  ended_ = in.integer() != 0;
  calls_.clear();
  for (int64_t n = in.count(); n > 0; --n) {
    auto call = std::make_unique<Call>();
    auto code = static_cast<Code>(in.integer());
    if (code != Code::ok)
      call->error.emplace(code, in.text());
    else
      call->results = in.element();
    call->done = true;
    calls_.push_back(std::move(call));
  }
  lock.unlock();
  input_->restore(in);
}

namespace {

class ParallelMap final : public UnaryDataset {
 public:
  enum class Order { strict, sloppy, by_options };
  ParallelMap(Signature signature, DatasetPtr input, ParallelCalls::Options options, Order order)
      : UnaryDataset(std::move(signature), std::move(input)), options_(std::move(options)), order_(order) {}
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    ParallelCalls::Options options = options_;
    options.may_wait = options.function->runs_python() || input()->pulls_may_wait();
    options.in_order = order_ == Order::strict || (order_ == Order::by_options && making.deterministic);
    return std::make_unique<Walk>(ParallelCalls::make(std::move(options), *input(), making));
  }
  bool pulls_may_wait() const override { return false; }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(std::shared_ptr<ParallelCalls> calls) : calls(std::move(calls)) {}
    ~Walk() override { calls->close(); }
    Pulled next(Pull& pull, Element& out) override { return calls->next(pull, out); }
    void save(StateWriter& out) override { calls->save(out); }
    void restore(StateReader& in) override { calls->restore(in); }
    const std::shared_ptr<ParallelCalls> calls;
  };
  const ParallelCalls::Options options_;
  const Order order_;
};

constexpr int64_t kMostCalls = 1024;

// Inputs: the dataset, captured arguments, then `extra` numbers of which the one at `place` is how many calls.
DatasetPtr parallel_map(Context& ctx, Signature signature, int extra, int place) {
  DatasetPtr input = dataset_input(ctx, 0);
  Element captured = inputs_between(ctx, 1, ctx.num_inputs() - extra);
  int64_t calls = int_input(ctx, place, "num_parallel_calls");
  if (calls == kAutotune) calls = intra_op_threads();
  require(calls > 0, "num_parallel_calls must be greater than zero.");
  ParallelCalls::Options options;
  options.function = function_attr(ctx, "f", input->signature().types, captured, &signature.types);
  options.captured = std::make_shared<const Element>(std::move(captured));
  options.calls = static_cast<size_t>(std::min(calls, kMostCalls));
  std::string ordered = ctx.def().attr<std::string>("deterministic", "default");
  auto order = ordered == "true"    ? ParallelMap::Order::strict
               : ordered == "false" ? ParallelMap::Order::sloppy
                                    : ParallelMap::Order::by_options;
  if (ctx.def().attr<bool>("sloppy", false)) order = ParallelMap::Order::sloppy;
  return std::make_shared<const ParallelMap>(std::move(signature), std::move(input), std::move(options), order);
}

void map_in_parallel(Context& ctx) {
  ctx.set_output(0, tensor_from_dataset(parallel_map(ctx, declared_signature(ctx.def()), 1, ctx.num_inputs() - 1)));
}

void map_and_batch(Context& ctx) {
  int n = ctx.num_inputs();
  int64_t size = int_input(ctx, n - 3, "batch_size");
  bool drop = bool_input(ctx, n - 1, "drop_remainder");
  Signature signature = declared_signature(ctx.def()), each = signature;
  for (PartialShape& shape : each.shapes)
    if (shape.known_rank && !shape.dims.empty()) shape.dims.erase(shape.dims.begin());
  DatasetPtr mapped = parallel_map(ctx, std::move(each), 3, n - 2);
  ctx.set_output(0, tensor_from_dataset(batched(std::move(signature), std::move(mapped), size, drop)));
}

REGISTER(kernel("ParallelMapDataset").function<map_in_parallel>());
REGISTER(kernel("ParallelMapDatasetV2").function<map_in_parallel>());
REGISTER(kernel("MapAndBatchDataset").function<map_and_batch>());
REGISTER(kernel("ExperimentalMapAndBatchDataset").function<map_and_batch>());

}  // namespace
}  // namespace thalweg
