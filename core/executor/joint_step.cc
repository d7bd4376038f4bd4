// Threads for the parts of a joint step, and the end of it.
#include "executor/joint_step.h"

#include <algorithm>
#include <thread>
#include <unordered_map>

#include "executor/transfer_key.h"
#include "thread/denormals.h"
#include "thread/run_soon.h"
#include "thread/share_scope.h"

namespace thalweg {
namespace {

// The joint step that the calling thread drives, and the executors that it has taken.
struct Driven {
  const JointStep* step = nullptr;
  Taken* taken = nullptr;
};
thread_local Driven driven;

// Spin at most about as long as a wake-up takes.
constexpr std::chrono::microseconds kSpin(100);

int most_threads() {
  static const int cores = static_cast<int>(std::thread::hardware_concurrency());  // Reads a file in each call.
  return std::max(2, cores);
}

}  // namespace

void JointStep::link(const std::vector<std::shared_ptr<Plan>>& plans) {
  std::unordered_map<std::string, std::pair<int32_t, int32_t>> recvs;
  auto each = [&](const char* op, const auto& visit) {
    for (size_t part = 0; part < plans.size(); ++part) {
      if (plans[part]->device().type != "CPU") continue;
      const auto& nodes = plans[part]->nodes();
      for (size_t at = 0; at < nodes.size(); ++at)
        if (nodes[at].def.op == op && nodes[at].frame == 0)
          visit(static_cast<int32_t>(part), static_cast<int32_t>(at), transfer_key(nodes[at].def).name());
    }
  };
  each("_Recv", [&](int32_t part, int32_t at, std::string key) { recvs[std::move(key)] = {part, at}; });
  each("_Send", [&](int32_t part, int32_t at, const std::string& key) {
    auto found = recvs.find(key);
    if (found == recvs.end()) return;
    auto [to_part, to_node] = found->second;
    const NodeDef& send = plans[part]->node(at).def;
    const NodeDef& recv = plans[to_part]->node(to_node).def;
    require(send.input_dtypes.size() == 1 && recv.output_dtypes.size() == 1 &&
                send.input_dtypes[0] == recv.output_dtypes[0],
            "node '", send.name, "' (op _Send) sends another element type than '", recv.name, "' receives");
    plans[to_part]->expect(to_node);
    plans[part]->hand_over(at, to_part, to_node);
    recvs.erase(found);
  });
}

void JointStep::check_keys(const std::vector<std::shared_ptr<Plan>>& plans) {
  std::unordered_map<uint64_t, std::string> names;
  for (const auto& plan : plans) {
    for (const NodeItem& node : plan->nodes()) {
      for (const RendezvousKey& key : transfer_keys(node.def)) {
        const std::string& known = names.try_emplace(key.hash(), key.name()).first->second;
        if (known != key.name())
          fail(Code::internal, "the transfers '", known, "' and '", key.name(),
               "' have the same hash: rename one of the operations");
      }
    }
  }
}

JointStep::JointStep(const std::vector<Part>& parts, int64_t id, std::shared_ptr<Rendezvous> rendezvous)
    : Step(id),
      parts_(parts),
      threads_(std::min(static_cast<int>(parts.size()), most_threads())),
      left_(parts.size()),
      fetched_(parts.size()) {
  set_rendezvous(rendezvous ? std::move(rendezvous) : std::make_shared<LocalRendezvous>(this->id()));
  for (const Part& part : parts) {
    executors_.push_back(std::make_shared<Executor>(part.plan, this->id()));
    executors_.back()->set_rendezvous(this->rendezvous());
    executors_.back()->drive_with(this);
  }
}

void JointStep::observe(std::deque<StepStats>& stats) {
  for (size_t i = 0; i < executors_.size(); ++i) executors_[i]->observe(&stats[i]);
}

void JointStep::abort(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  for (auto& executor : executors_) executor->abort(error);
}

void JointStep::ready(Executor& executor) {
  if (driven.step == this) {
    driven.taken->push_back(&executor);
    return;
  }
  std::lock_guard lock(mutex_);
  add(&executor);
}

void JointStep::share(Taken& taken) {
  std::lock_guard lock(mutex_);
  for (Executor* executor : taken) add(executor);
  taken.clear();
}

void JointStep::compute_apart(bool waits, const std::function<void()>& compute) {
  // The computation may make executors of this step ready and then wait for them: other threads must drive these.
  const Driven outer = std::exchange(driven, {});
  auto count = [&](int change) {
    if (!waits) return;
    active_.fetch_sub(change, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    waiting_ += change;
    find_thread();  // This thread may have been the only one.
  };
  count(1);
  compute();
  count(-1);
  driven = outer;
}

void JointStep::add(Executor* executor) {
  ready_.push_back(executor);
  changes_.fetch_add(1, std::memory_order_release);
  find_thread();
}

void JointStep::find_thread() {
  if (ready_.size() <= spinning_) return;
  if (sleeping_ > 0) {
    wake_.notify_all();
  } else if (helpers_ < threads_ - 1 + waiting_) {
    ++helpers_;
    run_soon(id(), [self = shared_from_this()] { self->drive(false); });
  }
}

void JointStep::spin(std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  const int64_t seen = changes_.load(std::memory_order_relaxed);
  ++spinning_;
  lock.unlock();
  const auto until = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 64 && changes_.load(std::memory_order_acquire) == seen; ++i) __builtin_ia32_pause();
  } while (changes_.load(std::memory_order_acquire) == seen && Clock::now() < until);
  lock.lock();
  --spinning_;
}

void JointStep::drive(bool stays) {
  Taken taken;
  const Driven outer = std::exchange(driven, {this, &taken});
  ShareScope cores(active_);
  FlushDenormals flush;
  std::unique_lock lock(mutex_);
  bool spun = false;
  while (true) {
    if (!ready_.empty()) {
      spun = false;
      Executor* executor = ready_.front();
      ready_.pop_front();
      lock.unlock();
      active_.fetch_add(1, std::memory_order_relaxed);
      while (executor != nullptr) {
        executor->resume(&taken);
        executor = nullptr;
        if (taken.empty()) break;
        executor = taken.front();
        taken.erase(taken.begin());
        if (!taken.empty()) share(taken);
      }
      active_.fetch_sub(1, std::memory_order_relaxed);
      lock.lock();
    } else if (left_ == 0) {
      break;
    } else if (!spun) {
      spin(lock);
      spun = true;
    } else if (!stays) {
      break;
    } else {
      ++sleeping_;
      bool woken =
          wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return !ready_.empty() || left_ == 0; });
      --sleeping_;
      if (!woken) {
        lock.unlock();
        poll();
        lock.lock();
      }
    }
  }
  if (!stays) --helpers_;
  driven = outer;
}

void JointStep::poll() {
  if (!poll_) return;
  try {
    poll_();
  } catch (const Error& error) {
    abort(error);
  }
}

void JointStep::finished(size_t part, std::optional<Error> error, std::vector<Tensor> fetched) {
  if (error) abort(*error);
  Done done;
  std::optional<Error> first;
  {
    std::lock_guard lock(mutex_);
    fetched_[part] = std::move(fetched);
    if (--left_ > 0) return;
    changes_.fetch_add(1, std::memory_order_release);
    wake_.notify_all();
    done = std::move(done_);
    first = error_;
  }
  if (done) done(first, first ? std::vector<Tensor>() : results(num_fetches_));
}

std::vector<Executor*> JointStep::prepare(const std::vector<Tensor>& feeds) {
  std::vector<Executor*> first;
  std::vector<Tensor> fed;
  for (size_t i = 0; i < executors_.size(); ++i) {
    fed.clear();
    for (int32_t k : parts_[i].feeds) fed.push_back(feeds[k]);
    auto end = [this, i](std::optional<Error> error, std::vector<Tensor> fetched) {
      finished(i, std::move(error), std::move(fetched));
    };
    if (executors_[i]->prepare(fed, std::move(end))) first.push_back(executors_[i].get());
  }
  if (std::any_of(executors_.begin(), executors_.end(), [](const auto& each) { return each->has_team(); })) {
    std::lock_guard lock(mutex_);
    threads_ = most_threads();
  }
  return first;
}

void JointStep::start(const std::vector<Tensor>& feeds, size_t num_fetches, Done done) {
  done_ = std::move(done);
  num_fetches_ = num_fetches;
  std::vector<Executor*> first = prepare(feeds);
  std::lock_guard lock(mutex_);
  for (Executor* executor : first) add(executor);
}

std::vector<Tensor> JointStep::run(const std::vector<Tensor>& feeds, size_t num_fetches) {
  std::vector<Executor*> first = prepare(feeds);
  {
    std::lock_guard lock(mutex_);
    spinning_ = 1;  // This thread will drive one of the executors: no other has to wake up for it.
    for (Executor* executor : first) add(executor);
    spinning_ = 0;
  }
  drive(true);
  {
    std::lock_guard lock(mutex_);  // An abort may still come: a timeout, or the end of the session.
    if (error_) throw *error_;
  }
  return results(num_fetches);
}

std::vector<Tensor> JointStep::results(size_t num_fetches) {
  std::vector<Tensor> out(num_fetches);
  for (size_t i = 0; i < parts_.size(); ++i)
    for (size_t k = 0; k < parts_[i].fetches.size(); ++k) out[parts_[i].fetches[k]] = std::move(fetched_[i][k]);
  return out;
}

}  // namespace thalweg
