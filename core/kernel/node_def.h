// NodeDef: what a kernel is made from: a node's name, op type, device, attributes and element types.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg {

class Function;
class LoopProgram;

using AttrValue = std::variant<std::monostate, bool, int64_t, double, std::string, DType, PartialShape, Tensor,
                               std::vector<int64_t>, std::vector<double>, std::vector<std::string>, std::vector<DType>,
                               std::vector<PartialShape>, std::vector<Tensor>, std::shared_ptr<const LoopProgram>,
                               std::shared_ptr<Function>, std::vector<std::shared_ptr<Function>>>;

struct NodeDef {
  std::string name;
  std::string op;
  std::string device;
  std::map<std::string, AttrValue, std::less<>> attrs;
  std::vector<DType> input_dtypes;
  std::vector<DType> output_dtypes;

  const AttrValue* find(std::string_view name) const {
    auto found = attrs.find(name);
    return found == attrs.end() ? nullptr : &found->second;
  }

  // The attribute as a T; an absent one or one of another type is an error of whoever made the node.
  template <typename T>
  T attr(std::string_view name) const {
    const AttrValue* value = find(name);
    if (value == nullptr)
      fail(Code::invalid_argument, "node '", this->name, "' (op ", op, ") has no attribute '", name, "'");
    return convert<T>(name, *value);
  }
  template <typename T>
  T attr(std::string_view name, T otherwise) const {
    const AttrValue* value = find(name);
    return value == nullptr ? otherwise : convert<T>(name, *value);
  }

 private:
  template <typename T>
  T convert(std::string_view name, const AttrValue& value) const {
    if constexpr (std::is_same_v<T, int> || std::is_same_v<T, int32_t>) {
      return static_cast<T>(convert<int64_t>(name, value));
    } else if constexpr (std::is_same_v<T, float>) {
      return static_cast<float>(convert<double>(name, value));
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
      fail(Code::invalid_argument, "attribute '", name, "' of node '", this->name, "' (op ", op,
           ") has another type than the kernel expects");
    }
  }
};

}  // namespace thalweg
