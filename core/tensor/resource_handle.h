// ResourceHandle: the element of a tensor of type `resource`; it names a resource and keeps it alive.
#pragma once

#include <memory>
#include <string>

#include "error.h"

namespace thalweg {

// State that outlives a step: a variable, a queue, a table, a TensorArray. Each subclass guards itself; none may call
// into another resource while it holds its own lock.
class Resource {
 public:
  virtual ~Resource() = default;
  // The kind of state, for error messages and debugging ("a variable", "FIFOQueue").
  virtual const char* kind() const = 0;
};

struct ResourceHandle {
  std::string device;
  std::string container;
  std::string name;
  std::shared_ptr<Resource> resource;

  // The resource as the type that the kernel expects.
  template <typename T>
  T& get() const {
    T* typed = dynamic_cast<T*>(resource.get());
    if (typed == nullptr)
      fail(Code::invalid_argument, "the handle '", name, "' refers to ",
           resource ? resource->kind() : "nothing (it is empty)", ", which is not what this op works on");
    return *typed;
  }
};

}  // namespace thalweg
