// Collectives of a task for Python, which forms their groups. Runs never enter Python.
#include "python/collectives.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "net/task.h"
#include "python/devices.h"
#include "python/gil.h"
#include "python/step_values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

using net::CollectiveMember;
using net::Collectives;
using net::Connection;
using net::Task;
using Member = std::tuple<std::string, std::string, uint64_t, std::shared_ptr<Connection>, std::string>;

Error error_of(int code, const std::string& message) {
  require(code >= 1 && code <= 16, "there is no error code ", code);
  return Error(static_cast<Code>(code), message);
}

// Calls a Python function from a thread of the core; its exceptions have no caller to go to.
template <typename... Args>
void call_quietly(const std::shared_ptr<void>& function, const Args&... args) {
  WithGil gil;
  try {
    or_rest([&] { return nb::borrow(static_cast<PyObject*>(function.get()))(args...); });
  } catch (nb::python_error& exception) {
    exception.discard_as_unraisable("a callback of collective groups");
  }
}

std::shared_ptr<Collectives> attach(Task& task, ServerDevices& devices, nb::callable join, nb::callable report) {
  auto collectives = task.collectives();
  collectives->set_join(
      [function = shared_object(join)](int64_t group, int64_t size, const std::string& device) {
        call_quietly(function, group, size, device);
      },
      [function = shared_object(report)](const std::string& text) { call_quietly(function, text); });
  DeviceFamily& family = *devices.devices.at(0)->family;
  std::lock_guard lock(family.mutex);
  family.collectives = collectives;
  return collectives;
}

void formed(Collectives& collectives, int64_t group, uint64_t generation, const std::vector<Member>& members) {
  std::vector<CollectiveMember> given;
  for (const auto& [task, device, incarnation, peer, host] : members)
    given.push_back({task, device, incarnation, peer, host});
  WithoutGil unlocked;
  collectives.formed(group, generation, std::move(given));
}

}  // namespace

void bind_collectives(nb::module_& m) {
  nb::class_<Collectives>(m, "Collectives", "The collective operations of a task.")
      .def(nb::new_(&attach), nb::call_guard<NativeCall>(), "task"_a, "devices"_a, "join"_a, "report"_a,
           "Those of the devices of a server. `join(group, size, device)` forms a group and ends in `formed` or "
           "`refused`; `report(text)` tells about runs that wait for long.")
      .def("formed", &formed, nb::call_guard<NativeCall>(), "group"_a, "generation"_a, "members"_a,
           "Members by rank: (task, device, incarnation, connection, host); the connection is None for members of this "
           "task, and members with the same host share memory.")
      .def(
          "refused",
          [](Collectives& c, int64_t group, const std::string& device, int code, const std::string& message) {
            WithoutGil unlocked;
            c.refused(group, device, error_of(code, message));
          },
          "group"_a, "device"_a, "code"_a, "message"_a)
      .def(
          "left",
          [](Collectives& c, int64_t group, const std::string& task, uint64_t incarnation, int code,
             const std::string& message) {
            WithoutGil unlocked;
            c.left(group, task, incarnation, error_of(code, message));
          },
          "group"_a, "task"_a, "incarnation"_a, "code"_a, "message"_a,
          "A member has ended in good order: calls that need more of it fail.")
      .def("declare", &Collectives::declare, "group"_a, "size"_a, nb::call_guard<WithoutGil>(),
           "Sets the size of a group whose nodes say 0.")
      .def(
          "dissolve",
          [](Collectives& c, int64_t group, uint64_t generation, int code, const std::string& message) {
            WithoutGil unlocked;
            c.dissolve(group, generation, error_of(code, message));
          },
          "group"_a, "generation"_a, "code"_a, "message"_a,
          "Ends the runs of a generation, on all members, if it is the present one.")
      .def("generation", &Collectives::generation, "group"_a, nb::call_guard<WithoutGil>(),
           "The last generation that was formed; 0 if there was none.")
      .def("runs_ended", &Collectives::runs_ended, "group"_a, nb::call_guard<WithoutGil>(),
           "How many runs have ended without an error in this generation.")
      .def(
          "awaited",
          [](Collectives& c, int64_t group) {
            std::set<std::string> tasks;
            {
              WithoutGil unlocked;
              tasks = c.awaited(group);
            }
            return std::vector<std::string>(tasks.begin(), tasks.end());
          },
          "group"_a, "The tasks whose messages are missing in runs that have been started.")
      .def(
          "members",
          [](Collectives& c, int64_t group) {
            std::vector<std::tuple<std::string, std::string>> found;
            for (const CollectiveMember& member : c.members(group)) found.emplace_back(member.task, member.device);
            return found;
          },
          "group"_a, "(task, device) by rank; empty if the group is not formed.")
      .def(
          "set_default", [](const std::shared_ptr<Collectives>& c) { Collectives::set_default(c); },
          "Sessions whose devices belong to no task use these from now on.")
      .def_static("clear_default", [] { Collectives::set_default({}); });
}

}  // namespace thalweg
