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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "code/recording.h"
#include "kernel/kernel.h"

namespace thalweg {

// The function of an element-wise kernel, as loops over rows of float32, so that several can be fused into one pass
// over memory (kernels/fused_elementwise.cc). A stride of 0 is a scalar; both are 0 only where n is 1. Rows may be the
// same.
using UnaryRow = void (*)(const void* in, void* out, int64_t n);
using BinaryRow = void (*)(const void* a, int64_t stride_a, const void* b, int64_t stride_b, void* out, int64_t n);
struct Rows {
  UnaryRow unary = nullptr;
  BinaryRow binary = nullptr;
};

// What fused chains and compiled loops ask an element-wise kernel for.
struct Elementwise {
  // The loops over rows of float32, or nulls.
  Rows (*rows)() = nullptr;
  // The loops over rows of an element type that the kernel accepts, with results of the same type; nulls if there is
  // none, or the kernel refuses some operands.
  Rows (*rows_of)(DType dtype) = nullptr;
  // Records the function of the given operands (code/recording.h), and returns the result; code::kNone if the function
  // has no instructions for this type.
  int (*record)(code::Recording& recording, code::Lane lane, const int* operands) = nullptr;
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
  Elementwise elementwise;

  bool accepts(const NodeDef& def) const;
};

class Registry {
 public:
  static Registry& global();
  void add(Registration registration);
  // Makes the kernel of a node; the error of a missing one lists the existing ones.
  std::unique_ptr<Kernel> create(const NodeDef& def, Device& device) const;
  bool has(const std::string& op, const std::string& device_type) const;
  // Whether any of the op's kernels is asynchronous.
  bool is_async(const std::string& op) const;
  // The loops of an element-wise op over rows of float32, or nulls.
  Rows rows(const std::string& op) const;
  // Of the kernel that `create` would make on the host; nulls if that is not element-wise.
  Elementwise elementwise(const NodeDef& def) const;
  std::vector<std::string> ops(const std::string& device_type) const;
  // The element types that the op's kernels accept for an attribute (empty: any).
  std::vector<DType> allowed(const std::string& op, const std::string& attr) const;
};

// Code that does not depend on the kernel's type is compiled once, in registry.cc.
class RegistrationBuilder {
 public:
  explicit RegistrationBuilder(std::string_view op);
  ~RegistrationBuilder();
  RegistrationBuilder&& on(const char* device_type) &&;
  template <DType... Ds>
  RegistrationBuilder&& types(const char* attr, Types<Ds...>) && {
    static constexpr DType kAllowed[] = {Ds...};
    return std::move(*this).types(attr, std::span<const DType>(kAllowed));
  }
  RegistrationBuilder&& types(const char* attr, std::span<const DType> allowed) &&;
  template <typename K>
  int make() && {
    Elementwise elementwise;
    if constexpr (requires { K::rows(); }) elementwise.rows = &K::rows;
    if constexpr (requires { &K::rows_of; }) elementwise.rows_of = &K::rows_of;
    if constexpr (requires { K::record; }) elementwise.record = K::record;
    return std::move(*this).add(&create<K>, std::is_base_of_v<AsyncKernel, K>, elementwise);
  }
  // A kernel without members: a function of the context.
  template <void (*body)(Context&)>
  int function() && {
    return std::move(*this).add_function(body);
  }

 private:
  template <typename K>
  static std::unique_ptr<Kernel> create(const Construction& c) {
    return std::make_unique<K>(c);
  }
  int add(std::unique_ptr<Kernel> (*create)(const Construction&), bool async, const Elementwise& elementwise) &&;
  int add_function(void (*body)(Context&)) &&;

  Registration registration_;
};

inline RegistrationBuilder kernel(std::string_view op) { return RegistrationBuilder(op); }

#define THALWEG_JOIN_(a, b) a##b
#define THALWEG_JOIN(a, b) THALWEG_JOIN_(a, b)
// REGISTER(kernel("Neg").types("T", Numbers{}).make<Neg>());
#define REGISTER(...) [[maybe_unused]] static const int THALWEG_JOIN(registered_, __COUNTER__) = __VA_ARGS__

}  // namespace thalweg
