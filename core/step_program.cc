// Starting compiled steps.
#include "step_program.h"

namespace thalweg {
namespace {

bool is_all_in_order(const std::vector<int32_t>& positions, size_t count) {
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] != static_cast<int32_t>(i)) return false;
  return positions.size() == count;
}

}  // namespace

StepProgram::StepProgram(std::shared_ptr<void> owner, Session& session, std::vector<FeedSpec> feeds,
                         std::vector<JointStep::Part> parts, size_t num_fetches)
    : owner_(std::move(owner)),
      session_(session),
      feeds_(std::move(feeds)),
      parts_(std::move(parts)),
      num_fetches_(num_fetches),
      is_one_plan_(parts_.size() == 1 && is_all_in_order(parts_[0].feeds, feeds_.size()) &&
                   is_all_in_order(parts_[0].fetches, num_fetches)) {
  require(!parts_.empty(), "a step has at least one part");
}

std::vector<std::shared_ptr<const Plan>> StepProgram::plans() const {
  std::vector<std::shared_ptr<const Plan>> found;
  for (const auto& part : parts_) found.push_back(part.plan);
  return found;
}

const std::shared_ptr<NodeTable>& StepProgram::nodes() const {
  std::call_once(numbered_, [this] { nodes_ = std::make_shared<NodeTable>(plans()); });
  return nodes_;
}

std::deque<StepStats> StepProgram::observers(StepStats::Options options) const {
  std::deque<StepStats> found;
  for (size_t i = 0; i < parts_.size(); ++i) found.emplace_back(options);
  return found;
}

void StepProgram::start(const std::shared_ptr<const StepProgram>& program, int64_t id,
                        std::shared_ptr<Rendezvous> rendezvous, std::vector<Tensor> feeds,
                        std::deque<StepStats>* observers, const std::function<void(const std::shared_ptr<Step>&)>& made,
                        Executor::Finished finished) {
  // The session knows the step until it has ended.
  struct Ending {
    std::shared_ptr<const StepProgram> program;
    Executor::Finished finished;
    std::optional<Session::Running> running;
  };
  auto ending = std::make_shared<Ending>(program, std::move(finished));
  auto end = [ending](std::optional<Error> error, std::vector<Tensor> fetched) {
    ending->running.reset();
    ending->finished(std::move(error), std::move(fetched));
  };
  if (program->is_one_plan_) {
    auto executor = std::make_shared<Executor>(program->parts_[0].plan, id);
    executor->set_rendezvous(std::move(rendezvous));
    if (observers != nullptr) executor->observe(&observers->at(0));
    ending->running.emplace(program->session_, executor.get());
    made(executor);
    executor->start(std::move(feeds), std::move(end));
  } else {
    auto joint = std::make_shared<JointStep>(program->parts_, id, std::move(rendezvous));
    if (observers != nullptr) joint->observe(*observers);
    ending->running.emplace(program->session_, joint.get());
    made(joint);
    joint->start(feeds, program->num_fetches_, std::move(end));
  }
}

}  // namespace thalweg
