// Feeding and fetching a running step.
#include "python/partial_step.h"

#include <nanobind/stl/string.h>

#include "python/compiled_step.h"
#include "python/gil.h"
#include "python/numpy_bridge.h"
#include "python/step_values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// The rendezvous keys of the step's feeds and fetches have no devices, only names.
Rendezvous::Key key_of(const std::string& name) { return Rendezvous::Key("", 0, "", name); }

PartialStep* start(nb::object compiled, int64_t step_id) {
  auto program = program_of(compiled);
  if (step_id == 0) step_id = Step::new_id();
  auto ended = std::make_shared<std::promise<void>>();
  auto rendezvous = std::make_shared<LocalRendezvous>(step_id);
  std::shared_ptr<Step> step;
  {
    WithoutGil unlocked;
    StepProgram::start(
        program, step_id, rendezvous, {}, nullptr, [&](const std::shared_ptr<Step>& made) { step = made; },
        [ended, rendezvous](std::optional<Error> error, std::vector<Tensor>) {
          if (error) rendezvous->abort(*error);
          ended->set_value();
        });
  }
  auto abort = [step](const Error& error) { step->abort(error); };
  return new PartialStep(rendezvous, abort, ended->get_future(), shared_object(std::move(compiled)));
}

}  // namespace

PartialStep::PartialStep(std::shared_ptr<Rendezvous> rendezvous, std::function<void(const Error&)> abort,
                         std::future<void> ended, std::shared_ptr<void> owner)
    : owner_(std::move(owner)),
      rendezvous_(std::move(rendezvous)),
      abort_(std::move(abort)),
      ended_(std::move(ended)) {}

PartialStep::~PartialStep() {
  WithoutGil unlocked;
  abort_(Error(Code::cancelled, "the partial run was dropped"));
  ended_.wait();
}

void PartialStep::send(const std::string& name, int dtype, nb::handle value) {
  Tensor tensor;
  try {
    tensor = tensor_from_python(value.ptr(), DType(dtype), Sharing::copy);
  } catch (const PythonError&) {
    throw nb::python_error();
  }
  WithoutGil unlocked;
  rendezvous_->send(key_of(name), {}, std::move(tensor));
}

nb::object PartialStep::recv(const std::string& name) {
  auto promise = std::make_shared<std::promise<std::pair<std::optional<Error>, Tensor>>>();
  auto future = promise->get_future();
  std::pair<std::optional<Error>, Tensor> result;
  {
    WithoutGil unlocked;
    rendezvous_->recv(key_of(name), {}, [promise](std::optional<Error> error, Tensor value) {
      promise->set_value({std::move(error), std::move(value)});
    });
    while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
      try {
        check_signals();
      } catch (const Error& error) {
        abort_(error);
        throw;
      }
    }
    result = future.get();
  }
  if (result.first) throw *result.first;
  if (!result.second.defined()) fail(Code::invalid_argument, "the fetched value is dead: its branch was not taken");
  return to_python(std::move(result.second));
}

void bind_partial_step(nb::module_& m) {
  nb::class_<PartialStep>(m, "PartialStep")
      .def(nb::new_(&start), nb::call_guard<NativeCall>(), "step"_a, "step_id"_a = 0)
      .def("send", &PartialStep::send, nb::call_guard<NativeCall>(), "name"_a, "dtype"_a, "value"_a)
      .def("recv", &PartialStep::recv, nb::call_guard<NativeCall>(), "name"_a);
}

}  // namespace thalweg
