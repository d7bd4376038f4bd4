// Threads for the parts of a joint step, and the end of it.
#include "executor/joint_step.h"

#include <algorithm>
#include <thread>

#include "thread/thread_pool.h"

namespace thalweg {
namespace {

thread_local const JointStep* driven = nullptr;

int most_helpers(size_t parts) {
  const int cores = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  return std::min(static_cast<int>(parts), cores) - 1;
}

}  // namespace

JointStep::JointStep(const std::vector<Part>& parts) : parts_(parts), left_(parts.size()), fetched_(parts.size()) {
  set_rendezvous(std::make_shared<Rendezvous>());
  for (const Part& part : parts) {
    executors_.push_back(std::make_shared<Executor>(part.plan));
    executors_.back()->set_rendezvous(rendezvous());
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
  std::lock_guard lock(mutex_);
  ready_.push_back(&executor);
  if (driven == this)
    waits_.store(true, std::memory_order_relaxed);
  else
    wake_one();
}

void JointStep::occupied() {
  std::lock_guard lock(mutex_);
  waits_.store(false, std::memory_order_relaxed);
  if (!ready_.empty()) wake_one();
}

void JointStep::wake_one() {
  if (sleeping_ > 0) {
    wake_.notify_all();
  } else if (helpers_ < most_helpers(parts_.size())) {
    ++helpers_;
    ThreadPool::shared().submit([self = shared_from_this()] { self->drive(false); });
  }
}

void JointStep::drive(bool stays) {
  const JointStep* outer = std::exchange(driven, this);
  std::unique_lock lock(mutex_);
  while (true) {
    if (!ready_.empty()) {
      Executor* executor = ready_.front();
      ready_.pop_front();
      waits_.store(!ready_.empty(), std::memory_order_relaxed);
      lock.unlock();
      executor->resume();
      lock.lock();
    } else if (!stays || left_ == 0) {
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
  std::lock_guard lock(mutex_);
  fetched_[part] = std::move(fetched);
  if (--left_ == 0) wake_.notify_all();
}

std::vector<Tensor> JointStep::run(const std::vector<Tensor>& feeds, size_t num_fetches) {
  const JointStep* outer = std::exchange(driven, this);
  for (size_t i = 0; i < executors_.size(); ++i) {
    std::vector<Tensor> fed;
    for (int32_t k : parts_[i].feeds) fed.push_back(feeds[k]);
    executors_[i]->start(std::move(fed), [this, i](std::optional<Error> error, std::vector<Tensor> fetched) {
      finished(i, std::move(error), std::move(fetched));
    });
  }
  driven = outer;
  drive(true);
  if (error_) throw *error_;
  std::vector<Tensor> out(num_fetches);
  for (size_t i = 0; i < parts_.size(); ++i)
    for (size_t k = 0; k < parts_[i].fetches.size(); ++k) out[parts_[i].fetches[k]] = std::move(fetched_[i][k]);
  return out;
}

}  // namespace thalweg
