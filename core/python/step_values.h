// The values of a step on their way from Python and back: feeds, fetches, and signals that come meanwhile.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "step_program.h"

namespace thalweg {

// Names, types and shapes of feeds, from tuples.
std::vector<FeedSpec> feeds_from_python(nanobind::list feeds);
// The values of a sequence as the tensors of feeds, which borrow their memory. Throws ValueError and TypeError of
// Python for a value that does not fit.
std::vector<Tensor> fed_values(const std::vector<FeedSpec>& specs, nanobind::handle values);
nanobind::object to_python(Tensor tensor);
nanobind::list to_python(std::vector<Tensor> fetched);
// Lets Ctrl-C interrupt a step: signals are only handled on the main thread, and only under the GIL. What a handler has
// raised is raised in the place of the Error that this throws.
void check_signals();
// A reference to a Python object that any thread may drop.
std::shared_ptr<void> shared_object(nanobind::object object);

}  // namespace thalweg
