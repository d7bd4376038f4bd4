// Running compiled steps from Python: feeds in, fetches out, the GIL released in between.
#include "python/compiled_step.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/attributes.h"
#include "python/gil.h"
#include "python/long_steps.h"
#include "python/numpy_bridge.h"
#include "python/peer_rendezvous.h"
#include "python/step_values.h"
#include "python/trace.h"
#include "thread/forks.h"
#include "thread/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

class CompiledStep {
 public:
  // Parts are (device name, nodes, feeds, fetches, positions): which of the step's feeds the device reads, the results
  // it computes, and which of the step's fetches they are.
  CompiledStep(nb::object session_object, nb::list parts, nb::list feeds, size_t num_fetches) {
    Forks::check();
    auto& session = nb::cast<Session&>(session_object);
    std::vector<JointStep::Part> compiled;
    std::vector<std::shared_ptr<Plan>> plans;
    for (nb::handle part : parts) {
      Device& device = *session.device(nb::cast<std::string>(part[0]));
      auto fed = nb::cast<std::vector<int32_t>>(part[2]);
      auto plan = session.compile(nb::cast<std::vector<NodeSpec>>(part[1]), static_cast<int>(fed.size()),
                                  nb::cast<Session::Fetches>(part[3]), device);
      plans.push_back(plan);
      compiled.push_back({std::move(plan), std::move(fed), nb::cast<std::vector<int32_t>>(part[4])});
    }
    JointStep::check_keys(plans);
    JointStep::link(plans);
    std::shared_ptr<void> owner = shared_object(std::move(session_object));
    program_ = std::make_shared<const StepProgram>(std::move(owner), session, feeds_from_python(feeds),
                                                   std::move(compiled), num_fetches);
  }

  std::vector<Tensor> run_native(nb::handle values, int64_t timeout_ms, int64_t step_id, std::deque<StepStats>* stats,
                                 const std::shared_ptr<Rendezvous>& rendezvous = nullptr) {
    Forks::check();
    std::vector<Tensor> feeds = fed_values(program_->feeds(), values);
    LongStep watched(program_);
    auto poll = [&watched] { watched.poll(); };
    if (program_->is_one_plan()) {
      auto executor = std::make_shared<Executor>(program_->parts()[0].plan, step_id);
      if (rendezvous) executor->set_rendezvous(rendezvous);
      if (stats) executor->observe(&stats->at(0));
      executor->poll_with(poll);
      return run_timed(executor, timeout_ms, [&] { return executor->run(feeds); });
    }
    auto joint = std::make_shared<JointStep>(program_->parts(), step_id, rendezvous);
    if (stats) joint->observe(*stats);
    joint->poll_with(poll);
    return run_timed(joint, timeout_ms, [&] { return joint->run(feeds, program_->num_fetches()); });
  }

  // Runs the step, which has no feeds, again and again without the lock, until it fails. Now and then it asks whether
  // to stop: a queue runner's thread stays here, and does not hold up the program's other threads.
  void run_repeatedly(nb::callable should_stop) {
    Forks::check();
    require(program_->feeds().empty(), "a step that is repeated has no feeds, got ", program_->feeds().size());
    constexpr auto kInterval = std::chrono::milliseconds(20);
    while (!nb::cast<bool>(or_rest([&] { return should_stop(); }))) {
      WithoutGil unlocked;
      auto until = std::chrono::steady_clock::now() + kInterval;
      do {
        if (program_->is_one_plan()) {
          auto executor = std::make_shared<Executor>(program_->parts()[0].plan);
          Session::Running running(program_->session(), executor.get());
          executor->run({});
        } else {
          auto joint = std::make_shared<JointStep>(program_->parts());
          Session::Running running(program_->session(), joint.get());
          joint->run({}, program_->num_fetches());
        }
      } while (std::chrono::steady_clock::now() < until);
    }
  }

  nb::object run(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    return to_python(run_sampled(values, timeout_ms, step_id));
  }
  // The first fetch alone, without a list around it.
  nb::object run_one(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    return to_python(std::move(run_sampled(values, timeout_ms, step_id).at(0)));
  }
  // The fetches as values of the core, without a copy.
  nb::list run_values(nb::handle values) {
    nb::list out;
    for (Tensor& value : run_native(values, 0, 0, nullptr)) out.append(nb::cast(std::move(value)));
    return out;
  }
  // Runs parts of a step, of which other processes run the rest.
  nb::object run_with_peers(nb::handle values, std::shared_ptr<PeerRendezvous> peers, int64_t timeout_ms) {
    return to_python(run_native(values, timeout_ms, peers->step(), nullptr, peers));
  }
  // The fetched values and a Trace.
  nb::object run_traced(nb::handle values, int64_t timeout_ms, bool details, bool numerics, int64_t step_id) {
    std::deque<StepStats> stats = program_->observers({.numerics = numerics, .details = details});
    nb::object fetched = to_python(run_native(values, timeout_ms, step_id, &stats));
    return nb::make_tuple(fetched, Trace(nodes(), program_->plans(), stats));
  }

  // The fetched values, and the findings: names of nodes of the program, and descriptions of their NaNs and infinities.
  nb::object run_checked(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    std::deque<StepStats> stats = program_->observers({.numerics = true, .details = false, .runs = false});
    nb::object fetched = to_python(run_native(values, timeout_ms, step_id, &stats));
    nb::list found;
    for (const StepStats& each : stats)
      for (const auto& [node, what] : each.findings()) found.append(nb::make_tuple(node, what));
    return nb::make_tuple(fetched, found);
  }

  const std::shared_ptr<NodeTable>& nodes() const { return program_->nodes(); }
  Samples& samples() { return samples_; }
  const std::shared_ptr<const StepProgram>& program() const { return program_; }

 private:
  // Runs the step, and measures it if it is to be sampled.
  std::vector<Tensor> run_sampled(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    if (!samples_.due()) [[likely]]
      return run_native(values, timeout_ms, step_id, nullptr);
    std::deque<StepStats> stats = program_->observers({.numerics = false, .details = false});
    std::vector<Tensor> fetched;
    try {
      fetched = run_native(values, timeout_ms, step_id, &stats);
    } catch (...) {
      samples_.skip();
      throw;
    }
    samples_.add(*nodes(), stats);
    return fetched;
  }
  // Runs a step without the GIL, with a timeout if there is one, known to the session meanwhile.
  template <typename Run>
  std::vector<Tensor> run_timed(const std::shared_ptr<Step>& step, int64_t timeout_ms, const Run& run) {
    WithoutGil unlocked;
    Session::Running running(program_->session(), step.get());
    struct Timer {
      ~Timer() {
        if (id) Timers::shared().cancel(id);
      }
      int64_t id = 0;
    } timer;
    if (timeout_ms > 0) {
      auto when = Timers::Clock::now() + std::chrono::milliseconds(timeout_ms);
      timer.id = Timers::shared().at(when, [step, timeout_ms] {
        step->abort(Error(Code::deadline_exceeded, cat("the step took longer than its timeout of ", timeout_ms,
                                                       " ms (operation_timeout_in_ms)")));
      });
    }
    return run();
  }
  std::shared_ptr<const StepProgram> program_;
  Samples samples_;
};

}  // namespace

std::shared_ptr<const StepProgram> program_of(nb::handle compiled) {
  return nb::cast<CompiledStep&>(compiled).program();
}

void bind_compiled_step(nb::module_& m) {
  m.def("force_teams", &Pace::force, nb::call_guard<NativeCall>(), "forced"_a,
        "For tests: from now on several threads run each step of one device, whatever its nodes take.");
  nb::class_<CompiledStep>(m, "CompiledStep")
      .def(nb::init<nb::object, nb::list, nb::list, size_t>(), nb::call_guard<NativeCall>(), "session"_a, "parts"_a,
           "feeds"_a, "num_fetches"_a)
      .def("run", &CompiledStep::run, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0, "step_id"_a = 0,
           "Runs the step: the fetched values. Step 0 gets a new number.")
      .def("run_one", &CompiledStep::run_one, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0,
           "step_id"_a = 0)
      .def("run_values", &CompiledStep::run_values, nb::call_guard<NativeCall>(), "feeds"_a,
           "Runs the step: the fetched values as objects of the core, which other steps can be fed with.")
      .def("run_with_peers", &CompiledStep::run_with_peers, nb::call_guard<NativeCall>(), "feeds"_a, "peers"_a,
           "timeout_ms"_a = 0,
           "Runs parts of a step whose other parts run in other processes: the values that are fetched here.")
      .def("run_traced", &CompiledStep::run_traced, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0,
           "details"_a = true, "numerics"_a = false, "step_id"_a = 0,
           "Runs the step observed: the fetched values and a Trace. Without details: only when each node ran.")
      .def("run_checked", &CompiledStep::run_checked, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0,
           "step_id"_a = 0,
           "Runs the step: the fetched values, and the nodes that made NaN or infinity out of finite values.")
      .def(
          "nodes", [](CompiledStep& s, size_t first) { return nodes_to_python(*s.nodes(), first); }, "first"_a = 0,
          nb::call_guard<NativeCall>(),
          "What the numbers of nodes in records mean: (device's number, caller, name, op, inputs, controls, names and "
          "ops of the nodes that it stands for).")
      .def_prop_ro(
          "feeds",
          [](CompiledStep& s) {
            nb::list out;
            for (const auto& feed : s.program()->feeds()) out.append(feed.name);
            return out;
          },
          "The names of the tensors that it is fed with.")
      .def_prop_ro("num_labelled", [](CompiledStep& s) { return s.nodes()->labelled(); })
      .def_prop_ro("num_traced_nodes", [](CompiledStep& s) { return s.nodes()->size(); })
      .def(
          "label", [](CompiledStep& s, nb::list labels) { label_from_python(*s.nodes(), labels); }, "labels"_a,
          nb::call_guard<NativeCall>(),
          "Names the nodes of the program that the next nodes without labels stand for: [(node, text, share)] each.")
      .def(
          "sample",
          [](CompiledStep& s, int64_t every, int64_t after) {
            s.samples().every(std::max<int64_t>(every, -1), std::max<int64_t>(after, 0));
          },
          "every"_a, "after"_a = 0,
          "From now on measures every n-th `run`, the next one first, or the one after so many; 0 for none, -1 for "
          "ever "
          "fewer of them.")
      .def(
          "sampled",
          [](CompiledStep& s) {
            nb::dict out;
            for (const auto& [node, times] : s.samples().times())
              out[nb::int_(node)] = nb::make_tuple(times.runs, times.total, times.least, times.steps, times.median());
            return out;
          },
          "What the measured steps took: by number of node (see `nodes`), its runs, their total and least time in "
          "nanoseconds, the steps in which it ran, and the median of its time over the last of them. Nodes that wait "
          "(queues, Recv) are not there, nor is what runs within nodes.")
      .def("run_repeatedly", &CompiledStep::run_repeatedly, nb::call_guard<NativeCall>(), "should_stop"_a)
      .def_prop_ro("num_nodes",
                   [](CompiledStep& s) {
                     size_t nodes = 0;
                     for (const auto& part : s.program()->parts()) nodes += part.plan->nodes().size() - 1;
                     return nodes;
                   })
      .def_prop_ro(
          "devices",
          [](CompiledStep& s) {
            std::vector<std::string> names;
            for (const auto& part : s.program()->parts()) names.push_back(part.plan->device().name);
            return names;
          },
          "The names of its parts' devices; records of nodes refer to them by number.")
      .def_prop_ro(
          "has_team", [](CompiledStep& s) { return s.program()->parts()[0].plan->pace().has_team(); },
          "Whether several threads run the nodes of its first part, by what was measured so far.")
      .def_prop_ro("num_parts", [](CompiledStep& s) { return s.program()->parts().size(); })
      .def_prop_ro("flat", [](CompiledStep& s) { return s.program()->parts()[0].plan->flat(); })
      .def_prop_ro("sequential", [](CompiledStep& s) { return s.program()->parts()[0].plan->sequential(); });
}

}  // namespace thalweg
