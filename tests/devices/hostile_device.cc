// A device plug-in that does what plug-ins must not do; macros choose how, and what its type is called.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "thalweg/device_plugin.h"

#ifndef TYPE
#define TYPE "BAD"
#endif
#ifndef VERSION
#define VERSION THALWEG_DEVICE_PLUGIN_VERSION
#endif
#ifndef ENTRY
#define ENTRY thalweg_device_plugin
#endif

namespace {

const tw_host* host;
std::atomic<int> opened{0}, held{0};
std::atomic<bool> lose_copies{false};

// The state that late work reads. The work ends by itself or, if it is held, when the test signals `let_go`.
struct Late {
  std::mutex mutex;
  std::condition_variable let_go;
  bool hold = false;
  int under_way = 0;
  int harmed = 0;  // how often its memory was released or changed before it was done
  std::multiset<void*> memory;
};
Late& late = *new Late;  // its threads may outlive the program's end

void* open_device(int32_t index, const tw_host* given, tw_error* error) {
  host = given;
  if (index == 1) {
    error->code = TW_UNAVAILABLE;
    std::strcpy(error->message, "the second one is broken");
    return nullptr;
  }
  ++opened;
  return &opened;
}
void close_device(void*) { --opened; }
uint64_t memory_bytes(void*) { return UINT64_MAX; }
void* allocate(void*, uint64_t bytes, tw_error*) {
  if (bytes > (1 << 20)) return nullptr;  // without a reason
  ++held;
  return std::malloc(bytes);
}
void release(void*, void* memory, uint64_t) {
  --held;
  {
    std::lock_guard<std::mutex> lock(late.mutex);
    late.harmed += static_cast<int>(late.memory.count(memory));
  }
  std::free(memory);
}
void copy(void*, const void* from, void* to, uint64_t bytes, tw_done done, void* arg) {
  if (lose_copies) return;
  std::memcpy(to, from, bytes);
  done(arg, nullptr);
  done(arg, nullptr);
}

// Passes its input on, into memory of its own.
bool prepare(tw_call call, tw_tensor* in, tw_tensor* out) {
  tw_tensor none;
  if (host->input(call, 7, &none) || host->input(call, -1, &none)) std::abort();
  return host->input(call, 0, in) && host->allocate_output(call, 0, in->rank, in->dims, out);
}

void issue_twice(void*, void*, tw_call call) {
  tw_tensor in, out;
  if (!prepare(call, &in, &out)) return;
  std::memcpy(out.data, in.data, in.bytes);
  host->done(call, nullptr);
  host->done(call, nullptr);
  host->done(call + 1000000, nullptr);
  if (host->input(call, 0, &in)) std::abort();
}

void issue_error(void*, void*, tw_call call) {
  tw_tensor in, out;
  if (!prepare(call, &in, &out)) return;
  tw_error error;
  error.code = TW_INTERNAL;
  std::memset(error.message, 'x', sizeof error.message);  // no end
  std::memcpy(error.message, "overheated ", 11);
  host->done(call, &error);
}

void issue_unset(void*, void*, tw_call call) { host->done(call, nullptr); }

void issue_bad_shape(void*, void*, tw_call call) {
  tw_tensor out;
  const int64_t dims[] = {-3, INT64_MAX};
  if (host->allocate_output(call, 5, 0, nullptr, &out) || host->allocate_output(call, 0, -1, nullptr, &out))
    std::abort();
  if (host->allocate_output(call, 0, 2, dims, &out)) std::abort();
}

// The output is there at once, and so is its copy; the work that reads both goes on.
void issue_late(void*, void*, tw_call call) {
  tw_tensor in, out;
  if (!prepare(call, &in, &out)) return;
  std::memcpy(out.data, in.data, in.bytes);
  const std::string want(static_cast<const char*>(in.data), in.bytes);
  {
    std::lock_guard<std::mutex> lock(late.mutex);
    ++late.under_way;
    late.memory.insert({in.data, out.data});
  }
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    {
      std::unique_lock<std::mutex> lock(late.mutex);
      late.let_go.wait(lock, [] { return !late.hold; });
      for (void* memory : {in.data, out.data}) {
        late.harmed += std::memcmp(memory, want.data(), want.size()) != 0;
        late.memory.erase(late.memory.find(memory));
      }
      --late.under_way;
    }
    host->done(call, nullptr);
  }).detach();
}

void issue_never(void*, void*, tw_call call) {
  tw_tensor in, out;
  prepare(call, &in, &out);
}

void* create_error(void*, const tw_node* node, tw_error* error) {
  int64_t number;
  if (host->attr_int(node, "no_such_attribute", &number)) std::abort();
  error->code = 4711;
  std::strcpy(error->message, "no, thank you");
  return nullptr;
}
void destroy(void*, void*) {}

const tw_kernel kKernels[] = {
    {sizeof(tw_kernel), "Neg", nullptr, 0, 0, nullptr, nullptr, issue_error},
    {sizeof(tw_kernel), "Exp", nullptr, 0, 0, nullptr, nullptr, issue_unset},
    {sizeof(tw_kernel), "Log", nullptr, 0, 0, nullptr, nullptr, issue_bad_shape},
    {sizeof(tw_kernel), "Abs", nullptr, 0, 0, nullptr, nullptr, issue_twice},
    {sizeof(tw_kernel), "Sqrt", nullptr, 0, 0, nullptr, nullptr, issue_late},
    {sizeof(tw_kernel), "Square", nullptr, 0, 0, nullptr, nullptr, issue_never},
    {sizeof(tw_kernel), "Tanh", nullptr, 0, 0, create_error, destroy, issue_twice},
#ifdef NO_ISSUE
    {sizeof(tw_kernel), "Sin", nullptr, 0, 0, nullptr, nullptr, nullptr},
#endif
};

const tw_device_plugin kPlugin = {VERSION,
                                  sizeof(tw_device_plugin),
                                  TYPE,
                                  2,
                                  open_device,
                                  close_device,
                                  memory_bytes,
#ifdef NO_ALLOCATE
                                  nullptr,
#else
                                  allocate,
#endif
                                  release,
                                  copy,
                                  copy,
                                  kKernels,
                                  sizeof kKernels / sizeof kKernels[0]};

}  // namespace

extern "C" const tw_device_plugin* ENTRY(uint32_t) {
#ifdef NULL_TABLE
  return nullptr;
#endif
  return &kPlugin;
}

extern "C" int open_devices() { return opened; }
extern "C" int held_blocks() { return held; }
extern "C" void set_lose_copies(int lose) { lose_copies = lose != 0; }
extern "C" void hold_late_work(int hold) {
  std::lock_guard<std::mutex> lock(late.mutex);
  late.hold = hold != 0;
  late.let_go.notify_all();
}
extern "C" int late_work() {
  std::lock_guard<std::mutex> lock(late.mutex);
  return late.under_way;
}
extern "C" int harmed_late_work() {
  std::lock_guard<std::mutex> lock(late.mutex);
  return late.harmed;
}
