// The list of steps that take long, and the hook.
#include "python/long_steps.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "python/gil.h"
#include "python/step_values.h"
#include "python/trace.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Never destroyed: threads may wait for steps while the interpreter ends.
struct Listed {
  std::mutex mutex;
  std::vector<LongStep*> steps;
};
Listed& listed() {
  static auto* one = new Listed;
  return *one;
}

struct Hook {
  std::atomic<double> seconds{0};  // 0: none
  nb::object function;             // guarded by the lock of Python
};
Hook& hook() {
  static auto* one = new Hook;
  return *one;
}

double seconds_since(std::chrono::steady_clock::time_point when) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - when).count();
}

}  // namespace

LongStep::~LongStep() {
  if (!listed_) return;
  std::lock_guard lock(listed().mutex);
  std::erase(listed().steps, this);
}

void LongStep::poll() {
  check_signals();
  if (!listed_) {
    began_ = Clock::now();
    thread_ = PyThread_get_thread_ident();
    std::lock_guard lock(listed().mutex);
    listed().steps.push_back(this);
    listed_ = true;
    return;
  }
  const double limit = hook().seconds.load(std::memory_order_relaxed);
  if (told_ || limit <= 0 || seconds_since(began_) < limit) return;
  told_ = true;
  WithGil gil;
  nb::object function = hook().function;
  if (!function.is_valid()) return;
  or_rest([&] { return function(seconds_since(began_), nodes_to_python(*program_->nodes(), 0)); });
}

nb::list long_steps() {
  struct Seen {
    double seconds;
    unsigned long thread;
    std::shared_ptr<const StepProgram> program;
  };
  std::vector<Seen> seen;
  {
    // No Python object is made under this mutex: that may wait for the interpreter lock, whose holder may want the
    // mutex.
    std::lock_guard lock(listed().mutex);
    for (LongStep* step : listed().steps) seen.push_back({seconds_since(step->began_), step->thread_, step->program_});
  }
  nb::list found;
  for (const Seen& each : seen)
    found.append(nb::make_tuple(each.seconds, each.thread, nodes_to_python(*each.program->nodes(), 0)));
  return found;
}

void bind_long_steps(nb::module_& m) {
  m.def("long_steps", &long_steps, nb::call_guard<NativeCall>(),
        "The steps that Python waits for and that have not ended at once: (seconds, thread, nodes).");
  m.def(
      "set_long_step_hook",
      [](double seconds, nb::object function) {
        hook().function = seconds > 0 ? std::move(function) : nb::object();
        hook().seconds.store(seconds, std::memory_order_relaxed);
      },
      nb::call_guard<NativeCall>(), "seconds"_a, "function"_a.none(),
      "Calls function(seconds, nodes) once for every step that takes longer; 0: for none.");
}

}  // namespace thalweg
