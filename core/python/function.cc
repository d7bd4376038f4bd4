// Functions for Python: declared in a session, then given their bodies, then attributes of nodes.
#include "python/function.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/attributes.h"
#include "python/gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

void bind_function(nb::module_& m, nb::class_<Session>& session) {
  nb::class_<Function>(m, "Function", "A graph function compiled for one session: the value of a `func` attribute.")
      .def_prop_ro("name", &Function::name)
      .def_prop_ro("blocking", &Function::blocking);
  session
      .def(
          "function", [](Session& s, const std::string& name) { return s.function(name); }, "name"_a,
          nb::sig("def function(self, name: str) -> Function | None"), "The function of that name, if it was declared.")
      .def(
          "declare_function",
          [](Session& s, std::string name, nb::list arguments, nb::list results, bool blocking, bool runs_python) {
            std::vector<Function::Argument> takes;
            for (nb::handle argument : arguments) {
              AttrValue shape = attr_from_python(argument[1]);
              takes.push_back({dtype_from_python(argument[0]), std::get<PartialShape>(shape)});
            }
            std::vector<DType> gives;
            for (nb::handle dtype : results) gives.push_back(dtype_from_python(dtype));
            return s.declare(
                std::make_shared<Function>(std::move(name), std::move(takes), std::move(gives), blocking, runs_python));
          },
          "name"_a, "arguments"_a, "results"_a, "blocking"_a, "runs_python"_a, nb::call_guard<NativeCall>(),
          "Makes a function without a body, from (dtype, shape) of its arguments and the dtypes of its results.")
      .def(
          "define_function",
          [](Session& s, const std::shared_ptr<Function>& function, std::vector<NodeSpec> specs,
             Session::Fetches results,
             const std::string& device) { s.define(*function, std::move(specs), std::move(results), device); },
          "function"_a, "specs"_a, "results"_a, "device"_a = "", nb::call_guard<NativeCall>())
      .def("drop_function", &Session::drop, "name"_a, "Takes a declaration back.");
}

}  // namespace thalweg
