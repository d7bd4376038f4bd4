// Attributes of nodes, by name and type.
#include "kernel/node_def.h"

namespace thalweg {

NodeDef::NodeDef() = default;
NodeDef::NodeDef(const NodeDef&) = default;
NodeDef::NodeDef(NodeDef&&) noexcept = default;
NodeDef& NodeDef::operator=(const NodeDef&) = default;
NodeDef& NodeDef::operator=(NodeDef&&) noexcept = default;
NodeDef::~NodeDef() = default;

const AttrValue* NodeDef::find(std::string_view name) const {
  auto found = attrs.find(name);
  return found == attrs.end() ? nullptr : &found->second;
}

namespace {

template <typename T>
T convert(const NodeDef& def, std::string_view name, const AttrValue& value) {
  if constexpr (std::is_same_v<T, int>) {
    return static_cast<T>(convert<int64_t>(def, name, value));
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(convert<double>(def, name, value));
  } else {
    if (const T* typed = std::get_if<T>(&value)) return *typed;
    if constexpr (std::is_same_v<T, double>) {
      if (const int64_t* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    }
    // An empty list carries no element type.
    if constexpr (requires(T t) { t.push_back(t.front()); } && !std::is_same_v<T, std::string>) {
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
        if (list->empty()) return T{};
        if constexpr (std::is_same_v<T, std::vector<double>>) return T(list->begin(), list->end());
      }
    }
    fail(Code::invalid_argument, "attribute '", name, "' of node '", def.name, "' (op ", def.op,
         ") has another type than the kernel expects");
  }
}

}  // namespace

template <typename T>
T NodeDef::attr(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value == nullptr)
    fail(Code::invalid_argument, "node '", this->name, "' (op ", op, ") has no attribute '", name, "'");
  return convert<T>(*this, name, *value);
}

template <typename T>
T NodeDef::attr(std::string_view name, T otherwise) const {
  const AttrValue* value = find(name);
  return value == nullptr ? otherwise : convert<T>(*this, name, *value);
}

#define THALWEG_ATTR(...)                                     \
  template __VA_ARGS__ NodeDef::attr(std::string_view) const; \
  template __VA_ARGS__ NodeDef::attr(std::string_view, __VA_ARGS__) const;
THALWEG_ATTR(bool)
THALWEG_ATTR(int)
THALWEG_ATTR(int64_t)
THALWEG_ATTR(float)
THALWEG_ATTR(double)
THALWEG_ATTR(std::string)
THALWEG_ATTR(DType)
THALWEG_ATTR(PartialShape)
THALWEG_ATTR(Tensor)
THALWEG_ATTR(std::vector<int64_t>)
THALWEG_ATTR(std::vector<double>)
THALWEG_ATTR(std::vector<std::string>)
THALWEG_ATTR(std::vector<DType>)
THALWEG_ATTR(std::vector<PartialShape>)
THALWEG_ATTR(std::vector<Tensor>)
THALWEG_ATTR(std::shared_ptr<const LoopProgram>)
THALWEG_ATTR(std::shared_ptr<Function>)
THALWEG_ATTR(std::vector<std::shared_ptr<Function>>)
#undef THALWEG_ATTR

}  // namespace thalweg
