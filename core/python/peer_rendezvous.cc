// Transfers between processes, for Python.
#include "python/peer_rendezvous.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/gil.h"
#include "python/numpy_bridge.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

PeerRendezvous::PeerRendezvous(int64_t step, const std::vector<std::string>& devices, Outgoing outgoing)
    : Rendezvous(step), devices_(devices.begin(), devices.end()), outgoing_(std::move(outgoing)), local_(step) {}

void PeerRendezvous::send(const Key& key, FrameIteration at, Tensor value) {
  // A partial run's fetches have no destination: they stay here, too.
  if (key.destination().empty() || is_here(key.destination()))
    local_.send(key, at, std::move(value));
  else
    outgoing_(key.transfer(at), value);
}

void PeerRendezvous::deliver(const std::string& transfer, Tensor value) {
  auto [key, at] = RendezvousKey::parse(transfer);
  require(is_here(key.destination()), "the transfer is for '", key.destination(), "', no device of this process");
  local_.send(key, at, std::move(value));
}

namespace {

// The callable may be dropped by a thread of the step, without the lock.
std::shared_ptr<PyObject> shared_callable(nb::callable callable) { return {callable.release().ptr(), drop_reference}; }

std::shared_ptr<PeerRendezvous> make_rendezvous(int64_t step, const std::vector<std::string>& devices,
                                                nb::callable outgoing) {
  return std::make_shared<PeerRendezvous>(
      step, devices, [call = shared_callable(std::move(outgoing))](const std::string& transfer, const Tensor& value) {
        WithGil gil;
        nb::object array, text = nb::steal(PyUnicode_FromStringAndSize(transfer.data(), transfer.size()));
        try {
          array = value.defined() ? nb::steal(python_from_tensor(value.clone(), false)) : nb::none();
        } catch (const PythonError&) {
        }
        nb::object done;
        if (array && text)
          done = nb::steal(or_rest([&] {
            return PyObject_CallFunctionObjArgs(call.get(), text.ptr(), array.ptr(),
                                                value.defined() ? Py_False : Py_True, nullptr);
          }));
        if (!done) {
          PyErr_Clear();
          fail(Code::unavailable, "the tensor of '", transfer, "' could not be handed over");
        }
      });
}

void deliver(PeerRendezvous& rendezvous, const std::string& transfer, int dtype, nb::handle value) {
  Tensor tensor;
  if (!value.is_none()) {
    try {
      tensor = tensor_from_python(value.ptr(), DType(dtype), Sharing::copy);
    } catch (const PythonError&) {
      throw nb::python_error();
    }
  }
  WithoutGil unlocked;
  rendezvous.deliver(transfer, std::move(tensor));
}

}  // namespace

void bind_peer_rendezvous(nb::module_& m) {
  nb::class_<PeerRendezvous>(m, "PeerRendezvous")
      .def(nb::new_(&make_rendezvous), nb::call_guard<NativeCall>(), "step_id"_a, "devices"_a, "outgoing"_a,
           "The rendezvous of a step that other processes take part in. `outgoing(transfer, value, is_dead)` is called "
           "for each tensor that leaves this process, on the thread that sends it.")
      .def("deliver", &deliver, nb::call_guard<NativeCall>(), "transfer"_a, "dtype"_a, "value"_a.none(),
           "Takes a tensor from another process; None is a dead one.")
      .def(
          "abort",
          [](PeerRendezvous& r, const std::string& why) {
            WithoutGil unlocked;
            r.abort(Error(Code::aborted, why));
          },
          "why"_a, "Fails what waits for tensors of other processes.");
}

}  // namespace thalweg
