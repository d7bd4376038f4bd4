// The engine, the streams and the primitive cache.
#include "compute/onednn/engine.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <map>

#include "compute/lanes/instruction_set.h"
#include "tensor/tensor.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

void cap_instruction_set(const std::string& name) {
  using dnnl::cpu_isa;
  static const std::map<std::string, cpu_isa> known = {
      {"SSE41", cpu_isa::sse41},
      {"AVX", cpu_isa::avx},
      {"AVX2", cpu_isa::avx2},
      {"AVX2_VNNI", cpu_isa::avx2_vnni},
      {"AVX2_VNNI_2", cpu_isa::avx2_vnni_2},
      {"AVX512_CORE", cpu_isa::avx512_core},
      {"AVX512_CORE_VNNI", cpu_isa::avx512_core_vnni},
      {"AVX512_CORE_BF16", cpu_isa::avx512_core_bf16},
      {"AVX512_CORE_FP16", cpu_isa::avx512_core_fp16},
      {"AVX512_CORE_AMX", cpu_isa::avx512_core_amx},
      {"AVX512_CORE_AMX_FP16", cpu_isa::avx512_core_amx_fp16},
      {"DEFAULT", cpu_isa::isa_default},
  };
  auto found = known.find(name);
  // An unknown name can only be the user's own, from the environment: oneDNN reads it there.
  if (found != known.end()) dnnl::set_max_cpu_isa(found->second);
}

thread_local int settled_threads = 0;  // by the first OnednnThreads of this thread that is alive; 0: none is

}  // namespace

const dnnl::engine& onednn_engine() {
  static std::atomic<const dnnl::engine*> ready{nullptr};
  if (const dnnl::engine* engine = ready.load(std::memory_order_acquire)) return *engine;
  const std::string& isa = usable_instruction_set();
  static std::once_flag once;
  std::call_once(once, [&] {
    cap_instruction_set(isa);
    ready.store(new dnnl::engine(dnnl::engine::kind::cpu, 0), std::memory_order_release);
  });
  return *ready.load(std::memory_order_acquire);
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::float32:
      return Type::f32;
    case DType::bfloat16:
      return Type::bf16;
    case DType::float16:
      return Type::f16;
    case DType::int32:
      return Type::s32;
    case DType::int8:
    case DType::qint8:
      return Type::s8;
    case DType::uint8:
    case DType::quint8:
      return Type::u8;
    default:
      return Type::undef;
  }
}

OnednnThreads::OnednnThreads(int wanted) : outer_(settled_threads) {
#ifdef _OPENMP
  count_ = settled_threads = outer_ != 0 ? outer_ : wanted;
  const int now = omp_get_max_threads();
  if (count_ != now) {
    before_ = now;
    omp_set_num_threads(count_);
  }
  if (outer_ == 0) metered_.emplace(count_);
#endif
}

OnednnThreads::~OnednnThreads() {
#ifdef _OPENMP
  settled_threads = outer_;
  if (before_ != 0) omp_set_num_threads(before_);
#endif
}

void CachedPrimitive::run(std::initializer_list<const void*> data) const {
  constexpr size_t kMost = 12;
  require(available && data.size() == arguments.size() && data.size() < kMost,
          "oneDNN: a primitive was run with other arguments than it has");
  const dnnl::engine& engine = onednn_engine();
  dnnl::stream& stream = onednn_stream();
  // The C interface: the C++ one builds a hash map for every call.
  dnnl_exec_arg_t bound[kMost];
  std::array<dnnl::memory, kMost> memories;
  int n = 0;
  for (const void* pointer : data) {
    memories[n] = dnnl::memory(arguments[n].second, engine, const_cast<void*>(pointer));
    bound[n] = {arguments[n].first, memories[n].get()};
    ++n;
  }
  Tensor scratch(DType::uint8, Shape{static_cast<int64_t>(scratchpad.get_size())});
  if (scratch.num_elements() > 0) {
    memories[n] = dnnl::memory(scratchpad, engine, scratch.raw());
    bound[n] = {DNNL_ARG_SCRATCHPAD, memories[n].get()};
    ++n;
  }
  dnnl_status_t status = dnnl_primitive_execute(primitive.get(), stream.get(), n, bound);
  if (status == dnnl_success) status = dnnl_stream_wait(stream.get());
  if (status != dnnl_success) fail(Code::internal, "oneDNN failed with status ", static_cast<int>(status));
}

PrimitiveCache& PrimitiveCache::global() {
  static auto* cache = new PrimitiveCache(1024);  // Never destroyed: oneDNN's own state may go first at exit.
  return *cache;
}

std::shared_ptr<const CachedPrimitive> PrimitiveCache::get(const PrimitiveKey& key,
                                                           const std::function<CachedPrimitive()>& make) {
  {
    std::lock_guard lock(mutex_);
    auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->second;
    }
  }
  auto made = std::make_shared<const CachedPrimitive>(make());
  std::lock_guard lock(mutex_);
  auto found = by_key_.find(key);
  if (found != by_key_.end()) return found->second->second;
  recent_.emplace_front(key, made);
  by_key_.emplace(key, recent_.begin());
  while (recent_.size() > capacity_) {
    by_key_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return made;
}

size_t PrimitiveCache::size() const {
  std::lock_guard lock(mutex_);
  return recent_.size();
}

}  // namespace thalweg
