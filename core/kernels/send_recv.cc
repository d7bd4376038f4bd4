// _Send, _SendAll and _Recv: the two ends of an edge that crosses devices, or a partial run's boundary.
#include "executor/step.h"
#include "executor/transfer_key.h"
#include "kernel/prompt_kernel.h"
#include "kernel/registry.h"
#include "plugin/plugin_memory.h"
#include "tensor/upper_bits.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

constexpr int64_t kGrain = 64 * 1024;

Rendezvous& rendezvous_of(Step& step) {
  if (!step.rendezvous()) fail(Code::internal, "this step has no rendezvous");
  return *step.rendezvous();
}

Tensor compressed(const Tensor& full) {
  Tensor half(DType::bfloat16, full.shape());
  const uint32_t* in = reinterpret_cast<const uint32_t*>(full.raw());
  uint16_t* out = static_cast<uint16_t*>(half.raw());
  parallel_for(full.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = upper_bits(in[i]);
  });
  return half;
}

Tensor expanded(const Tensor& half) {
  Tensor full(DType::float32, half.shape());
  const uint16_t* in = static_cast<const uint16_t*>(half.raw());
  uint32_t* out = static_cast<uint32_t*>(full.raw());
  parallel_for(half.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = from_upper_bits(in[i]);
  });
  return full;
}

void check_incarnation(const Construction& c, const Rendezvous::Key& key) {
  if (key.source() == c.device().name && key.incarnation() != c.device().incarnation)
    fail(Code::aborted, "this step was planned for another incarnation of device '", c.device().name,
         "': its task has been restarted since");
}

struct Send : Kernel {
  explicit Send(const Construction& c) : key(transfer_key(c.def())), compress(c.attr<bool>("_compress", false)) {
    require(!compress || c.input_dtype(0) == DType::float32, "only float32 is compressed, not ", c.input_dtype(0));
    check_incarnation(c, key);
  }
  void compute(Context& ctx) override {
    Tensor value = ctx.take_input(0);
    if (compress && value.defined() && !value.on_device()) value = compressed(value);
    rendezvous_of(ctx.step()).send(key, ctx.iteration(), value.owned());
  }
  Rendezvous::Key key;
  bool compress;
};

// Sends several tensors to one device of another task in one message, as passes/join_messages.py makes it. Each of them
// has a Recv of its own.
struct SendAll : Kernel {
  explicit SendAll(const Construction& c) {
    const auto names = c.attr<std::vector<std::string>>("tensor_names");
    require(static_cast<int>(names.size()) == c.num_inputs(), "there are ", c.num_inputs(), " tensors to send, and ",
            names.size(), " names");
    for (const std::string& name : names) {
      keys.push_back(transfer_key(c.def(), name));
      check_incarnation(c, keys.back());
    }
  }
  void compute(Context& ctx) override {
    std::vector<Tensor> values;
    values.reserve(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) values.push_back(ctx.take_input(static_cast<int>(i)).owned());
    rendezvous_of(ctx.step()).send_all(keys, ctx.iteration(), std::move(values));
  }
  std::vector<Rendezvous::Key> keys;
};

// Whether tensors of the device with this name are in the host's memory: all but those of plug-ins.
bool is_host(const std::string& device) {
  return device.empty() || device.find("/device:CPU:") != std::string::npos ||
         device.find("/device:NULL:") != std::string::npos;
}

struct Recv : ArrivingKernel {
  explicit Recv(const Construction& c)
      : key(transfer_key(c.def())),
        device(c.device()),
        plain(!c.device().memory && is_host(c.attr<std::string>("send_device", ""))),
        to_host(c.attr<bool>("_host_memory", false)),
        dtype(c.output_dtype(0)),
        expand(c.attr<bool>("_compress", false)) {
    require(!expand || dtype == DType::float32, "only float32 is compressed, not ", dtype);
  }
  bool attempt(Context& ctx) override {
    Tensor value;
    if (!plain || !rendezvous_of(ctx.step()).try_recv(key, ctx.iteration(), value)) return false;
    if (expand) value = full(std::move(value));
    check(value);
    ctx.set_output(0, std::move(value));
    return true;
  }
  void await(Step& step, FrameIteration iteration, Arrived arrived) override {
    // An aborted step aborts its rendezvous, which answers every waiting Recv.
    rendezvous_of(step).recv(
        key, iteration, [this, &step, arrived = std::move(arrived)](std::optional<Error> error, Tensor value) {
          if (error || !value.defined()) return arrived(std::move(error), std::move(value));
          AccountScope scope(device.memory ? nullptr : device.account);  // this is the sender's thread
          try {
            if (expand) value = full(std::move(value));
            check(value);
          } catch (const Error& failure) {
            return arrived(failure, Tensor());
          }
          if (plain) return arrived(std::nullopt, std::move(value));
          deliver(std::move(value), device, to_host, cancellable(step, arrived));
        });
  }
  // A peer may send anything; readers take the element type for granted.
  void check(const Tensor& value) const {
    if (value.defined() && value.dtype() != dtype)
      fail(Code::invalid_argument, "'", key.name(), "' arrived as ", value.dtype(), ", expected ", dtype);
  }
  static Tensor full(Tensor value) {
    return value.defined() && value.dtype() == DType::bfloat16 ? expanded(value) : value;
  }

  Rendezvous::Key key;
  Device& device;
  bool plain;
  bool to_host;
  DType dtype;
  bool expand;
};

REGISTER(kernel("_Send").make<Send>());
REGISTER(kernel("_SendAll").make<SendAll>());
REGISTER(kernel("_Recv").make<Recv>());

}  // namespace
}  // namespace thalweg
