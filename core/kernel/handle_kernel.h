// NamedResource: how an op that outputs the handle of a resource finds it: by container and name, or by the node's
// name.
#pragma once

#include "kernel/kernel.h"
#include "tensor/handle_tensor.h"

namespace thalweg {

class NamedResource {
 public:
  explicit NamedResource(const Construction& c)
      : container_(c.attr<std::string>("container", "")), name_(c.attr<std::string>("shared_name", "")) {
    if (name_.empty()) name_ = c.def().name;
  }
  const std::string& name() const { return name_; }

  // The resource, made now if it does not exist. A named container may be reset between steps, so it is looked up each
  // time; the session's own is not, and one look-up is enough.
  template <typename T>
  std::shared_ptr<T> find(Device& device, const std::function<std::shared_ptr<T>()>& make) const {
    return device.resources.find_or_make<T>(container_, name_, make);
  }
  bool lasts() const { return container_.empty(); }
  Tensor handle(Device& device, std::shared_ptr<Resource> resource) const {
    return handle_tensor({device.name, container_, name_, std::move(resource)});
  }

 private:
  std::string container_, name_;
};

// A kernel whose output is the handle of a resource. A subclass calls `prepare` at the end of its constructor.
template <typename T>
class HandleKernel : public Kernel {
 public:
  explicit HandleKernel(const Construction& c) : named_(c) {}
  void compute(Context& ctx) override { ctx.set_output(0, handle_.defined() ? handle_ : find(ctx.device())); }

 protected:
  virtual std::shared_ptr<T> make() const = 0;
  // Fails if an existing resource differs from the node's declaration.
  virtual void check(const T& found) const = 0;
  void prepare(const Construction& c) {
    if (named_.lasts()) handle_ = find(c.device());
  }
  const std::string& name() const { return named_.name(); }

 private:
  Tensor find(Device& device) const {
    std::shared_ptr<T> found = named_.find<T>(device, [this] { return make(); });
    check(*found);
    return named_.handle(device, std::move(found));
  }
  NamedResource named_;
  Tensor handle_;
};

}  // namespace thalweg
