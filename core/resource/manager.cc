// Containers: the session's own and the process's shared ones.
#include "resource/manager.h"

namespace thalweg {

ResourceManager::Containers& ResourceManager::shared() {
  static Containers* containers = new Containers;
  return *containers;
}

std::shared_ptr<Resource> ResourceManager::find_or_make_any(const std::string& container, const std::string& name,
                                                            const Maker& make) {
  Containers& all = of(container);
  std::lock_guard lock(all.mutex);
  std::shared_ptr<Resource>& slot = all.by_name[container][name];
  if (!slot) {
    std::shared_ptr<Resource> made;
    try {
      made = make();
    } catch (...) {
      all.by_name[container].erase(name);
      throw;
    }
    slot = std::move(made);
  }
  return slot;
}

std::shared_ptr<Resource> ResourceManager::find(const std::string& container, const std::string& name) {
  Containers& all = of(container);
  std::lock_guard lock(all.mutex);
  auto found = all.by_name.find(container);
  if (found == all.by_name.end()) return nullptr;
  auto resource = found->second.find(name);
  return resource == found->second.end() ? nullptr : resource->second;
}

bool ResourceManager::erase(const std::string& container, const std::string& name) {
  Containers& all = of(container);
  std::shared_ptr<Resource> last;  // destroyed after the lock is gone
  std::lock_guard lock(all.mutex);
  auto found = all.by_name.find(container);
  if (found == all.by_name.end()) return false;
  auto resource = found->second.find(name);
  if (resource == found->second.end()) return false;
  last = std::move(resource->second);
  found->second.erase(resource);
  return true;
}

void ResourceManager::clear(const std::string& container) {
  Containers& all = of(container);
  Container gone;
  std::lock_guard lock(all.mutex);
  auto found = all.by_name.find(container);
  if (found != all.by_name.end()) gone.swap(found->second);
}

std::vector<std::string> ResourceManager::names(const std::string& container) {
  Containers& all = of(container);
  std::lock_guard lock(all.mutex);
  std::vector<std::string> out;
  auto found = all.by_name.find(container);
  if (found != all.by_name.end())
    for (const auto& [name, resource] : found->second) out.push_back(name);
  return out;
}

void ResourceManager::reset(Containers& all, const std::vector<std::string>& containers) {
  std::map<std::string, Container> gone;
  std::lock_guard lock(all.mutex);
  if (containers.empty()) {
    gone.swap(all.by_name);
    return;
  }
  for (const std::string& name : containers) {
    auto found = all.by_name.find(name);
    if (found != all.by_name.end()) gone[name].swap(found->second);
  }
}

}  // namespace thalweg
