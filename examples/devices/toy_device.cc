// A device plug-in: two devices of type TOY, each with memory of its own and a thread that works off a queue.
//
// It stands for an accelerator: nothing of the host reads its memory, and work ends later than it is issued. Kernels:
// sums, differences and products of float32 (equal shapes, or a scalar on one side), Relu, MatMul, and Reshape, which
// takes the new shape from the host and computes nothing. docs/write_a_device.md walks through it.
//
//   c++ -std=c++17 -O2 -shared -fPIC -I "$(python -c 'import thalweg; print(thalweg.sysconfig.get_include())')"
//     toy_device.cc -o libtoy_device.so
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "thalweg/device_plugin.h"

namespace {

constexpr uint64_t kMemory = 64 << 20;

// One device: its memory, and its queue. Work runs in the order in which it came.
struct Toy {
  explicit Toy(const tw_host* host) : host(host), worker([this] { run(); }) {}
  ~Toy() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      closing = true;
    }
    wake.notify_one();
    worker.join();
  }
  void enqueue(std::function<void()> work) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      queue.push_back(std::move(work));
    }
    wake.notify_one();
  }
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return closing || !queue.empty(); });
      if (queue.empty()) return;
      std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  const tw_host* host;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> queue;
  uint64_t in_use = 0;
  bool closing = false;
  std::thread worker;  // the last member: it uses the others
};

template <typename... Args>
void say(tw_error* error, int32_t code, const char* format, Args... args) {
  error->code = code;
  std::snprintf(error->message, sizeof error->message, format, args...);
}

template <typename... Args>
void refuse(Toy* toy, tw_call call, const char* format, Args... args) {
  tw_error error{};
  say(&error, TW_INVALID_ARGUMENT, format, args...);
  toy->host->done(call, &error);
}

// Memory. Only work in the queue touches what is inside.

void* open_device(int32_t, const tw_host* host, tw_error*) { return new Toy(host); }
void close_device(void* device) { delete static_cast<Toy*>(device); }
uint64_t memory_bytes(void*) { return kMemory; }

void* allocate(void* device, uint64_t bytes, tw_error* error) {
  Toy* toy = static_cast<Toy*>(device);
  std::lock_guard<std::mutex> lock(toy->mutex);
  void* memory = toy->in_use + bytes > kMemory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) {
    say(error, TW_RESOURCE_EXHAUSTED, "the toy's %llu bytes are used up", static_cast<unsigned long long>(kMemory));
    return nullptr;
  }
  toy->in_use += bytes;
  return memory;
}

void release(void* device, void* memory, uint64_t bytes) {
  Toy* toy = static_cast<Toy*>(device);
  std::lock_guard<std::mutex> lock(toy->mutex);
  toy->in_use -= bytes;
  std::free(memory);
}

void copy(void* device, const void* from, void* to, uint64_t bytes, tw_done done, void* arg) {
  static_cast<Toy*>(device)->enqueue([=] {
    std::memcpy(to, from, bytes);
    done(arg, nullptr);
  });
}

// Kernels.

uint64_t count(const tw_tensor& tensor) { return tensor.bytes / sizeof(float); }

template <typename Function>
void issue_binary(void* device, void*, tw_call call) {
  Toy* toy = static_cast<Toy*>(device);
  tw_tensor a, b, out;
  toy->host->input(call, 0, &a);
  toy->host->input(call, 1, &b);
  const bool same = a.rank == b.rank && std::memcmp(a.dims, b.dims, a.rank * sizeof(int64_t)) == 0;
  if (!same && a.rank != 0 && b.rank != 0)
    return refuse(toy, call, "the toy combines equal shapes or a scalar, got ranks %d and %d", a.rank, b.rank);
  const tw_tensor& large = a.rank != 0 ? a : b;
  if (!toy->host->allocate_output(call, 0, large.rank, large.dims, &out)) return;
  const uint64_t n = count(out), step_a = same || a.rank != 0, step_b = same || b.rank != 0;
  const float *x = static_cast<const float*>(a.data), *y = static_cast<const float*>(b.data);
  float* z = static_cast<float*>(out.data);
  toy->enqueue([=] {
    for (uint64_t i = 0; i < n; ++i) z[i] = Function()(x[i * step_a], y[i * step_b]);
    toy->host->done(call, nullptr);
  });
}

void issue_relu(void* device, void*, tw_call call) {
  Toy* toy = static_cast<Toy*>(device);
  tw_tensor in, out;
  toy->host->input(call, 0, &in);
  if (!toy->host->allocate_output(call, 0, in.rank, in.dims, &out)) return;
  const uint64_t n = count(out);
  toy->enqueue([=] {
    const float* x = static_cast<const float*>(in.data);
    for (uint64_t i = 0; i < n; ++i) static_cast<float*>(out.data)[i] = x[i] > 0 ? x[i] : 0;
    toy->host->done(call, nullptr);
  });
}

struct MatMul {
  bool transpose_a, transpose_b;
};

void* create_matmul(void* device, const tw_node* node, tw_error*) {
  const tw_host* host = static_cast<Toy*>(device)->host;
  int32_t a = 0, b = 0;
  host->attr_bool(node, "transpose_a", &a);
  host->attr_bool(node, "transpose_b", &b);
  return new MatMul{a != 0, b != 0};
}
void destroy_matmul(void*, void* kernel) { delete static_cast<MatMul*>(kernel); }

void issue_matmul(void* device, void* kernel, tw_call call) {
  Toy* toy = static_cast<Toy*>(device);
  const MatMul matmul = *static_cast<MatMul*>(kernel);
  tw_tensor a, b, out;
  toy->host->input(call, 0, &a);
  toy->host->input(call, 1, &b);
  if (a.rank != 2 || b.rank != 2)
    return refuse(toy, call, "MatMul needs matrices, got ranks %d and %d", a.rank, b.rank);
  const int64_t rows = a.dims[matmul.transpose_a], inner = a.dims[!matmul.transpose_a];
  const int64_t other = b.dims[matmul.transpose_b], columns = b.dims[!matmul.transpose_b];
  if (inner != other)
    return refuse(toy, call, "MatMul cannot multiply %lld columns by %lld rows", static_cast<long long>(inner),
                  static_cast<long long>(other));
  const int64_t dims[] = {rows, columns};
  if (!toy->host->allocate_output(call, 0, 2, dims, &out)) return;
  // Strides of the rows and columns of both operands.
  const int64_t ar = matmul.transpose_a ? 1 : inner, ac = matmul.transpose_a ? rows : 1;
  const int64_t br = matmul.transpose_b ? 1 : columns, bc = matmul.transpose_b ? inner : 1;
  toy->enqueue([=] {
    const float *x = static_cast<const float*>(a.data), *y = static_cast<const float*>(b.data);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum += x[i * ar + k * ac] * y[k * br + j * bc];
        static_cast<float*>(out.data)[i * columns + j] = sum;
      }
    toy->host->done(call, nullptr);
  });
}

// The new shape is a host input: it must be known before anything is computed.
void issue_reshape(void* device, void*, tw_call call) {
  Toy* toy = static_cast<Toy*>(device);
  tw_tensor in, shape;
  toy->host->input(call, 0, &in);
  toy->host->input(call, 1, &shape);
  const int32_t rank = shape.rank == 1 ? static_cast<int32_t>(shape.dims[0]) : -1;
  if (rank < 0) return refuse(toy, call, "Reshape needs a vector, got rank %d", shape.rank);
  std::vector<int64_t> dims(rank);
  int64_t known = 1, open = -1;
  for (int32_t i = 0; i < rank; ++i) {
    dims[i] = static_cast<const int32_t*>(shape.data)[i];
    if (dims[i] < 0)
      open = i;
    else
      known *= dims[i];
  }
  if (open >= 0 && known > 0) dims[open] = static_cast<int64_t>(count(in)) / known;
  if (!toy->host->forward_input(call, 0, 0, rank, dims.data())) return;
  toy->host->done(call, nullptr);
}

struct Add {
  float operator()(float a, float b) const { return a + b; }
};
struct Sub {
  float operator()(float a, float b) const { return a - b; }
};
struct Mul {
  float operator()(float a, float b) const { return a * b; }
};

const int32_t kFloats[] = {TW_FLOAT32};
const int32_t kInts[] = {TW_INT32};
const tw_types kT[] = {{"T", kFloats, 1}};
const tw_types kReshapeTypes[] = {{"T", kFloats, 1}, {"Tshape", kInts, 1}};

const tw_kernel kKernels[] = {
    {sizeof(tw_kernel), "Add", kT, 1, 0, nullptr, nullptr, issue_binary<Add>},
    {sizeof(tw_kernel), "AddV2", kT, 1, 0, nullptr, nullptr, issue_binary<Add>},
    {sizeof(tw_kernel), "Sub", kT, 1, 0, nullptr, nullptr, issue_binary<Sub>},
    {sizeof(tw_kernel), "Mul", kT, 1, 0, nullptr, nullptr, issue_binary<Mul>},
    {sizeof(tw_kernel), "Relu", kT, 1, 0, nullptr, nullptr, issue_relu},
    {sizeof(tw_kernel), "MatMul", kT, 1, 0, create_matmul, destroy_matmul, issue_matmul},
    {sizeof(tw_kernel), "Reshape", kReshapeTypes, 2, 0b10, nullptr, nullptr, issue_reshape},
};

const tw_device_plugin kPlugin = {THALWEG_DEVICE_PLUGIN_VERSION,
                                  sizeof(tw_device_plugin),
                                  "TOY",
                                  2,
                                  open_device,
                                  close_device,
                                  memory_bytes,
                                  allocate,
                                  release,
                                  copy,
                                  copy,
                                  kKernels,
                                  sizeof kKernels / sizeof kKernels[0]};

}  // namespace

extern "C" const tw_device_plugin* thalweg_device_plugin(uint32_t) { return &kPlugin; }
