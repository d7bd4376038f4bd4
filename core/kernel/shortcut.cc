// The table of shortcuts.
#include "kernel/shortcut.h"

#include <unordered_map>

namespace thalweg {
namespace {

using ShortcutTable = std::unordered_map<std::string, Shortcut (*)(const Construction&)>;

ShortcutTable& shortcuts() {
  static ShortcutTable* t = new ShortcutTable;
  return *t;
}

}  // namespace

int add_shortcut(const std::string& op, Shortcut (*make)(const Construction&)) {
  shortcuts()[op] = make;
  return 0;
}

Shortcut make_shortcut(const Construction& c) {
  auto found = shortcuts().find(c.def().op);
  return found == shortcuts().end() ? Shortcut() : found->second(c);
}

}  // namespace thalweg
