// PartialStep: a step whose feeds and fetches pass through its rendezvous, one by one, while it runs.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "executor/rendezvous.h"

namespace thalweg {

class PartialStep {
 public:
  // A step that has been started: its rendezvous, how to end it, and the future that is set when it has ended. `owner`
  // keeps alive all that the step uses.
  PartialStep(std::shared_ptr<Rendezvous> rendezvous, std::function<void(const Error&)> abort, std::future<void> ended,
              std::shared_ptr<void> owner);
  ~PartialStep();
  PartialStep(const PartialStep&) = delete;

  void send(const std::string& name, int dtype, nanobind::handle value);
  nanobind::object recv(const std::string& name);

 private:
  std::shared_ptr<void> owner_;
  std::shared_ptr<Rendezvous> rendezvous_;
  std::function<void(const Error&)> abort_;
  std::future<void> ended_;
};

void bind_partial_step(nanobind::module_& m);

}  // namespace thalweg
