// Kernels that allocate their outputs in shared memory, and the nodes that have them.
#include "executor/shared_outputs.h"

#include <string>
#include <unordered_set>

#include "device/device.h"
#include "memory/shared_arena.h"

namespace thalweg {
namespace {

template <typename Base>
class SharedOutputs : public Base {
 public:
  explicit SharedOutputs(std::shared_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  void compute(Context& ctx) override {
    SharedScope scope;
    kernel_->compute(ctx);
  }

 protected:
  const std::shared_ptr<Kernel> kernel_;
};

class DivisibleSharedOutputs final : public SharedOutputs<DivisibleKernel> {
 public:
  using SharedOutputs::SharedOutputs;
  void compute_in_parts(Context& ctx, const Part& part) override {
    SharedScope scope;
    static_cast<DivisibleKernel&>(*kernel_).compute_in_parts(ctx, part);
  }
};

// Whether the output of an op is the buffer of its first input.
bool forwards(const std::string& op) {
  static const std::unordered_set<std::string> ops = {"Identity",   "Reshape",      "Squeeze",
                                                      "ExpandDims", "StopGradient", "Snapshot"};
  return ops.contains(op);
}

std::string task_of(const std::string& device) { return device.substr(0, device.rfind("/device:")); }

}  // namespace

std::vector<bool> lent_outputs(const std::vector<NodeSpec>& specs, const Device& device) {
  std::vector<bool> lent(specs.size(), false);
  auto lend = [&](int32_t node) {
    while (forwards(specs[node].def.op) && !specs[node].inputs.empty()) node = specs[node].inputs[0].first;
    lent[node] = true;
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    const NodeSpec& spec = specs[i];
    const std::string& op = spec.def.op;
    if (op.starts_with("Collective")) {
      for (const auto& [source, output] : spec.inputs) lend(source);
    } else if (!device.lends) {
      continue;
    } else if (op == "_Send") {
      if (task_of(spec.def.attr<std::string>("recv_device", "")) != task_of(device.name)) lend(spec.inputs.at(0).first);
    } else if (op == "_SendAll") {
      for (const auto& [source, output] : spec.inputs) lend(source);
    } else if (op == "AssignVariableOp") {
      lend(spec.inputs.at(1).first);
    } else if (op != "ReadVariableOp") {
      for (DType dtype : spec.def.input_dtypes) lent[i] = lent[i] || dtype == DType::resource;
    }
  }
  return lent;
}

std::shared_ptr<Kernel> with_shared_outputs(std::shared_ptr<Kernel> kernel) {
  if (dynamic_cast<DivisibleKernel*>(kernel.get()) != nullptr)
    return std::make_shared<DivisibleSharedOutputs>(std::move(kernel));
  return std::make_shared<SharedOutputs<Kernel>>(std::move(kernel));
}

}  // namespace thalweg
