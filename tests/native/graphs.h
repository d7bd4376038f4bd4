// Small graphs for native tests: nodes with kernels given as functions, and the runtime's own kernels by op type.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/joint_step.h"
#include "kernel/registry.h"

namespace native_tests {

using namespace thalweg;

inline Tensor number(int64_t value) { return Tensor::scalar<int64_t>(value); }
inline int64_t value_of(const Tensor& tensor) { return tensor.item<int64_t>(); }

struct Computing : Kernel {
  explicit Computing(std::function<void(Context&)> f) : f(std::move(f)) {}
  void compute(Context& ctx) override { f(ctx); }
  std::function<void(Context&)> f;
};
struct Starting : AsyncKernel {
  explicit Starting(std::function<void(std::shared_ptr<AsyncContext>)> f) : f(std::move(f)) {}
  void start(std::shared_ptr<AsyncContext> ctx) override { f(std::move(ctx)); }
  std::function<void(std::shared_ptr<AsyncContext>)> f;
};

inline std::shared_ptr<Device> cpu(int index = 0) {
  return std::make_shared<Device>(cat("/job:localhost/replica:0/task:0/device:CPU:", index), "CPU");
}

// Collects nodes, all of whose values are int64 unless said otherwise, and makes a plan of them.
class Graph {
 public:
  using Edge = std::pair<int32_t, int32_t>;
  explicit Graph(std::shared_ptr<Device> device = cpu()) : device(std::move(device)) {}

  int32_t add(const std::string& op, const std::vector<Edge>& inputs, std::vector<DType> outputs,
              std::shared_ptr<Kernel> kernel = nullptr, std::vector<int32_t> controls = {}) {
    NodeSpec spec;
    spec.def.name = cat(op, "_", specs.size());
    spec.def.op = op;
    spec.inputs = inputs;
    for (auto [from, output] : inputs) spec.def.input_dtypes.push_back(specs[from].def.output_dtypes[output]);
    spec.def.output_dtypes = std::move(outputs);
    spec.controls = std::move(controls);
    specs.push_back(std::move(spec));
    kernels.push_back(std::move(kernel));
    return static_cast<int32_t>(specs.size()) - 1;
  }
  int32_t compute(const std::vector<Edge>& inputs, std::function<void(Context&)> f, int outputs = 1,
                  std::vector<int32_t> controls = {}) {
    return add("Compute", inputs, std::vector(outputs, DType::int64), std::make_shared<Computing>(std::move(f)),
               std::move(controls));
  }
  int32_t start(const std::vector<Edge>& inputs, std::function<void(std::shared_ptr<AsyncContext>)> f) {
    return add("Start", inputs, {DType::int64}, std::make_shared<Starting>(std::move(f)));
  }
  int32_t constant(int64_t value) {
    return compute({}, [value](Context& ctx) { ctx.set_output(0, number(value)); });
  }
  int32_t plus(Edge input, int64_t amount) {
    return compute({input}, [amount](Context& ctx) { ctx.set_output(0, number(value_of(ctx.input(0)) + amount)); });
  }
  int32_t feed() {
    const int32_t at = add("_Arg", {}, {DType::int64});
    specs[at].def.attrs["index"] = num_feeds++;
    return at;
  }
  int32_t send(Edge input, const std::string& tensor, const std::string& to) {
    const int32_t at = add("_Send", {input}, {});
    transfer(at, tensor, device->name, to);
    return at;
  }
  int32_t recv(const std::string& tensor, const std::string& from, std::vector<int32_t> controls = {}) {
    const int32_t at = add("_Recv", {}, {DType::int64}, nullptr, std::move(controls));
    transfer(at, tensor, from, device->name);
    return at;
  }
  int32_t enter(Edge input, const std::string& frame, bool is_constant = false, int64_t parallel_iterations = 10) {
    const int32_t at = add("Enter", {input}, {specs[input.first].def.output_dtypes[input.second]});
    specs[at].def.attrs["frame_name"] = frame;
    specs[at].def.attrs["is_constant"] = is_constant;
    specs[at].def.attrs["parallel_iterations"] = parallel_iterations;
    return at;
  }
  int32_t merge(const std::vector<Edge>& inputs) {
    return add("Merge", inputs, {specs[inputs[0].first].def.output_dtypes[inputs[0].second], DType::int32});
  }
  int32_t switch_(Edge input, Edge predicate) {
    const DType dtype = specs[input.first].def.output_dtypes[input.second];
    return add("Switch", {input, predicate}, {dtype, dtype});
  }
  int32_t pass(const std::string& op, Edge input) {
    return add(op, {input}, {specs[input.first].def.output_dtypes[input.second]});
  }
  // Whether the input is below a limit.
  int32_t below(Edge input, int64_t limit) {
    auto kernel = std::make_shared<Computing>(
        [limit](Context& ctx) { ctx.set_output(0, Tensor::scalar<bool>(value_of(ctx.input(0)) < limit)); });
    return add("Below", {input}, {DType::boolean}, kernel);
  }

  // The plan keeps the device alive. `threads`: the most that may run nodes at the same time; 0: those of the process.
  std::shared_ptr<Plan> plan(std::vector<Edge> fetches = {}, int threads = 0) {
    auto make = [this](const NodeSpec& spec) -> std::shared_ptr<Kernel> {
      for (size_t i = 0; i < specs.size(); ++i)
        if (specs[i].def.name == spec.def.name && kernels[i]) return kernels[i];
      return Registry::global().create(spec.def, *device);
    };
    auto limit = threads > 0 ? std::make_shared<InterOpLimit>(threads) : InterOpLimit::of_process();
    auto* plan = new Plan(specs, static_cast<int>(num_feeds), std::move(fetches), make, *device, std::move(limit));
    return {plan, [kept = device](Plan* each) { delete each; }};
  }

  std::shared_ptr<Device> device;
  std::vector<NodeSpec> specs;
  std::vector<std::shared_ptr<Kernel>> kernels;
  int64_t num_feeds = 0;

 private:
  void transfer(int32_t at, const std::string& tensor, const std::string& from, const std::string& to) {
    auto& attrs = specs[at].def.attrs;
    attrs["tensor_name"] = tensor;
    attrs["send_device"] = from;
    attrs["recv_device"] = to;
  }
};

// Two devices and the graphs that run on them.
struct Two {
  Two() : a(cpu(0)), b(cpu(1)) {}
  Graph a, b;
  std::vector<JointStep::Part> parts(std::vector<Graph::Edge> from_a, std::vector<Graph::Edge> from_b,
                                     bool linked = true) {
    std::vector<std::shared_ptr<Plan>> plans = {a.plan(from_a), b.plan(from_b)};
    if (linked) JointStep::link(plans);
    std::vector<JointStep::Part> out(2);
    int32_t fed = 0, fetched = 0;
    for (int i = 0; i < 2; ++i) {
      out[i].plan = plans[i];
      for (int64_t k = 0; k < (i == 0 ? a : b).num_feeds; ++k) out[i].feeds.push_back(fed++);
      for (size_t k = 0; k < (i == 0 ? from_a : from_b).size(); ++k) out[i].fetches.push_back(fetched++);
    }
    return out;
  }
  int32_t to_b(Graph::Edge value, const std::string& name) {
    a.send(value, name, b.device->name);
    return b.recv(name, a.device->name);
  }
  int32_t to_a(Graph::Edge value, const std::string& name) {
    b.send(value, name, a.device->name);
    return a.recv(name, b.device->name);
  }
};

// A while loop `x = body(x) while x < limit` from `start`; returns its Exit.
inline int32_t count_up(Graph& graph, Graph::Edge start, int64_t limit, const std::string& frame,
                        const std::function<int32_t(Graph::Edge)>& body, int64_t parallel_iterations = 10) {
  const int32_t enter = graph.enter(start, frame, false, parallel_iterations);
  const int32_t merge = graph.merge({{enter, 0}, {enter, 0}});  // the second input is the back edge, set below
  const int32_t condition = graph.pass("LoopCond", {graph.below({merge, 0}, limit), 0});
  const int32_t branch = graph.switch_({merge, 0}, {condition, 0});
  const int32_t exit = graph.pass("Exit", {branch, 0});
  const int32_t next = graph.pass("NextIteration", {body({branch, 1}), 0});
  graph.specs[merge].inputs[1] = {next, 0};
  return exit;
}

}  // namespace native_tests
