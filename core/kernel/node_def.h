// NodeDef: the description that a kernel is made from: a node's name, op type, device, attributes and element types.
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
  // Copies and destruction are compiled once, in node_def.cc, and so are the types of attr.
  NodeDef();
  NodeDef(const NodeDef&);
  NodeDef(NodeDef&&) noexcept;
  NodeDef& operator=(const NodeDef&);
  NodeDef& operator=(NodeDef&&) noexcept;
  ~NodeDef();

  std::string name;
  std::string op;
  std::string device;
  std::map<std::string, AttrValue, std::less<>> attrs;
  std::vector<DType> input_dtypes;
  std::vector<DType> output_dtypes;

  const AttrValue* find(std::string_view name) const;

  // The attribute as a T: one of the alternatives of AttrValue, int or float. InvalidArgument if it is absent or of
  // another type.
  template <typename T>
  T attr(std::string_view name) const;
  template <typename T>
  T attr(std::string_view name, T otherwise) const;
};

}  // namespace thalweg
