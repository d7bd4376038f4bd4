// The reader of checkpoints for Python, without a graph: tf.train.NewCheckpointReader.
#include "python/checkpoint.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "checkpoint/bundle.h"
#include "python/numpy_bridge.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

void bind_checkpoint(nb::module_& m) {
  nb::class_<BundleReader>(m, "CheckpointReader", "The tensors of one checkpoint; its index is read when it is made.")
      .def(nb::init<std::string>(), "prefix"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "names",
          [](const BundleReader& reader) {
            nb::list out;
            for (const std::string& name : reader.names()) out.append(nb::bytes(name.data(), name.size()));
            return out;
          },
          "The names of the tensors, as bytes, in order.")
      .def("has", [](const BundleReader& reader, nb::bytes name) { return reader.has({name.c_str(), name.size()}); })
      .def(
          "entry",
          [](const BundleReader& reader, nb::bytes name) {
            BundleEntry entry = reader.entry({name.c_str(), name.size()});
            nb::list dims;
            for (int64_t size : entry.shape(reader.index())) dims.append(size);
            return nb::make_tuple(static_cast<int>(entry.dtype), dims);
          },
          "name"_a, "The number of the element type, and the shape of the whole tensor.")
      .def(
          "read",
          [](BundleReader& reader, nb::bytes name) {
            Tensor value;
            {
              std::string key(name.c_str(), name.size());
              nb::gil_scoped_release release;
              value = std::move(reader.read({{key, "", DType::invalid}})[0]);
            }
            PyObject* array = python_from_tensor(std::move(value));
            if (array == nullptr) throw nb::python_error();
            return nb::steal(array);
          },
          "name"_a, "The whole value.");
}

}  // namespace thalweg
