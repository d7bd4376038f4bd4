// The module thalweg._core: sessions, plans and steps for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "compute/elementwise/record_op.h"
#include "compute/lanes/instruction_set.h"
#include "compute/onednn/probe.h"
#include "executor/loop_program.h"
#include "io/crc32c.h"
#include "io/jpeg.h"
#include "kernel/registry.h"
#include "memory/allocator.h"
#include "python/attributes.h"
#include "python/bound_op.h"
#include "python/call_stack.h"
#include "python/checkpoint.h"
#include "python/collectives.h"
#include "python/compiled_step.h"
#include "python/devices.h"
#include "python/eager_tensor.h"
#include "python/function.h"
#include "python/gil.h"
#include "python/gradient_tape.h"
#include "python/interrupt.h"
#include "python/known_calls.h"
#include "python/long_steps.h"
#include "python/network.h"
#include "python/numpy_bridge.h"
#include "python/opaque.h"
#include "python/partial_step.h"
#include "python/peer_rendezvous.h"
#include "python/pixels.h"
#include "python/python_kernel.h"
#include "python/records.h"
#include "python/remote_files.h"
#include "python/trace.h"
#include "resource/waitable.h"
#include "session.h"
#include "thread/blocking.h"
#include "thread/parallel.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

const Tensor* opaque_tensor(PyObject* object) {
  nb::handle handle(object);
  return nb::isinstance<Tensor>(handle) ? nb::inst_ptr<Tensor>(handle) : nullptr;
}

PyObject* opaque_from_tensor(Tensor tensor) { return nb::cast(std::move(tensor)).release().ptr(); }

namespace {

PyObject* make_error = nullptr;  // thalweg's function (code, message, node, op) -> exception; kept for good

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    if (nb::object exception = interrupt_of(error); exception.is_valid()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
      return;
    }
    if (make_error == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
      return;
    }
    // The message may quote a user's bytes, which need not be text.
    auto text = [](const std::string& bytes) {
      return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
    };
    nb::object exception = nb::borrow(make_error)(static_cast<int>(error.code()), text(error.message()),
                                                  text(error.node()), text(error.op()));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (const PythonError&) {
    // The exception is set.
  }
}

NodeSpec spec_from_python(nb::str name, nb::str op, nb::str device, nb::dict attrs, nb::sequence inputs,
                          nb::sequence controls, nb::sequence input_dtypes, nb::sequence output_dtypes, bool stateful,
                          double priority, bool may_wait, const std::string& uses) {
  NodeSpec spec;
  spec.def.name = name.c_str();
  spec.def.op = op.c_str();
  spec.def.device = device.c_str();
  for (auto [key, value] : attrs) spec.def.attrs.emplace(nb::cast<nb::str>(key).c_str(), attr_from_python(value));
  for (nb::handle input : inputs) spec.inputs.emplace_back(nb::cast<int32_t>(input[0]), nb::cast<int32_t>(input[1]));
  for (nb::handle control : controls) spec.controls.push_back(nb::cast<int32_t>(control));
  for (nb::handle dtype : input_dtypes) spec.def.input_dtypes.push_back(dtype_from_python(dtype));
  for (nb::handle dtype : output_dtypes) spec.def.output_dtypes.push_back(dtype_from_python(dtype));
  spec.stateful = stateful;
  spec.priority = priority;
  spec.may_wait = may_wait;
  spec.uses = uses == "reads" ? ResourceUse::reads : uses == "any" ? ResourceUse::any : ResourceUse::writes;
  return spec;
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Thalweg's native core.";
  // A program may end while a session or a step is still referred to: no leak worth a warning.
  nb::set_leak_warnings(false);
  try {
    init_numpy();
  } catch (const PythonError&) {
    throw nb::python_error();
  }
  nb::register_exception_translator(translate);
  set_blocking_hook([](const std::function<void()>& wait) {
    if (!nb::is_alive() || !Gil::has_lock()) return wait();
    WithoutGil released;
    wait();
  });

  m.def(
      "set_error_factory", [](nb::object factory) { make_error = factory.release().ptr(); }, "factory"_a,
      "Sets the function (code, message, node, op) -> exception that errors are raised with.");
  m.def(
      "register_numpy_dtype", [](int dtype, nb::object descr) { register_descr(DType(dtype), descr.ptr()); }, "dtype"_a,
      "descr"_a);
  m.def("register_python_kernel", &register_python_kernel, "op"_a, "function"_a, "looks_at_step"_a);
  m.def(
      "step_has_ended",
      [] {
        NativeCall call;
        return step_has_ended();
      },
      "For a kernel in Python that looks at its step: whether the step has ended. Asked at most every few "
      "milliseconds.");
  m.def("has_kernel", [](const std::string& op) { return Registry::global().has(op, "CPU"); }, "op"_a);
  m.def("is_async", [](const std::string& op) { return Registry::global().is_async(op); }, "op"_a);
  m.def("is_python", &is_python_op, "op"_a);
  m.def(
      "operands_of_rows",
      [](const std::string& op) {
        const Rows rows = Registry::global().rows(op);
        return rows.binary ? 2 : rows.unary ? 1 : 0;
      },
      "op"_a, "The number of operands of an element-wise op that can be fused; 0 for all others.");
  m.def(
      "can_record",
      [](const std::string& op, const std::vector<int>& inputs, int result) {
        std::vector<DType> types;
        for (int type : inputs) types.push_back(DType(type));
        return can_record(op, types, DType(result));
      },
      "op"_a, "inputs"_a, "result"_a,
      "Whether machine code can be made for an element-wise op on inputs of these types, with such a result.");
  m.def("kernel_ops", [] { return Registry::global().ops("CPU"); });
  m.def(
      "kernel_dtypes",
      [](const std::string& op, const std::string& attr) {
        std::vector<int> out;
        for (DType dtype : Registry::global().allowed(op, attr)) out.push_back(static_cast<int>(dtype));
        return out;
      },
      "op"_a, "attr"_a, "The DataType numbers that the op's kernels accept for an attribute; empty: any.");
  m.def("reset_containers", [](const std::vector<std::string>& names) { ResourceManager::reset_shared(names); });
  m.def("waits", &Waitable::waits, "The number of operations on queues and similar resources that have waited.");
  m.def("allocator_stats", [] {
    Allocator& a = Allocator::cpu();
    nb::dict out;
    out["bytes_in_use"] = a.bytes_in_use();
    out["peak_bytes"] = a.peak_bytes();
    out["limit"] = a.limit();
    return out;
  });
  m.def("reset_peak_bytes", [] { Allocator::cpu().reset_peak(); });
  m.def("set_memory_limit", [](int64_t bytes) { Allocator::cpu().set_limit(bytes); }, "bytes"_a);
  m.def(
      "crc32c", [](nb::bytes data, uint32_t crc) { return crc32c(data.data(), data.size(), crc); }, "data"_a,
      "crc"_a = 0, "The CRC-32C of bytes that follow others with the checksum `crc`.");
  m.def(
      "masked_crc32c", [](nb::bytes data) { return mask_crc(crc32c(data.data(), data.size())); }, "data"_a,
      "The CRC-32C of bytes as TFRecord and event files store it.");
  m.def("end_threads", &Gil::end_threads, "Before the interpreter ends: threads that are inside of steps stay there.");
  m.def("set_intra_op_threads", &set_intra_op_threads, "threads"_a);
  m.def("intra_op_threads", &intra_op_threads);
  m.def(
      "set_isa_probe",
      [](nb::callable probe) {
        PyObject* callable = probe.release().ptr();  // For good, like the error factory.
        set_isa_probe([callable]() -> std::string {
          WithGil gil;
          try {
            return nb::cast<std::string>(or_rest([&] { return nb::borrow(callable)(); }));
          } catch (nb::python_error& exception) {
            throw error_from_python(exception);
          }
        });
      },
      "probe"_a,
      "Sets the function that names the best instruction set for oneDNN; called once, at oneDNN's first use.");
  m.def("probe_onednn", &probe_onednn, "isa"_a,
        "Runs small matrix products with oneDNN capped to an instruction set; may end the process.");

  nb::class_<Tensor>(m, "Tensor", "A value that NumPy cannot hold, such as a resource handle.")
      .def_prop_ro("shape", [](const Tensor& t) { return nb::tuple(nb::cast(t.shape().to_vector())); })
      .def_prop_ro("dtype_enum", [](const Tensor& t) { return static_cast<int>(t.dtype()); });

  m.def(
      "pixels_from_arrow",
      [](nb::object capsule, int64_t height, int64_t width, int64_t channels) {
        return pixels_from_arrow(capsule.ptr(), height, width, channels);
      },
      "capsule"_a, "height"_a, "width"_a, "channels"_a, nb::call_guard<NativeCall>(),
      "A decoded image, given as a capsule of Arrow's C data interface, as a tensor of uint8.");

  m.def("load_libjpeg", &load_libjpeg, "path"_a, "Loads libjpeg from a file; whether it is one that the core can use.");
  m.def(
      "decode_jpeg",
      [](nb::bytes file, int64_t channels, int64_t ratio, bool fancy_upscaling, bool accurate, double enough,
         bool invent_rest) {
        std::string_view bytes(file.c_str(), file.size());
        std::optional<Tensor> pixels;
        {
          WithoutGil released;
          pixels = decode_jpeg(bytes, {channels, ratio, fancy_upscaling, accurate, enough, invent_rest});
        }
        return pixels ? nb::steal(view_from_tensor(*pixels)) : nb::object(nb::none());
      },
      "file"_a, "channels"_a, "ratio"_a, "fancy_upscaling"_a, "accurate"_a, "enough"_a, "invent_rest"_a,
      nb::call_guard<NativeCall>(),
      "A JPEG file as an array of uint8; None if libjpeg is not loaded or cannot decode all of it.");

  nb::class_<NodeSpec>(m, "NodeSpec")
      .def(
          nb::new_(&spec_from_python), "name"_a, "op"_a, "device"_a, "attrs"_a, "inputs"_a, "controls"_a,
          "input_dtypes"_a, "output_dtypes"_a, "stateful"_a, "priority"_a = -1.0, "may_wait"_a = false,
          "uses"_a = "writes", nb::call_guard<NativeCall>(),
          "`may_wait`: its kernel may wait for another node of the step. `uses`: what it does with the resources whose "
          "handles it reads: it \"writes\" or \"reads\" them, or it may use \"any\" resource.");

  nb::class_<Session> session(m, "Session");
  session.def(nb::init<const std::vector<std::string>&>(), "device_names"_a)
      .def("close", &Session::close, nb::call_guard<WithoutGil>())
      .def_prop_ro("closed", &Session::closed)
      .def("limit_inter_op_threads", &Session::limit_inter_op_threads, "most"_a,
           "Steps that are compiled from now on run nodes on at most so many threads at the same time.")
      .def(
          "is_first", [](Session& s, const std::string& name) { return s.device(name) == s.devices()[0]; }, "device"_a,
          "Whether this is the session's first device.")
      .def("clear_container",
           [](Session& s, const std::string& name) {
             for (const auto& device : s.devices()) device->resources.clear(name);
           })
      .def("resource_names", [](Session& s, const std::string& name) {
        std::vector<std::string> names;
        for (const auto& device : s.devices())
          for (std::string& each : device->resources.names(name)) names.push_back(std::move(each));
        return names;
      });

  using Pair = std::pair<int32_t, int32_t>;
  nb::class_<LoopProgram>(m, "LoopProgram", "A lowered while-loop, the attribute `program` of a _Loop node.")
      .def(nb::new_([](Session& session, std::vector<NodeSpec> specs, int num_condition, int num_variables,
                       int num_invariants, Pair predicate, std::vector<Pair> next, const std::string& device) {
             std::vector<LoopSource> sources;
             for (auto [source, output] : next) sources.push_back({source, output});
             return std::make_shared<LoopProgram>(std::move(specs), num_condition, num_variables, num_invariants,
                                                  LoopSource{predicate.first, predicate.second}, sources,
                                                  session.kernel_maker(*session.device(device)),
                                                  *session.device(device));
           }),
           "session"_a, "specs"_a, "num_condition"_a, "num_variables"_a, "num_invariants"_a, "predicate"_a, "next"_a,
           "device"_a = "", nb::call_guard<NativeCall>());

  bind_call_stack(m);
  bind_checkpoint(m);
  bind_records(m);
  install_remote_files();
  bind_function(m, session);
  bind_devices(m, session);
  bind_peer_rendezvous(m);
  bind_compiled_step(m);
  bind_eager_tensors(m);
  bind_bound_op(m);
  bind_known_calls(m);
  bind_gradient_tape(m);
  bind_long_steps(m);
  bind_partial_step(m);
  bind_network(m);
  bind_collectives(m);
  bind_trace(m);
}

}  // namespace thalweg
