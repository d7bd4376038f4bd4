// ResourceManager: the named state of one session's device, by container.
//
// The default container ("") belongs to the manager and goes with it. A named container is shared by all managers of
// the process and lives until it is reset: that is how sessions and graphs share variables and queues. The device of a
// server, which all its sessions share, has all containers to itself: a process may have several servers. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "tensor/resource_handle.h"

namespace thalweg {

class ResourceManager {
 public:
  using Maker = std::function<std::shared_ptr<Resource>()>;
  enum class Named { shared_by_process, own };
  explicit ResourceManager(Named named = Named::shared_by_process) : named_(named) {}

  // The resource under (container, name), made now if it does not exist. One of another kind is an error.
  template <typename T>
  std::shared_ptr<T> find_or_make(const std::string& container, const std::string& name, const Maker& make) {
    std::shared_ptr<Resource> found = find_or_make_any(container, name, make);
    auto typed = std::dynamic_pointer_cast<T>(found);
    if (!typed)
      fail(Code::invalid_argument, "resource '", name, "' in container '", container, "' already exists as ",
           found->kind());
    return typed;
  }
  std::shared_ptr<Resource> find(const std::string& container, const std::string& name);
  bool erase(const std::string& container, const std::string& name);
  // Forgets everything in the container: handles that are still held keep their resources.
  void clear(const std::string& container);
  std::vector<std::string> names(const std::string& container);

  // Resets containers shared by the process; an empty list resets all of them.
  static void reset_shared(const std::vector<std::string>& containers) { reset(shared(), containers); }
  // The same for the containers of this manager.
  void reset_own(const std::vector<std::string>& containers) { reset(own_, containers); }

 private:
  using Container = std::map<std::string, std::shared_ptr<Resource>>;
  struct Containers {
    std::mutex mutex;
    std::map<std::string, Container> by_name;
  };
  static Containers& shared();
  static void reset(Containers& all, const std::vector<std::string>& containers);
  Containers& of(const std::string& container) { return container.empty() || named_ == Named::own ? own_ : shared(); }
  std::shared_ptr<Resource> find_or_make_any(const std::string& container, const std::string& name, const Maker& make);

  const Named named_;
  Containers own_;
};

}  // namespace thalweg
