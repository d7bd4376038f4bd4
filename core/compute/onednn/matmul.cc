// Matrix products by oneDNN: a transposed operand is a matter of strides, never of a copy.
#include "compute/onednn/matmul.h"

#include "compute/onednn/engine.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

constexpr int64_t kMatMul = 1;  // The first part of the key of each kind of primitive.

// Whether oneDNN multiplies a type with the processor's instructions for it. It emulates bfloat16 where there are none,
// and then the number of threads decides how it sums up.
bool is_native(DType dtype) {
  constexpr int kNeeded = dnnl_cpu_isa_avx512_core_bf16;  // a set of bits
  return dtype != DType::bfloat16 || (static_cast<int>(dnnl_get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

CachedPrimitive make(DType dtype, const ProductShape& s, const MatrixLayout& a, const MatrixLayout& b) {
  using dnnl::memory;
  const memory::data_type type = onednn_type(dtype);
  const bool batched = s.batch > 1;
  auto desc = [&](int64_t rows, int64_t columns, const MatrixLayout& m) {
    if (!batched) return memory::desc({rows, columns}, type, memory::dims{m.row_stride, m.column_stride});
    const bool shared = m.batch_stride == 0;
    return memory::desc({shared ? 1 : s.batch, rows, columns}, type,
                        memory::dims{shared ? rows * columns : m.batch_stride, m.row_stride, m.column_stride});
  };
  CachedPrimitive result;
  if (!is_native(dtype)) return result;
  try {
    memory::desc a_desc = desc(s.rows, s.inner, a), b_desc = desc(s.inner, s.columns, b);
    memory::desc c_desc = desc(s.rows, s.columns, {s.rows * s.columns, s.columns, 1});
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::matmul::primitive_desc pd(onednn_engine(), a_desc, b_desc, c_desc, attr);
    result.primitive = dnnl::matmul(pd);
    result.arguments = {{DNNL_ARG_SRC, a_desc}, {DNNL_ARG_WEIGHTS, b_desc}, {DNNL_ARG_DST, c_desc}};
    result.scratchpad = pd.scratchpad_desc();
    result.available = true;
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) fail(Code::internal, "oneDNN cannot make a matrix product: ", error.what());
  }
  return result;
}

}  // namespace

bool onednn_matmul(DType dtype, const ProductShape& shape, const MatrixLayout& a_layout, const void* a,
                   const MatrixLayout& b_layout, const void* b, void* c) {
  onednn_engine();
  const OnednnThreads threads(undivided_intra_op_threads());  // Their number may decide how oneDNN sums up.
  const PrimitiveKey key = {kMatMul,
                            static_cast<int64_t>(dtype),
                            threads.count(),
                            shape.batch,
                            shape.rows,
                            shape.columns,
                            shape.inner,
                            a_layout.batch_stride,
                            a_layout.row_stride,
                            a_layout.column_stride,
                            b_layout.batch_stride,
                            b_layout.row_stride,
                            b_layout.column_stride};
  auto primitive = PrimitiveCache::global().get(key, [&] { return make(dtype, shape, a_layout, b_layout); });
  if (!primitive->available) return false;
  primitive->run({a, b, c});
  return true;
}

}  // namespace thalweg
