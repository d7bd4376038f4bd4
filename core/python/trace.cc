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

void Samples::add(const Trace& trace) {
  std::lock_guard lock(mutex_);
  ++steps_;
  for (const Trace::Part& part : trace.parts())
    for (const TraceRecord& record : part.records) {
      if (record.waits) continue;
      Times& times = times_[record.node];
      const int64_t took = record.end - record.start;
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

std::map<int32_t, Samples::Times> Samples::times() const {
  std::lock_guard lock(mutex_);
  return times_;
}

void bind_trace(nb::module_& m) {
  nb::class_<Trace>(m, "Trace", "What an observed step did.")
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
          "How many runs came after the most that are recorded.")
      .def_prop_ro("findings", &Trace::findings, "Nodes, and what is not finite about them.")
      .def(
          "step_stats",
          [](const Trace& t) {
            std::string bytes = t.step_stats();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "A serialized StepStats.");
}

}  // namespace thalweg
