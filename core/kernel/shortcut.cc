// The table of shortcuts.
#include "kernel/shortcut.h"

#include <unordered_map>

namespace thalweg {
namespace {

using Table = std::unordered_map<std::string, Shortcut (*)(const Construction&)>;

Table& table() {
  static Table* t = new Table;
  return *t;
}

}  // namespace

int add_shortcut(const std::string& op, Shortcut (*make)(const Construction&)) {
  table()[op] = make;
  return 0;
}

Shortcut make_shortcut(const Construction& c) {
  auto found = table().find(c.def().op);
  return found == table().end() ? Shortcut() : found->second(c);
}

}  // namespace thalweg
