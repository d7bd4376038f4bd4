// Bindings of devices, their accounts and plug-ins.
#include "python/devices.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "device/incarnation.h"
#include "kernels/null_kernel.h"
#include "plugin/plugin.h"
#include "python/gil.h"
#include "python/numpy_bridge.h"
#include "python/python_kernel.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

nb::dict memory_info(Session& session, const std::string& name) {
  const Account& account = *session.device(name)->account;
  nb::dict out;
  out["current"] = account.bytes_in_use();
  out["peak"] = account.peak_bytes();
  out["limit"] = account.limit();
  out["allocations"] = account.allocations();
  return out;
}

nb::list plugin_kernels(const std::string& type) {
  const Plugin* plugin = plugin_of(type);
  nb::list out;
  if (plugin == nullptr) return out;
  for (int32_t i = 0; i < plugin->table->num_kernels; ++i) {
    const tw_kernel& kernel = plugin->table->kernels[i];
    nb::list types;
    for (int32_t k = 0; k < kernel.num_types; ++k) {
      const tw_types& allowed = kernel.types[k];
      std::vector<int32_t> dtypes(allowed.dtypes, allowed.dtypes + allowed.num_dtypes);
      types.append(nb::make_tuple(allowed.attr, dtypes));
    }
    out.append(nb::make_tuple(kernel.op, types, kernel.host_inputs));
  }
  return out;
}

// Calls the Python rule, which returns shapes as lists of dimensions.
std::vector<std::vector<int64_t>> ask_for_shapes(PyObject* rule, const std::string& key,
                                                 const std::vector<Tensor>& inputs) {
  WithGil gil;
  try {
    nb::list given;
    for (const Tensor& tensor : inputs) {
      nb::object value = nb::none();
      const bool small = tensor.num_elements() <= 256;
      if (small && (tensor.dtype() == DType::int32 || tensor.dtype() == DType::int64))
        value = nb::steal(view_from_tensor(tensor));
      given.append(nb::make_tuple(tensor.shape().to_vector(), value));
    }
    return nb::cast<std::vector<std::vector<int64_t>>>(or_rest([&] { return nb::borrow(rule)(key, given); }));
  } catch (nb::python_error& exception) {
    throw error_from_python(exception);
  }
}

}  // namespace

void bind_devices(nb::module_& m, nb::class_<Session>& session) {
  session
      .def("memory_info", &memory_info, "device"_a,
           "The memory of a device's tensors: bytes now, peak and limit, and the number of allocations.")
      .def(
          "set_memory_limit",
          [](Session& s, const std::string& device, int64_t bytes) { s.device(device)->account->set_limit(bytes); },
          "device"_a, "bytes"_a)
      .def(
          "reset_peak", [](Session& s, const std::string& device) { s.device(device)->account->reset_peak(); },
          "device"_a);
  nb::class_<ServerDevices>(m, "ServerDevices", "The devices of a server, which all its sessions share.")
      .def(nb::new_([](const std::vector<std::string>& names, uint64_t incarnation) {
             return new ServerDevices{Session::make_devices(names, incarnation)};
           }),
           "names"_a, "incarnation"_a)
      .def(
          "reset",
          [](ServerDevices& server, const std::vector<std::string>& containers) {
            WithoutGil unlocked;
            for (const auto& device : server.devices) device->resources.reset_own(containers);
          },
          "containers"_a, "Forgets the state in some containers, or in all of them if there are none.");
  session.def(
      "__init__", [](Session* self, const ServerDevices& server) { new (self) Session(server.devices); }, "devices"_a);
  m.def("device_incarnation", &device_incarnation, "device"_a,
        "A random number, not 0, that tells a device of this process from one of the same name in another.");
  m.def(
      "load_device_plugin",
      [](const std::string& path) {
        const Plugin& plugin = load_plugin(path);
        return std::pair(plugin.type, plugin.table->num_devices);
      },
      "path"_a, nb::call_guard<WithoutGil>(), "Loads a device plug-in; its type of device and how many there are.");
  m.def("plugin_kernels", &plugin_kernels, "device_type"_a,
        "The kernels of a plug-in: (op, [(type attribute, DataType numbers)], which inputs are the host's).");
  m.def(
      "set_shape_rule",
      [](nb::callable rule) {
        PyObject* callable = rule.release().ptr();  // For good, like the error factory.
        set_shape_rule([callable](const std::string& key, const std::vector<Tensor>& inputs) {
          return ask_for_shapes(callable, key, inputs);
        });
      },
      "rule"_a);
}

}  // namespace thalweg
