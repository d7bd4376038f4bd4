// Trace: the records of a step's observers, given after the step as arrays and as a StepStats protobuf.
//
// NodeTable numbers the nodes of a compiled step: those of its plans and of its lowered loops at once, those of called
// functions when they first run (they are called "caller/node" then). Thread-safe.
//
// A fused node has labels: the nodes of the user's program that it replaces, with the share of its time that each of
// them gets. In the protobuf each has a record of its own, one after the other within the time of the node: so every
// one of them has a time, and the sum is that of the node.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/stats.h"

namespace thalweg {

class NodeTable {
 public:
  struct Label {
    std::string node;
    std::string text;  // "node = Op(inputs)"
    double share = 1;
  };
  struct Entry {
    const NodeDef* def;
    int32_t part;         // the number of the device's plan
    int32_t caller = -1;  // of the function that the node belongs to
    std::string name;
    std::vector<int32_t> inputs;  // nodes; constants are not among them
    std::vector<int32_t> controls;
    std::vector<Label> labels;
  };

  explicit NodeTable(const std::vector<std::shared_ptr<const Plan>>& plans);

  // The number of a node that ran under `parent` (-1 for none).
  int32_t number(const NodeDef& def, int32_t part, int32_t parent, bool called);
  size_t size() const;
  // The number of nodes that have labels; nodes get them in the order of their numbers.
  size_t labelled() const;
  void label(std::vector<std::vector<Label>> labels);
  // The reference stays valid; only labels change, once.
  const Entry& operator[](size_t i) const;

 private:
  int32_t add(const NodeDef& def, int32_t part, int32_t caller);
  void add_with_loops(const NodeDef& def, int32_t part, int32_t caller);

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::unordered_map<const NodeDef*, int32_t> numbers_;                   // of nodes that belong to no function
  std::map<std::pair<const NodeDef*, int32_t>, int32_t> called_numbers_;  // by node and caller
  size_t labelled_ = 0;
};

// One run of a node. Python reads arrays of these (runtime/trace.py).
struct TraceRecord {
  int32_t node;
  int32_t parent;  // the record of the node around it, or -1
  int64_t start;   // nanoseconds since the epoch
  int64_t end;
  int64_t in_use;     // bytes that the tensors of the device held at its end
  int64_t taken;      // bytes that it allocated (blocks above 32 KB)
  int64_t temporary;  // bytes that it gave back before its end
  int32_t thread;
  int32_t first_output;
  int32_t num_outputs;
  int32_t waits;  // 1 for an asynchronous node
};

class Trace {
 public:
  struct Part {
    std::string device;
    std::vector<TraceRecord> records;
    std::vector<OutputRun> outputs;
    size_t left_out = 0;
  };
  // Takes the records of the observers of the plans' executors.
  Trace(std::shared_ptr<NodeTable> nodes, const std::vector<std::shared_ptr<const Plan>>& plans,
        std::deque<StepStats>& stats, int64_t clock_offset = 0);

  int64_t step() const { return step_; }  // its number
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<std::pair<std::string, std::string>>& findings() const { return findings_; }
  // A serialized StepStats.
  std::string step_stats() const;

 private:
  std::vector<int32_t> add_runs(const StepStats& stats, int32_t part, int32_t calling, const TraceClock::Scale& scale);

  std::shared_ptr<NodeTable> nodes_;
  int64_t step_;
  std::vector<Part> parts_;
  std::vector<std::pair<std::string, std::string>> findings_;
};

}  // namespace thalweg
