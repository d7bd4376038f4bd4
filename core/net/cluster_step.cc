// One run of a cluster step: starting its shares, and bringing their ends together.
#include "net/cluster_step.h"

#include <algorithm>

#include "net/connection.h"
#include "net/encoding.h"

namespace thalweg::net {

// The state of one run. It ends when every share has ended: a share whose peer is lost has ended, too.
class ClusterRun final : public Run, public std::enable_shared_from_this<ClusterRun> {
 public:
  ClusterRun(std::shared_ptr<ClusterStep> step, int64_t id, StepOptions options, std::shared_ptr<Connection> starter,
             Runnable::Done done)
      : step_(std::move(step)),
        id_(id),
        options_(options),
        starter_(std::move(starter)),
        done_(std::move(done)),
        left_(step_->remotes_.size() + 1),
        waits_for_(step_->remotes_.size(), true) {
    result_.fetches.resize(step_->num_fetches_);
  }

  void start(const std::vector<Tensor>& feeds) {
    auto rendezvous = step_->task_->steps().begin(id_, shared_from_this(), step_->routes_);
    if (step_->task_->steps().size() > 1) step_->task_->release_claims();
    // The loss of a peer is reported to the runs that are known then: a loss before that would be waited for in vain.
    std::shared_ptr<Connection> gone = step_->routes_->lost();
    if (!gone && starter_ && starter_->is_lost()) gone = starter_;
    if (gone) {
      step_->task_->steps().end(id_, true);
      throw unavailable(*gone, *gone->why_lost());
    }
    for (size_t i = 0; i < step_->remotes_.size(); ++i) {
      const ClusterStep::Remote& remote = step_->remotes_[i];
      Frame frame{FrameKind::run, 0, static_cast<uint64_t>(id_), remote.number, {}, {}};
      put_options(frame, options_, remote.peer->clock_offset());
      for (int32_t k : remote.feeds) frame.tensors.push_back(feeds[k]);
      try {
        remote.peer->send(std::move(frame));
      } catch (const Error& error) {
        ended(i, {unavailable(*remote.peer, error), {}, {}, {}});
      }
    }
    if (step_->local_) {
      try {
        start_local(std::move(rendezvous), feeds);
        return;
      } catch (const Error& error) {
        ended_here({error, {}, {}, {}}, nullptr);
        return;
      } catch (const std::exception& exception) {
        ended_here({Error(Code::internal, exception.what()), {}, {}, {}}, nullptr);
        return;
      }
    }
    ended_here({}, nullptr);
  }

  void abort(const Error& error) override {
    std::shared_ptr<Step> local;
    std::vector<std::shared_ptr<Connection>> peers;
    {
      std::lock_guard lock(mutex_);
      if (left_ == 0 || aborted_) return;
      if (!result_.error) result_.error = error;
      aborted_ = true;
      local = local_;
      for (size_t i = 0; i < waits_for_.size(); ++i)
        if (waits_for_[i]) peers.push_back(step_->remotes_[i].peer);
    }
    if (local) local->abort(error);
    for (const auto& peer : peers) {
      Frame frame{FrameKind::cancel, 0, static_cast<uint64_t>(id_), 0, {}, {}};
      Writer writer(frame.body);
      put_error(writer, Error(Code::cancelled, cat("the step was ended: ", error.message())));
      try {
        peer->send(std::move(frame));
      } catch (const Error&) {
        // `lost` ends the share.
      }
    }
  }

  bool is_started_by(const Connection* peer) const override { return starter_.get() == peer; }

  void part_done(const std::shared_ptr<Connection>& peer, StepResult result) override {
    for (size_t i = 0; i < step_->remotes_.size(); ++i)
      if (step_->remotes_[i].peer == peer) return ended(i, std::move(result));
  }

  void lost(const std::shared_ptr<Connection>& peer, const Error& why) override {
    bool needed = peer == starter_ || step_->routes_->has(peer.get());
    for (size_t i = 0; i < step_->remotes_.size(); ++i) {
      if (step_->remotes_[i].peer != peer) continue;
      ended(i, {unavailable(*peer, why), {}, {}, {}});
      needed = false;
    }
    if (needed) abort(unavailable(*peer, why));
  }

 private:
  static Error unavailable(const Connection& peer, const Error& why) {
    const std::string& text = why.message();
    return Error(Code::unavailable, text.find(peer.name()) != std::string::npos ? text : peer.name() + ": " + text);
  }

  void start_local(std::shared_ptr<Rendezvous> rendezvous, const std::vector<Tensor>& feeds) {
    const ClusterStep::Local& local = *step_->local_;
    std::vector<Tensor> fed;
    for (int32_t k : local.feeds) fed.push_back(feeds[k]);
    std::shared_ptr<std::deque<StepStats>> observers;
    if (options_.traced || options_.checked)
      observers = std::make_shared<std::deque<StepStats>>(local.program->observers(
          {.numerics = options_.checked, .details = options_.traced, .runs = options_.traced}));
    auto made = [this](const std::shared_ptr<Step>& step) {
      std::unique_lock lock(mutex_);
      local_ = step;
      if (!aborted_) return;
      const Error error = *result_.error;
      lock.unlock();
      step->abort(error);
    };
    auto finished = [self = shared_from_this(), observers](std::optional<Error> error, std::vector<Tensor> fetched) {
      self->ended_here({std::move(error), std::move(fetched), {}, {}}, observers);
    };
    StepProgram::start(local.program, id_, std::move(rendezvous), std::move(fed), observers.get(), made,
                       std::move(finished));
  }

  void ended_here(StepResult result, const std::shared_ptr<std::deque<StepStats>>& observers) {
    if (observers && !result.error) {
      if (options_.traced) {
        const StepProgram& program = *step_->local_->program;
        Trace trace(program.nodes(), program.plans(), *observers, options_.clock_offset);
        try {
          if (step_->label_) step_->label_();
          result.stats = trace.step_stats();
          result.findings = trace.findings();
        } catch (const Error& error) {
          result.error = error;  // Labels come from Python. An exception must not end the executor's thread.
        }
      } else {
        for (const StepStats& each : *observers)
          for (const auto& finding : each.findings()) result.findings.push_back(finding);
      }
    }
    std::vector<int32_t> none;
    take(std::move(result), step_->local_ ? step_->local_->fetches : none, nullptr);
  }

  void ended(size_t remote, StepResult result) {
    {
      std::lock_guard lock(mutex_);
      if (!waits_for_[remote]) return;
      waits_for_[remote] = false;
    }
    if (!result.error && result.fetches.size() != step_->remotes_[remote].fetches.size())
      result.error =
          Error(Code::internal, cat(step_->remotes_[remote].peer->name(), " returned ", result.fetches.size(),
                                    " fetches instead of ", step_->remotes_[remote].fetches.size()));
    for (const Tensor& fetch : result.fetches)
      if (!result.error && !fetch.defined())
        result.error = Error(Code::internal, cat(step_->remotes_[remote].peer->name(), " returned a dead tensor"));
    take(std::move(result), step_->remotes_[remote].fetches, step_->remotes_[remote].peer.get());
  }

  // A share has ended.
  void take(StepResult result, const std::vector<int32_t>& fetches, const Connection* peer) {
    bool fails = false, over = false;
    {
      std::lock_guard lock(mutex_);
      if (result.error) {
        fails = !aborted_;
        // A share that was cancelled because another one failed has nothing new to say.
        if (!result_.error) result_.error = located(*result.error, peer);
      } else {
        for (size_t i = 0; i < fetches.size(); ++i) result_.fetches[fetches[i]] = std::move(result.fetches[i]);
        result_.stats += result.stats;  // protobufs with one repeated field: joined, they are one
        for (auto& finding : result.findings) result_.findings.push_back(std::move(finding));
      }
      over = --left_ == 0;
    }
    if (fails && !over) abort(*result.error);
    if (over) finish();
  }

  // The error, with the task where the node is if that is another one.
  static Error located(const Error& error, const Connection* peer) {
    if (peer == nullptr || peer->peer().task.empty() || error.node().empty() ||
        error.message().find("[on task ") != std::string::npos)
      return error;
    Error found(error.code(), cat(error.message(), " [on task ", peer->peer().task, "]"));
    found.set_node(error.node(), error.op());
    return found;
  }

  // The result no longer changes from here on: `abort` does nothing when no share is left.
  void finish() {
    StepResult result;
    std::shared_ptr<Step> local;
    {
      std::lock_guard lock(mutex_);
      result = std::move(result_);
      local = std::move(local_);
    }
    step_->task_->steps().end(id_, result.error.has_value());
    if (result.error) result.fetches.clear();
    std::exchange(done_, nullptr)(std::move(result));
  }

  const std::shared_ptr<ClusterStep> step_;
  const int64_t id_;
  const StepOptions options_;
  const std::shared_ptr<Connection> starter_;
  Runnable::Done done_;

  std::mutex mutex_;  // guards everything below
  size_t left_;       // shares that have not ended, the local one included
  std::vector<bool> waits_for_;
  std::shared_ptr<Step> local_;
  bool aborted_ = false;
  StepResult result_;
};

ClusterStep::ClusterStep(std::shared_ptr<Task> task, std::vector<FeedSpec> feeds, size_t num_fetches,
                         std::optional<Local> local, std::vector<Remote> remotes, std::shared_ptr<const Routes> routes)
    : task_(std::move(task)),
      feeds_(std::move(feeds)),
      num_fetches_(num_fetches),
      local_(std::move(local)),
      remotes_(std::move(remotes)),
      routes_(std::move(routes)) {
  auto check = [&](const Share& share) {
    for (int32_t k : share.feeds) require(k >= 0 && k < static_cast<int32_t>(feeds_.size()), "feed ", k, " is unknown");
    for (int32_t k : share.fetches)
      require(k >= 0 && k < static_cast<int32_t>(num_fetches), "fetch ", k, " is unknown");
  };
  if (local_) check(*local_);
  connections_ = routes_->connections();
  for (const Remote& remote : remotes_) {
    check(remote);
    if (std::find(connections_.begin(), connections_.end(), remote.peer) == connections_.end())
      connections_.push_back(remote.peer);
  }
}

void ClusterStep::start(int64_t id, std::vector<Tensor> feeds, StepOptions options, std::shared_ptr<Connection> starter,
                        Done done) {
  require(feeds.size() == feeds_.size(), "expected ", feeds_.size(), " feeds, got ", feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i)
    require(feeds[i].defined() && feeds[i].dtype() == feeds_[i].dtype && feeds_[i].shape.accepts(feeds[i].shape()),
            "the feed for '", feeds_[i].name, "' has type ", feeds[i].dtype(), " and shape ", feeds[i].shape(),
            ", expected ", feeds_[i].dtype, " and ", feeds_[i].shape);
  auto run = std::make_shared<ClusterRun>(shared_from_this(), id, options, std::move(starter), std::move(done));
  run->start(feeds);
}

}  // namespace thalweg::net
