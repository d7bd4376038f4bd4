// Look-up of kernels by op, device type and element types.
#include "kernel/registry.h"

#include <algorithm>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

namespace thalweg {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::vector<Registration>> by_op;
};

Table& table() {
  static Table* t = new Table;
  return *t;
}

// The types to check for an attribute: one, or each of a list.
std::vector<DType> types_of(const NodeDef& def, const std::string& attr) {
  const AttrValue* value = def.find(attr);
  if (value == nullptr) return {};
  if (const DType* one = std::get_if<DType>(value)) return {*one};
  if (const auto* list = std::get_if<std::vector<DType>>(value)) return *list;
  return {};
}

// The device type whose kernels a node uses. The null device uses the host's for values that it must compute; on a
// plug-in's device, nodes that only pass tensors on, and those that control a loop, use the host's too.
const std::string& table_of(const NodeDef& def, const Device& device) {
  static const std::string kHost = "CPU";
  static const std::unordered_set<std::string> kPassing = {"_Send",         "_Recv", "NoOp",   "Identity",
                                                           "Const",         "Rank",  "Enter",  "Exit",
                                                           "NextIteration", "Merge", "Switch", "LoopCond"};
  return device.type == "NULL" || (device.memory && kPassing.contains(def.op)) ? kHost : device.type;
}

}  // namespace

bool Registration::accepts(const NodeDef& def) const {
  for (const Constraint& c : constraints)
    for (DType dtype : types_of(def, c.attr))
      if (std::find(c.allowed.begin(), c.allowed.end(), dtype) == c.allowed.end()) return false;
  return true;
}

Registry& Registry::global() {
  static Registry registry;
  return registry;
}

void Registry::add(Registration registration) {
  Table& t = table();
  std::unique_lock lock(t.mutex);
  t.by_op[registration.op].push_back(std::move(registration));
}

std::unique_ptr<Kernel> Registry::create(const NodeDef& def, Device& device) const {
  if (device.memory)
    if (std::unique_ptr<Kernel> made = device.memory->make_kernel(def, device)) return made;
  const std::string& type = table_of(def, device);
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto found = t.by_op.find(def.op);
  std::string seen;
  if (found != t.by_op.end()) {
    for (const Registration& r : found->second) {
      if (r.device_type != type) continue;
      if (r.accepts(def)) return r.create(Construction(def, device));
      for (const auto& c : r.constraints) {
        seen += seen.empty() ? "" : "; ";
        seen += c.attr + " in {";
        for (size_t i = 0; i < c.allowed.size(); ++i) seen += (i ? ", " : "") + std::string(name_of(c.allowed[i]));
        seen += "}";
      }
    }
  }
  std::string types;
  for (const auto& [name, value] : def.attrs)
    if (const DType* dtype = std::get_if<DType>(&value)) types += " " + name + "=" + name_of(*dtype);
  if (seen.empty())
    fail(found == t.by_op.end() ? Code::not_found : Code::invalid_argument, "no kernel for op ", def.op,
         " on device type ", device.type, " (node '", def.name, "',", types, ")");
  fail(Code::invalid_argument, "no kernel for op ", def.op, " on device type ", device.type, " with", types, " (node '",
       def.name, "'); registered: ", seen);
}

bool Registry::has(const std::string& op, const std::string& device_type) const {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto found = t.by_op.find(op);
  return found != t.by_op.end() && std::any_of(found->second.begin(), found->second.end(),
                                               [&](const Registration& r) { return r.device_type == device_type; });
}

bool Registry::is_async(const std::string& op) const {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto found = t.by_op.find(op);
  return found != t.by_op.end() &&
         std::any_of(found->second.begin(), found->second.end(), [](const Registration& r) { return r.async; });
}

Elementwise Registry::elementwise(const NodeDef& def) const {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto found = t.by_op.find(def.op);
  if (found == t.by_op.end()) return {};
  for (const Registration& r : found->second)
    if (r.device_type == "CPU" && r.accepts(def)) return r.elementwise;
  return {};
}

Rows Registry::rows(const std::string& op) const {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  auto found = t.by_op.find(op);
  if (found == t.by_op.end()) return {};
  for (const Registration& r : found->second) {
    if (!r.elementwise.rows) continue;
    if (Rows rows = r.elementwise.rows(); rows.unary || rows.binary) return rows;
  }
  return {};
}

std::vector<std::string> Registry::ops(const std::string& device_type) const {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  std::vector<std::string> out;
  for (const auto& [op, registrations] : t.by_op)
    for (const Registration& r : registrations)
      if (r.device_type == device_type) {
        out.push_back(op);
        break;
      }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<DType> Registry::allowed(const std::string& op, const std::string& attr) const {
  Table& t = table();
  std::shared_lock lock(t.mutex);
  std::vector<DType> out;
  auto found = t.by_op.find(op);
  if (found == t.by_op.end()) return out;
  for (const Registration& r : found->second) {
    bool constrained = false;
    for (const auto& c : r.constraints)
      if (c.attr == attr) {
        constrained = true;
        out.insert(out.end(), c.allowed.begin(), c.allowed.end());
      }
    if (!constrained) return {};
  }
  return out;
}

namespace {

struct FunctionKernel : Kernel {
  explicit FunctionKernel(void (*body)(Context&)) : body_(body) {}
  void compute(Context& ctx) override { body_(ctx); }

 private:
  void (*body_)(Context&);
};

}  // namespace

RegistrationBuilder::RegistrationBuilder(std::string_view op) { registration_.op = op; }
RegistrationBuilder::~RegistrationBuilder() = default;

RegistrationBuilder&& RegistrationBuilder::on(const char* device_type) && {
  registration_.device_type = device_type;
  return std::move(*this);
}

RegistrationBuilder&& RegistrationBuilder::types(const char* attr, std::span<const DType> allowed) && {
  registration_.constraints.push_back({attr, {allowed.begin(), allowed.end()}});
  return std::move(*this);
}

int RegistrationBuilder::add(std::unique_ptr<Kernel> (*create)(const Construction&), bool async,
                             const Elementwise& elementwise) && {
  registration_.create = create;
  registration_.async = async;
  registration_.elementwise = elementwise;
  Registry::global().add(std::move(registration_));
  return 0;
}

int RegistrationBuilder::add_function(void (*body)(Context&)) && {
  registration_.create = [body](const Construction&) { return std::make_unique<FunctionKernel>(body); };
  Registry::global().add(std::move(registration_));
  return 0;
}

}  // namespace thalweg
