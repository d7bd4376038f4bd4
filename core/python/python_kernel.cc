// Calling Python from the executor, and its exceptions as errors.
#include "python/python_kernel.h"

#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "executor/interruptible.h"
#include "kernel/registry.h"
#include "kernel/shortcut.h"
#include "python/attributes.h"
#include "python/gil.h"
#include "python/interrupt.h"
#include "python/numpy_bridge.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

nb::object value_to_python(const AttrValue& value) {
  return std::visit(
      [](auto&& v) -> nb::object {
        using T = std::decay_t<decltype(v)>;
        auto bytes = [](const std::string& s) -> nb::object { return nb::bytes(s.data(), s.size()); };
        auto shape = [](const PartialShape& s) -> nb::object {
          if (!s.known_rank) return nb::none();
          nb::list dims;
          for (int64_t d : s.dims) dims.append(d < 0 ? nb::object(nb::none()) : nb::object(nb::int_(d)));
          return nb::tuple(dims);
        };
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, std::shared_ptr<const LoopProgram>> ||
                      std::is_same_v<T, std::shared_ptr<Function>>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, bool>) {
          return nb::bool_(v);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return nb::int_(v);
        } else if constexpr (std::is_same_v<T, double>) {
          return nb::float_(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return bytes(v);
        } else if constexpr (std::is_same_v<T, DType>) {
          return nb::int_(static_cast<int>(v));
        } else if constexpr (std::is_same_v<T, PartialShape>) {
          return shape(v);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          return nb::steal(view_from_tensor(v));
        } else {
          nb::list out;
          for (const auto& item : v) out.append(value_to_python(AttrValue(item)));
          return out;
        }
      },
      value);
}

struct PythonKernel : Kernel {
  PythonKernel(const Construction& c, nb::callable function, bool looks_at_step)
      : function(std::move(function)), shortcut(make_shortcut(c)), looks_at_step(looks_at_step) {
    WithGil gil;
    attrs = nb::dict();
    for (const auto& [name, value] : c.def().attrs) attrs[name.c_str()] = value_to_python(value);
  }
  ~PythonKernel() override {
    if (!nb::is_alive()) {
      function.release();
      attrs.release();
      return;
    }
    WithGil gil;
    function.reset();
    attrs.reset();
  }

  void compute(Context& ctx) override {
    if (shortcut && shortcut(ctx)) return;
    std::optional<Interruptible> interruptible;
    if (looks_at_step) interruptible.emplace(ctx, std::numeric_limits<double>::infinity());
    WithGil gil;
    try {
      nb::list inputs;
      for (int i = 0; i < ctx.num_inputs(); ++i) inputs.append(nb::steal(view_from_tensor(ctx.input(i))));
      nb::object result = nb::steal(
          or_rest([&] { return PyObject_CallFunctionObjArgs(function.ptr(), inputs.ptr(), attrs.ptr(), nullptr); }));
      if (!result.is_valid()) throw nb::python_error();
      int n = ctx.num_outputs();
      if (n == 0) return;
      if (n == 1 && !PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) {
        set(ctx, 0, result);
        return;
      }
      require(PySequence_Check(result.ptr()), "a kernel with ", n, " outputs returned ",
              Py_TYPE(result.ptr())->tp_name);
      Py_ssize_t got = PySequence_Size(result.ptr());
      require(got == n, "a kernel with ", n, " outputs returned ", got, " values");
      for (int i = 0; i < n; ++i) set(ctx, i, result[i]);
    } catch (nb::python_error& exception) {
      throw error_from_python(exception);
    } catch (const PythonError&) {
      nb::python_error exception;
      throw error_from_python(exception);
    }
  }

  static void set(Context& ctx, int i, nb::handle value) {
    ctx.set_output(i, tensor_from_python(value.ptr(), ctx.output_dtype(i), Sharing::copy));
  }

  nb::object function;
  nb::object attrs;
  const Shortcut shortcut;
  const bool looks_at_step;
};

Code code_of(PyObject* type) {
  if (PyErr_GivenExceptionMatches(type, PyExc_StopIteration)) return Code::out_of_range;
  if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) return Code::resource_exhausted;
  if (PyErr_GivenExceptionMatches(type, PyExc_NotImplementedError)) return Code::unimplemented;
  if (PyErr_GivenExceptionMatches(type, PyExc_ValueError) || PyErr_GivenExceptionMatches(type, PyExc_TypeError) ||
      PyErr_GivenExceptionMatches(type, PyExc_IndexError) || PyErr_GivenExceptionMatches(type, PyExc_ArithmeticError))
    return Code::invalid_argument;
  return Code::unknown;
}

// The ops with kernels written in Python.
struct PythonOps {
  std::mutex mutex;
  std::set<std::string> names;
};

PythonOps& python_ops() {
  static PythonOps* ops = new PythonOps;
  return *ops;
}

}  // namespace

bool is_python_op(const std::string& op) {
  std::lock_guard lock(python_ops().mutex);
  return python_ops().names.contains(op);
}

bool step_has_ended() {
  Interruption* const interruption = Interruption::current();
  return interruption != nullptr && interruption->is_due();
}

Error error_from_python(nb::python_error& exception) {
  nb::object value = nb::borrow(exception.value());
  if (nb::hasattr(value, "error_code") && nb::hasattr(value, "message"))
    return Error(Code(nb::cast<int>(value.attr("error_code"))), nb::str(value.attr("message")).c_str());
  std::string text = cat(Py_TYPE(value.ptr())->tp_name, ": ", nb::str(value).c_str());
  if (!nb::isinstance(value, PyExc_Exception)) {
    // KeyboardInterrupt and SystemExit are no failures of the step: retry loops must not catch them as one.
    return interrupting(std::move(value), text);
  }
  return Error(code_of(exception.type().ptr()), text);
}

void register_python_kernel(const std::string& op, nb::callable function, bool looks_at_step) {
  Registration registration;
  registration.op = op;
  {
    std::lock_guard lock(python_ops().mutex);
    python_ops().names.insert(op);
  }
  // Held for the life of the process, like the registry itself.
  PyObject* callable = function.release().ptr();
  registration.create = [callable, looks_at_step](const Construction& c) {
    WithGil gil;
    return std::make_unique<PythonKernel>(c, nb::borrow<nb::callable>(callable), looks_at_step);
  };
  Registry::global().add(std::move(registration));
}

}  // namespace thalweg
