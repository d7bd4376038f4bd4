// Loading device plug-ins, and checking that they fit the interface.
#include "plugin/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "error.h"

namespace thalweg {
namespace {

struct Plugins {
  std::mutex mutex;
  std::deque<Plugin> all;  // never moved, never unloaded: kernels and tensors point into them
};

Plugins& plugins() {
  static Plugins* p = new Plugins;
  return *p;
}

// Capital letters, digits and underscores, a letter first.
bool is_device_type(const std::string& name) {
  auto is_letter = [](char c) { return c >= 'A' && c <= 'Z'; };
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
  });
}

void check(const std::string& path, const tw_device_plugin* table) {
  auto wrong = [&](const auto&... why) { fail(Code::invalid_argument, "the device plug-in '", path, "' ", why...); };
  if (table == nullptr) wrong("says that it cannot work here");
  if (table->version != THALWEG_DEVICE_PLUGIN_VERSION)
    wrong("was made for version ", table->version, " of the interface; this is version ", THALWEG_DEVICE_PLUGIN_VERSION,
          ". Compile it again with the header in tf.sysconfig.get_include()");
  if (table->size < sizeof(tw_device_plugin)) wrong("has a table of ", table->size, " bytes, too short");
  const std::string type = table->type == nullptr ? "" : table->type;
  if (!is_device_type(type) || type == "CPU" || type == "NULL")
    wrong("calls its type of device '", type,
          "': a name of capital letters, digits and underscores is needed, and CPU "
          "and NULL are taken");
  if (table->num_devices < 0) wrong("says that it has ", table->num_devices, " devices");
  if (!table->open || !table->close || !table->memory_bytes || !table->allocate || !table->release ||
      !table->copy_to_device || !table->copy_to_host)
    wrong("leaves out one of open, close, memory_bytes, allocate, release, copy_to_device, copy_to_host");
  if (table->num_kernels < 0 || (table->num_kernels > 0 && table->kernels == nullptr)) wrong("has no list of kernels");
  for (int32_t i = 0; i < table->num_kernels; ++i) {
    const tw_kernel& k = table->kernels[i];
    if (k.size != sizeof(tw_kernel)) wrong("has kernels of ", k.size, " bytes; ", sizeof(tw_kernel), " are expected");
    if (k.op == nullptr || k.issue == nullptr) wrong("has a kernel without ", k.op ? "issue" : "op", " at ", i);
    if (k.create != nullptr && k.destroy == nullptr) wrong("has a kernel for ", k.op, " with create but no destroy");
    if (k.num_types < 0 || (k.num_types > 0 && k.types == nullptr)) wrong("has a kernel for ", k.op, " without types");
    for (int32_t t = 0; t < k.num_types; ++t)
      if (k.types[t].attr == nullptr || k.types[t].num_dtypes < 0 || k.types[t].dtypes == nullptr)
        wrong("has a kernel for ", k.op, " with types that name no attribute or no list");
  }
}

}  // namespace

const Plugin& load_plugin(const std::string& path) {
  std::lock_guard lock(plugins().mutex);
  for (const Plugin& plugin : plugins().all)
    if (plugin.path == path) return plugin;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(Code::not_found, "cannot load the device plug-in '", path, "': ", dlerror());
  void* symbol = dlsym(library, "thalweg_device_plugin");
  if (symbol == nullptr) {
    dlclose(library);
    fail(Code::invalid_argument, "'", path, "' is no device plug-in: it does not export thalweg_device_plugin");
  }
  auto entry = reinterpret_cast<decltype(&thalweg_device_plugin)>(symbol);
  const tw_device_plugin* table = entry(THALWEG_DEVICE_PLUGIN_VERSION);
  check(path, table);
  for (const Plugin& plugin : plugins().all)
    if (plugin.type == table->type)
      fail(Code::already_exists, "devices of type ", plugin.type, " come from '", plugin.path, "' already, so '", path,
           "' cannot be loaded as well");
  plugins().all.push_back({path, table, table->type});
  return plugins().all.back();
}

const Plugin* plugin_of(const std::string& device_type) {
  std::lock_guard lock(plugins().mutex);
  for (const Plugin& plugin : plugins().all)
    if (plugin.type == device_type) return &plugin;
  return nullptr;
}

}  // namespace thalweg
