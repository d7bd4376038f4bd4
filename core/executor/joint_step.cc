// Starting the parts of a joint step, and waiting for the last of them.
#include "executor/joint_step.h"

namespace thalweg {

JointStep::JointStep(const std::vector<Part>& parts) : parts_(parts), left_(parts.size()), fetched_(parts.size()) {
  set_rendezvous(std::make_shared<Rendezvous>());
  for (const Part& part : parts) {
    executors_.push_back(std::make_shared<Executor>(part.plan));
    executors_.back()->set_rendezvous(rendezvous());
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

void JointStep::finished(size_t part, std::optional<Error> error, std::vector<Tensor> fetched) {
  if (error) abort(*error);
  std::lock_guard lock(mutex_);
  fetched_[part] = std::move(fetched);
  --left_;
  wake_.notify_all();
}

void JointStep::wait() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return left_ == 0; })) {
    if (!poll_) continue;
    lock.unlock();
    try {
      poll_();
    } catch (const Error& error) {
      abort(error);
    }
    lock.lock();
  }
}

std::vector<Tensor> JointStep::run(const std::vector<Tensor>& feeds, size_t num_fetches) {
  auto fed = [&](size_t part) {
    std::vector<Tensor> out;
    for (int32_t i : parts_[part].feeds) out.push_back(feeds[i]);
    return out;
  };
  // `wait` returns after the last part has reported, so the parts may refer to this object.
  for (size_t i = 1; i < executors_.size(); ++i)
    executors_[i]->start(fed(i), [this, i](std::optional<Error> error, std::vector<Tensor> fetched) {
      finished(i, std::move(error), std::move(fetched));
    });
  executors_[0]->poll_with(poll_);
  std::vector<Tensor> own = fed(0);
  try {
    finished(0, std::nullopt, executors_[0]->run(own));
  } catch (const Error& error) {
    finished(0, error, {});
  }
  wait();
  if (error_) throw *error_;
  std::vector<Tensor> out(num_fetches);
  for (size_t i = 0; i < parts_.size(); ++i)
    for (size_t k = 0; k < parts_[i].fetches.size(); ++k) out[parts_[i].fetches[k]] = std::move(fetched_[i][k]);
  return out;
}

}  // namespace thalweg
