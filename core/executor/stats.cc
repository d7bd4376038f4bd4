// The observer's notes at the end of a node.
#include "executor/stats.h"

#include <unistd.h>

#include <algorithm>

#include "memory/account.h"

namespace thalweg {
namespace {

// The bytes held by tensors of the device whose executor this thread drives.
int64_t in_use() {
  const Account* account = current_account();
  return account != nullptr ? account->bytes_in_use() : Allocator::cpu().bytes_in_use();
}

}  // namespace

int32_t StepStats::this_thread() {
  static thread_local const int32_t id = static_cast<int32_t>(gettid());
  return id;
}

void StepStats::fed(const Plan& plan, std::span<const Tensor> feeds) {
  if (numerics_)
    for (const Tensor& value : feeds) numerics_->fed(value);
  if (!options_.details) return;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (plan.feeds()[i] < 0) continue;
    const int32_t at = begin(plan.node(plan.feeds()[i]).def);
    end(at, 1, &feeds[i]);
    if (at >= 0) runs_[at].end = runs_[at].start;
  }
}

void StepStats::arrived(int32_t at, const NodeItem& node, const Tensor* outputs, int64_t time, int32_t thread) {
  if (numerics_) check_outputs(at, node.def, node.kernel.get(), nullptr, outputs);
  if (at < 0 || !options_.runs) return;
  NodeRun& run = runs_[at];
  run.end = time;
  run.thread = thread;
  run.in_use = in_use();
  if (options_.details) describe(run, node.num_outputs, outputs);
}

void StepStats::measure_memory(NodeRun& run) {
  const int64_t taken = memory_.taken - run.taken;
  const int64_t before = run.temporary, most = memory_.most;
  memory_.most = std::max(memory_.most, run.in_use);
  run.taken = taken;
  run.temporary = most - std::max(before, memory_.held);
  run.in_use = in_use();
  if (run.parent < 0) memory_trace = nullptr;
}

void StepStats::describe(NodeRun& run, int num_outputs, const Tensor* outputs) {
  run.first_output = static_cast<int32_t>(outputs_.size());
  for (int i = 0; i < num_outputs; ++i) {
    const Tensor& output = outputs[i];
    if (output.defined())
      outputs_.push_back({output.shape(), output.raw(), static_cast<int64_t>(output.bytes()), output.dtype(), i});
  }
  run.num_outputs = static_cast<int32_t>(outputs_.size()) - run.first_output;
}

StepStats::Caller StepStats::caller() {
  Caller out;
  if (!options_.details || numerics_ || open_ < 0) return out;
  if (!calls_) calls_ = std::make_shared<Calls>();
  out.calls_ = calls_;
  out.within_ = call_;
  out.record_ = open_;
  return out;
}

std::shared_ptr<StepStats> StepStats::Caller::begin() const {
  if (!calls_) return nullptr;
  auto call = std::make_shared<StepStats>(Options{});
  call->calls_ = calls_;
  call->call_ = calls_->next_number();
  return call;
}

void StepStats::Caller::end(std::shared_ptr<StepStats> call) const {
  if (!call) return;
  const int64_t number = call->call_;
  calls_->add({number, within_, record_, std::move(call)});
}

void StepStats::Calls::add(Call call) {
  const size_t runs = call.stats->runs().size();
  call.stats->calls_ = nullptr;  // or the Calls would own themselves
  std::lock_guard lock(mutex_);
  if (runs_ + runs > kMostRuns) {
    left_out_ += runs;
    return;
  }
  runs_ += runs;
  calls_.push_back(std::move(call));
}

std::vector<StepStats::Call> StepStats::Calls::take(size_t& left_out) {
  std::lock_guard lock(mutex_);
  left_out += std::exchange(left_out_, 0);
  return std::exchange(calls_, {});
}

std::vector<StepStats::Call> StepStats::take_calls() { return calls_ ? calls_->take(left_out_) : std::vector<Call>(); }

void StepStats::check_outputs(int32_t at, const NodeDef& def, Kernel* kernel, Context* ctx, const Tensor* outputs) {
  // Nearly always the last one: only asynchronous nodes end out of order.
  auto begun = std::find_if(inputs_.rbegin(), inputs_.rend(), [at](const auto& each) { return each.first == at; });
  NumericCheck::Inputs inputs;
  if (begun != inputs_.rend()) {
    inputs = std::move(begun->second);
    inputs_.erase(std::next(begun).base());
  }
  numerics_->after(def, kernel, ctx, std::move(inputs), outputs);
}

std::vector<std::pair<std::string, std::string>> StepStats::findings() const {
  std::vector<std::pair<std::string, std::string>> found;
  if (!numerics_) return found;
  for (const auto& [def, what] : numerics_->findings()) {
    const auto members = def->attr<std::vector<std::string>>("_members", {});
    if (members.size() < 2) {
      found.emplace_back(members.empty() ? def->name : members[0], what);
      continue;
    }
    std::string others = cat(what, "; it ran as one with ", members[1]);
    for (size_t i = 2; i < members.size(); ++i) others += cat(", ", members[i]);
    found.emplace_back(members[0], std::move(others));
  }
  return found;
}

}  // namespace thalweg
