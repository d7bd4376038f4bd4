// Tasks, calls and cluster steps for Python. Steps run without the GIL and never enter Python on the way.
#include "python/network.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <future>

#include "net/cluster_step.h"
#include "net/task.h"
#include "python/compiled_step.h"
#include "python/gil.h"
#include "python/interrupt.h"
#include "python/partial_step.h"
#include "python/python_kernel.h"
#include "python/step_values.h"
#include "thread/run_soon.h"
#include "thread/thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

using net::ClusterStep;
using net::Connection;
using net::StepResult;
using net::Task;

constexpr auto kPoll = std::chrono::milliseconds(50);

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// The records of a step over several tasks.
struct NetworkTrace {
  std::string stats;
  std::vector<std::pair<std::string, std::string>> findings;
};

// A step over several tasks, with what a session needs to run it.
class NetworkStep {
 public:
  explicit NetworkStep(std::shared_ptr<ClusterStep> step) : step_(std::move(step)) {}
  const std::shared_ptr<ClusterStep>& step() const { return step_; }

  nb::object run(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    return to_python(wait(values, timeout_ms, step_id, {}).fetches);
  }
  nb::object run_one(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    return to_python(std::move(wait(values, timeout_ms, step_id, {}).fetches.at(0)));
  }
  // The fetched values, and the trace of all tasks.
  nb::object run_traced(nb::handle values, int64_t timeout_ms, bool numerics, int64_t step_id) {
    StepResult result = wait(values, timeout_ms, step_id, {.traced = true, .checked = numerics});
    NetworkTrace trace{std::move(result.stats), std::move(result.findings)};
    return nb::make_tuple(to_python(std::move(result.fetches)), std::move(trace));
  }
  // The fetched values, and the nodes that made NaN or infinity out of finite values.
  nb::object run_checked(nb::handle values, int64_t timeout_ms, int64_t step_id) {
    StepResult result = wait(values, timeout_ms, step_id, {.checked = true});
    return nb::make_tuple(to_python(std::move(result.fetches)), nb::cast(result.findings));
  }
  // Runs the step, which has no feeds, again and again until it fails or shall stop.
  void run_repeatedly(nb::callable should_stop) {
    nb::list none;
    while (!nb::cast<bool>(or_rest([&] { return should_stop(); }))) to_python(wait(none, 0, 0, {}).fetches);
  }

 private:
  StepResult wait(nb::handle values, int64_t timeout_ms, int64_t id, net::StepOptions options) {
    std::vector<Tensor> feeds = fed_values(step_->feeds(), values);
    if (id == 0) id = Step::new_id();
    auto waiter = std::make_shared<net::StepWaiter>();
    WithoutGil unlocked;
    const auto began = net::Clock::now();
    auto done = [waiter](StepResult result) { waiter->ended(std::move(result)); };
    {
      SoonScope soon;  // This thread drives the local part as far as it goes.
      step_->start(id, std::move(feeds), options, nullptr, done);
    }
    if (step_->pace().is_short()) waiter->read(step_->task(), id, step_->connections());
    const auto until = began + std::chrono::milliseconds(timeout_ms);
    bool ended_early = false;
    std::optional<Error> interrupt;
    while (!waiter->sleep(kPoll)) {
      try {
        if (!interrupt) check_signals();
        if (timeout_ms > 0 && net::Clock::now() >= until && !ended_early) {
          ended_early = true;
          fail(Code::deadline_exceeded, "the step took longer than its timeout of ", timeout_ms,
               " ms (operation_timeout_in_ms)");
        }
      } catch (const Error& error) {
        if (is_interrupt(error)) interrupt = error;
        step_->task().steps().cancel(id, error);
      }
    }
    if (interrupt) throw *interrupt;
    step_->pace().took(net::Clock::now() - began);
    StepResult result = std::move(waiter->result());
    if (result.error) throw *result.error;
    return result;
  }

  std::shared_ptr<ClusterStep> step_;
};

// Calls a Python function with the GIL, on a thread of the core. Its exceptions become Errors.
template <typename... Args>
nb::object call_python(const std::shared_ptr<void>& function, const Args&... args) {
  try {
    return or_rest([&] { return nb::borrow(static_cast<PyObject*>(function.get()))(args...); });
  } catch (nb::python_error& exception) {
    Error error = error_from_python(exception);
    // The node that failed, if the function has run a step: the peer shows it as its own.
    nb::object node = nb::getattr(nb::borrow(exception.value()), "node_def", nb::none());
    if (!node.is_none()) error.set_node(nb::str(node.attr("name")).c_str(), nb::str(node.attr("op")).c_str());
    throw error;
  }
}

// Limits by name; the others keep their defaults.
net::Limits limits_from(nb::dict given) {
  net::Limits limits;
  const std::pair<const char*, size_t*> known[] = {
      {"head", &limits.head},
      {"elements", &limits.elements},
      {"backlog", &limits.backlog},
      {"early_steps", &limits.early_steps},
      {"early_bytes", &limits.early_bytes},
      {"collectives", &limits.collectives},
      {"collective_bytes", &limits.collective_bytes},
      {"step_bytes", &limits.step_bytes},
      {"steps", &limits.steps},
      {"calls", &limits.calls},
      {"call_threads", &limits.call_threads},
      {"connections", &limits.connections},
      {"handshakes", &limits.handshakes},
  };
  for (auto [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    auto found = std::find_if(std::begin(known), std::end(known), [&](auto& each) { return each.first == name; });
    require(found != std::end(known), "there is no limit '", name, "' (core/net/limits.h)");
    *found->second = nb::cast<size_t>(value);
  }
  return limits;
}

std::shared_ptr<Task> make_task(const std::string& task, uint64_t incarnation, const std::string& cluster,
                                nb::bytes key, nb::callable calls, nb::callable lost, bool shares_memory,
                                int64_t patience_ms, nb::dict limits, nb::object encrypt, nb::object refused,
                                const std::vector<std::string>& prompt_methods) {
  net::TaskOptions options;
  options.identity = {cluster, task, incarnation};
  options.key = std::string(key.c_str(), key.size());
  options.shares_memory = shares_memory;
  options.patience = std::chrono::milliseconds(patience_ms);
  options.limits = limits_from(limits);
  options.prompt_methods.insert(prompt_methods.begin(), prompt_methods.end());
  if (!encrypt.is_none())
    options.encrypt = [function = shared_object(encrypt)](const net::Socket& socket, const std::string& host,
                                                          net::Clock::time_point until) {
      const auto left = std::chrono::duration<double>(until - net::Clock::now()).count();
      WithGil gil;
      return net::Socket(nb::cast<int>(call_python(function, socket.fd(), host, left)));
    };
  if (!refused.is_none())
    options.refused = [function = shared_object(refused)](const std::string& host, const Error& why) {
      WithGil gil;
      call_python(function, host, nb::str(why.message().data(), why.message().size()));
    };
  auto on_call = [function = shared_object(calls)](const std::shared_ptr<Connection>& from, std::string method,
                                                   std::string payload, Task::Answer answer) {
    std::optional<Error> error;
    std::string reply;
    {
      WithGil gil;
      try {
        nb::object found =
            call_python(function, nb::cast(from), nb::str(method.data(), method.size()), bytes_of(payload));
        auto bytes = nb::cast<nb::bytes>(found);
        reply.assign(bytes.c_str(), bytes.size());
      } catch (const Error& raised) {
        error = raised;
      } catch (const std::exception& exception) {
        error = Error(Code::internal, exception.what());
      }
    }
    answer(std::move(error), std::move(reply));
  };
  auto on_lost = [function = shared_object(lost)](const std::shared_ptr<Connection>& peer, const Error& why) {
    WithGil gil;
    try {
      call_python(function, nb::cast(peer), nb::str(why.message().data(), why.message().size()));
    } catch (const std::exception&) {
      // There is no caller to tell.
    }
  };
  return std::make_shared<Task>(std::move(options), on_call, on_lost);
}

nb::bytes call_peer(Task& task, const std::shared_ptr<Connection>& peer, const std::string& method, nb::bytes payload,
                    int64_t timeout_ms) {
  using Outcome = std::pair<std::optional<Error>, std::string>;
  auto promise = std::make_shared<std::promise<Outcome>>();
  auto future = promise->get_future();
  std::string bytes(payload.c_str(), payload.size());
  std::optional<Outcome> outcome;
  {
    WithoutGil unlocked;
    task.call(peer, method, bytes, [promise](std::optional<Error> error, std::string answer) {
      promise->set_value({std::move(error), std::move(answer)});
    });
    const auto until = net::Clock::now() + std::chrono::milliseconds(timeout_ms);
    while (future.wait_for(kPoll) != std::future_status::ready) {
      if (timeout_ms > 0 && net::Clock::now() >= until)
        fail(Code::deadline_exceeded, peer->name(), " has not answered '", method, "' within ", timeout_ms, " ms");
      check_signals();
    }
    outcome = future.get();
  }
  if (outcome->first) throw *outcome->first;
  return bytes_of(outcome->second);
}

using Share = std::pair<std::vector<int32_t>, std::vector<int32_t>>;
using Peers = std::vector<std::pair<std::string, std::shared_ptr<Connection>>>;

std::shared_ptr<NetworkStep> make_step(std::shared_ptr<Task> task, nb::list feeds, size_t num_fetches, nb::object local,
                                       Share local_share, nb::list remotes, Peers routes, nb::object label) {
  std::optional<ClusterStep::Local> own;
  if (!local.is_none()) {
    own.emplace();
    own->feeds = std::move(local_share.first);
    own->fetches = std::move(local_share.second);
    own->program = program_of(local);
    require(own->feeds.size() == own->program->feeds().size() && own->fetches.size() == own->program->num_fetches(),
            "the local parts have other feeds or fetches than the step says");
  }
  std::vector<ClusterStep::Remote> others;
  for (nb::handle each : remotes) {
    ClusterStep::Remote remote;
    remote.peer = nb::cast<std::shared_ptr<Connection>>(each[0]);
    remote.number = nb::cast<uint64_t>(each[1]);
    remote.feeds = nb::cast<std::vector<int32_t>>(each[2]);
    remote.fetches = nb::cast<std::vector<int32_t>>(each[3]);
    others.push_back(std::move(remote));
  }
  auto step = std::make_shared<ClusterStep>(std::move(task), feeds_from_python(feeds), num_fetches, std::move(own),
                                            std::move(others), std::make_shared<const net::Routes>(std::move(routes)));
  if (!label.is_none())
    step->label_with([function = shared_object(std::move(label))] {
      WithGil gil;
      call_python(function);
    });
  return std::make_shared<NetworkStep>(std::move(step));
}

// Starts a step that is fed and fetched through its rendezvous, which is that of this task.
std::unique_ptr<PartialStep> start_partial(std::shared_ptr<NetworkStep> step) {
  const int64_t id = Step::new_id();
  auto ended = std::make_shared<std::promise<void>>();
  std::shared_ptr<Rendezvous> rendezvous;
  {
    WithoutGil unlocked;
    rendezvous = step->step()->task().steps().prepare(id);
    step->step()->start(id, {}, {}, nullptr, [ended, rendezvous](StepResult result) {
      if (result.error) rendezvous->abort(*result.error);
      ended->set_value();
    });
  }
  auto abort = [step, id](const Error& error) { step->step()->task().steps().cancel(id, error); };
  return std::make_unique<PartialStep>(rendezvous, abort, ended->get_future(), step);
}

}  // namespace

void bind_network(nb::module_& m) {
  nb::class_<Connection>(m, "Connection", "A connection to a task, or to a client.")
      .def_prop_ro("number", &Connection::number, "Tells it from all others of this process.")
      .def_prop_ro("task", [](const Connection& c) { return c.peer().task; })
      .def_prop_ro("incarnation", [](const Connection& c) { return c.peer().incarnation; })
      .def_prop_ro("is_lost", &Connection::is_lost)
      .def_prop_rw("clock_offset", &Connection::clock_offset, &Connection::set_clock_offset,
                   "The clock of this process minus that of the peer, in nanoseconds.")
      .def_prop_ro("shares_memory", &Connection::shares_memory)
      .def_prop_ro("bytes_sent", &Connection::bytes_sent)
      .def_prop_ro("bytes_received", &Connection::bytes_received)
      .def_prop_ro("bytes_lent", &Connection::bytes_lent, "Of tensors that the peer has read in this process's memory.")
      .def_prop_ro("bytes_borrowed", &Connection::bytes_borrowed, "Of tensors read in the memory of the peer.")
      .def_prop_ro("messages_sent", &Connection::messages_sent, "Frames with tensors of steps.")
      .def_prop_ro("messages_received", &Connection::messages_received, "Frames with tensors of steps.")
      .def_prop_ro("loans", &Connection::loans, "How many tensors the peer reads in the memory of this process.")
      .def(
          "close",
          [](Connection& c, const std::string& why) {
            WithoutGil unlocked;
            c.close(Error(Code::unavailable, why));
          },
          "why"_a);
  nb::class_<Task>(m, "NetworkTask", "This process as a member of a cluster, or as a client of one.")
      .def(nb::new_(&make_task), nb::call_guard<NativeCall>(), "task"_a, "incarnation"_a, "cluster"_a, "key"_a,
           "calls"_a, "lost"_a, "shares_memory"_a = true, "patience_ms"_a = 3000, "limits"_a = nb::dict(),
           "encrypt"_a.none() = nb::none(), "refused"_a.none() = nb::none(),
           "prompt_methods"_a = std::vector<std::string>(),
           "`calls(connection, method, payload) -> bytes` answers peers; `lost(connection, why)` is told of lost ones; "
           "`limits` are those of core/net/limits.h, by name; `encrypt(fd, host, seconds) -> fd` makes an encrypted "
           "connection of a TCP socket, which it leaves open; `refused(host, why)` is told of refused callers; "
           "`prompt_methods` wait for nobody, and their calls do not wait behind others.")
      .def("listen", &Task::listen, "host"_a, "port"_a, nb::call_guard<WithoutGil>())
      .def(
          "connect",
          [](Task& task, const std::string& address, int64_t timeout_ms, bool tcp) {
            WithoutGil unlocked;
            return task.connect(address, std::chrono::milliseconds(timeout_ms), tcp);
          },
          "address"_a, "timeout_ms"_a, "tcp"_a = false)
      .def("find", &Task::find, "task"_a, "incarnation"_a)
      .def("connections", &Task::connections)
      .def("call", &call_peer, nb::call_guard<NativeCall>(), "peer"_a, "method"_a, "payload"_a, "timeout_ms"_a = 0)
      .def(
          "add", [](Task& task, NetworkStep& step) { return task.add(step.step()); }, "step"_a,
          "Makes a step known to peers: the number by which they start it.")
      .def("remove", &Task::remove, "number"_a, nb::call_guard<WithoutGil>())
      .def("forward_http2", &Task::forward_http2, "name"_a,
           "Passes callers that speak HTTP/2 on to a Unix socket, by its abstract name. Before `listen`.")
      .def(
          "cancel",
          [](Task& task, int64_t step_id, const std::string& why) {
            WithoutGil unlocked;
            task.steps().cancel(step_id, Error(Code::cancelled, why));
          },
          "step_id"_a, "why"_a, "Ends a step that was started with this id; nothing happens if there is none.")
      .def_prop_ro("num_steps", [](Task& task) { return task.steps().size(); })
      .def("close", &Task::close, nb::call_guard<WithoutGil>());
  nb::class_<NetworkTrace>(m, "NetworkTrace", "The records of a step of several tasks.")
      .def_ro("findings", &NetworkTrace::findings, "Nodes, and descriptions of their NaNs and infinities.")
      .def("step_stats", [](const NetworkTrace& trace) { return bytes_of(trace.stats); });
  nb::class_<NetworkStep>(m, "NetworkStep", "A step of which other tasks run parts.")
      .def(nb::new_(&make_step), nb::call_guard<NativeCall>(), "task"_a, "feeds"_a, "num_fetches"_a, "local"_a.none(),
           "local_share"_a, "remotes"_a, "routes"_a, "label"_a.none() = nb::none(),
           "`local` is a CompiledStep of this process's parts, or None; shares are the feeds and fetches of the step "
           "that are those of the parts; remotes are (connection, number, feeds, fetches); routes are (task, "
           "connection); `label()` gives the nodes of the local parts their labels in traces.")
      .def("run", &NetworkStep::run, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0, "step_id"_a = 0)
      .def("run_one", &NetworkStep::run_one, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0,
           "step_id"_a = 0)
      .def("run_traced", &NetworkStep::run_traced, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0,
           "numerics"_a = false, "step_id"_a = 0)
      .def("run_checked", &NetworkStep::run_checked, nb::call_guard<NativeCall>(), "feeds"_a, "timeout_ms"_a = 0,
           "step_id"_a = 0)
      .def("run_repeatedly", &NetworkStep::run_repeatedly, nb::call_guard<NativeCall>(), "should_stop"_a)
      .def("start_partial", &start_partial, nb::call_guard<NativeCall>(),
           "Starts a step that is fed and fetched through its rendezvous.");
}

}  // namespace thalweg
