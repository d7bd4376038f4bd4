// Session tensors: values that stay with the session between steps, named by a handle that the client keeps.
#include <atomic>

#include "kernel/registry.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

// Immutable once made, so it needs no lock.
struct SessionTensor : Resource {
  explicit SessionTensor(Tensor value) : value(std::move(value)) {}
  const char* kind() const override { return "a session tensor"; }
  const Tensor value;
};

std::string keep(Context& ctx, std::shared_ptr<SessionTensor>& tensor) {
  static std::atomic<int64_t> last{0};
  std::string name = cat(ctx.def().name, ";", last.fetch_add(1, std::memory_order_relaxed) + 1, ";", ctx.device().name);
  tensor = ctx.device().resources.find_or_make<SessionTensor>(
      "", name, [&] { return std::make_shared<SessionTensor>(ctx.input(0).owned()); });
  return name;
}

void get_handle(Context& ctx) {
  std::shared_ptr<SessionTensor> tensor;
  ctx.set_output(0, Tensor::scalar(keep(ctx, tensor)));
}

void get_resource_handle(Context& ctx) {
  std::shared_ptr<SessionTensor> tensor;
  std::string name = keep(ctx, tensor);
  ctx.set_output(0, handle_tensor({ctx.device().name, "", std::move(name), std::move(tensor)}));
}

const std::string& handle_name(Context& ctx) {
  const Tensor& handle = ctx.input(0);
  require(handle.rank() == 0, "a handle is one string, got shape ", handle.shape());
  return *handle.strings();
}

void get_tensor(Context& ctx) {
  const std::string& name = handle_name(ctx);
  auto tensor = std::dynamic_pointer_cast<SessionTensor>(ctx.device().resources.find("", name));
  require(tensor != nullptr, "The tensor with handle '", name, "' is not in the session store of ", ctx.device().name,
          ".");
  require(tensor->value.dtype() == ctx.output_dtype(0), "The tensor with handle '", name, "' has type ",
          tensor->value.dtype(), ", the op expects ", ctx.output_dtype(0));
  ctx.set_output(0, tensor->value);
}

void delete_tensor(Context& ctx) {
  const std::string& name = handle_name(ctx);
  auto tensor = std::dynamic_pointer_cast<SessionTensor>(ctx.device().resources.find("", name));
  require(tensor != nullptr, "The tensor with handle '", name, "' is not in the session store of ", ctx.device().name,
          ".");
  ctx.device().resources.erase("", name);
}

REGISTER(kernel("GetSessionHandle").function<get_handle>());
REGISTER(kernel("GetSessionHandleV2").function<get_resource_handle>());
REGISTER(kernel("GetSessionTensor").function<get_tensor>());
REGISTER(kernel("DeleteSessionTensor").function<delete_tensor>());

}  // namespace
}  // namespace thalweg
