// Running the kernels of plug-ins: calls under way, and the functions that a kernel asks about its node and its call.
#include "plugin/plugin_kernels.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "executor/step.h"
#include "kernel/prompt_kernel.h"
#include "plugin/plugin_memory.h"

// The interface declares a type that only the host knows.
struct tw_node {
  const thalweg::NodeDef& def;
};

namespace thalweg {
namespace {

// A plug-in's kernel for one node. Calls hold it too: they may outlive the plan of a cancelled step.
struct Made {
  Made(const tw_kernel& table, const NodeDef& node, std::shared_ptr<PluginMemory> owner)
      : table(table), def(node), memory(std::move(owner)) {
    if (table.create == nullptr) return;
    tw_error error{};
    const tw_node wrapped{def};
    kernel = table.create(memory->handle(), &wrapped, &error);
    if (auto failure = error_of(&error)) throw *failure;
  }
  ~Made() {
    if (kernel != nullptr) table.destroy(memory->handle(), kernel);
  }
  Made(const Made&) = delete;

  const tw_kernel& table;
  const NodeDef def;
  const std::shared_ptr<PluginMemory> memory;
  void* kernel = nullptr;
};

// One execution of a kernel. It keeps its inputs and outputs until the device is done with them, however its step ends.
struct Call {
  std::shared_ptr<Made> made;
  Account* account;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::optional<Error> refused;
  bool issuing = true;
  std::function<void(std::optional<Error>)> finish;

  const NodeDef& def() const { return made->def; }
};

class Calls {
 public:
  static Calls& shared() {
    static Calls* calls = new Calls;
    return *calls;
  }
  tw_call begin(std::shared_ptr<Call> call) {
    std::lock_guard lock(mutex_);
    under_way_.emplace(++last_, std::move(call));
    return last_;
  }
  // The call, if it is under way and its kernel has not returned from `issue`.
  std::shared_ptr<Call> issuing(tw_call number) {
    std::lock_guard lock(mutex_);
    auto found = under_way_.find(number);
    return found == under_way_.end() || !found->second->issuing ? nullptr : found->second;
  }
  void issued(Call& call) {
    std::lock_guard lock(mutex_);
    call.issuing = false;
  }
  std::shared_ptr<Call> end(tw_call number) {
    std::lock_guard lock(mutex_);
    auto found = under_way_.find(number);
    if (found == under_way_.end()) return nullptr;
    std::shared_ptr<Call> call = std::move(found->second);
    under_way_.erase(found);
    return call;
  }

 private:
  std::mutex mutex_;
  tw_call last_ = 0;
  std::unordered_map<tw_call, std::shared_ptr<Call>> under_way_;
};

template <typename T>
const T* attr_of(const tw_node* node, const char* name) {
  const AttrValue* value = node == nullptr || name == nullptr ? nullptr : node->def.find(name);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

template <typename T, typename Out>
int32_t attr_as(const tw_node* node, const char* name, Out* out) {
  const T* value = attr_of<T>(node, name);
  if (value == nullptr) return 0;
  *out = static_cast<Out>(*value);
  return 1;
}

const char* node_name(const tw_node* node) { return node->def.name.c_str(); }

int32_t attr_string(const tw_node* node, const char* name, const char** value, uint64_t* length) {
  const auto* text = attr_of<std::string>(node, name);
  if (text == nullptr) return 0;
  *value = text->data();
  *length = text->size();
  return 1;
}

int32_t attr_ints(const tw_node* node, const char* name, int64_t* values, int32_t capacity) {
  const auto* list = attr_of<std::vector<int64_t>>(node, name);
  if (list == nullptr) return -1;
  std::copy_n(list->begin(), std::min<size_t>(list->size(), std::max(capacity, 0)), values);
  return static_cast<int32_t>(list->size());
}

void describe(const Tensor& tensor, tw_tensor* out) {
  out->dtype = static_cast<int32_t>(tensor.dtype());
  out->rank = tensor.rank();
  out->dims = tensor.shape().begin();
  out->bytes = tensor.bytes();
  out->data = out->bytes == 0 ? nullptr : tensor.raw();
}

int32_t num_inputs(tw_call number) {
  auto call = Calls::shared().issuing(number);
  return call ? static_cast<int32_t>(call->inputs.size()) : 0;
}

int32_t input(tw_call number, int32_t index, tw_tensor* out) {
  auto call = Calls::shared().issuing(number);
  if (!call || index < 0 || index >= static_cast<int32_t>(call->inputs.size())) return 0;
  describe(call->inputs[index], out);
  return 1;
}

// Runs `body` for an output of a call; an error is kept for the kernel that issued the call.
template <typename Body>
int32_t with_output(tw_call number, int32_t index, int32_t rank, const int64_t* dims, const Body& body) {
  auto call = Calls::shared().issuing(number);
  if (!call) return 0;
  try {
    require(index >= 0 && index < static_cast<int32_t>(call->outputs.size()), "the kernel sets output ", index, " of ",
            call->outputs.size());
    require(rank >= 0 && rank <= Shape::kMaxRank && (rank == 0 || dims != nullptr), "the kernel sets output ", index,
            " to a shape of rank ", rank);
    body(*call, Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank))));
    return 1;
  } catch (const Error& error) {
    call->refused = error;
    return 0;
  }
}

int32_t allocate_output(tw_call number, int32_t index, int32_t rank, const int64_t* dims, tw_tensor* out) {
  return with_output(number, index, rank, dims, [&](Call& call, Shape shape) {
    Tensor& output = call.outputs[index];
    output = call.made->memory->allocate(call.def().output_dtypes[index], std::move(shape), call.account);
    describe(output, out);
  });
}

int32_t forward_input(tw_call number, int32_t from, int32_t index, int32_t rank, const int64_t* dims) {
  return with_output(number, index, rank, dims, [&](Call& call, Shape shape) {
    require(from >= 0 && from < static_cast<int32_t>(call.inputs.size()), "the kernel forwards input ", from, " of ",
            call.inputs.size());
    const Tensor& in = call.inputs[from];
    require(in.on_device() && in.dtype() == call.def().output_dtypes[index], "the kernel forwards input ", from,
            ", which is not on the device or of another type than output ", index);
    call.outputs[index] = in.reshaped(std::move(shape));
  });
}

void done(tw_call number, const tw_error* error) {
  std::shared_ptr<Call> call = Calls::shared().end(number);
  if (!call) return;
  std::optional<Error> failure = error_of(error);
  if (failure) failure->set_node(call->def().name, call->def().op);
  // The step may end here: the tensors of the call are given back before.
  const auto finish = std::move(call->finish);
  call.reset();
  finish(std::move(failure));
}

bool accepts(const tw_kernel& kernel, const NodeDef& def) {
  for (int32_t i = 0; i < kernel.num_types; ++i) {
    const tw_types& types = kernel.types[i];
    const AttrValue* value = def.find(types.attr);
    const DType* dtype = value == nullptr ? nullptr : std::get_if<DType>(value);
    const int32_t* end = types.dtypes + types.num_dtypes;
    if (dtype == nullptr || std::find(types.dtypes, end, static_cast<int32_t>(*dtype)) == end) return false;
  }
  return true;
}

class PluginKernel : public PromptKernel {
 public:
  PluginKernel(const tw_kernel& table, const NodeDef& def, std::shared_ptr<PluginMemory> memory)
      : made_(std::make_shared<Made>(table, def, std::move(memory))) {}

  // Issues the work; work issued later may use its outputs at once. The step waits for the work to end.
  bool attempt(Context& ctx) override {
    auto call = std::make_shared<Call>();
    call->made = made_;
    call->account = ctx.device().account;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const bool on_host = i < 64 && (made_->table.host_inputs >> i & 1) != 0;
      if (ctx.input(i).on_device() == on_host)
        fail(Code::internal, "input ", i, " is ", on_host ? "on the device" : "in the host's memory");
      call->inputs.push_back(ctx.input(i));
    }
    call->outputs.resize(ctx.num_outputs());
    call->finish = ctx.step().hold();
    const tw_call number = Calls::shared().begin(call);
    made_->table.issue(made_->memory->handle(), made_->kernel, number);
    Calls::shared().issued(*call);
    for (int i = 0; i < ctx.num_outputs(); ++i)
      if (!call->refused && !call->outputs[i].defined() && !ctx.step().interrupted())
        call->refused = Error(Code::internal, cat("the kernel of device type ", made_->memory->plugin().type,
                                                  " left output ", i, " unset"));
    if (call->refused) {
      if (Calls::shared().end(number)) call->finish(std::nullopt);
      throw *call->refused;
    }
    for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, call->outputs[i]);
    return true;
  }
  void start(std::shared_ptr<AsyncContext> ctx) override {
    attempt(*ctx);
    ctx->done();
  }

 private:
  std::shared_ptr<Made> made_;
};

// A constant in the device's memory, copied there when first used.
class DeviceConst : public AsyncKernel {
 public:
  DeviceConst(const NodeDef& def, Device& device) : device_(device), value_(def.attr<Tensor>("value")) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    {
      std::lock_guard lock(shared_->mutex);
      if (shared_->copy.defined()) ctx->set_output(0, shared_->copy);
    }
    if (ctx->output_defined(0)) return ctx->done();
    Step& step = ctx->step();
    auto arrived = [shared = shared_, ctx = std::move(ctx)](std::optional<Error> error, Tensor copy) {
      if (error) return ctx->fail(*std::move(error));
      {
        std::lock_guard lock(shared->mutex);
        shared->copy = copy;
      }
      ctx->set_output(0, std::move(copy));
      ctx->done();
    };
    deliver(value_, device_, false, cancellable(step, std::move(arrived)));
  }

 private:
  struct Copy {
    std::mutex mutex;
    Tensor copy;
  };
  Device& device_;
  Tensor value_;
  std::shared_ptr<Copy> shared_ = std::make_shared<Copy>();
};

}  // namespace

const tw_host& host_interface() {
  static const tw_host host = {sizeof(tw_host),
                               node_name,
                               attr_as<bool, int32_t>,
                               attr_as<int64_t, int64_t>,
                               attr_as<double, double>,
                               attr_as<DType, int32_t>,
                               attr_string,
                               attr_ints,
                               num_inputs,
                               input,
                               allocate_output,
                               forward_input,
                               done};
  return host;
}

std::unique_ptr<Kernel> PluginMemory::make_kernel(const NodeDef& def, Device& device) {
  if (def.op == "_DeviceConst") return std::make_unique<DeviceConst>(def, device);
  const tw_device_plugin& table = *plugin_.table;
  for (int32_t i = 0; i < table.num_kernels; ++i)
    if (def.op == table.kernels[i].op && accepts(table.kernels[i], def))
      return std::make_unique<PluginKernel>(table.kernels[i], def, shared_from_this());
  return nullptr;
}

}  // namespace thalweg
