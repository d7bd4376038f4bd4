// Zeros without memory, and the kernel that hands them out.
#include "kernels/null_kernel.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

#include "kernel/registry.h"

namespace thalweg {
namespace {

// Address space that reads as zeros; the system maps one page of zeros all over it. Reserved in steps, never returned.
class Zeros {
 public:
  void* at_least(size_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes <= size_) return memory_;
    size_t wanted = size_t{1} << 30;
    while (wanted < bytes) wanted *= 2;
    void* fresh = mmap(nullptr, wanted, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
      fail(Code::resource_exhausted, "the system has no address space for a tensor of ", bytes, " bytes");
    memory_ = fresh;
    size_ = wanted;
    return memory_;
  }

 private:
  std::mutex mutex_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

ShapeRule& shape_rule() {
  static ShapeRule* rule = new ShapeRule;
  return *rule;
}

// The values of small integer inputs may decide on shapes: they are part of the cache's key.
constexpr int64_t kMostValues = 256;
constexpr size_t kMostShapes = 64;

void describe(const Tensor& tensor, std::vector<int64_t>& key) {
  key.push_back(tensor.rank());
  for (int64_t dim : tensor.shape().dims()) key.push_back(dim);
  if ((tensor.dtype() == DType::int32 || tensor.dtype() == DType::int64) && tensor.num_elements() <= kMostValues)
    for (int64_t value : to_int64s(tensor)) key.push_back(value);
}

class Null : public Kernel {
 public:
  explicit Null(const Construction& c)
      : key_(c.attr<std::string>("key")), shapes_(c.attr<std::vector<PartialShape>>("shapes")) {
    require(static_cast<int>(shapes_.size()) == c.num_outputs(), "expected ", c.num_outputs(), " shapes, got ",
            shapes_.size());
    for (const PartialShape& shape : shapes_) known_ = known_ && shape.known_rank && !has_unknown(shape);
  }
  void compute(Context& ctx) override {
    if (ctx.num_outputs() == 0) return;
    if (known_) {
      for (int i = 0; i < ctx.num_outputs(); ++i)
        ctx.set_output(i, shared_zeros(ctx.output_dtype(i), Shape(shapes_[i].dims)));
      return;
    }
    const std::vector<std::vector<int64_t>> found = shapes_for(ctx);
    for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, shared_zeros(ctx.output_dtype(i), Shape(found[i])));
  }

 private:
  static bool has_unknown(const PartialShape& shape) {
    return std::any_of(shape.dims.begin(), shape.dims.end(), [](int64_t dim) { return dim < 0; });
  }

  std::vector<std::vector<int64_t>> shapes_for(Context& ctx) {
    std::vector<int64_t> described;
    std::vector<Tensor> inputs;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      describe(ctx.input(i), described);
      inputs.push_back(ctx.input(i));
    }
    {
      std::lock_guard lock(mutex_);
      auto found = computed_.find(described);
      if (found != computed_.end()) return found->second;
    }
    if (!shape_rule()) fail(Code::internal, "no shape rule is installed for ", key_);
    std::vector<std::vector<int64_t>> shapes = shape_rule()(key_, inputs);
    if (static_cast<int>(shapes.size()) != ctx.num_outputs())
      fail(Code::internal, "expected ", ctx.num_outputs(), " shapes for ", key_, ", got ", shapes.size());
    std::lock_guard lock(mutex_);
    if (computed_.size() >= kMostShapes) computed_.clear();
    computed_.emplace(std::move(described), shapes);
    return shapes;
  }

  std::string key_;
  std::vector<PartialShape> shapes_;
  bool known_ = true;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, std::vector<std::vector<int64_t>>> computed_;
};

REGISTER(kernel("_Null").make<Null>());

}  // namespace

Tensor shared_zeros(DType dtype, Shape shape) {
  if (!is_plain(dtype)) return Tensor(dtype, std::move(shape));
  static Zeros* zeros = new Zeros;
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(shape.num_elements()), size_of(dtype), &bytes) ||
      bytes > (size_t{1} << 46))
    fail(Code::resource_exhausted, "a tensor of shape ", shape, " and type ", dtype, " is too large");
  void* memory = zeros->at_least(bytes);
  return Tensor(dtype, std::move(shape), Buffer::borrow(memory, bytes, nullptr, nullptr, Buffer::Kind::zeros), memory);
}

void set_shape_rule(ShapeRule rule) { shape_rule() = std::move(rule); }

}  // namespace thalweg
