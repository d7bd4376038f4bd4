// Resource variables: the handle, reading, assigning, and whole-tensor updates.
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"
#include "resource/variable.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

// The handle of a variable in the session's own container never changes, so it is made once. In a named container the
// variable is looked up every time: the container may have been reset meanwhile.
struct VarHandle : Kernel {
  explicit VarHandle(const Construction& c)
      : dtype(c.attr<DType>("dtype")),
        shape(c.attr<PartialShape>("shape")),
        container(c.attr<std::string>("container", "")),
        name(c.attr<std::string>("shared_name", "")) {
    if (name.empty()) name = c.def().name;
    if (container.empty()) cached = make(c.device());
  }
  void compute(Context& ctx) override { ctx.set_output(0, cached.defined() ? cached : make(ctx.device())); }

  Tensor make(Device& device) const {
    auto variable = device.resources.find_or_make<Variable>(
        container, name, [&] { return std::make_shared<Variable>(name, container, dtype, shape); });
    require(variable->dtype() == dtype, "variable '", name, "' exists with type ", variable->dtype(),
            ", this handle declares type ", dtype);
    return handle_tensor({device.name, container, name, std::move(variable)});
  }

  DType dtype;
  PartialShape shape;
  std::string container, name;
  Tensor cached;
};

Variable& variable_of(Context& ctx, DType dtype) {
  Variable& variable = ctx.resource<Variable>(0);
  require(variable.dtype() == dtype, "variable '", variable.name(), "' has type ", variable.dtype(),
          ", this op works on type ", dtype);
  return variable;
}

void read(Context& ctx) { ctx.set_output(0, variable_of(ctx, ctx.output_dtype(0)).read()); }

struct Assign : Kernel {
  explicit Assign(const Construction& c) : validate(c.attr<bool>("validate_shape", false)) {}
  void compute(Context& ctx) override {
    // Moved, so that the variable becomes the only owner of a value without other readers.
    ctx.resource<Variable>(0).assign(ctx.take_input(1), validate);
  }
  bool validate;
};

template <typename F>
void assign_update(Context& ctx) {
  const Tensor& delta = ctx.input(1);
  variable_of(ctx, delta.dtype()).replace(delta.shape(), [&](Tensor& out, const Tensor& in) {
    const BinaryLoop loop = binary_loop<F, Numbers>(delta.dtype());
    const DType dtype = delta.dtype();
    const void *a = in.raw(), *b = delta.raw();
    void* to = out.raw();
    parallel_for(out.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      loop(element_at(dtype, a, begin), 1, element_at(dtype, b, begin), 1, element_at(dtype, to, begin), end - begin);
    });
  });
}

struct CountUpTo : Kernel {
  explicit CountUpTo(const Construction& c) : limit(c.attr<int64_t>("limit")) {}
  void compute(Context& ctx) override {
    Variable& variable = variable_of(ctx, ctx.output_dtype(0));
    Tensor& out = ctx.allocate(0, Shape{});
    variable.update([&](Tensor& value) {
      require(value.rank() == 0, "count_up_to needs a scalar variable, '", variable.name(), "' has shape ",
              value.shape());
      dispatch(value.dtype(), Indices{}, [&]<typename T>() {
        T& count = *value.flat<T>();
        if (count >= limit) fail(Code::out_of_range, "Reached limit of ", limit);
        *out.flat<T>() = count;
        ++count;
      });
    });
  }
  int64_t limit;
};

// As CountUpTo, but says whether it has counted, and never fails at the limit.
struct ClaimCount : Kernel {
  explicit ClaimCount(const Construction& c) : limit(c.attr<int64_t>("limit")), dtype(c.attr<DType>("T")) {}
  void compute(Context& ctx) override {
    Variable& variable = variable_of(ctx, dtype);
    bool claimed = false;
    variable.update([&](Tensor& value) {
      require(value.rank() == 0, "a count must be a scalar, '", variable.name(), "' has shape ", value.shape());
      dispatch(value.dtype(), Indices{}, [&]<typename T>() {
        T& count = *value.flat<T>();
        claimed = count < limit;
        if (claimed) ++count;
      });
    });
    ctx.set_output(0, Tensor::scalar(claimed));
  }
  int64_t limit;
  DType dtype;
};

void is_initialized(Context& ctx) { ctx.set_output(0, Tensor::scalar(ctx.resource<Variable>(0).initialized())); }

void shape_of(Context& ctx) {
  Shape shape = ctx.resource<Variable>(0).read().shape();
  Tensor& out = ctx.allocate(0, Shape{shape.rank()});
  dispatch(out.dtype(), Indices{}, [&]<typename T>() {
    for (int i = 0; i < shape.rank(); ++i) {
      require(shape[i] <= std::numeric_limits<T>::max(), "dimension ", i, " of shape ", shape,
              " does not fit the output type ", out.dtype());
      out.flat<T>()[i] = static_cast<T>(shape[i]);
    }
  });
}

// A variable stays in its container and only loses its value: handles that steps hold stay valid.
void destroy(Context& ctx) {
  const Tensor& handle = ctx.input(0);
  require(handle.num_elements() == 1, "expected one resource handle, got shape ", handle.shape());
  const ResourceHandle& named = *handle.flat<ResourceHandle>();
  if (auto* variable = dynamic_cast<Variable*>(named.resource.get()))
    variable->clear();
  else
    ctx.device().resources.erase(named.container, named.name);
}

// Nothing to do: reads always share the variable's buffer until a write.
void disable_copy_on_read(Context& ctx) { ctx.resource<Variable>(0); }

REGISTER(kernel("VarHandleOp").make<VarHandle>());
REGISTER(kernel("ReadVariableOp").function<read>());
REGISTER(kernel("AssignVariableOp").make<Assign>());
REGISTER(kernel("AssignAddVariableOp").types("dtype", Numbers{}).function<assign_update<functors::Add>>());
REGISTER(kernel("AssignSubVariableOp").types("dtype", Numbers{}).function<assign_update<functors::Sub>>());
REGISTER(kernel("ResourceCountUpTo").make<CountUpTo>());
REGISTER(kernel("_ResourceClaimCount").make<ClaimCount>());
REGISTER(kernel("VarIsInitializedOp").function<is_initialized>());
REGISTER(kernel("VariableShape").function<shape_of>());
REGISTER(kernel("DestroyResourceOp").function<destroy>());
REGISTER(kernel("DisableCopyOnRead").function<disable_copy_on_read>());

}  // namespace
}  // namespace thalweg
