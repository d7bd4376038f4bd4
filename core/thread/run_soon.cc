// The scopes in which arrivals are handled.
#include "thread/run_soon.h"

#include <utility>

#include "thread/thread_pool.h"

namespace thalweg {
namespace {

thread_local SoonScope* current = nullptr;
thread_local LongWorkScope* long_work = nullptr;

}  // namespace

void run_soon(int64_t step, std::function<void()> work) {
  if (current != nullptr && (current->step_ == 0 || current->step_ == step))
    current->work_.push_back(std::move(work));
  else
    ThreadPool::shared().submit(std::move(work));
}

void before_long_work() {
  for (LongWorkScope* scope = long_work; scope != nullptr; scope = scope->outer_) scope->give_back_();
}

LongWorkScope::LongWorkScope(std::function<void()> give_back)
    : give_back_(std::move(give_back)), outer_(std::exchange(long_work, this)) {}
LongWorkScope::~LongWorkScope() { long_work = outer_; }

SoonScope::SoonScope(int64_t step) : step_(step), outer_(std::exchange(current, this)) {}

SoonScope::~SoonScope() {
  // While the work runs there is no scope: further work that it makes possible must not wait for its end.
  current = outer_;
  if (work_.empty()) return;
  for (size_t i = 0; i + 1 < work_.size(); ++i) ThreadPool::shared().submit(std::move(work_[i]));
  if (outer_ != nullptr)
    outer_->work_.push_back(std::move(work_.back()));
  else
    work_.back()();
}

}  // namespace thalweg
