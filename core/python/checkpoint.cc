// The reader of checkpoints for Python, without a graph: tf.train.NewCheckpointReader.
#include "python/checkpoint.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "checkpoint/reader.h"
#include "python/gil.h"
#include "python/numpy_bridge.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

void bind_checkpoint(nb::module_& m) {
  nb::class_<CheckpointReader>(m, "CheckpointReader",
                               "The tensors of one checkpoint; its index is read when it is made.")
      .def(nb::new_([](const std::string& prefix) {
             WithoutGil released;
             return open_checkpoint(prefix);
           }),
           "prefix"_a, nb::call_guard<NativeCall>())
      .def(
          "names",
          [](const CheckpointReader& reader) {
            nb::list out;
            for (const std::string& name : reader.names()) out.append(nb::bytes(name.data(), name.size()));
            return out;
          },
          nb::call_guard<NativeCall>(), "The names of the tensors, as bytes, in order.")
      .def("has",
           [](const CheckpointReader& reader, nb::bytes name) { return reader.has({name.c_str(), name.size()}); })
      .def(
          "entry",
          [](const CheckpointReader& reader, nb::bytes name) {
            const auto [dtype, shape] = reader.stored({name.c_str(), name.size()});
            nb::list dims;
            for (int64_t size : shape) dims.append(size);
            return nb::make_tuple(static_cast<int>(dtype), dims);
          },
          "name"_a, "The number of the element type, and the shape of the whole tensor.")
      .def(
          "read",
          [](CheckpointReader& reader, nb::bytes name) {
            Tensor value;
            {
              std::string key(name.c_str(), name.size());
              WithoutGil released;
              value = std::move(reader.read({{key, "", DType::invalid}})[0]);
            }
            PyObject* array = python_from_tensor(std::move(value));
            if (array == nullptr) throw nb::python_error();
            return nb::steal(array);
          },
          "name"_a, nb::call_guard<NativeCall>(), "The whole value.");
}

}  // namespace thalweg
