// Numbering the nodes of steps, and writing traces.
#include "executor/trace.h"

#include <algorithm>

#include "executor/loop_program.h"
#include "io/wire.h"

namespace thalweg {

NodeTable::NodeTable(const std::vector<std::shared_ptr<const Plan>>& plans) {
  for (size_t part = 0; part < plans.size(); ++part) {
    const auto& nodes = plans[part]->nodes();
    const int32_t first = static_cast<int32_t>(entries_.size());
    for (const NodeItem& node : nodes)
      if (node.kind != NodeKind::sink) add(node.def, static_cast<int32_t>(part), -1);
    for (size_t i = 0; i + 1 < nodes.size(); ++i) {
      const int32_t from = first + static_cast<int32_t>(i);
      for (const Edge& edge : nodes[i].edges)
        if (nodes[edge.node].kind != NodeKind::sink) entries_[first + edge.node].inputs.push_back(from);
      for (int32_t to : nodes[i].controls) entries_[first + to].controls.push_back(from);
    }
  }
  for (size_t i = 0, n = entries_.size(); i < n; ++i) add_with_loops(*entries_[i].def, entries_[i].part, -1);
}

// Adds the nodes of a lowered loop, and of the loops within it.
void NodeTable::add_with_loops(const NodeDef& def, int32_t part, int32_t caller) {
  const AttrValue* program = def.find("program");
  if (program == nullptr || !std::holds_alternative<std::shared_ptr<const LoopProgram>>(*program)) return;
  for (const NodeDef* inner : std::get<std::shared_ptr<const LoopProgram>>(*program)->nodes()) {
    add(*inner, part, caller);
    add_with_loops(*inner, part, caller);
  }
}

int32_t NodeTable::add(const NodeDef& def, int32_t part, int32_t caller) {
  const int32_t number = static_cast<int32_t>(entries_.size());
  std::string name = caller < 0 ? def.name : entries_[caller].name + "/" + def.name;
  entries_.push_back({&def, part, caller, std::move(name), {}, {}, {}});
  if (caller < 0)
    numbers_.emplace(&def, number);
  else
    called_numbers_.emplace(std::pair(&def, caller), number);
  return number;
}

int32_t NodeTable::number(const NodeDef& def, int32_t part, int32_t parent, bool called) {
  std::lock_guard lock(mutex_);
  const int32_t caller = called ? parent : parent < 0 ? -1 : entries_[parent].caller;
  if (caller < 0) {
    auto found = numbers_.find(&def);
    return found != numbers_.end() ? found->second : add(def, part, caller);
  }
  auto found = called_numbers_.find(std::pair(&def, caller));
  return found != called_numbers_.end() ? found->second : add(def, part, caller);
}

size_t NodeTable::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t NodeTable::labelled() const {
  std::lock_guard lock(mutex_);
  return labelled_;
}

void NodeTable::label(std::vector<std::vector<Label>> labels) {
  std::lock_guard lock(mutex_);
  for (auto& each : labels) {
    if (labelled_ == entries_.size()) return;
    entries_[labelled_++].labels = std::move(each);
  }
}

const NodeTable::Entry& NodeTable::operator[](size_t i) const {
  std::lock_guard lock(mutex_);
  return entries_.at(i);
}

Trace::Trace(std::shared_ptr<NodeTable> nodes, const std::vector<std::shared_ptr<const Plan>>& plans,
             std::deque<StepStats>& stats, int64_t clock_offset)
    : nodes_(std::move(nodes)), step_(stats.at(0).step()) {
  const TraceClock::Scale scale(clock_offset);
  for (size_t i = 0; i < plans.size(); ++i) {
    std::vector<StepStats::Call> calls = stats[i].take_calls();
    // A calling call comes before the calls it made.
    std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    parts_.push_back({plans[i]->device().name, {}, {}, stats[i].left_out()});
    std::unordered_map<int64_t, std::vector<int32_t>> records_of;  // for each call the records of its runs
    records_of[0] = add_runs(stats[i], static_cast<int32_t>(i), -1, scale);
    for (const StepStats::Call& call : calls) {
      auto caller = records_of.find(call.within);
      const int32_t around = caller != records_of.end() ? caller->second.at(call.record) : -1;
      if (around >= 0) records_of[call.number] = add_runs(*call.stats, static_cast<int32_t>(i), around, scale);
    }
    for (auto& finding : stats[i].findings()) findings_.push_back(std::move(finding));
  }
}

// Adds the runs that an observer has seen within the record of a node that called (-1: none), and returns the numbers
// of their records; those without an end have none.
std::vector<int32_t> Trace::add_runs(const StepStats& stats, int32_t number, int32_t calling,
                                     const TraceClock::Scale& scale) {
  Part& part = parts_.back();
  const std::vector<NodeRun>& runs = stats.runs();
  const int32_t first_output = static_cast<int32_t>(part.outputs.size());
  part.outputs.insert(part.outputs.end(), stats.outputs().begin(), stats.outputs().end());
  part.records.reserve(part.records.size() + runs.size());
  std::vector<int32_t> record_of(runs.size(), -1);
  for (size_t k = 0; k < runs.size(); ++k) {
    const NodeRun& run = runs[k];
    if (run.end == 0) continue;
    const int32_t parent = run.parent < 0 ? calling : record_of[run.parent];
    const int32_t around = parent < 0 ? -1 : part.records[parent].node;
    record_of[k] = static_cast<int32_t>(part.records.size());
    part.records.push_back({nodes_->number(*run.def, number, around, run.called && around >= 0), parent,
                            scale.nanoseconds(run.start), scale.nanoseconds(run.end), run.in_use, run.taken,
                            run.temporary, run.thread, first_output + run.first_output, run.num_outputs, run.waits});
  }
  return record_of;
}

namespace {

using wire::put_bytes;

// Numbers that are 0 are left out, as proto3 does.
void put(std::string& out, int field, int64_t value) {
  if (value != 0) wire::put_number(out, field, static_cast<uint64_t>(value));
}

// A message within a message. Its length is written when it is complete, as a number of always five bytes, so that
// nothing has to be moved or copied.
class Within {
 public:
  Within(std::string& out, int field) : out_(out) {
    wire::put_key(out, field, wire::Kind::bytes);
    out.append(kLength, '\x80');
    begin_ = out.size();
  }
  ~Within() {
    size_t length = out_.size() - begin_;
    for (size_t i = 0; i < kLength; ++i, length >>= 7)
      out_[begin_ - kLength + i] = static_cast<char>((length & 0x7f) | (i + 1 < kLength ? 0x80 : 0));
  }
  Within(const Within&) = delete;

 private:
  static constexpr size_t kLength = 5;
  std::string& out_;
  size_t begin_;
};

void put_output(std::string& out, const OutputRun& output) {
  const Within message(out, 7);
  put(out, 1, output.slot);
  const Within description(out, 3);
  put(out, 1, static_cast<int64_t>(output.dtype));
  {
    const Within shape(out, 2);  // TensorBoard's page fails where a scalar has none.
    for (int64_t dim : output.shape) {
      const Within size(out, 2);
      put(out, 1, dim);
    }
  }
  const Within allocation(out, 4);
  put(out, 1, output.bytes);
  put(out, 2, output.bytes);
  put_bytes(out, 3, "cpu");
  put(out, 6, static_cast<int64_t>(reinterpret_cast<uintptr_t>(output.data)));
}

// Memory and outputs: only the last of several records of a node has them.
void put_results(std::string& out, const TraceRecord& record, const std::vector<OutputRun>& outputs) {
  {
    const Within used(out, 6);
    put_bytes(out, 1, "cpu");
    put(out, 2, record.taken);
    put(out, 3, record.taken);
    put(out, 4, record.taken - record.temporary);
    put(out, 5, record.in_use);
  }
  for (int32_t i = 0; i < record.num_outputs; ++i) put_output(out, outputs[record.first_output + i]);
  if (record.temporary == 0) return;
  const Within memory(out, 12);
  put(out, 1, record.temporary);
}

void put_node(std::string& out, const NodeTable::Label& label, int64_t start, int64_t end, const TraceRecord& record,
              const std::vector<OutputRun>* outputs) {
  // Microseconds are those of the ends, so that neighbours stay neighbours; but TensorBoard takes an operation of 0
  // microseconds for one that did not run, which is right only for feeds.
  const int64_t least = record.end > record.start ? 1 : 0;
  const int64_t micros = std::max(least, end / 1000 - start / 1000);
  const Within message(out, 2);
  put_bytes(out, 1, label.node);
  put(out, 2, start / 1000);
  put(out, 4, record.waits ? 0 : micros);
  put(out, 5, micros);
  put_bytes(out, 8, label.text);
  put(out, 9, start / 1000);
  put(out, 10, record.thread);
  put(out, 13, start);
  put(out, 15, record.waits ? 0 : end - start);
  put(out, 16, end - start);
  put(out, 17, start);
  if (outputs != nullptr) put_results(out, record, *outputs);
}

}  // namespace

std::string Trace::step_stats() const {
  std::string out;
  for (const Part& part : parts_) {
    const Within device(out, 1);
    put_bytes(out, 1, part.device);
    for (const TraceRecord& record : part.records) {
      const NodeTable::Entry& entry = (*nodes_)[record.node];
      if (entry.labels.empty()) {
        put_node(out, {entry.name, entry.name + " = " + entry.def->op + "()", 1}, record.start, record.end, record,
                 &part.outputs);
        continue;
      }
      int64_t from = record.start;
      double shares = 0;
      for (size_t i = 0; i < entry.labels.size(); ++i) {
        shares += entry.labels[i].share;
        const bool last = i + 1 == entry.labels.size();
        const double length = static_cast<double>(record.end - record.start);
        const int64_t to = last ? record.end : record.start + static_cast<int64_t>(length * std::min(shares, 1.0));
        put_node(out, entry.labels[i], from, to, record, last ? &part.outputs : nullptr);
        from = to;
      }
    }
  }
  return out;
}

}  // namespace thalweg
