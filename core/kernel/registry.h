// The kernel registry: which kernel runs an op on a device type for given element types.
//
//   static const auto registered = kernel("GatherV2").types("Tparams", Numbers{}).types("Tindices",
//   Indices{}).make<Gather>();
//
// Several registrations of one op are tried in order; the first whose type constraints accept the node's attributes
// wins. Registration happens before main, or under the GIL for kernels written in Python; look-ups take a shared lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace thalweg {

// What an element-wise kernel computes, as loops over rows of float32, so that several can be fused into one pass over
// memory (kernels/fused_elementwise.cc). A stride of 0 is a scalar; both are 0 only where n is 1. Rows may be the same.
struct Rows {
  void (*unary)(const float* in, float* out, int64_t n) = nullptr;
  void (*binary)(const float* a, int64_t stride_a, const float* b, int64_t stride_b, float* out, int64_t n) = nullptr;
};

struct Registration {
  struct Constraint {
    std::string attr;
    std::vector<DType> allowed;
  };
  std::string op;
  std::string device_type = "CPU";
  std::vector<Constraint> constraints;
  std::function<std::unique_ptr<Kernel>(const Construction&)> create;
  bool async = false;
  Rows (*rows)() = nullptr;  // of an element-wise kernel

  bool accepts(const NodeDef& def) const;
};

class Registry {
 public:
  static Registry& global();
  void add(Registration registration);
  // Makes the kernel of a node, or says which kernels there are.
  std::unique_ptr<Kernel> create(const NodeDef& def, Device& device) const;
  bool has(const std::string& op, const std::string& device_type) const;
  // Whether any of the op's kernels is asynchronous.
  bool is_async(const std::string& op) const;
  // The loops of an element-wise op over rows of float32, if it has such.
  Rows rows(const std::string& op) const;
  std::vector<std::string> ops(const std::string& device_type) const;
  // The element types that the op's kernels accept for an attribute (empty: any).
  std::vector<DType> allowed(const std::string& op, const std::string& attr) const;
};

class RegistrationBuilder {
 public:
  explicit RegistrationBuilder(std::string op) { registration_.op = std::move(op); }
  RegistrationBuilder&& on(std::string device_type) && {
    registration_.device_type = std::move(device_type);
    return std::move(*this);
  }
  template <DType... Ds>
  RegistrationBuilder&& types(std::string attr, Types<Ds...>) && {
    registration_.constraints.push_back({std::move(attr), {Ds...}});
    return std::move(*this);
  }
  template <typename K>
  int make() && {
    registration_.create = [](const Construction& c) { return std::make_unique<K>(c); };
    registration_.async = std::is_base_of_v<AsyncKernel, K>;
    if constexpr (requires { K::rows(); }) registration_.rows = &K::rows;
    Registry::global().add(std::move(registration_));
    return 0;
  }
  // A kernel without members: a function of the context.
  template <void (*body)(Context&)>
  int function() && {
    struct FunctionKernel : Kernel {
      explicit FunctionKernel(const Construction&) {}
      void compute(Context& ctx) override { body(ctx); }
    };
    return std::move(*this).template make<FunctionKernel>();
  }

 private:
  Registration registration_;
};

inline RegistrationBuilder kernel(std::string op) { return RegistrationBuilder(std::move(op)); }

#define THALWEG_JOIN_(a, b) a##b
#define THALWEG_JOIN(a, b) THALWEG_JOIN_(a, b)
// REGISTER(kernel("Neg").types("T", Numbers{}).make<Neg>());
#define REGISTER(...) [[maybe_unused]] static const int THALWEG_JOIN(registered_, __COUNTER__) = __VA_ARGS__

}  // namespace thalweg
