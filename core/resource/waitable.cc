// Waiting in line: being served, being cancelled, being called back.
#include "resource/waitable.h"

#include <atomic>

namespace thalweg {
namespace {

std::atomic<int64_t> waits_so_far{0};

class FunctionWaiter : public Waiter {
 public:
  FunctionWaiter(std::function<Progress()> advance, Waitable::Done done)
      : advance_(std::move(advance)), done_(std::move(done)) {}
  Progress advance() override {
    try {
      return advance_();
    } catch (const Error& error) {
      error_ = error;
      return Progress::complete;
    }
  }
  void report(std::optional<Error> error) override { done_(std::move(error)); }

 private:
  std::function<Progress()> advance_;
  Waitable::Done done_;
};

}  // namespace

int64_t Waitable::waits() { return waits_so_far; }

void Waitable::begin(size_t index, std::function<Progress()> advance, Cancellation& cancellation, Done done) {
  begin(index, std::make_shared<FunctionWaiter>(std::move(advance), std::move(done)), cancellation);
}

void Waitable::begin(size_t index, std::shared_ptr<Waiter> waiter, Cancellation& cancellation) {
  Finished finished;
  bool too_late = false;  // the step has ended
  {
    std::lock_guard lock(mutex_);
    Line& line = lines_[index];
    waiter->when_cancelled_ = line.when_cancelled;
    waiter->line_ = &line.waiters;
    waiter->place_ = line.waiters.insert(line.waiters.end(), waiter);
    flush(finished);
    if (!waiter->ended_) {
      // Registered only now, when it is known to wait: most do not.
      waiter->cancellation_ = &cancellation;
      waiter->token_ = cancellation.add([self = shared_from_this(), waiter] { self->cancel(waiter); });
      too_late = waiter->token_ < 0;
      ++waits_so_far;
    }
  }
  report(finished);
  if (too_late) cancel(waiter);
}

void Waitable::cancel(const std::shared_ptr<Waiter>& waiter) {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    if (waiter->ended_) return;
    waiter->ended_ = true;
    waiter->token_ = -1;  // the callback is running: there is nothing to remove
    waiter->line_->erase(waiter->place_);
    waiter->error_ = Error(Code::cancelled, waiter->when_cancelled_);
    waiter->withdraw();
    finished.push_back(waiter);
    flush(finished);
  }
  report(finished);
}

bool Waitable::serve(Line& line, Finished& finished) {
  bool changed = false;
  for (auto at = line.waiters.begin(); at != line.waiters.end();) {
    std::shared_ptr<Waiter> waiter = *at;
    Progress progress = Progress::complete;
    try {
      progress = waiter->advance();
    } catch (const std::bad_alloc&) {
      waiter->error_ = Error(Code::resource_exhausted, "out of memory");
    }
    changed = changed || progress != Progress::none;
    if (progress == Progress::complete) {
      waiter->ended_ = true;
      at = line.waiters.erase(at);
      finished.push_back(std::move(waiter));
    } else if (line.in_order) {
      break;
    } else {
      ++at;
    }
  }
  return changed;
}

void Waitable::flush(Finished& finished) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Line& line : lines_) changed = serve(line, finished) || changed;
  }
}

void Waitable::end_all(size_t index, const Error& error, Finished& finished) {
  for (std::shared_ptr<Waiter>& waiter : lines_[index].waiters) {
    waiter->ended_ = true;
    waiter->error_ = error;
    waiter->withdraw();
    finished.push_back(std::move(waiter));
  }
  lines_[index].waiters.clear();
}

void Waitable::report(Finished& finished) {
  for (const std::shared_ptr<Waiter>& waiter : finished) {
    if (waiter->token_ >= 0) waiter->cancellation_->remove(waiter->token_);
    waiter->report(std::move(waiter->error_));
  }
}

}  // namespace thalweg
