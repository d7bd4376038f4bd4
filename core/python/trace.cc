// Traces as bytes and lists.
#include "python/trace.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

nb::list nodes_to_python(const NodeTable& nodes, size_t first) {
  nb::list out;
  for (size_t i = first, n = nodes.size(); i < n; ++i) {
    const NodeTable::Entry& entry = nodes[i];
    auto members = entry.def->attr<std::vector<std::string>>("_members", {});
    auto ops = entry.def->attr<std::vector<std::string>>("_member_ops", {});
    out.append(nb::make_tuple(entry.part, entry.caller, entry.name, entry.def->op, entry.inputs, entry.controls,
                              members, ops));
  }
  return out;
}

void label_from_python(NodeTable& nodes, nb::list labels) {
  std::vector<std::vector<NodeTable::Label>> converted;
  for (nb::handle each : labels) {
    auto& of_node = converted.emplace_back();
    for (nb::handle label : each)
      of_node.push_back({nb::cast<std::string>(label[0]), nb::cast<std::string>(label[1]), nb::cast<double>(label[2])});
  }
  nodes.label(std::move(converted));
}

int64_t Samples::Times::median() const {
  std::array<int64_t, kRecent> sorted = recent;
  const auto n = std::min(steps, kRecent);
  std::nth_element(sorted.begin(), sorted.begin() + n / 2, sorted.begin() + n);
  return sorted[n / 2];
}

void Samples::add(NodeTable& nodes, const std::deque<StepStats>& stats) {
  const TraceClock::Scale scale;
  {
    std::lock_guard lock(mutex_);
    ++steps_;
    for (size_t part = 0; part < stats.size(); ++part) {
      for (const NodeRun& run : stats[part].runs()) {
        if (run.waits || run.parent >= 0 || run.end == 0) continue;
        const auto number = static_cast<size_t>(nodes.number(*run.def, static_cast<int32_t>(part), -1, false));
        if (number >= times_.size()) times_.resize(std::max(number + 1, nodes.size()));
        Times& times = times_[number];
        const int64_t took = scale.nanoseconds(run.end) - scale.nanoseconds(run.start);
        ++times.runs;
        times.total += took;
        times.least = std::min(times.least, took);
        if (times.step != steps_) {
          times.step = steps_;
          ++times.steps;
          times.runs_in_step = times.total_in_step = 0;
        }
        times.total_in_step += took;
        times.recent[(times.steps - 1) % Times::kRecent] = times.total_in_step / ++times.runs_in_step;
      }
    }
  }
  plan_next();
}

// Postpones the next sample until the extra cost of this one is a hundredth of the time since.
void Samples::plan_next() {
  if (every_.load(std::memory_order_relaxed) >= 0) return;
  const Clock::time_point end = Clock::now();
  const int64_t count = count_.load(std::memory_order_relaxed);
  using Seconds = std::chrono::duration<double>;
  int64_t steps = 1 + count / 2;
  if (last_count_ > 0 && count > last_count_) {
    const double per_step = Seconds(begin_ - last_end_).count() / static_cast<double>(count - last_count_);
    const double extra = Seconds(end - begin_).count() - per_step;
    if (extra > 0) steps = std::max(steps, static_cast<int64_t>(std::min(100 * extra / (per_step + 1e-9), 1e9)));
  }
  last_end_ = end;
  last_count_ = count;
  next_.store(count + steps, std::memory_order_relaxed);
}

std::map<int32_t, Samples::Times> Samples::times() const {
  std::lock_guard lock(mutex_);
  std::map<int32_t, Times> found;
  for (size_t i = 0; i < times_.size(); ++i)
    if (times_[i].runs > 0) found.emplace(static_cast<int32_t>(i), times_[i]);
  return found;
}

void bind_trace(nb::module_& m) {
  nb::class_<Trace>(m, "Trace", "The records of an observed step.")
      .def_prop_ro("step_id", &Trace::step, "The number of the step.")
      .def_prop_ro("devices",
                   [](const Trace& t) {
                     nb::list out;
                     for (const auto& part : t.parts()) out.append(part.device);
                     return out;
                   })
      .def(
          "records",
          [](const Trace& t, size_t device) {
            const auto& records = t.parts().at(device).records;
            return nb::bytes(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(TraceRecord));
          },
          "device"_a, "The records of one device, as the bytes of an array (runtime/trace.py).")
      .def(
          "outputs",
          [](const Trace& t, size_t device) {
            nb::list out;
            for (const OutputRun& o : t.parts().at(device).outputs)
              out.append(nb::make_tuple(o.slot, static_cast<int>(o.dtype), o.shape.to_vector(), o.bytes,
                                        reinterpret_cast<uintptr_t>(o.data)));
            return out;
          },
          "device"_a, "The outputs that records refer to: (slot, dtype, shape, bytes, address).")
      .def(
          "left_out", [](const Trace& t, size_t device) { return t.parts().at(device).left_out; }, "device"_a,
          "The number of runs beyond the limit, which are not recorded.")
      .def_prop_ro("findings", &Trace::findings, "Nodes, and descriptions of their NaNs and infinities.")
      .def(
          "step_stats",
          [](const Trace& t) {
            std::string bytes = t.step_stats();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "A serialized StepStats.");
}

}  // namespace thalweg
